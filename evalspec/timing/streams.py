"""Times and counts of streamed answers, one number a request: a token or a gap is never the unit.

Definitions: the first piece with text, reasoning or a tool call is the first token, whatever a server sends before it;
the time of a token is that from the first piece to the last, by the tokens after the first piece; a gap is the time
between two pieces as it was felt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Fact
from evalspec.evidence.reasons import Cause, Reason
from evalspec.language.streams import FINISHES, NOT_COUNTED, PIECES
from evalspec.timing.budget import BY_PIECE, CACHED, DIFFER

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples
    from evalspec.language.streams import Streams

NO_STREAM = "the model does not stream its answers: there are no times of tokens"
NO_TOKENS = "nobody counts tokens: the server reports no usage, and the model names no `tokenizer:`"
DIFFER_TOKENS, DIFFER_SHARE = 1, 0.02
"""Two counts of an answer differ where they are further apart than this many, and than this share of the larger."""
DIFFERING = 0.01
"""Share of requests whose counts may differ."""
WITHOUT = 0.05
"""Share of requests that may have no time of a token."""
SMALL_PIECE = 0.5
"""Tokens by piece under which a server sends parts of tokens, and times of pieces flatter it."""


def times_ms(samples: Samples) -> dict[str, NDArray[np.float64]]:
    """Of each request its time to the first token, to the first of the answer, by token, and its longest gap.

    Args:
        samples: With streams.

    Returns:
        ``ttft``, ``ttfa``, ``tpot``, ``longest_gap``: shape (q,), ms; infinite where the request failed, NaN where it
        has none (an answer of one piece has no gap, one of one token no time by token).
    """
    streams = samples.streams
    if streams is None:
        return {}
    first, last, count = first_ns(streams), last_ns(streams), np.diff(streams.offsets)
    answer = first_ns(streams, answer=True)
    more = tokens(streams) - streams.first_tokens
    counted = (tokens(streams) != NOT_COUNTED) & (more > 0) & (count > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(counted, (last - first) / np.maximum(more, 1), np.nan)
    found = {
        "ttft": first - samples.intended_ns,
        "ttfa": answer - samples.intended_ns,
        "tpot": each,
        "longest_gap": longest_gap_ns(streams),
    }
    return {name: np.where(samples.ok, ns / 1e6, np.inf) for name, ns in found.items()}


def first_ns(streams: Streams, *, answer: bool = False) -> NDArray[np.float64]:
    """When the first piece of each answer came; NaN where there is none.

    Args:
        streams: The answers.
        answer: The first that is no reasoning.
    """
    at = streams.piece_ns.astype(np.float64)
    if answer:
        at = np.where(streams.piece_kind == PIECES.index("reasoning"), np.inf, at)
    first = _reduced(np.minimum, at, streams)
    return np.where(np.isfinite(first), first, np.nan)


def last_ns(streams: Streams) -> NDArray[np.float64]:
    """When the last piece of each answer came; NaN where there is none."""
    return _reduced(np.maximum, streams.piece_ns.astype(np.float64), streams)


def longest_gap_ns(streams: Streams) -> NDArray[np.float64]:
    """Longest time between two pieces of each answer; NaN where it has fewer than two."""
    gaps = np.diff(streams.piece_ns.astype(np.float64), prepend=np.nan)
    gaps[streams.offsets[:-1][np.diff(streams.offsets) > 0]] = -np.inf
    longest = _reduced(np.maximum, gaps, streams)
    return np.where(np.isfinite(longest), longest, np.nan)


def gaps_ms(samples: Samples, keep: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Every time between two pieces, as it was felt, and how many each request has.

    A request that failed counts as one whose gaps, as many as an answered one has on average, are all infinite.

    Args:
        samples: With streams.
        keep: shape (q,), the requests that count.

    Returns:
        shape (g,), ms, request by request; shape (k,), of the requests that count.
    """
    streams = samples.streams
    if streams is None:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    pieces = np.diff(streams.offsets)
    first = np.zeros(len(streams.piece_ns), dtype=np.bool_)
    first[streams.offsets[:-1][pieces > 0]] = True
    own = np.repeat(samples.ok, pieces) & ~first
    answered = np.where(samples.ok, np.maximum(pieces - 1, 0), 0)
    usual = answered[samples.ok & keep]
    counts = np.where(samples.ok, answered, max(1, round(float(usual.mean())) if len(usual) else 1))
    values = np.full(int(counts.sum()), np.inf)
    values[np.repeat(samples.ok, counts)] = np.diff(streams.piece_ns, prepend=0)[own] / 1e6
    return values[np.repeat(keep, counts)], counts[keep]


