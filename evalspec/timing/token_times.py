"""Estimates of times of streamed answers: percentiles over requests, and what voids them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.reasons import Cause, Reason
from evalspec.stats.timing.inverse import Inverse
from evalspec.stats.timing.percentile import Percentile, percentile
from evalspec.stats.timing.pooled import PooledPercentile, pooled_percentile
from evalspec.timing import streams
from evalspec.timing.budget import (
    CACHED,
    COUNTS_TOKENS,
    DIFFER,
    OUTPUT_RATE,
    POOLED_PERCENTILE,
    TOKEN_FACTS,
    TOKEN_PERCENTILES,
    TOKEN_TIMES,
    USER_PERCENTILE,
    USER_RATE,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.estimate import Estimate, Fact
    from evalspec.language.inputs import Samples

    Series = dict[str, list[NDArray[np.float64]]]
    """Time of a streamed answer: one array for each process, shape (k,), ms, of the requests that have one."""


def series_of(samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]], *, from_sent: bool = False) -> Series:
    """Times of the requests that count; those that have none are left out.

    Args:
        samples: One per process.
        keep: shape (q,) of each: the requests that count.
        from_sent: From when they were sent, not from when they were due.
    """
    series: Series = {time: [] for time in TOKEN_TIMES}
    for one, mask in zip(samples, keep, strict=True):
        if one.streams is None:
            return {}
        late_ms = (one.sent_ns - one.intended_ns) / 1e6 if from_sent else np.zeros(len(one.ok))
        for time, spent in streams.times_ms(one).items():
            spent = spent - late_ms if time.startswith("tt") else spent
            chosen = spent[mask]
            series[time].append(chosen[~np.isnan(chosen)])
    return series


def estimates(series: Series, wrapped: Callable[[str, Percentile], Estimate]) -> dict[str, Estimate]:
    """Percentiles of times of streamed answers, and the rate of a user; empty where nothing streams.

    Args:
        series: As `series_of` gives it.
        wrapped: The estimate of a time, as it was measured.
    """
    found: dict[str, Estimate] = {}
    for time, arrays in series.items():
        if not any(len(one) for one in arrays):
            continue
        median = percentile([one for one in arrays if len(one)], 0.5)
        found |= {name: wrapped(time, median.at(p)) for name, (own, p) in TOKEN_PERCENTILES.items() if own == time}
        if time == "tpot":
            found[USER_RATE] = Inverse(wrapped(time, median.at(USER_PERCENTILE)))
    return found


def pooled(samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]]) -> PooledPercentile | None:
    """The percentile of all gaps of all requests that count; None: there is none.

    Args:
        samples: One per process.
        keep: shape (q,) of each: the requests that count.
    """
    if any(one.streams is None for one in samples):
        return None
    each = [streams.gaps_ms(one, mask) for one, mask in zip(samples, keep, strict=True)]
    found = pooled_percentile([values for values, _ in each], [counts for _, counts in each], POOLED_PERCENTILE)
    return found if found.n else None


def facts(samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]]) -> tuple[dict[str, Fact], dict[str, str]]:
    """Counts of what was streamed, and why others are not there.

    Args:
        samples: One per process.
        keep: shape (q,) of each: the requests that count.

    Returns:
        Fractions in 0..1, and tokens; reasons by the same names.
    """
    found = {name: one for name in TOKEN_FACTS if (one := streams.counted(samples, keep, name)) is not None}
    return found, {name: _uncounted(name, samples) for name in TOKEN_FACTS if name not in found}


def _uncounted(name: str, samples: Sequence[Samples]) -> str:
    if all(one.streams is None for one in samples):
        return streams.NO_STREAM
    if name == CACHED:
        return "the server does not report how many tokens of a prompt were cached (`cached_tokens`)"
    if name == DIFFER:
        return "tokens are counted once: the server must report usage, and the model name a `tokenizer:`"
    return streams.NO_TOKENS


def void(name: str, samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]]) -> str | None:
    """Why a metric of streamed answers is void, or None: counts that differ, or answers that have no such time."""
    if not name.startswith(COUNTS_TOKENS):
        return None
    if (why := streams.miscounted(samples)) is not None:
        return why
    if name == OUTPUT_RATE:
        # It counts tokens as they arrive: an answer of one token has no time by token, and still is one.
        return None
    times = [streams.times_ms(one).get("tpot", np.zeros(0))[mask] for one, mask in zip(samples, keep, strict=True)]
    share = streams.without_times(times)
    if share <= streams.WITHOUT:
        return None
    return Reason(
        f"{100 * share:.1f} % of requests have no time by token (an answer of one token, or of one piece "
        "has none), and at "
        f"most {100 * streams.WITHOUT:.0f} % may be left out",
        Cause.NO_TOKEN_TIME,
    )


def missing(name: str, samples: Sequence[Samples]) -> str:
    """Why there is no such number."""
    if all(one.streams is None for one in samples):
        return streams.NO_STREAM
    pieces = sum(len(one.streams.piece_ns) for one in samples if one.streams is not None)
    if not pieces:
        return "the server did not stream its answers, or answered none: there are no times of tokens"
    if name.startswith(COUNTS_TOKENS):
        return streams.NO_TOKENS
    return "no answer has such a time"
