"""Memory that grows by each query, as long as a check times them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.screens.answers import fields_of
from evalspec.screens.evidence import Look
from evalspec.screens.timings import own_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Samples
    from evalspec.screens.evidence import Evidence

PROCESSES, READINGS = 2, 3
LEAST_MIB = 20.0
LEAST_SHARE = 0.05
"""Growth while queries are timed, in the middle process: so much, and so large a share of what was there."""
STEADY = 0.4
"""Growth of the second half by that of the first: what only fills up grows less and less."""


def look(evidence: Evidence) -> Look:
    """Resident size of every process that a check has timed."""
    suspicions: dict[str, Suspicion] = {}
    questions = 0
    for check in evidence.checks:
        samples = own_samples(evidence, check)
        series = [one for one in map(_resident, samples) if one is not None]
        if len(series) < PROCESSES:
            continue
        questions += 1
        growth = float(np.median([one[-1] - one[0] for one in series]))
        start = float(np.median([one[0] for one in series]))
        if check.model in suspicions or growth < max(LEAST_MIB, LEAST_SHARE * start) or not _goes_on(series):
            continue
        queries = float(np.median([len(one.end_ns) for one in samples]))
        sentence = (
            f"a process of {check.model} grows by {growth:,.0f} MiB in the {queries:,.0f} queries of {check.name} "
            f"({1000 * growth / queries:,.3g} MiB in 1,000), and does not stop"
        )
        # What a day of such queries would need is far beyond it, and what the longest process here took is below.
        most = float(max(one[0] for one in series)) + LEAST_MIB / 2
        fields = fields_of(getattr(check, "dataset", ""), check.model)
        suggestion = ""
        if all(one.details.get("in_process") for one in samples):
            suggestion = evidence.requirement("system", "memory", f"peak_host_memory <= {most:.0f} MiB", fields)
        suspicions[check.model] = evidence.suspicion(check.model, sentence, suggestion, _p_value(series))
    return Look(tuple(suspicions.values()), questions)


def _resident(samples: Samples) -> NDArray[np.float64] | None:
    """MiB while queries were timed, shape (t,); None: too few readings."""
    telemetry = samples.telemetry
    if telemetry is None or "resident_mib" not in telemetry.series or not len(samples.end_ns):
        return None
    read = telemetry.series["resident_mib"]
    inside = (telemetry.times_ns >= samples.sent_ns.min()) & (telemetry.times_ns <= samples.end_ns.max())
    kept = read[inside & np.isfinite(read)]
    return kept if len(kept) >= READINGS else None


def _goes_on(series: Sequence[NDArray[np.float64]]) -> bool:
    """The middle process grows in its second half as well."""
    halves = [(one[len(one) // 2] - one[0], one[-1] - one[len(one) // 2]) for one in series]
    first, second = (float(np.median([half[place] for half in halves])) for place in (0, 1))
    return second > 0 and second >= STEADY * first


def _p_value(series: Sequence[NDArray[np.float64]]) -> float:
    """Kendall's trend, summed over processes: were the readings in no order, so many pairs would hardly rise.

    Memory goes in steps, and readings that follow each other hang together: at most 12 of each process are looked at.
    """
    from scipy.special import ndtr

    total, variance = 0.0, 0.0
    for one in series:
        few = one[np.unique(np.linspace(0, len(one) - 1, 12).astype(np.int64))]
        n = len(few)
        total += float(np.sign(few[None, :] - few[:, None])[np.triu_indices(n, 1)].sum())
        variance += n * (n - 1) * (2 * n + 5) / 18.0
    return float(ndtr(-(total - 1.0) / np.sqrt(variance)))
