"""Memory that grows by each query, as long as a check times them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evalspec.screens.answers import fields_of
from evalspec.screens.evidence import Look
from evalspec.screens.timings import own_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Samples
    from evalspec.screens.evidence import Evidence

PROCESSES, READINGS = 2, 4
LEAST_MIB = 20.0
LEAST_SHARE = 0.05
"""Growth while queries are timed, in the middle process: so much, and so large a share of what was there."""
STEADY = 0.4
"""Growth of the second half by that of the first: what only fills up grows less and less."""
STEP = 0.75
"""Share of the growth between two readings, from which on something was made once: a cache, a thread pool."""


class Readings(NamedTuple):
    """Resident size of a process.

    Args:
        times_ns: shape (t,), rising.
        mib: shape (t,).
    """

    times_ns: NDArray[np.int64]
    mib: NDArray[np.float64]


def look(evidence: Evidence) -> Look:
    """Resident size of every process that a check has timed."""
    suspicions: dict[str, Suspicion] = {}
    questions = 0
    for check in evidence.checks:
        # Without a query nothing says whether memory grows by them.
        samples = [one for one in own_samples(evidence, check) if len(one.end_ns)]
        series = [one for one in map(resident, samples) if one is not None]
        if len(series) < PROCESSES:
            continue
        questions += 1
        growth = float(np.median([one.mib[-1] - one.mib[0] for one in series]))
        start = float(np.median([one.mib[0] for one in series]))
        if check.model in suspicions or growth < max(LEAST_MIB, LEAST_SHARE * start) or not _goes_on(series):
            continue
        queries = float(np.median([len(one.end_ns) for one in samples]))
        sentence = (
            f"a process of {check.model} grows by {growth:,.0f} MiB in the {queries:,.0f} queries of {check.name} "
            f"({1000 * growth / queries:,.3g} MiB in 1,000), and does not stop"
        )
        # What a day of such queries would need is far beyond it, and what the longest process here took is below.
        most = float(max(one.mib[0] for one in series)) + LEAST_MIB / 2
        fields = fields_of(getattr(check, "dataset", ""), check.model)
        suggestion = ""
        if all(one.details.get("in_process") for one in samples):
            suggestion = evidence.requirement("system", "memory", f"peak_host_memory <= {most:.0f} MiB", fields)
        suspicions[check.model] = evidence.suspicion(check.model, sentence, suggestion, p_of_trend(series))
    return Look(tuple(suspicions.values()), questions)


def resident(samples: Samples) -> Readings | None:
    """Size while queries were timed, with the last reading before and the first after them; None: too few."""
    telemetry = samples.telemetry
    if telemetry is None or "resident_mib" not in telemetry.series or not len(samples.end_ns):
        return None
    read = telemetry.series["resident_mib"]
    known = np.isfinite(read)
    times, read = telemetry.times_ns[known], read[known]
    first = max(0, int(np.searchsorted(times, samples.sent_ns.min(), side="right")) - 1)
    last = int(np.searchsorted(times, samples.end_ns.max(), side="left"))
    times, read = times[first : last + 1], read[first : last + 1]
    return Readings(times, read) if len(read) >= READINGS else None


def _goes_on(series: Sequence[Readings]) -> bool:
    """The middle process grows in its second half as well, and not in one step."""
    halves = []
    stepped = np.median([np.diff(one.mib).max() / max(1e-9, one.mib[-1] - one.mib[0]) for one in series])
    if stepped > STEP:
        return False
    for one in series:
        middle = float(np.interp((one.times_ns[0] + one.times_ns[-1]) / 2, one.times_ns, one.mib))
        halves.append((middle - one.mib[0], one.mib[-1] - middle))
    first, second = (float(np.median([half[place] for half in halves])) for place in (0, 1))
    return second > 0 and second >= STEADY * first


def p_of_trend(series: Sequence[Readings]) -> float:
    """Kendall's trend, summed over processes: were the readings in no order, so many pairs would hardly rise.

    Exact: of n readings in no order, the number of pairs that fall is a sum of uniform numbers on 0..1, 0..2 to
    0..n - 1; two that are equal count as half a pair that falls, and all of these together are rounded up. Memory goes
    in steps, and readings that follow each other hang together: at most 12 of each process are looked at.
    """
    falling, chances = 0.0, np.ones(1)
    for one in series:
        few = one.mib[np.unique(np.linspace(0, len(one.mib) - 1, 12).astype(np.int64))]
        n = len(few)
        signs = np.sign(few[None, :] - few[:, None])[np.triu_indices(n, 1)]
        falling += float((signs < 0).sum() + (signs == 0).sum() / 2)
        for place in range(2, n + 1):
            chances = np.convolve(chances, np.full(place, 1.0 / place))
    return min(1.0, float(chances[: int(np.ceil(falling)) + 1].sum()))
