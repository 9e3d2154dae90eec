"""Latencies of two models, in pairs of processes that were timed in turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.stats.timing.failing_pairs import Pairs, of_answers, paired_quantiles
from evalspec.stats.timing.processes import jitter, paired_log_ratio
from evalspec.timing import samples as timing_samples
from evalspec.timing import token_times
from evalspec.timing.budget import PERCENTILES, TOKEN_PERCENTILES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples


def compare(ours: list[Samples], theirs: list[Samples]) -> dict[str, Pairs]:
    """Every quantile in every pair of processes, without the start of each block; a failed query is slower than any.

    Where both models stream, also those of the times of their tokens.

    Args:
        ours: Of the candidate, one per pair.
        theirs: Of the baseline, of the same pairs.
    """
    pairs = []
    for one, other in zip(ours, theirs, strict=False):
        sides = [timing_samples.latencies_ms(side)[timing_samples.settled(side)] for side in (one, other)]
        if min(len(side) for side in sides) >= 2:
            pairs.append(sides)
    if not pairs:
        return {}
    candidate, baseline = [a for a, _ in pairs], [b for _, b in pairs]
    by_metric: dict[str, Pairs] = {name: paired_quantiles(candidate, baseline, p) for name, p in PERCENTILES.items()}
    for name, of in (("latency_mean", _mean), ("jitter", jitter)):
        numbers = [[of(series[np.isfinite(series)]) or 0.0 for series in side] for side in (candidate, baseline)]
        by_metric[name] = of_answers(paired_log_ratio(numbers[0], numbers[1]), candidate, baseline)
    return by_metric | _streamed(ours, theirs)


def _streamed(ours: list[Samples], theirs: list[Samples]) -> dict[str, Pairs]:
    """Times of streamed answers, of the requests that have one; none where a side of a pair has fewer than two."""
    sides = []
    for side in (ours, theirs):
        found = token_times.series_of(side, [timing_samples.settled(one) for one in side])
        sides.append({time: series for time, series in found.items() if all(len(one) >= 2 for one in series)})
    return {
        name: paired_quantiles(sides[0][time], sides[1][time], p)
        for name, (time, p) in TOKEN_PERCENTILES.items()
        if time in sides[0] and time in sides[1]
    }


def _mean(answered: NDArray[np.float64]) -> float | None:
    return float(answered.mean()) if len(answered) else None
