"""A server as a loaded model: one kept connection, and tensors written and read as its protocol has them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from evalspec.errors import InputError, NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.language.streams import FINISHES, NOT_COUNTED
from evalspec.language.timings import ANSWERED, BROKE, CUT_OFF, EMPTY, ERROR_IN_STREAM, NOT_UNDERSTOOD, OUTCOMES
from evalspec.pipeline.loaded import Loaded
from evalspec.pipeline.options import CHOSEN, TOP, brought_back, chosen_outputs, letter_shares, rotated
from evalspec.runtimes.http_client import json_template as template
from evalspec.runtimes.http_client import oip, openai, option_texts, refusals
from evalspec.runtimes.http_client import oip_statistics as statistics
from evalspec.runtimes.http_client.connection import Connection
from evalspec.runtimes.http_client.readiness import ASK_S, SAID, TRIES, said, told, wait_for
from evalspec.runtimes.http_client.served_facts import served_facts
from evalspec.runtimes.http_client.wire import HttpError, Reply, again_after_s, request_bytes, status_outcome

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from numpy.typing import NDArray

    from evalspec.language.abilities import KillPlan, KillResult, ServerTiming
    from evalspec.language.parts import Access, OutputName
    from evalspec.language.streams import StreamedAnswer
    from evalspec.pipeline.options import MultipleChoice
    from evalspec.pipeline.serve import Served
    from evalspec.runtimes.http_client.pool import ConnectionPool
    from evalspec.runtimes.http_client.rows import RemoteRows
    from evalspec.runtimes.http_client.server import ServerFields

Read = TypeVar("Read")
AGAIN = (BROKE, CUT_OFF, ERROR_IN_STREAM)
"""Outcomes after which a query that is not timed is sent again."""
LONGEST_WAIT_S = 30.0
OUTPUTS: Mapping[OutputName, str] = {"text": "text", "finish_reason": "finish_reason", "tokens": "tokens"}
"""Of a language model."""


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
    names: tuple[str, ...] = ()
    """OpenAI: the models that the server lists."""
    order: int = 0
    """OpenAI: rotation in which options are shown."""
    writes: bool = False
    """OpenAI, with options: it is asked for a text."""
    choices: int = 0
    """OpenAI: options of each row."""
    count: Callable[[str], int] | None = None
    """OpenAI: tokens of a text; None: nobody counts."""

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch, one request; one that may be answered later is sent again, at most 5 times in all, and counted.

        A connection that broke is such a one; of a stream also that it was cut off or told of an error, and that the
        server says when to ask again. A stream without a piece is an empty answer.

        Raises:
            HttpError: There is no answer, or none that can be used.
        """
        rows = len(next(iter(inputs.values())))
        if self.model.options is not None and self._by_texts:
            return self._scored(self.model.options, inputs)
        return self._again(self.request(inputs), lambda reply: self._decoded(reply, rows))

    def _again(self, request: bytes, read: Callable[[Reply], Read]) -> Read:
        for _ in range(TRIES - 1):
            kept = self.connection.keeping.keeps
            try:
                return read(self.ask(request))
            except HttpError as error:
                if self.model.protocol == "openai" and kept and not self.connection.keeping.keeps:
                    # Servers end a connection after a stream without saying so: no answer has failed.
                    continue
                if error.outcome not in AGAIN and error.again_after_s is None and not self.patient:
                    raise
                self.failed[OUTCOMES[error.outcome]] += 1
                time.sleep(min(error.again_after_s or 0.0, LONGEST_WAIT_S))
        return read(self.ask(request))

    def _turned(self, options: MultipleChoice, inputs: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        """The inputs of one row, its options as the prompt shows them.

        Raises:
            InputError: They can't be chosen from.
        """
        listed = [str(one) for one in inputs[self.model.options_input].reshape(-1).tolist()]
        options.check_orders(len(listed))
        self.choices = len(listed)
        return {**inputs, self.model.options_input: options.listed(rotated(listed, self.order))}

    def _chosen(self, reply: Reply) -> dict[str, NDArray[Any]]:
        """Probabilities of the options of one row.

        Raises:
            HttpError: The answer holds an error, tells no probabilities, or not those of all letters.
        """
        tops = openai.first_tokens(reply, self.model.hidden)
        try:
            shares, mass = letter_shares(tops, self.choices)
        except InputError as error:
            raise HttpError(NOT_UNDERSTOOD, error.problem.message, remedy=error.problem.remedy) from error
        return chosen_outputs([(brought_back(shares, self.order), mass)])

    @property
    def _by_texts(self) -> bool:
        """Options are scored by the likelihoods of their texts, each by a request of its own."""
        return self.scores_options and self.model.options is not None and self.model.options.score != "letter"

    def _scored(self, options: MultipleChoice, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Probabilities of the options of one row, by the likelihoods of their texts."""
        prompt = self.model.prompt
        assert prompt is not None
        listed = [str(one) for one in inputs[self.model.options_input].reshape(-1).tolist()]
        values = {name: _text(name, one) for name, one in inputs.items() if name != self.model.options_input}
        values[self.model.options_input] = self._turned(options, inputs)[self.model.options_input]

        def ask(text: str) -> option_texts.EchoedPrompt:
            request = self._bytes(option_texts.body(self.model.model_name, text))
            return self._again(request, lambda reply: option_texts.EchoedPrompt(reply, self.model.hidden))

        # A sum of likelihoods of texts says nothing of how likely it is that one of them comes: all of it counts.
        return chosen_outputs([(option_texts.scored(options, prompt, values, listed, self.order, ask), 1.0)])

    def otherwise(self, template: int, sample: int, order: int, *, writes: bool = False) -> LoadedHttp:
        """As `evalspec.language.abilities.GivesVariants`."""
        other = replace(self, model=self.model.otherwise(template, sample), order=order, writes=writes)
        return replace(other, output_names=tuple(OUTPUTS), default_outputs=OUTPUTS) if writes else other

    @property
    def scores_options(self) -> bool:
        """Its answers are probabilities of options."""
        return self.model.options is not None and not self.writes

    def _decoded(self, reply: Reply, rows: int) -> dict[str, NDArray[Any]]:
        try:
            return self.decoded(reply, rows)
        except HttpError as error:
            if error.outcome != EMPTY:
                raise
            return empty_outputs()

    def request(self, inputs: Mapping[str, NDArray[Any]], salt: str = "") -> bytes:
        """The bytes that ask about one batch.

        Args:
            inputs: Input: shape (rows, ...).
            salt: Stands before a prompt.

        Raises:
            HttpError: An input that the protocol can't carry.
        """
        model = self.model
        if model.options is not None:
            inputs = self._turned(model.options, inputs)
        if model.protocol == "openai":
            return self._bytes(self._body(inputs, salt))
        if model.protocol == "json":
            body = template.fill(model.request, inputs, per_row=model.per_row)
            own = {"Content-Type": "application/json"}
            return request_bytes(model.address, "", own | dict(self.headers), body)
        asked = [name for name in model.outputs.values() if isinstance(name, str)]
        body, own = oip.encode(inputs, list(dict.fromkeys(asked)), binary=model.binary)
        return request_bytes(model.address, f"{model.model_path}/infer", own | dict(self.headers), body)

    def _bytes(self, body: bytes) -> bytes:
        own = {"Content-Type": "application/json", "Accept": "text/event-stream"}
        return request_bytes(self.model.address, openai.PATHS[self.model.api], own | dict(self.headers), body)

    def _body(self, inputs: Mapping[str, Any], salt: str) -> bytes:
        model = self.model
        assert model.prompt is not None
        values = {name: one if isinstance(one, str) else _text(name, one) for name, one in inputs.items()}
        if self.scores_options:
            fields = openai.first_token(model.api, TOP)
        else:
            assert model.generate is not None
            fields = model.generate.fields()
        return openai.body(model.api, model.model_name, model.prompt, fields, values, salt)

    def ask(self, request: bytes) -> Reply:
        """Reply of the server.

        Raises:
            HttpError: It does not, or with another status than one of success.
        """
        reply = self.connection.ask(request)
        outcome = status_outcome(reply.status)
        if outcome != ANSWERED:
            message = f"{self.model.address} answered {said(reply, self.model.hidden)}"
            remedy = self._remedy(reply) if self.model.protocol == "openai" else None
            wait = again_after_s(reply) if self.model.protocol == "openai" else None
            raise HttpError(outcome, message, remedy=remedy, again_after_s=wait)
        return reply

    def _remedy(self, reply: Reply) -> str | None:
        sent_key = any(name.lower() == "authorization" for name in self.headers)
        return refusals.remedy(reply, sent_key=sent_key, models=self.names)

    def decoded(self, reply: Reply, rows: int) -> dict[str, NDArray[Any]]:
        """The outputs in an answer.

        Raises:
            HttpError: It has none, or they are of another shape.
        """
        if self.scores_options:
            return self._chosen(reply)
        if self.model.protocol == "openai":
            return outputs_of(self.streamed(reply))
        if self.model.protocol == "json":
            return template.read(reply, self.model.response, rows, per_row=self.model.per_row)
        return oip.decode(reply)

    def streamed(self, reply: Reply) -> StreamedAnswer:
        """The answer of a server that streams, without secrets that it says.

        Raises:
            HttpError: The stream holds an error, was cut off, is empty, or is none.
        """
        hidden = self.model.hidden
        answer = openai.read(reply, self.count, hidden)
        generate = self.model.generate
        if generate is not None and generate.tokens is not None:
            openai.refuse_ended(answer, generate.max_tokens)
        return replace(answer, text=hidden.text(answer.text)) if hidden else answer

    def counted(self) -> ServerTiming | None:
        """Counters of the server for this model until now; None: it does not tell."""
        if self.model.protocol != "oip":
            return None
        return statistics.counters(told(self.model, self.headers, self.connection, f"{self.model.model_path}/stats"))

    def client(self, served: Served, arrays: Mapping[str, NDArray[Any]]) -> RemoteRows | None:
        """As `evalspec.language.abilities.MakesClient`."""
        from evalspec.runtimes.http_client.rows import RemoteRows

        if self._by_texts:
            raise NotRunError(
                "options are scored by their texts, with one request each, so a single query can't be timed: use "
                "`score: letter` for timing"
            )
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


def load(
    model: ServerFields,
    headers: Mapping[str, str],
    trusted: ssl.SSLContext | None = None,
    tokenizer: Path | None = None,
    planned: str | None = None,
) -> LoadedHttp:
    """The server, ready.

    Args:
        model: As the spec has it.
        headers: To send.
        trusted: As `Http.trusted` gives it.
        tokenizer: File that counts tokens, or None.
        planned: Digest of the chat template that it should have, or None.

    Raises:
        InputError: Nobody answers, or it is not ready.
    """
    count = None if tokenizer is None else _counter(tokenizer)
    connection = Connection(model.address, ASK_S, trusted)
    try:
        return replace(_asked(model, headers, connection, planned), count=count)
    except InputError:
        connection.close()
        raise


def _asked(model: ServerFields, headers: Mapping[str, str], connection: Connection, planned: str | None) -> LoadedHttp:
    wait_for(model, headers, connection)
    server = told(model, headers, connection, "/v2") if model.protocol == "oip" else {}
    metadata = told(model, headers, connection, model.model_path) if model.protocol == "oip" else {}
    tensors, outputs = oip.stated_tensors(metadata)
    batches = {tensor.shape[0] for tensor in tensors.values() if tensor.shape and tensor.shape[0] is not None}
    connection.timeout_s = model.timeout_s
    given = OUTPUTS if model.options is None else CHOSEN
    inputs = tuple(tensors)
    listed: tuple[str, ...] = ()
    facts: dict[str, Cell] = {}
    if model.protocol == "json":
        inputs, outputs = template.placeholders(model.request), tuple(model.response)
    elif model.protocol == "openai":
        inputs, outputs = model.texts_taken, tuple(given)
        listed, facts = served_facts(model, headers, connection, planned)
    return LoadedHttp(
        observed=_observed(model, server, metadata) | facts | _encryption(connection),
        input_names=inputs,
        output_names=outputs,
        default_outputs=given if model.protocol == "openai" else {},
        fixed_batch=1 if model.per_row or model.protocol == "openai" else batches.pop() if len(batches) == 1 else None,
        tensors=tensors,
        names=listed,
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
    if model.protocol == "openai":
        facts |= {"prefix": model.prefix, "streams": model.options is None or model.generate is not None}
        facts |= {} if model.prompt is None else model.prompt.facts()
    versions = metadata.get("versions")
    if isinstance(versions, list) and versions:
        facts["model_versions"] = model.hidden.text(", ".join(str(one) for one in versions))[:SAID]
    return facts


def empty_outputs() -> dict[str, NDArray[Any]]:
    """Outputs of one row that was answered with nothing."""
    return _outputs({"text": "", "finish_reason": "stop", "tokens": 0})


def outputs_of(answer: StreamedAnswer) -> dict[str, NDArray[Any]]:
    """An answer as outputs of one row; its tokens are None where nobody counted them."""
    counts = [one for one in (answer.usage_tokens, answer.counted_tokens) if one != NOT_COUNTED]
    tokens = min(counts, default=None)
    return _outputs({"text": answer.text, "finish_reason": FINISHES[answer.finish], "tokens": tokens})


def _outputs(values: Mapping[str, str | int | None]) -> dict[str, NDArray[Any]]:
    import numpy as np

    return {name: np.array([value], dtype=object) for name, value in values.items()}


def _text(name: str, array: NDArray[Any]) -> str:
    """The text of an input of one row.

    Raises:
        HttpError: The cell is empty.
    """
    value = array.reshape(-1)[0]
    if value is None or value != value:
        raise HttpError(NOT_UNDERSTOOD, f"a row has no {name!r}, for which the prompt has a place")
    return str(value)


def _counter(tokenizer: Path) -> Callable[[str], int]:
    from evalspec.sources.reading.subwords import Subwords

    return Subwords(tokenizer).count


def _encryption(connection: Connection) -> dict[str, Cell]:
    """Facts of the https that was agreed upon; empty for http."""
    agreed = connection.encryption
    return {} if agreed is None else {"encryption": agreed}