def tokens(streams: Streams) -> NDArray[np.int64]:
    """Tokens of each answer: the smaller of the server's count and the tokenizer's, shape (q,); or `NOT_COUNTED`."""
    usage, counted = streams.usage_tokens, streams.counted_tokens
    both = (usage != NOT_COUNTED) & (counted != NOT_COUNTED)
    return np.where(both, np.minimum(usage, counted), np.maximum(usage, counted))


def tokens_by_piece(samples: Samples) -> NDArray[np.float64] | None:
    """Tokens of each piece: those of an answer are spread over its pieces, and a query that failed has none; (p,).

    Args:
        samples: Of one process.

    Returns:
        None where nothing is streamed, or nobody counts tokens.
    """
    found = samples.streams
    if found is None or (tokens(found)[samples.ok] == NOT_COUNTED).any():
        return None
    count = np.diff(found.offsets)
    each = np.where(samples.ok & (count > 0), tokens(found) / np.maximum(count, 1), 0.0)
    return np.repeat(each, count)


def counts_differ(streams: Streams) -> NDArray[np.bool_]:
    """Answers of which the server's count and the tokenizer's are not of the same text, shape (q,).

    Where a server hides its reasoning, or what it sends is a tool call, they need not be.
    """
    usage, counted = streams.usage_tokens, streams.counted_tokens
    both = (usage != NOT_COUNTED) & (counted != NOT_COUNTED) & (streams.reasoning_tokens <= 0)
    calls = _reduced(np.maximum, (streams.piece_kind == PIECES.index("tool call")).astype(np.float64), streams) > 0
    apart = np.abs(usage - counted)
    differ: NDArray[np.bool_] = (
        both & ~calls & (apart > DIFFER_TOKENS) & (apart > DIFFER_SHARE * np.maximum(usage, counted))
    )
    return differ


def truncated(streams: Streams) -> NDArray[np.bool_]:
    """Answers that ended because they were as long as they may be, shape (q,)."""
    cut: NDArray[np.bool_] = streams.finish == FINISHES.index("length")
    return cut


def miscounted(samples: Sequence[Samples]) -> str | None:
    """Why numbers of tokens are void, or None: of requests that failed, or have one count alone, nothing is known."""
    pairs = [(one.streams, _counted_twice(one)) for one in samples if one.streams is not None]
    both = np.concatenate([told for _, told in pairs] or [np.zeros(0, dtype=np.bool_)])
    differ = np.concatenate([counts_differ(of) & told for of, told in pairs] or [both])
    answers, sent = int(both.sum()), len(both)
    if not answers or int(differ.sum()) <= DIFFERING * answers:
        return None
    usage = np.concatenate([of.usage_tokens for of, _ in pairs])[differ]
    counted = np.concatenate([of.counted_tokens for of, _ in pairs])[differ]
    among = f"{answers:,} answers" if answers == sent else f"{answers:,} answers that both count, of {sent:,} requests,"
    return Reason(
        f"the server counts other tokens than the tokenizer in {int(differ.sum()):,} of {among} "
        f"({int(usage.sum()):,} tokens against {int(counted.sum()):,}), and at most {100 * DIFFERING:.0f} % may "
        "differ; name the tokenizer of the model that is served, or leave `tokenizer:` out",
        Cause.TOKEN_COUNTS,
    )


def _counted_twice(samples: Samples) -> NDArray[np.bool_]:
    """Answered requests that both the server and the tokenizer count, shape (q,)."""
    of = samples.streams
    assert of is not None
    told: NDArray[np.bool_] = samples.ok & (of.usage_tokens != NOT_COUNTED) & (of.counted_tokens != NOT_COUNTED)
    return told


def without_times(values: Sequence[NDArray[np.float64]]) -> float:
    """Share of requests that have none of a time."""
    every = np.concatenate(list(values) or [np.zeros(0)])
    return float(np.isnan(every).mean()) if len(every) else 0.0


