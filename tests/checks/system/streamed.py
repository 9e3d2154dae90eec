"""Answers that were streamed, beside timings that tests make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evalspec.language.inputs import Samples
from evalspec.language.streams import FINISHES, NOT_COUNTED, Streams

GAP_MS = 4.0
MS = 1_000_000


def streamed(
    timings: Samples,
    rng: np.random.Generator,
    *,
    tokens: float = 20,
    first: float = 0.25,
    gap_ms: float | None = None,
    stalls: float = 0.0,
    cached: float = 0.0,
    reported: float = 1.0,
    by_piece: float = 1.0,
    prompt: float = 100,
) -> Samples:
    """The same timings with pieces of an answer in each.

    Args:
        timings: Of one process.
        rng: For gaps and stalls.
        tokens: Of an answer, about.
        first: Share of a query's time until its first piece.
        gap_ms: Mean of a gap; None: the rest of the query's time is divided evenly.
        stalls: Share of requests of which half of the gaps are 100 ms longer.
        cached: Share of a prompt's tokens that the server knew.
        reported: Tokens that the server reports, by those that there are.
        by_piece: Tokens of a piece.
        prompt: Tokens of a prompt.
    """
    queries = len(timings.ok)
    made = rng.integers(max(2, int(tokens) // 2), max(3, int(tokens) * 3 // 2), queries)
    pieces = np.maximum(2, np.round(made / by_piece)).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(pieces)))
    request = np.repeat(np.arange(queries), pieces)
    spent = (timings.end_ns - timings.sent_ns).astype(np.float64)
    if gap_ms is None:
        gaps = (spent * (1.0 - first) / np.maximum(1, pieces - 1))[request]
    else:
        gaps = gap_ms * MS * rng.gamma(20.0, 0.05, len(request))
    slow = rng.random(queries) < stalls
    gaps += 100 * MS * (slow[request] & (rng.random(len(request)) < 0.5))
    gaps[offsets[:-1]] = spent * first
    total = np.cumsum(gaps)
    before = np.concatenate(([0.0], total))[offsets[:-1]]
    at = (total - before[request] + timings.sent_ns[request]).astype(np.int64)
    none = np.full(queries, NOT_COUNTED)
    answers = Streams(
        offsets=offsets, piece_ns=at, piece_kind=np.zeros(len(at), dtype=np.int64),
        first_tokens=np.ones(queries, dtype=np.int64), usage_tokens=np.round(made * reported).astype(np.int64),
        counted_tokens=made, reasoning_tokens=none, prompt_tokens=np.full(queries, round(prompt)),
        cached_tokens=np.full(queries, round(cached * prompt)), finish=np.full(queries, FINISHES.index("stop")),
        texts=np.array(["word"] * queries, dtype=object),
    )  # fmt: skip
    return replace(timings, streams=answers)


def prefilled(
    timings: Samples, prompts: NDArray[np.int64], rng: np.random.Generator, *, slower: float = 1.0, **answers: float
) -> Samples:
    """Answers whose first piece comes a millisecond after each token of the prompt.

    Args:
        timings: Of one process.
        prompts: shape (q,), tokens.
        rng: For gaps.
        slower: Times as long.
        answers: Of `streamed`.
    """
    made = streamed(timings, rng, first=0.0, **{"gap_ms": GAP_MS, **answers})
    assert made.streams is not None
    count = np.diff(made.streams.offsets)
    late = np.round(slower * prompts * rng.normal(1.0, 0.02, len(prompts)) * MS).astype(np.int64)
    moved = replace(made.streams, piece_ns=made.streams.piece_ns + np.repeat(late, count), prompt_tokens=prompts)
    return replace(made, streams=moved)
