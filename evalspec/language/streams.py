"""Streamed answers: when each piece of them came, and how many tokens they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PIECES = ("text", "reasoning", "tool call")
"""Kinds of piece of a streamed answer; `Streams.piece_kind` is an index."""
FINISHES = ("", "stop", "length", "tool_calls", "content_filter", "other")
"""Reasons of a server for ending an answer, as the OpenAI protocol names them; `Streams.finish` is an index. Empty: it
gave none."""
NOT_COUNTED = -1
"""A number of tokens that nobody told."""


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """One answer that was streamed.

    Args:
        text: What was answered; reasoning and tool calls are no part of it.
        finish: Index into `FINISHES`.
        piece_ns: When the last byte of each piece was read, on `evalspec.clocks.now_ns`.
        piece_kind: Of each piece, index into `PIECES`.
        first_tokens, usage_tokens, counted_tokens, reasoning_tokens, prompt_tokens, cached_tokens: As in `Streams`.
    """

    text: str
    finish: int
    piece_ns: tuple[int, ...]
    piece_kind: tuple[int, ...]
    first_tokens: int
    usage_tokens: int
    counted_tokens: int
    reasoning_tokens: int
    prompt_tokens: int
    cached_tokens: int


@dataclass(frozen=True, slots=True)
class Streams:
    """Streamed answers of the queries of some `Samples`: of each its pieces, its tokens, its text.

    A piece is an event that holds text, reasoning or a tool call. Those of all queries stand one after the other:
    query ``i`` has the pieces ``offsets[i]`` to ``offsets[i + 1]``.

    Args:
        offsets: shape (q + 1,), rising from 0.
        piece_ns: shape (p,), when the last byte of each piece was read, on the clock of the samples.
        piece_kind: shape (p,), index into `PIECES`.
        first_tokens: shape (q,), tokens of the first piece; `NOT_COUNTED` where there is none.
        usage_tokens: shape (q,), tokens of the answer as the server counts them; or `NOT_COUNTED`.
        counted_tokens: shape (q,), those of its text as the tokenizer counts them; or `NOT_COUNTED`.
        reasoning_tokens: shape (q,), those of the server's count that it does not show; or `NOT_COUNTED`.
        prompt_tokens: shape (q,), of the prompt as the server counts them; or `NOT_COUNTED`.
        cached_tokens: shape (q,), those of the prompt that the server knew before; or `NOT_COUNTED`.
        finish: shape (q,), index into `FINISHES`.
        texts: shape (q,), the answer's text; None: there was no answer.
    """

    offsets: NDArray[np.int64]
    piece_ns: NDArray[np.int64]
    piece_kind: NDArray[np.int64]
    first_tokens: NDArray[np.int64]
    usage_tokens: NDArray[np.int64]
    counted_tokens: NDArray[np.int64]
    reasoning_tokens: NDArray[np.int64]
    prompt_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    finish: NDArray[np.int64]
    texts: NDArray[np.object_]


PER_STREAM = (
    "first_tokens", "usage_tokens", "counted_tokens", "reasoning_tokens", "prompt_tokens", "cached_tokens", "finish",
)  # fmt: skip
"""Fields of `Streams` that have one whole number for each query."""
