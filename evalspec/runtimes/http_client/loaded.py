"""A server as a loaded model: one kept connection, and tensors written and read as its protocol has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import ANSWERED, BROKE, OUTCOMES
from evalspec.pipeline.loaded import Loaded
from evalspec.runtimes.http_client import json_template as template
from evalspec.runtimes.http_client import oip
from evalspec.runtimes.http_client import oip_statistics as statistics
from evalspec.runtimes.http_client.connection import Connection
from evalspec.runtimes.http_client.readiness import ASK_S, SAID, TRIES, said, told, wait_for
from evalspec.runtimes.http_client.wire import HttpError, Reply, request_bytes, status_outcome

if TYPE_CHECKING:
    import ssl

    from numpy.typing import NDArray

    from evalspec.language.abilities import KillPlan, KillResult, ServerTiming
    from evalspec.language.parts import Access
    from evalspec.pipeline.serve import Served
    from evalspec.runtimes.http_client.pool import ConnectionPool
    from evalspec.runtimes.http_client.rows import RemoteRows
    from evalspec.runtimes.http_client.server import ServerFields


@dataclass(kw_only=True)
class LoadedHttp(Loaded):
    """A server that was ready when it was asked."""

    model: ServerFields
    headers: Mapping[str, str]
    connection: Connection
    trusted: ssl.SSLContext | None = None
    pools: list[ConnectionPool] = field(default_factory=list)
    """Connections beside the one, which end with it."""
    patient: bool = False
    """As `evalspec.language.abilities.AsksAgain`."""
    failed: Counter[str] = field(default_factory=Counter)
    """As `evalspec.language.abilities.AsksAgain`."""

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch, one request; one whose connection broke is sent again, at most 5 times in all, and counted.

        Raises:
            HttpError: There is no answer, or none that can be used.
        """
        request, rows = self.request(inputs), len(next(iter(inputs.values())))
        for _ in range(TRIES - 1):
            try:
                return self.decoded(self.ask(request), rows)
            except HttpError as error:
                if error.outcome != BROKE and not self.patient:
                    raise
                self.failed[OUTCOMES[error.outcome]] += 1
        return self.decoded(self.ask(request), rows)

    def request(self, inputs: Mapping[str, NDArray[Any]]) -> bytes:
        """The bytes that ask about one batch.

        Raises:
            HttpError: An input that the protocol can't carry.
        """
        model = self.model
        if model.protocol == "json":
            body = template.fill(model.request, inputs, per_row=model.per_row)
            own = {"Content-Type": "application/json"}
            return request_bytes(model.address, "", own | dict(self.headers), body)
        asked = [name for name in model.outputs.values() if isinstance(name, str)]
        body, own = oip.encode(inputs, list(dict.fromkeys(asked)), binary=model.binary)
        return request_bytes(model.address, f"{model.model_path}/infer", own | dict(self.headers), body)

    def ask(self, request: bytes) -> Reply:
        """Reply of the server.

        Raises:
            HttpError: It does not, or with another status than one of success.
        """
        reply = self.connection.ask(request)
        outcome = status_outcome(reply.status)
        if outcome != ANSWERED:
            raise HttpError(outcome, f"{self.model.address} answered {said(reply, self.model.hidden)}")
        return reply

    def decoded(self, reply: Reply, rows: int) -> dict[str, NDArray[Any]]:
        """The outputs in an answer.

        Raises:
            HttpError: It has none, or they are of another shape.
        """
        if self.model.protocol == "json":
            return template.read(reply, self.model.response, rows, per_row=self.model.per_row)
        return oip.decode(reply)

    def counted(self) -> ServerTiming | None:
        """Counters of the server for this model until now; None: it does not tell."""
        if self.model.protocol != "oip":
            return None
        return statistics.counters(told(self.model, self.headers, self.connection, f"{self.model.model_path}/stats"))

    def client(self, served: Served, arrays: Mapping[str, NDArray[Any]]) -> RemoteRows:
        """As `evalspec.language.abilities.MakesClient`."""
        from evalspec.runtimes.http_client.rows import RemoteRows

        return RemoteRows(served, dict(arrays), self)

    def recover(
        self, rows: Any, kill: KillPlan, access: Access, progress: Callable[[float, float, str], None]
    ) -> list[KillResult]:
        """As `evalspec.language.abilities.Recoverable`."""
        from evalspec.runtimes.http_client.recovery import recover

        return recover(self, rows, kill, access, progress)

    def close(self) -> None:
        """Let the connections go."""
        self.connection.close()
        while self.pools:
            self.pools.pop().close()


def load(model: ServerFields, headers: Mapping[str, str], trusted: ssl.SSLContext | None = None) -> LoadedHttp:
    """The server, ready.

    Args:
        model: As the spec has it.
        headers: To send.
        trusted: As `Http.trusted` gives it.

    Raises:
        InputError: Nobody answers, or it is not ready.
    """
    connection = Connection(model.address, ASK_S, trusted)
    try:
        return _asked(model, headers, connection)
    except InputError:
        connection.close()
        raise


def _asked(model: ServerFields, headers: Mapping[str, str], connection: Connection) -> LoadedHttp:
    wait_for(model, headers, connection)
    server = told(model, headers, connection, "/v2") if model.protocol == "oip" else {}
    metadata = told(model, headers, connection, model.model_path) if model.protocol == "oip" else {}
    tensors, outputs = oip.stated_tensors(metadata)
    batches = {tensor.shape[0] for tensor in tensors.values() if tensor.shape and tensor.shape[0] is not None}
    connection.timeout_s = model.timeout_s
    names = template.placeholders(model.request) if model.protocol == "json" else tuple(tensors)
    return LoadedHttp(
        observed=_observed(model, server, metadata) | _encryption(connection),
        input_names=names,
        output_names=tuple(model.response) if model.protocol == "json" else outputs,
        fixed_batch=1 if model.per_row else batches.pop() if len(batches) == 1 else None,
        tensors=tensors,
        model=model,
        headers=headers,
        connection=connection,
        trusted=connection.tls,
    )


def _observed(model: ServerFields, server: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Cell]:
    """Facts for the record: server, version, platform, and what the model's versions are."""
    name = " ".join(str(server[key]) for key in ("name", "version") if server.get(key))
    facts: dict[str, Cell] = {
        "framework": f"served by {name}" if name else "served",
        "device": None,
        "protocol": f"{model.protocol}{', binary' if model.binary else ''}",
    }
    if metadata.get("platform"):
        facts["platform"] = model.hidden.text(str(metadata["platform"]))[:SAID]
    versions = metadata.get("versions")
    if isinstance(versions, list) and versions:
        facts["model_versions"] = model.hidden.text(", ".join(str(one) for one in versions))[:SAID]
    return facts


def _encryption(connection: Connection) -> dict[str, Cell]:
    """Facts of the https that was agreed upon; empty for http."""
    agreed = connection.encryption
    return {} if agreed is None else {"encryption": agreed}
