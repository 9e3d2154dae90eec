"""The OpenAI protocol, as far as a text goes in and a streamed text comes out: chat and completions.

References:
    OpenAI API reference, Chat completions and Completions, streaming with ``stream_options.include_usage``.
    WHATWG HTML, 9.2.6 Interpreting an event stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic_core import to_json

from evalspec.evidence.frozen import is_number
from evalspec.language.streams import FINISHES, NOT_COUNTED, PIECES, StreamedAnswer
from evalspec.language.timings import CUT_OFF, EMPTY, ERROR_IN_STREAM, NOT_UNDERSTOOD, OTHER_SHAPE
from evalspec.runtimes.http_client.wire import HttpError, Reply, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from evalspec.pipeline.prompt import Prompt
    from evalspec.redaction import Redaction

Api = Literal["chat", "completions"]
PATHS: Mapping[Api, str] = {"chat": "/chat/completions", "completions": "/completions"}
MODELS = "/models"
DONE = b"[DONE]"
EVENT_STREAM = b"text/event-stream"
WHERE_IT_BEGINS = "`url:` is where /chat/completions begins, usually http://HOST:PORT/v1"
REASONING = ("reasoning_content", "reasoning")
"""Names under which servers send what a model thinks before it answers."""
TEXT, THOUGHT, TOOL_CALL = range(len(PIECES))
SHOWN = 200
END_TOKENS = 1
"""Servers count the token that ends an answer, or not."""


def body(
    api: Api,
    model_name: str | None,
    prompt: Prompt,
    fields: Mapping[str, Any],
    values: Mapping[str, str],
    salt: str = "",
) -> bytes:
    """The body of a request about one row, streamed, with the server's own count of tokens.

    Args:
        api: Chat, or plain completions.
        model_name: What the server calls the model; None: it has only one.
        prompt: Texts, with places for inputs.
        fields: How the answer is made; all of it is sent, since servers have defaults of their own.
        values: Input: its text.
        salt: The first text begins with it.
    """
    asked: dict[str, Any] = {} if model_name is None else {"model": model_name}
    if api == "completions":
        asked["prompt"] = salt + prompt.plain(values)
    else:
        messages = [{"role": turn.role, "content": turn.text} for turn in prompt.turns(values)]
        messages[0]["content"] = salt + messages[0]["content"]
        asked["messages"] = messages
    return to_json(asked | dict(fields) | {"stream": True, "stream_options": {"include_usage": True}})


def first_token(api: Api, top: int) -> dict[str, Any]:
    """Fields of a request for the likeliest first tokens of an answer."""
    told = {"logprobs": True, "top_logprobs": top} if api == "chat" else {"logprobs": top}
    return {"max_tokens": 1, "temperature": 0.0, **told}


def first_tokens(reply: Reply, hidden: Redaction) -> dict[str, float]:
    """Likeliest first tokens of an answer, streamed or whole, with their probabilities.

    Raises:
        HttpError: The answer holds an error, or tells no probabilities.
    """
    streamed = EVENT_STREAM in reply.headers.get(b"content-type", EVENT_STREAM)
    parts = [data for data, _ in events(reply.body) if data != DONE] if streamed else [reply.body]
    for part in parts:
        event = parse_json(part)
        if not isinstance(event, dict):
            raise HttpError(NOT_UNDERSTOOD, "an event of the stream is not an object")
        refuse_error(event, hidden)
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            tops = _tops(choice.get("logprobs")) if isinstance(choice, dict) else {}
            if tops:
                return tops
    raise HttpError(
        NOT_UNDERSTOOD,
        "the server reports no token probabilities (`logprobs`), and options are scored by them",
        remedy="enable them in the server, or extract the letter from a text: `answer: {as: letter}`, without "
        "`options`",
    )


def _tops(told: Any) -> dict[str, float]:
    """Probabilities of the first token, as chat (``content``) or completions (``top_logprobs``) tell them."""
    if not isinstance(told, dict):
        return {}
    content, listed = told.get("content"), told.get("top_logprobs")
    pairs: list[tuple[Any, Any]] = []
    if isinstance(content, list) and content and isinstance(content[0], dict):
        tops = content[0].get("top_logprobs")
        rows = tops if isinstance(tops, list) else []
        pairs = [(one.get("token"), one.get("logprob")) for one in rows if isinstance(one, dict)]
    elif isinstance(listed, list) and listed and isinstance(listed[0], dict):
        pairs = list(listed[0].items())
    return {
        token: math.exp(min(float(value), 0.0)) for token, value in pairs if isinstance(token, str) and is_number(value)
    }


def read(reply: Reply, count: Callable[[str], int] | None, hidden: Redaction) -> StreamedAnswer:
    """The answer in a reply.

    Answered is what has a piece, a reason for ending, and the protocol's own end.

    Args:
        reply: With a status of success.
        count: Tokens of a text, without special ones; None: nobody counts.
        hidden: Takes secrets out of what the server says.

    Raises:
        HttpError: The stream holds an error, was cut off, is empty, or is none.
    """
    if EVENT_STREAM not in reply.headers.get(b"content-type", EVENT_STREAM):
        return _whole(reply, count, hidden)
    stream = _Stream(hidden)
    for data, end in events(reply.body):
        if data == DONE:
            stream.done = True
            break
        stream.take(data, reply.read_at_ns(end))
    return stream.answer(count)


def events(stream: bytes) -> Iterator[tuple[bytes, int]]:
    """The data of each event of a stream, and how many bytes of it had come when the event was whole.

    Comments and other fields than ``data`` are passed over. An event that nothing ends ends with the stream.
    """
    data: list[bytes] = []
    place = 0
    for line in stream.splitlines(keepends=True):
        place += len(line)
        text = line.rstrip(b"\r\n")
        if text.startswith(b"data:"):
            data.append(text[6:] if text.startswith(b"data: ") else text[5:])
            end = place
        elif not text and data:
            yield b"\n".join(data), end
            data = []
    if data:
        yield b"\n".join(data), end


class _Stream:
    """A streamed answer, event by event."""

    def __init__(self, hidden: Redaction) -> None:
        self._hidden = hidden
        self._texts: list[str] = []
        self._kinds: list[int] = []
        self._times_ns: list[int] = []
        self._finish = ""
        self._usage: Mapping[str, Any] = {}
        self.done = False

    def take(self, data: bytes, read_ns: int) -> None:
        """One event.

        Raises:
            HttpError: It is an error, or none of the protocol.
        """
        event = parse_json(data)
        if not isinstance(event, dict):
            raise HttpError(NOT_UNDERSTOOD, "an event of the stream is not an object")
        refuse_error(event, self._hidden)
        if isinstance(usage := event.get("usage"), dict):
            self._usage = usage
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                raise HttpError(NOT_UNDERSTOOD, "the server streams several answers to one question")
            for kind, text in _pieces(choice):
                self._kinds.append(kind)
                self._texts.append(text)
                self._times_ns.append(read_ns)
            if isinstance(reason := choice.get("finish_reason"), str):
                self._finish = reason

    def answer(self, count: Callable[[str], int] | None) -> StreamedAnswer:
        """The whole of it.

        Raises:
            HttpError: It is cut off, or empty.
        """
        if not self._finish or not self.done:
            missing = "no finish reason" if not self._finish else "no [DONE]"
            raise HttpError(CUT_OFF, f"the stream ends after {len(self._texts):,} pieces with {missing}")
        if not self._texts:
            raise HttpError(EMPTY, f"the stream ends ({self._finish}) without a piece of an answer")
        first = count(self._texts[0]) if count is not None else 1
        return _answer(self._texts, self._kinds, self._times_ns, max(1, first), self._finish, self._usage, count)


def refuse_error(event: Mapping[str, Any], hidden: Redaction) -> None:
    """Stop where a server says, with a status of success, that it failed.

    Raises:
        HttpError: It does.
    """
    error = event.get("error")
    if error is None and event.get("object") != "error":
        return
    message = error.get("message") if isinstance(error, dict) else error if error is not None else event.get("message")
    text = " ".join(hidden.text(str(message or "no message")).split())[:SHOWN]
    raise HttpError(ERROR_IN_STREAM, f"the server reports an error in its stream: {text}")


def refuse_ended(answer: StreamedAnswer, tokens: int) -> None:
    """Stop where an answer ended though it was to go on to a number of tokens.

    Raises:
        HttpError: It did, or its server counts others.
    """
    counted = answer.usage_tokens
    cut = FINISHES[answer.finish] == "length"
    if not cut or (counted != NOT_COUNTED and abs(counted - tokens) > END_TOKENS):
        made = f"{counted:,} tokens" if counted != NOT_COUNTED else f"{len(answer.piece_ns):,} pieces"
        raise HttpError(
            OTHER_SHAPE,
            f"answers must have exactly {tokens:,} tokens, but one ended ({FINISHES[answer.finish]}) after {made}",
            remedy="the server does not know `ignore_eos`: use `max_tokens` instead of `tokens`",
        )


def _pieces(choice: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Pieces of an answer in one event; a role, or nothing, is none."""
    if isinstance(text := choice.get("text"), str) and text:
        yield TEXT, text
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        return
    thought = next((delta[name] for name in REASONING if isinstance(delta.get(name), str) and delta[name]), None)
    if thought is not None:
        yield THOUGHT, thought
    for name in ("content", "refusal"):
        if isinstance(text := delta.get(name), str) and text:
            yield TEXT, text
    if delta.get("tool_calls"):
        yield TOOL_CALL, to_json(delta["tool_calls"]).decode()


