"""Long inputs that are over a limit of the latency, which holds because they are few."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.screens.answers import fields_of
from evalspec.screens.evidence import Look
from evalspec.screens.timings import limits_ms, own_samples
from evalspec.timing.samples import latencies_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Samples
    from evalspec.language.parts import Check
    from evalspec.screens.evidence import Evidence

LONGEST = (0.1, 0.05, 0.03, 0.01)
"""Shares of the rows that are looked at: the longest tenth, and less."""
NEXT = {0.1: "latency_p95", 0.05: "latency_p99", 0.03: "latency_p99", 0.01: "latency_p99_9"}
"""Percentile that such a share of slow queries decides."""
PERCENTILE = {0.1: 0.95, 0.05: 0.99, 0.03: 0.99, 0.01: 0.999}
FEWEST = 8
"""Rows among the longest."""
TIMES = 2.0
"""As long as the middle one, at the least."""
OVER = 0.5
"""Share of the longest rows whose middle latency is over the limit."""
SHOWN = 0.2
"""Share of such rows that is shown to be exceeded; of the others at most half of it may be over the limit."""


def look(evidence: Evidence) -> Look:
    """Rows of texts and lists that were timed one at a time."""
    suspicions: list[Suspicion] = []
    questions = 0
    for check in evidence.checks:
        dataset, limits = getattr(check, "dataset", ""), sorted(limits_ms(check))
        if not limits or dataset not in evidence.datasets:
            continue
        samples = [one for one in own_samples(evidence, check) if one.batch == 1 and one.sizes is None]
        lengths = input_lengths(evidence, dataset)
        if not samples or lengths is None:
            continue
        rows, latency = _by_row(samples, evidence.index(dataset))
        for share in LONGEST:
            suspicion, asked = _longest(evidence, check, limits, lengths[rows], latency, share)
            questions += asked
            if suspicion is not None:
                suspicions.append(suspicion)
                break
    return Look(tuple(suspicions), questions)


def input_lengths(evidence: Evidence, dataset: str) -> NDArray[np.float64] | None:
    """Characters of texts and items of lists that a model reads of each row that a screen is handed; None: no such."""
    table = evidence.rows(dataset)
    lengths = np.zeros(table.num_rows)
    some = False
    for name in evidence.features(dataset):
        if name not in table.column_names:
            continue
        kind = table.schema.field(name).type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            counted = pc.utf8_length(table.column(name))
        elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
            counted = pc.list_value_length(table.column(name))
        else:
            continue
        some = True
        lengths += np.asarray(pc.fill_null(counted, 0).cast(pa.float64()))
    return lengths if some else None


def _by_row(samples: Sequence[Samples], index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of the rows that were timed among those that are handed, and the middle latency of each."""
    items = np.concatenate([one.items for one in samples])
    spent = np.concatenate([latencies_ms(one) for one in samples])
    places = np.searchsorted(index, items)
    known = (places < len(index)) & (index[np.minimum(places, len(index) - 1)] == items)
    places, spent = places[known], spent[known]
    order = np.lexsort((spent, places))
    rows, first, counts = np.unique(places[order], return_index=True, return_counts=True)
    return rows, spent[order][first + (counts - 1) // 2]


def _longest(
    evidence: Evidence,
    check: Check,
    limits: Sequence[tuple[float, float]],
    lengths: NDArray[np.float64],
    latency: NDArray[np.float64],
    share: float,
) -> tuple[Suspicion | None, int]:
    """Suspicion that the longest rows are over a limit which they are too few to break, and the questions it took."""
    from scipy.special import bdtrc

    asked = [limit for percentile, limit in limits if percentile < 1.0 - share / 2]
    decided = any(percentile >= PERCENTILE[share] for percentile, _ in limits)
    if not asked or decided or len(lengths) < FEWEST / share:
        return None, 0
    edge = float(np.quantile(lengths, 1.0 - share))
    longest = lengths >= edge
    if edge < TIMES * float(np.median(lengths)) or longest.sum() < FEWEST or longest.mean() > 1.5 * share:
        return None, 0
    limit = max(asked)
    over, n = int((latency[longest] > limit).sum()), int(longest.sum())
    if over <= OVER * n or np.mean(latency[~longest] > limit) > SHOWN / 2:
        return None, 1
    p_value = float(bdtrc(over - 1, n, SHOWN))
    dataset = getattr(check, "dataset", "")
    sentence = (
        f"{check.model} takes {np.median(latency[longest]):.3g} ms for the longest {100 * share:g} % of the inputs of "
        f"{dataset} ({edge:,.0f} characters or items and more), {np.median(latency[~longest]):.3g} ms for the others; "
        f"the limit of {check.name} is {limit:.3g} ms"
    )
    require = f"{NEXT[share]} <= {limit:.4g} ms"
    suggestion = evidence.requirement("system", "latency", require, fields_of(dataset, check.model))
    return evidence.suspicion(f"{check.model} on {dataset}", sentence, suggestion, p_value), 1
