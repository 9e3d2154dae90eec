"""Tokens a second of answers that are asked for back to back: of all of them, and of one alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from evalspec.language.streams import NOT_COUNTED
from evalspec.timing import concurrency, streams
from evalspec.timing.budget import DECODE_RATE, OUTPUT_RATE, PREFILL_RATE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

LENGTHS = 8
"""Groups of prompts by length, of which the times to the first token make a line."""
EACH = 2
"""Requests in each of them, at the least."""
UNLIKE = 1.5
"""Times as long as the shortest group the longest is, at the least."""


def rate_of(samples: Samples, name: str) -> float | str:
    """A rate of one process, tokens/s; or why there is none.

    Args:
        samples: Queries back to back.
        name: One of `evalspec.timing.budget.TOKEN_RATES`.
    """
    if samples.streams is None:
        return streams.NO_STREAM
    # In process a batch is one query that has the tokens of all its rows; to a server it is several requests.
    if samples.batch > 1 and samples.details.get("in_process") is not True:
        return "a query of several rows is several answers: tokens are counted with a batch of 1 (`batch_sizes: [1]`)"
    if not len(samples.streams.piece_ns):
        return "the server did not stream its answers, or answered none"
    return _RATES[name](samples)


def arrived(samples: Samples, begin_ns: int, end_ns: int) -> float | None:
    """Tokens that arrived after a moment and until another; None: nobody counts them.

    Args:
        samples: Of one process.
        begin_ns: The first moment.
        end_ns: The second.
    """
    each = streams.tokens_by_piece(samples)
    if each is None or samples.streams is None:
        return None
    at = samples.streams.piece_ns
    return float(each[(at > begin_ns) & (at <= end_ns)].sum())


def _output(samples: Samples) -> float | str:
    """Tokens by time, of all requests that were under way together; blocks of a pair have pauses between them."""
    tokens = spent = 0.0
    lanes = concurrency.lanes(samples)
    for block in np.unique(samples.block):
        at = np.flatnonzero(samples.block == block)
        ends = np.sort(samples.end_ns[at])
        if lanes == 1:
            begin, end = int(samples.sent_ns[at].min()), int(ends[-1])
        elif len(ends) > lanes:
            # Before the first answers not all are under way, and after the last request was sent neither.
            begin, end = int(ends[lanes - 1]), int(samples.sent_ns[at].max())
        else:
            continue
        counted = arrived(samples, begin, end)
        if counted is None:
            return streams.NO_TOKENS
        tokens, spent = tokens + counted, spent + max(0, end - begin) / 1e9
    return tokens / spent if spent > 0 else "there are hardly more requests than connections"


def _decode(samples: Samples) -> float | str:
    """Tokens after the first piece by the time from the first piece to the last, of all answers together."""
    found = samples.streams
    assert found is not None
    made = streams.tokens(found)
    more, spent = made - found.first_tokens, streams.last_ns(found) - streams.first_ns(found)
    chosen = samples.ok & (made != NOT_COUNTED) & (more > 0) & (spent > 0)
    if not chosen.any():
        return streams.NO_TOKENS if (made == NOT_COUNTED).all() else "no answer has more than one piece"
    return float(more[chosen].sum() / (spent[chosen].sum() / 1e9))


def _prefill(samples: Samples) -> float | str:
    """Tokens of prompts a second, until the first token of an answer.

    In process that time is the model's own. Of a server it is one by the slope of the time to the first token over the
    tokens that were not known before.
    """
    found = samples.streams
    assert found is not None
    if samples.details.get("in_process") is True:
        asked = samples.ok & (found.prompt_tokens > 0) & (np.diff(found.offsets) > 0)
        spent_s = float((streams.first_ns(found) - samples.sent_ns)[asked].sum()) / 1e9
        return found.prompt_tokens[asked].sum() / spent_s if spent_s > 0 else "no prompt was answered"
    if (lanes := concurrency.lanes(samples)) > 1:
        return (
            f"with {lanes} requests under way the time to the first token is also that of waiting for others: they are "
            "separate only with `connections: 1`"
        )
    tokens = found.prompt_tokens - np.maximum(found.cached_tokens, 0)
    chosen = samples.ok & (found.prompt_tokens > 0) & (np.diff(found.offsets) > 0)
    if not chosen.any():
        return "the server does not report how many tokens a prompt has"
    if int(chosen.sum()) < LENGTHS * EACH:
        return f"{int(chosen.sum())} answers in a process are too few: {LENGTHS * EACH} are needed"
    long, first_s = tokens[chosen], (streams.first_ns(found) - samples.sent_ns)[chosen] / 1e9
    groups = np.array_split(np.argsort(long, kind="stable"), LENGTHS)
    length = np.array([float(long[group].mean()) for group in groups])
    if length[-1] < UNLIKE * max(1.0, length[0]):
        return (
            f"prompts are of nearly one length ({length[0]:,.0f} to {length[-1]:,.0f} tokens), so the time per prompt "
            "token can't be separated from the rest of the time to the first token"
        )
    slope = _slope(length, np.array([float(np.median(first_s[group])) for group in groups]))
    return 1.0 / slope if slope > 0 else "the time to the first token does not rise with the length of the prompt"


def _slope(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Of the line of least squares."""
    centred = x - x.mean()
    return float(centred @ y / (centred @ centred))


_RATES: Mapping[str, Callable[[Samples], float | str]] = {
    OUTPUT_RATE: _output, PREFILL_RATE: _prefill, DECODE_RATE: _decode,
}  # fmt: skip
