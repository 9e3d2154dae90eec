"""Served models: a server that is asked over HTTP."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, StringConstraints, field_validator, model_validator

from evalspec.errors import InputError, Problem
from evalspec.language.parts import Access, OptionScore, OutputName, Secret
from evalspec.language.places import is_loopback
from evalspec.language.units import Duration, custom_error
from evalspec.pipeline.loaded import Loaded
from evalspec.pipeline.prompt import Generate, Prompt
from evalspec.pipeline.prompt_places import unplaced
from evalspec.pipeline.prompted import PromptedModel
from evalspec.redaction import Redaction
from evalspec.runtimes.http_client import json_template as template
from evalspec.runtimes.http_client.openai import MODELS, PATHS, Api
from evalspec.runtimes.http_client.wire import Address, check_host, parse_url

if TYPE_CHECKING:
    import ssl

OWN_HEADERS = ("content-length", "transfer-encoding", "connection", "host", "expect", "accept-encoding", "content-type")
SECRET_HEADERS = ("authorization", "proxy-authorization", "api-key", "x-api-key", "cookie")
"""Headers whose text nobody may read, so that it stands in no spec."""

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=200)]
HeaderText = Annotated[str, StringConstraints(pattern=r"^[\x20-\x7e]*$")]
SEGMENT = re.compile(r"[A-Za-z0-9._~-]+")
ModelName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Protocol = Literal["oip", "json", "openai"]
BELONGS: Mapping[str, Protocol] = {
    "version": "oip", "binary": "oip", "request": "json", "response": "json", "per_row": "json", "api": "openai",
    "prompt": "openai", "generate": "openai", "options": "openai", "tokenizer": "openai", "prefix": "openai",
    "api_key": "openai", "chat_template": "openai",
}  # fmt: skip
"""Field: the protocol that it belongs to."""
AUTHORIZATION = "Authorization"
STATED = re.compile(r"sha256:([0-9a-f]{64})")


class Http(PromptedModel):
    """A server that answers over HTTP/1.1: this machine's own, or another's under ``--allow-host NAME``.

    ``protocol: oip`` is the Open Inference Protocol, version 2 (KServe, Triton, MLServer): ``url`` is where its paths
    begin, ``model_name`` and ``version`` what they name; ``binary: true`` sends tensors as bytes after the JSON.
    ``protocol: json`` posts ``request`` to ``url``: a template in which a string ``"{name}"`` is replaced by that
    input (all rows as a list, or one row inside ``{each: ...}``), and ``response`` says where in the answer each output
    stands: ``{label: "predictions[*].class"}``. With ``per_row: true`` each request is about one row.
    ``protocol: openai`` is a language model that streams: ``url`` ends in ``/v1``, ``prompt`` says what is sent about a
    row, ``generate`` how the answer is generated. It is answered where the stream has a piece of an answer, a reason
    for ending and ``[DONE]``; one that holds an error, is cut off or empty has failed.

    What is timed is from the first byte of a request, made before, to the last byte of the answer; preprocessing,
    writing JSON and reading it are the client's and lie outside (``stages`` times them too). Connections are kept and
    used again. Over https the server must prove who it is, always, to an authority in ``ca:`` or in the system's own
    list.
    """

    extra_name: ClassVar[str] = "served"
    packages: ClassVar[tuple[str, ...]] = ("httptools",)
    served: ClassVar[bool] = True

    kind: Literal["http"] = "http"
    url: str = Field(min_length=1, max_length=2000, description="URL of the server: http://127.0.0.1:8080.")
    protocol: Protocol = Field("oip", description="Protocol of the server.")
    model_name: ModelName | None = Field(None, description="oip, openai: the server's name for the model.")
    version: Annotated[str, StringConstraints(pattern=rf"^{SEGMENT.pattern}$", max_length=200)] | None = Field(
        None, description="oip: version of the model; default: the server chooses."
    )
    binary: bool = Field(False, description="oip: send tensors as bytes after the JSON.")
    request: Any = Field(None, description='json: template of a request; "{name}" stands for that input.')
    response: dict[str, str] = Field(default_factory=dict, description="json: path of each output in the answer.")
    per_row: bool = Field(False, description="json: one row per request; placeholders are a row's values.")
    api: Literal["chat", "completions"] = Field("chat", description="openai: chat, or completions of plain text.")
    prompt: Prompt | None = Field(None, description="openai: what is sent for a row.")
    generate: Generate | None = Field(None, description="openai: how an answer is made.")
    tokenizer: str | None = Field(
        None,
        min_length=1,
        description="openai: tokenizer.json in the spec's folder, which counts the tokens of answers in addition to "
        "the server's count.",
    )
    chat_template: str | None = Field(
        None,
        min_length=1,
        description="openai: the chat template that the server should have: a file in the spec's folder, or "
        "sha256:...; what the server reports (llama.cpp, at /props) must match it.",
    )
    prefix: Literal["salted", "as_is"] = Field(
        "salted",
        description="openai: salted: each timed prompt begins with a unique word, so that no prompt cache has it; "
        "as_is: timed unchanged, so that numbers hold for warm caches.",
    )
    api_key: Secret | None = Field(None, description="openai: the key, sent as a bearer token: {env: NAME}.")
    headers: dict[HeaderName, HeaderText | Secret] = Field(
        default_factory=dict, description="Sent with every request; refer to a secret by {env: NAME}."
    )
    ca: str | None = Field(
        None,
        min_length=1,
        description="https: PEM file in the spec's folder with the only authorities to trust; default: the system's.",
    )
    timeout_s: Duration = Field(10.0, gt=0, alias="timeout", description="Timeout for an answer.")
    health: str | None = Field(
        None,
        pattern=r"^/[!-~]*$",
        description="Path that answers 200 when the server is ready; oip: default: the model's.",
    )
    start: tuple[str, ...] = Field(
        (), description="Command that starts the server for the time of a run; runs only under --trust."
    )
    ready_within_s: Duration = Field(60.0, gt=0, alias="ready_within", description="Longest time from start to ready.")

    @field_validator("url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        try:
            parse_url(value)
        except InputError as error:
            raise custom_error(error.problem) from error
        return value

    @field_validator("headers")
    @classmethod
    def _are_free(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        for name, held in value.items():
            if name.lower() in OWN_HEADERS:
                raise custom_error(Problem(f"the header {name!r} is set by evalspec", remedy="leave it out"))
            if name.lower() in SECRET_HEADERS and isinstance(held, str):
                raise custom_error(
                    Problem(
                        f"the header {name!r} is a secret in plain text, which would be kept with every run",
                        remedy="write {env: NAME}, and run with --env NAME",
                    )
                )
        return value

    @field_validator("response")
    @classmethod
    def _are_paths(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for path in value.values():
            try:
                template.check_path(path)
            except InputError as error:
                raise custom_error(error.problem) from error
        return value

    @model_validator(mode="after")
    def _fits_its_protocol(self) -> Self:
        problem = _ca_problem(self) or _foreign_field(self) or PROBLEMS[self.protocol](self)
        if problem is not None:
            raise custom_error(problem)
        return self

    @property
    def address(self) -> Address:
        """Where it is."""
        return parse_url(self.url)

    @property
    def model_path(self) -> str:
        """Beginning of the protocol's paths of the model; empty where it has none."""
        if self.protocol != "oip":
            return ""
        return f"/v2/models/{self.model_name}" + (f"/versions/{self.version}" if self.version else "")

    @property
    def health_path(self) -> str | None:
        """Path that is asked for whether it is ready; None: only a connection can tell."""
        own = {"oip": f"{self.model_path}/ready", "openai": MODELS}
        return self.health or own.get(self.protocol)

    @property
    def writes_slowly(self) -> bool:
        """Language models do."""
        return self.protocol == "openai"

    @property
    def always_new(self) -> bool:
        """Each prompt begins with a word of its own, where it is salted."""
        return self.protocol == "openai" and self.prefix == "salted"

    @property
    def elsewhere(self) -> bool:
        """A loopback address is this machine."""
        return not is_loopback(self.address.host)

    @property
    def starts_server(self) -> bool:
        return bool(self.start)

    def runs_code(self) -> tuple[str, ...]:
        """The stages that are code, and the command that starts the server."""
        return (*super().runs_code(), *((f"the command {self.start[0]}",) if self.start else ()))

    def secrets_read(self) -> tuple[str, ...]:
        """Those that stand in its headers."""
        named = (*self.headers.values(), *(() if self.api_key is None else (self.api_key,)))
        return tuple(dict.fromkeys(value.env for value in named if isinstance(value, Secret)))

    @property
    def hidden(self) -> Redaction:
        """Takes its secrets out of what it answers."""
        return Redaction.of(self.secrets_read())

    def files(self, access: Access) -> tuple[Path, ...]:
        """None: what a server serves is not shown by a file here; ``artifact:`` states it.

        Raises:
            InputError: The server is another machine, which the caller has not allowed, or ``ca`` holds no certificate.
        """
        check_host(self.address, access)
        if self.ca is not None:
            self.trusted(access)
        self.template_digest(access)
        if self.tokenizer is not None:
            _tokenizer_file(self.tokenizer, access)
            if find_spec("tokenizers") is None:
                remedy = "pip install 'evalspec-gate[openai]'"
                raise InputError("`tokenizer:` needs the package tokenizers", remedy=remedy)
        return ()

    def template_digest(self, access: Access) -> str | None:
        """Digest of the chat template that the server should have; None: the spec does not say.

        Raises:
            InputError: The file is not there, or holds no text.
        """
        if self.chat_template is None:
            return None
        if (stated := STATED.fullmatch(self.chat_template)) is not None:
            return stated[1]
        from evalspec.runtimes.http_client.served_facts import template_digest

        try:
            return template_digest(access.path(self.chat_template).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"`chat_template: {self.chat_template}` can't be read",
                remedy="give a file in the spec's folder, or write sha256: and 64 digits",
            ) from error

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Files of the spec's folder that the command in ``start`` names.

        What answers beside them is known by its answers alone.
        """
        started = tuple(path for one in self.start if (path := _file_in(access.folder, one)) is not None)
        return {"start": started, **self.example_files(access)}

    def trusted(self, access: Access) -> ssl.SSLContext | None:
        """Whom to trust over https: those in ``ca``, or the system's own; None: the server speaks http.

        Raises:
            InputError: The file is not there, or holds no certificate.
        """
        if not self.address.secure:
            return None
        import ssl

        path = None if self.ca is None else access.path(self.ca)
        try:
            # Also where `ca` is left out this verifies certificate and name: that is what "default" stands for.
            return ssl.create_default_context(cafile=path)
        except OSError as error:
            raise InputError(
                f"the file {self.ca!r} in `ca` holds no readable certificate",
                remedy="give a PEM file, which begins with -----BEGIN CERTIFICATE-----",
            ) from error

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        """Ask the server whether it is ready, and what it says of itself.

        Raises:
            InputError: Nobody answers, it is not ready, a secret may not be read, or the host was not allowed.
        """
        from evalspec.runtimes.http_client.loaded import load

        check_host(self.address, access)
        tokenizer = None if self.tokenizer is None else access.path(self.tokenizer)
        planned = self.template_digest(access)
        return load(self.with_examples(access), secrets(self, access), self.trusted(access), tokenizer, planned)


def secrets(model: Http, access: Access) -> dict[str, str]:
    """The headers to send, with the secrets in them.

    Raises:
        InputError: A variable may not be read, is not there, or holds what a header can't.
    """
    headers = {
        name: value if isinstance(value, str) else _secret(f"the header {name!r}", value, access)
        for name, value in model.headers.items()
    }
    if model.api_key is not None:
        headers[AUTHORIZATION] = f"Bearer {_secret('`api_key`', model.api_key, access)}"
    return headers


def _secret(what: str, value: Secret, access: Access) -> str:
    secret = value.read(what, access, f"pass --env {value.env} if the server may receive it")
    if not secret or not secret.isascii() or not secret.isprintable():
        raise InputError(f"the variable {value.env} is not set, or holds characters that a header can't")
    return secret


def _file_in(folder: Path, argument: str) -> Path | None:
    """The file that a word of a command names, seen from the folder in which it runs; None: it names none there."""
    try:
        path = (folder / argument.rpartition("=")[2]).resolve()
        return path if path.is_file() and path.is_relative_to(folder.resolve()) else None
    except (OSError, ValueError):
        return None


def _ca_problem(model: Http) -> Problem | None:
    if model.ca is None or model.address.secure:
        return None
    return Problem(f"`ca` belongs to https, but {model.url!r} is http", remedy="remove it, or write https://")


def _foreign_field(model: Http) -> Problem | None:
    """A field of another protocol."""
    for name, protocol in BELONGS.items():
        if name in model.model_fields_set and protocol != model.protocol:
            remedy = f"remove it, or say `protocol: {protocol}`"
            return Problem(f"`{name}` belongs to `protocol: {protocol}`", remedy=remedy)
    return None


def _oip_problem(model: Http) -> Problem | None:
    if model.model_name is None:
        return Problem("`protocol: oip` needs `model_name:`", remedy="give the server's name for the model")
    if SEGMENT.fullmatch(model.model_name) is None:
        return Problem(
            f"`model_name: {model.model_name}` is not a segment of a path", remedy="letters, digits, . _ ~ -"
        )
    if "?" in model.url:
        return Problem(f"{model.url!r} has a query", remedy="write where the paths /v2/... begin")
    return None


def _openai_problem(model: Http) -> Problem | None:
    if model.prompt is None:
        return Problem("`protocol: openai` needs `prompt:`", remedy='such as prompt: {user: "{question}"}')
    if model.options is not None and (problem := _score_problem(model.options.score, model.api)) is not None:
        return problem
    if model.generate is None and model.options is None:
        remedy = "such as generate: {max_tokens: 256}; a longer answer is cut and counts as truncated"
        return Problem("`protocol: openai` needs `generate:`", remedy=remedy)
    if "?" in model.url:
        return Problem(f"{model.url!r} has a query", remedy="write where the paths begin, such as http://HOST:PORT/v1")
    for end in PATHS.values():
        if model.address.path.endswith(end):
            return Problem(f"{model.url!r} names one path", remedy=f"remove {end} from it")
    if model.api_key is not None and any(name.lower() == AUTHORIZATION.lower() for name in model.headers):
        return Problem("`api_key` and the header Authorization say the same thing twice", remedy="keep one")
    names = model.prompt.inputs
    if not names:
        return Problem("the `prompt` has no place for an input", remedy="put {name} into `user`")
    return unplaced(model.inputs, model.texts_taken, "prompt")


def _score_problem(score: OptionScore, api: Api) -> Problem | None:
    """A score of options that no server tells, or not in this way."""
    if score == "letter":
        return None
    remedy = "set `score: letter`; `kind: transformers` computes the likelihood of texts"
    if score == "pmi":
        return Problem("`score: pmi` needs the likelihood of an option alone, which no server reports", remedy=remedy)
    if api == "chat":
        message = f"`score: {score}` needs the likelihood of a text, which servers report only for plain texts"
        return Problem(message, remedy=f"set `api: completions`, or {remedy[4:]}")
    return None


def _json_problem(model: Http) -> Problem | None:
    if "model_name" in model.model_fields_set:
        return Problem("`model_name` belongs to `protocol: oip` and `openai`", remedy="remove it")
    if model.request is None or not model.response:
        missing = "request" if model.request is None else "response"
        return Problem(f"`protocol: json` needs `{missing}:`", remedy="see `kind: http` in docs/served.md")
    names = template.placeholders(model.request)
    if not names:
        return Problem("the template `request` has no place for an input", remedy='put a string "{name}" into it')
    if (problem := unplaced(model.inputs, names, "request")) is not None:
        return problem
    kinds = get_args(OutputName)
    if not model.outputs and not any(name in kinds for name in model.response):
        return Problem(
            "the spec does not say what the answer is", choices=kinds, remedy="name one of them in `response`"
        )
    return None


PROBLEMS: Mapping[Protocol, Callable[[Http], Problem | None]] = {
    "oip": _oip_problem, "json": _json_problem, "openai": _openai_problem,
}  # fmt: skip


def _tokenizer_file(tokenizer: str, access: Access) -> None:
    """Check that it is there.

    Raises:
        InputError: It is not, or lies elsewhere.
    """
    try:
        access.path(tokenizer)
    except InputError as error:
        problem = error.problem
        raise InputError(
            f"`tokenizer:` {problem.message}", remedy=problem.remedy or "name its tokenizer.json"
        ) from error
