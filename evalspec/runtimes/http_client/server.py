"""Fields that the client reads of a server that a spec names, and of one that was reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evalspec.runtimes.http_client.wire import Address, Reply

if TYPE_CHECKING:
    import ssl

    from numpy.typing import NDArray

    from evalspec.language.abilities import ServerTiming
    from evalspec.language.parts import Access
    from evalspec.language.streams import StreamedAnswer
    from evalspec.pipeline.options import MultipleChoice
    from evalspec.pipeline.prompt import Generate, Prompt
    from evalspec.redaction import Redaction
    from evalspec.runtimes.http_client.connection import Connection
    from evalspec.runtimes.http_client.pool import ConnectionPool


class ServerFields(Protocol):
    """Fields of a server in a spec; `evalspec.runtimes.http.Http` has them."""

    @property
    def protocol(self) -> Literal["oip", "json", "openai"]:
        """Protocol that it speaks."""
        ...

    @property
    def address(self) -> Address:
        """Where it is."""
        ...

    @property
    def model_path(self) -> str:
        """Beginning of the protocol's paths of the model."""
        ...

    @property
    def health(self) -> str | None:
        """Path that answers 200 when it is ready, as the spec has it."""
        ...

    @property
    def health_path(self) -> str | None:
        """Path that is asked for whether it is ready; None: only a connection can tell."""
        ...

    @property
    def outputs(self) -> Mapping[Any, Any]:
        """Kind of output: its name."""
        ...

    @property
    def request(self) -> Any:
        """Plain JSON: the template of a request."""
        ...

    @property
    def response(self) -> Mapping[str, str]:
        """Plain JSON: output: where in the answer it stands."""
        ...

    @property
    def per_row(self) -> bool:
        """Plain JSON: one row a request."""
        ...

    @property
    def model_name(self) -> str | None:
        """Name of the model with the server."""
        ...

    @property
    def api(self) -> Literal["chat", "completions"]:
        """OpenAI: which of its two."""
        ...

    @property
    def prompt(self) -> Prompt | None:
        """OpenAI: what is sent about a row."""
        ...

    @property
    def generate(self) -> Generate | None:
        """OpenAI: how an answer is made."""
        ...

    @property
    def options(self) -> MultipleChoice | None:
        """OpenAI: options to choose from."""
        ...

    @property
    def options_input(self) -> str:
        """OpenAI: input that lists the options."""
        ...

    @property
    def texts_taken(self) -> tuple[str, ...]:
        """OpenAI: inputs."""
        ...

    @property
    def prefix(self) -> Literal["salted", "as_is"]:
        """OpenAI: whether each prompt that is timed begins with a word of its own."""
        ...

    @property
    def binary(self) -> bool:
        """Tensors follow the JSON as bytes."""
        ...

    @property
    def hidden(self) -> Redaction:
        """Takes its secrets out of what it answers."""
        ...

    @property
    def timeout_s(self) -> float:
        """Longest time for an answer."""
        ...

    @property
    def start(self) -> tuple[str, ...]:
        """Command that starts it."""
        ...

    @property
    def ready_within_s(self) -> float:
        """Longest time from its start until it is ready."""
        ...

    def otherwise(self, template: int, sample: int) -> ServerFields:
        """OpenAI: as it is asked with another template, or for another sample."""
        ...

    def trusted(self, access: Access) -> ssl.SSLContext | None:
        """Whom to trust over https; None: it speaks http."""
        ...


class Server(Protocol):
    """A server that was ready; `evalspec.runtimes.http_client.loaded.LoadedHttp` is one."""

    model: ServerFields
    headers: Mapping[str, str]
    connection: Connection
    trusted: ssl.SSLContext | None
    pools: list[ConnectionPool]
    fixed_batch: int | None

    @property
    def scores_options(self) -> bool:
        """Its answers are probabilities of options."""
        ...

    def request(self, inputs: Mapping[str, NDArray[Any]], salt: str = "") -> bytes:
        """The bytes that ask about one batch."""
        ...

    def ask(self, request: bytes) -> Reply:
        """Reply of the server."""
        ...

    def decoded(self, reply: Reply, rows: int) -> dict[str, NDArray[Any]]:
        """The outputs in an answer."""
        ...

    def streamed(self, reply: Reply) -> StreamedAnswer:
        """The answer of a server that streams."""
        ...

    def counted(self) -> ServerTiming | None:
        """Counters of the model until now; None: it does not tell."""
        ...
