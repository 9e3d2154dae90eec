"""Ends a timed check as soon as its requirements are far from their thresholds, at looks that are planned before.

A requirement is decided at a look only where that is beyond doubt: at a fifth of the level that decides at the end
(Haybittle and Peto), and against a threshold that is three times as strict: three processes can't show that half of all
are twice as slow. What is closer goes on to the end. Error rates by simulation are in
`tests/stats/timing/test_early_looks.py`.

References: Haybittle, British Journal of Radiology 1971. Peto and others, British Journal of Cancer 1976. Jennison and
Turnbull (2000), Group Sequential Methods, 2.6.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from evalspec.evidence.frozen import Cells
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.test import Test, holds
from evalspec.language.inputs import Probe, Samples, Schedule, Variant
from evalspec.language.parts import Check, CheckResult, Known
from evalspec.language.requirement import Requirement
from evalspec.running.children.jobs import CheckJob
from evalspec.running.children.messages import Progress
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.running.timing import WHOLE, Stage, Timing

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.likelihoods import Windows

STRICTER = 5.0
"""The level at a look is this part of the level at the end."""
FARTHER, FARTHER_BESIDE = 3.0, 1.5
"""Factors by which a threshold, and one against another model in the same pairs, is moved for a look."""

One = TypeVar("One")


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
    forms = job.check.looks(Known(served)) if job.stop_early or last is not None else ()
    if not forms:
        return measured(job, timing)
    staged, levels = _Staged(timing), SignificanceLevels(job.confidence, job.alpha_fail)
    for look, check in enumerate(forms, 1):
        staged.begin(look)
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
        f"{1.0 / STRICTER:.0%} of the usual level. `policy: {{stop: full}}` measures all that is planned."
    )
    if not invalid:
        return replace(_with_look(result, look, looks), notes=(*result.notes, text))
    why = f"the timings end at look {look} of {looks}, which does not decide these requirements"
    return replace(_with_look(result, look, looks), invalid=result.invalid or Reason(why, Cause.CUT_SHORT))


def _with_look(result: CheckResult, look: int, looks: int) -> CheckResult:
    return replace(result, conditions={**result.conditions, "look": look, "looks": looks})


class _Staged:
    """Timings in which each look measures only what those before it have not.

    The same request may come several times in a form (a pair of processes by turns); the second of one form goes with
    the second of the forms before.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self._known: dict[Hashable, Sequence[object]] = {}
        self._asked: dict[Hashable, int] = {}
        self._look = 1

    def begin(self, look: int) -> None:
        """Begin with a look."""
        self._look, self._asked = look, {}

    @property
    def last_look(self) -> int | None:
        """As of what measures."""
        return self._timing.last_look

    @property
    def samples(self) -> tuple[Samples, ...]:
        """All samples so far."""
        return self._timing.samples

    @property
    def probes(self) -> tuple[Probe, ...]:
        """All findings so far."""
        return self._timing.probes

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: Progress, stage: Stage = WHOLE
    ) -> list[Samples]:
        """Samples of the processes of all looks up to now."""
        return self._added(
            ("measure", _key(schedule), dataset, model),
            schedule.processes,
            lambda stage: self._timing.measure(schedule, dataset, model, progress, stage),
        )

    def measure_paired(
        self, schedule: Schedule, dataset: str, model: str, baseline: str, progress: Progress,
        stage: Stage = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:  # fmt: skip
        """Samples of the pairs of all looks up to now."""

        def pairs(stage: Stage) -> list[tuple[Samples, Samples]]:
            sides = self._timing.measure_paired(schedule, dataset, model, baseline, progress, stage)
            return list(zip(*sides, strict=True))

        made = self._added(("paired", _key(schedule), dataset, model, baseline), schedule.processes, pairs)
        return [one for one, _ in made], [other for _, other in made]

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: Cells, telemetry_s: float | None,
        progress: Progress, stage: Stage = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        """Findings of the processes of all looks up to now."""
        return self._added(
            ("probe", probe, dataset, model, repr(sorted(options.items())), telemetry_s),
            processes,
            lambda stage: self._timing.probe(probe, dataset, model, processes, options, telemetry_s, progress, stage),
        )

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """As of what measures."""
        return self._timing.predict(rows, dataset, name, model, variant, progress)

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """As of what measures."""
        return self._timing.likelihoods(texts, name, windows, model, beside, progress)

    def _added(self, request: Hashable, count: int, measure: Callable[[Stage], list[One]]) -> list[One]:
        """So many of what a request brings: those that are known, and the rest measured now."""
        turn = self._asked.get(request, 0)
        self._asked[request] = turn + 1
        known: list[One] = list(self._known.get((request, turn), ()))  # type: ignore[arg-type]
        if len(known) < count:
            known += measure(Stage(len(known), self._look))
            self._known[request, turn] = known
        return known[:count]


def _key(schedule: Schedule) -> Hashable:
    """All that a schedule says, but for how many processes there are."""
    said = ((one.name, getattr(schedule, one.name)) for one in fields(schedule) if one.name != COUNT)
    return tuple((name, value.tobytes() if hasattr(value, "tobytes") else value) for name, value in said)


COUNT = "processes"
"""Field of a schedule that looks change."""