def _answer(
    texts: list[str], kinds: list[int], times_ns: list[int], first: int, finish: str, usage: Mapping[str, Any],
    count: Callable[[str], int] | None,
) -> StreamedAnswer:  # fmt: skip
    said = "".join(text for text, kind in zip(texts, kinds, strict=True) if kind == TEXT)
    counted = NOT_COUNTED if count is None else count("".join(texts))
    prompt, output = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")
    return StreamedAnswer(
        text=said,
        finish=FINISHES.index(finish) if finish in FINISHES else FINISHES.index("other"),
        piece_ns=tuple(times_ns),
        piece_kind=tuple(kinds),
        first_tokens=first,
        usage_tokens=_count(usage, "completion_tokens"),
        counted_tokens=counted,
        reasoning_tokens=_count(output, "reasoning_tokens"),
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(prompt, "cached_tokens"),
    )


def _count(usage: Any, name: str) -> int:
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else NOT_COUNTED


def _whole(reply: Reply, count: Callable[[str], int] | None, hidden: Redaction) -> StreamedAnswer:
    """An answer that was not streamed, though that was asked for: it has a text, and no times of pieces."""
    try:
        value = parse_json(reply.body)
    except HttpError as error:
        raise HttpError(
            NOT_UNDERSTOOD, "the answer is neither a stream nor a completion in JSON", remedy=WHERE_IT_BEGINS
        ) from error
    choices = value.get("choices") if isinstance(value, dict) else None
    if isinstance(value, dict):
        refuse_error(value, hidden)
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise HttpError(NOT_UNDERSTOOD, "the answer is neither a stream nor a completion", remedy=WHERE_IT_BEGINS)
    choice = choices[0]
    message = choice.get("message")
    pieces = list(_pieces({"delta": message} if isinstance(message, dict) else choice))
    finish = choice.get("finish_reason")
    if not isinstance(finish, str) or not finish:
        raise HttpError(CUT_OFF, "the answer has no finish reason")
    if not pieces:
        raise HttpError(EMPTY, f"the answer ends ({finish}) without a text")
    usage = value.get("usage") if isinstance(value, dict) else None
    kinds, texts = [kind for kind, _ in pieces], [text for _, text in pieces]
    found = _answer(texts, kinds, [], 0, finish, usage if isinstance(usage, dict) else {}, count)
    return StreamedAnswer(
        text=found.text, finish=found.finish, piece_ns=(), piece_kind=(), first_tokens=NOT_COUNTED,
        usage_tokens=found.usage_tokens, counted_tokens=found.counted_tokens,
        reasoning_tokens=found.reasoning_tokens, prompt_tokens=found.prompt_tokens, cached_tokens=found.cached_tokens,
    )  # fmt: skip
