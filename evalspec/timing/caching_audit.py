"""The audit for caching: the same items first and again, in a process of its own; or, of a server, new ones first."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.reasons import Cause, NoEvidence, Reason
from evalspec.evidence.words import in_percent
from evalspec.language.inputs import Schedule
from evalspec.stats.timing.caching import ALLOWED, FEWEST, caching_gain
from evalspec.timing import samples as timing_samples
from evalspec.timing.invalidation import Found, void_if_flattered

if TYPE_CHECKING:
    from evalspec.evidence.estimate import Comparison, ComparisonParts
    from evalspec.language.inputs import Inputs, Samples
    from evalspec.language.parts import Check
    from evalspec.language.requirement import Requirement

ITEMS = 400
"""Asked for twice each: more would not tell much more, and a query of 5 ms makes them 4 s."""
AMPLE_S = 20.0
LEAST_ITEMS = 3 * FEWEST // 2
"""Where items take longer than `AMPLE_S`, so many are enough: some fail, and the first in process was asked before."""
WARMUP_QUERIES = 32


@dataclass(frozen=True)
class Audit:
    """Time that asking again saved.

    Args:
        gain: Share of the time, or None where it could not be told.
        invalid: Why timings are void, or None.
        note: For the reader.
        withhold: Why nothing passes, where an audit was asked for and could not be made; or None.
        query_ms: Mean latency of an item that is new, or None where it could not be told.
    """

    gain: float | None
    invalid: str | None
    note: str
    withhold: str | None = None
    query_ms: float | None = None

    def applied(
        self,
        estimates: Mapping[str, Found],
        comparisons: Mapping[tuple[str, str], Comparison | ComparisonParts],
        requirements: Iterable[Requirement],
        confidence: float,
    ) -> tuple[dict[str, Found], str | None]:
        """Estimates of a check as it leaves them: answers from a cache void what they can have made.

        A model that is too slow even with a cache is too slow.

        Args:
            estimates: By metric.
            comparisons: By metric and model.
            requirements: Of the check.
            confidence: Of the policy.

        Returns:
            The estimates; and why the whole check is void, or None.
        """
        if self.invalid is not None:
            return void_if_flattered(estimates, comparisons, requirements, self.invalid, confidence)
        if self.withhold is None:
            return dict(estimates), None
        kept: dict[str, Found] = {}
        for name, one in estimates.items():
            measured = Measured.of(one)
            exact = isinstance(measured.estimate, Fact)
            kept[name] = one if exact else replace(measured, withhold=measured.withhold or self.withhold)
        return kept, None


def audit(inputs: Inputs, check: Check, dataset: str, model: str, warmup_s: float) -> Audit:
    """Ask for each of 400 items twice in a row, and hold the second time against the first; fewer where they are slow.

    In process it comes before anything else is timed, in a fresh process, and warms up on one item only: what was
    asked for before tells nothing. A server lives longer than that: earlier checks, and earlier runs, have asked it for
    every row. So there the first of each pair is the row with one number changed by a hair, which no exact cache can
    know, and the second is the row itself.

    Args:
        inputs: Where timings come from.
        check: Whose audit it is: each check of a run asks in an order of its own.
        dataset: Rows.
        model: Who is asked.
        warmup_s: Before measuring.
    """
    schedule = Schedule(
        kind="single_stream", queries=2 * ITEMS, processes=1, warmup_queries=WARMUP_QUERIES, warmup_s=warmup_s,
        repeats=2, seed=zlib.crc32(check.name.encode()), ample_s=AMPLE_S, fewest=2 * LEAST_ITEMS,
    )  # fmt: skip
    if inputs.model_facts(model).get("always_new"):
        return Audit(None, None, "Each prompt that was timed began with a word of its own, which no cache knows.")
    wanted = "caching_audit" in check.model_fields_set
    try:
        samples = inputs.measure(schedule, dataset, model)
    except NotRunError as reason:
        # Timings of an earlier run may have none; where a model can't be timed at all, what comes next says so.
        return _untold(str(reason), wanted=wanted)
    return judge(samples, inputs.confidence, wanted=wanted)


def _untold(reason: str, *, wanted: bool) -> Audit:
    text = f"caching was not audited: {reason}"
    withhold = NoEvidence(f"{text}, and `caching_audit:` asks for it", Cause.NO_AUDIT) if wanted else None
    return Audit(None, None, f"{text[0].upper()}{text[1:]}.", withhold)


def judge(samples: list[Samples], confidence: float, *, wanted: bool = False) -> Audit:
    """Finding of the pairs of an audit.

    Args:
        samples: Block 0: asked first; block 1: again, in the same order.
        confidence: Of the policy.
        wanted: The spec asks for the audit by name.
    """
    served = any(one.details.get("in_process") is False for one in samples)
    altered = bool(samples) and all(one.details.get("altered") is True for one in samples)
    if served and not altered:
        reason = "a server may know every row, and these rows have no numbers to change"
        return _untold(reason, wanted=wanted)
    first, again = [], []
    for one in samples:
        spent = timing_samples.latencies_ms(one)
        sides = [np.flatnonzero(one.block == block) for block in (0, 1)]
        pairs = min(len(side) for side in sides)
        new = np.arange(pairs)
        if not altered:
            # The first item was asked for while warming up; and a small dataset comes round again.
            new = np.unique(one.items[sides[0][:pairs]], return_index=True)[1]
            new = np.sort(new[new > 0])
        first.append(spent[sides[0][new]])
        again.append(spent[sides[1][new]])
    gain = caching_gain(np.concatenate(first or [np.empty(0)]), np.concatenate(again or [np.empty(0)]))
    value, least = gain.value, gain.at_least(confidence)
    if value is None or least is None:
        return _untold(f"{gain.pairs} new items were answered twice, {FEWEST} are needed", wanted=wanted)
    what = "items that it may know" if altered else "items asked for a second time"
    than = " than the same changed by a hair" if altered else ""
    failed = timing_samples.counted(samples).errored
    beside = f"; {failed:,} queries of the audit failed" if failed else ""
    text = f"{gain.pairs:,} {what} took {100 * abs(value):.1f} % {'less' if value >= 0 else 'more'} time{than}"
    if gain.caches(confidence):
        reason = Reason(
            f"answers come from a cache: {text} ({in_percent(confidence)} lower bound {100 * least:.1f} %, at most "
            f"{100 * ALLOWED:.0f} % are allowed), so timings say nothing about new items",
            Cause.CACHE,
        )
        return Audit(value, reason, f"{text[0].upper()}{text[1:]}.")
    note = f"Audit for caching: {text} (at most {100 * ALLOWED:.0f} % less is allowed){beside}."
    return Audit(value, None, note, query_ms=float(np.concatenate(first).mean()))
