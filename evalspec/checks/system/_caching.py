"""The audit for caching: the same items first and again, in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system import _samples
from evalspec.errors import NotRunError
from evalspec.language.inputs import Schedule
from evalspec.stats.caching import ALLOWED, FEWEST, caching_gain

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs, Samples

ITEMS = 400
"""Asked for twice each: more would not tell much more, and a query of 5 ms makes them 4 s."""
WARMUP_QUERIES = 32


@dataclass(frozen=True)
class Audit:
    """What asking again saved.

    Args:
        gain: Share of the time, or None where too few items were answered both times.
        invalid: Why timings are void, or None.
        note: For the reader.
    """

    gain: float | None
    invalid: str | None
    note: str


def audit(inputs: Inputs, dataset: str, model: str, warmup_s: float) -> Audit:
    """Ask for each of 400 items twice in a row, and hold the second time against the first.

    It comes before anything else is timed, and warms up on one item only: what was asked for before tells nothing.

    Args:
        inputs: Where timings come from.
        dataset: Rows.
        model: Who is asked.
        warmup_s: Before measuring.
    """
    schedule = Schedule(
        kind="single_stream", queries=2 * ITEMS, processes=1, warmup_queries=WARMUP_QUERIES, warmup_s=warmup_s,
        repeats=2, seed=1,
    )  # fmt: skip
    try:
        samples = inputs.measure(schedule, dataset, model)
    except NotRunError as reason:
        # Timings of an earlier run may have none; where a model can't be timed at all, what comes next says so.
        return Audit(None, None, f"Caching was not audited: {reason}.")
    return judge(samples, inputs.confidence)


def judge(samples: list[Samples], confidence: float) -> Audit:
    """What the pairs of an audit say.

    Args:
        samples: Block 0: asked first; block 1: again, the same items in the same order.
        confidence: Of the policy.
    """
    first, again = [], []
    for one in samples:
        spent = _samples.latencies_ms(one)
        sides = [np.flatnonzero(one.block == block) for block in (0, 1)]
        pairs = min(len(side) for side in sides)
        # The first item was asked for while warming up; and a small dataset comes round again.
        new = np.unique(one.items[sides[0][:pairs]], return_index=True)[1]
        new = np.sort(new[new > 0])
        first.append(spent[sides[0][new]])
        again.append(spent[sides[1][new]])
    gain = caching_gain(np.concatenate(first or [np.empty(0)]), np.concatenate(again or [np.empty(0)]))
    value, least = gain.value, gain.at_least(confidence)
    if value is None or least is None:
        reason = f"{gain.pairs} new items were answered twice, {FEWEST} are needed"
        return Audit(None, None, f"Caching was not audited: {reason}.")
    found = (
        f"{gain.pairs:,} items asked for a second time took {abs(value):.1%} {'less' if value >= 0 else 'more'} time"
    )
    if gain.caches(confidence):
        reason = (
            f"answers come from a cache: {found} ({confidence:.0%} lower bound {least:.1%}, at most {ALLOWED:.0%} "
            "are allowed), so timings say nothing about new items"
        )
        return Audit(value, reason, f"{found[0].upper()}{found[1:]}.")
    return Audit(value, None, f"Audit for caching: {found} (at most {ALLOWED:.0%} less is allowed).")
