"""Ends a timed check as soon as its requirements are far from their thresholds, at looks that are planned before.

A requirement is decided at a look only where that is beyond doubt: at a fifth of the level that decides at the end
(Haybittle and Peto), and against a threshold that is three times as strict: three processes can't show that half of all
are twice as slow. What is closer goes on to the end. Error rates by simulation are in
`tests/stats/timing/test_early_looks.py`.

References: Haybittle, British Journal of Radiology 1971. Peto and others, British Journal of Cancer 1976. Jennison and
Turnbull (2000), Group Sequential Methods, 2.6.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.record import LOOK, LOOKS
from evalspec.evidence.test import Test, holds
from evalspec.evidence.words import in_percent
from evalspec.language.parts import Check, CheckResult, Known
from evalspec.language.requirement import Requirement
from evalspec.running.children.jobs import CheckJob
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.running.timing import StagedTiming, Timing
from evalspec.scoring.on_demand import nothing_shown

if TYPE_CHECKING:
    pass

STRICTER = 5.0
"""The level at a look is this part of the level at the end."""
FARTHER, FARTHER_BESIDE = 3.0, 1.5
"""Factors by which a threshold, and one against another model in the same pairs, is moved for a look."""


def in_looks(
    job: CheckJob, timing: Timing, measured: Callable[[CheckJob, Timing], CheckResult], *, judged: bool = True
) -> CheckResult:
    """The result of a check at the first look that decides all of its requirements, or at its end.

    Args:
        job: Of the check.
        timing: Measures, or gives back what was measured before.
        measured: Runs a job on timings.
        judged: Of earlier timings that ended at a look: void where that look does not decide; False: as they stand.
    """
    last = timing.last_look
    served = frozenset(name for name, model in job.parts.models.items() if model.served)
    # Earlier timings are given back in the order in which they were made, with looks or without.
    forms = job.check.looks(Known(served)) if (job.stop_early if last is None else last > 0) else ()
    if not forms:
        return measured(job, timing)
    staged, levels = StagedTiming(timing), SignificanceLevels(job.confidence, job.alpha_fail)
    for look, check in enumerate(forms, 1):
        staged.begin(look)
        # Of earlier timings it is known that this look did not end them: it only says which of them come first.
        with nothing_shown() if last is not None and look < last else nullcontext():
            result = measured(replace(job, check=check), staged)
        if look == len(forms):
            break
        # What was measured for later looks is among the timings of an earlier run, so only its last look is judged.
        decides = last in (None, look) and is_far(check, result, levels)
        if look == last or (last is None and decides):
            return _ended(result, look, len(forms), invalid=judged and not decides)
    return _with_look(result, len(forms), len(forms))


def is_far(check: Check, result: CheckResult, levels: SignificanceLevels) -> bool:
    """True where all requirements of a check are shown to be met, or to be violated, by far.

    Args:
        check: With requirements; one without decides nothing, and is measured to the end.
        result: What it found so far.
        levels: Of the decisions at the end.
    """
    if not check.requirements or check.report_only:
        return False
    stricter = SignificanceLevels(1.0 - (1.0 - levels.confidence) / STRICTER, levels.alpha_fail / STRICTER)
    tighter, looser = _moved(check, harder=True), _moved(check, harder=False)
    if tighter is None or looser is None:
        return False
    met = [_met(test, stricter) for test in write_tests(tighter, result, stricter)]
    return all(met) or all(
        one or _violated(test, stricter) for one, test in zip(met, write_tests(looser, result, stricter), strict=True)
    )


def _met(test: Test, levels: SignificanceLevels) -> bool:
    if test.invalid or test.missing or test.withhold:
        return False
    if test.exact:
        return test.value is not None and holds(test.op, test.value, test.threshold)
    return test.p_pass is not None and test.p_pass <= 1.0 - levels.confidence


def _violated(test: Test, levels: SignificanceLevels) -> bool:
    if test.invalid or test.missing:
        return False
    if test.exact:
        return test.value is not None and not holds(test.op, test.value, test.threshold)
    return test.p_fail is not None and test.p_fail <= levels.alpha_fail


def _moved(check: Check, *, harder: bool) -> Check | None:
    """The check with every threshold harder to meet, or to violate; None: one can't be moved."""
    moved: dict[str, list[Requirement]] = {"require": [], "warn": [], "slo": []}
    for name, requirements in (
        ("require", check.require), ("warn", check.warn), ("slo", () if check.slo is None else (check.slo,)),
    ):  # fmt: skip
        for one in requirements:
            by = FARTHER if one.model is None else FARTHER_BESIDE
            other = farther(one, by if harder else 1.0 / by)
            if other is None:
                return None
            moved[name].append(other)
    update = {"require": tuple(moved["require"]), "warn": tuple(moved["warn"])}
    return check.model_copy(update=update | {"slo": moved["slo"][0] if moved["slo"] else None})


def farther(requirement: Requirement, by: float) -> Requirement | None:
    """A requirement with its threshold moved by a factor; None where a factor says nothing about it.

    Args:
        requirement: The requirement.
        by: Over 1: harder to meet; under 1: harder to violate.
    """
    if requirement.model is not None:
        if requirement.has_offset and requirement.threshold != 0.0:
            return None
        factor = requirement.factor / by if requirement.upper else requirement.factor * by
        return replace(requirement, factor=factor, threshold=0.0, has_offset=False)
    if requirement.op == "==":
        return requirement
    if requirement.upper:
        return replace(requirement, threshold=requirement.threshold / by)
    if requirement.unit == "%":
        return replace(requirement, threshold=100.0 - (100.0 - requirement.threshold) / by)
    return replace(requirement, threshold=requirement.threshold * by)


def _ended(result: CheckResult, look: int, looks: int, *, invalid: bool) -> CheckResult:
    """A result at a look before the last."""
    text = (
        f"Ended at look {look} of {looks}: every requirement is met, or violated, by a factor of {FARTHER:g} "
        f"({FARTHER_BESIDE:g} beside another model), at "
        f"{in_percent(1.0 / STRICTER)} of the usual level. `policy: {{stop: full}}` measures all that is planned."
    )
    if not invalid:
        return replace(_with_look(result, look, looks), notes=(*result.notes, text))
    why = f"the timings end at look {look} of {looks}, which does not decide these requirements"
    return replace(_with_look(result, look, looks), invalid=result.invalid or Reason(why, Cause.CUT_SHORT))


def _with_look(result: CheckResult, look: int, looks: int) -> CheckResult:
    return replace(result, conditions={**result.conditions, LOOK: look, LOOKS: looks})