def facts(samples: Sequence[Samples]) -> Mapping[str, float | None]:
    """Conditions of streamed answers: tokens by piece, share of prompts' tokens from a cache, share cut by length."""
    streams = [one.streams for one in samples if one.streams is not None]
    if not streams:
        return {}
    count = np.concatenate([np.diff(one.offsets) for one in streams])
    made = np.concatenate([tokens(one) for one in streams])
    known = (made != NOT_COUNTED) & (count > 0)
    cached, prompt = (np.concatenate([getattr(one, name) for one in streams])
                      for name in ("cached_tokens", "prompt_tokens"))  # fmt: skip
    told = (cached != NOT_COUNTED) & (prompt > 0)
    both = np.concatenate([_counted_twice(one) for one in samples if one.streams is not None])
    differ = np.concatenate([counts_differ(one) for one in streams])
    answered = np.concatenate([one.ok for one in samples if one.streams is not None])
    cut = np.concatenate([truncated(one) for one in streams])
    return {
        "tokens_per_piece": float(made[known].sum() / count[known].sum()) if known.any() else None,
        "cached_share": float(cached[told].sum() / prompt[told].sum()) if told.any() else None,
        "token_counts_differ": float(differ[both].mean()) if both.any() else None,
        "truncated_share": float(cut[answered].mean()) if answered.any() else None,
    }


def counted(samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]], name: str) -> Fact | None:
    """One of `evalspec.timing.budget.TOKEN_FACTS`, over the answered requests that count; None: nobody tells.

    Args:
        samples: One per process.
        keep: shape (q,) of each: the requests that count.
        name: Which.
    """
    parts, whole, requests = 0.0, 0.0, 0
    for one, mask in zip(samples, keep, strict=True):
        if one.streams is None:
            return None
        of, into, told = _COUNTS[name](one.streams)
        chosen = mask & one.ok & told
        parts += float(of[chosen].sum())
        whole += float(into[chosen].sum())
        requests += int(chosen.sum())
    return Fact(parts / whole, requests, _COUNTED_HOW[name], in_this_run=True) if whole > 0 else None


Count = tuple["NDArray[np.float64]", "NDArray[np.float64]", "NDArray[np.bool_]"]
"""Of each answer: what is counted, what it is divided by, and whether it is told."""


def _cached(streams: Streams) -> Count:
    told = (streams.cached_tokens != NOT_COUNTED) & (streams.prompt_tokens > 0)
    return streams.cached_tokens.astype(np.float64), streams.prompt_tokens.astype(np.float64), told


def _otherwise(streams: Streams) -> Count:
    both = (streams.usage_tokens != NOT_COUNTED) & (streams.counted_tokens != NOT_COUNTED)
    return counts_differ(streams).astype(np.float64), np.ones(len(both)), both


def _by_piece(streams: Streams) -> Count:
    pieces, made = np.diff(streams.offsets), tokens(streams)
    return made.astype(np.float64), pieces.astype(np.float64), (made != NOT_COUNTED) & (pieces > 0)


_COUNTS: Mapping[str, Callable[[Streams], Count]] = {CACHED: _cached, DIFFER: _otherwise, BY_PIECE: _by_piece}
_COUNTED_HOW = {
    CACHED: "tokens that the server says it knew, by all tokens of prompts",
    DIFFER: f"requests in which the two counts are over {DIFFER_TOKENS} token and {100 * DIFFER_SHARE:.0f} % apart",
    BY_PIECE: "tokens by pieces",
}


def notes(samples: Sequence[Samples]) -> list[str]:
    """Sentences that a reader of times of tokens must know."""
    found, lines = facts(samples), []
    pieces, cut = found.get("tokens_per_piece"), found.get("truncated_share")
    if pieces is not None and pieces < SMALL_PIECE:
        lines.append(
            f"The server sends parts of tokens: {pieces:.2g} tokens by piece, so gaps are not those of tokens."
        )
    if cut:
        lines.append(f"{100 * cut:.1f} % of answers ended at `max_tokens:`: what is cut is faster than what is whole.")
    if (cached := found.get("cached_share")) is not None and cached > 0.0:
        lines.append(f"{100 * cached:.1f} % of the prompts' tokens came from a cache of the server.")
    return lines


def _reduced(how: np.ufunc, values: NDArray[np.float64], streams: Streams) -> NDArray[np.float64]:
    """A reduction over the pieces of each answer, shape (q,); NaN where it has none."""
    reduced = np.full(len(streams.offsets) - 1, np.nan)
    some = np.diff(streams.offsets) > 0
    if some.any():
        reduced[some] = how.reduceat(values, streams.offsets[:-1][some])
    return reduced
