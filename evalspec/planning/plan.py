"""The plan: order, needs, the family that Holm corrects over. Nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.language.parts import (
    Check,
    Known,
    NeedLikelihoods,
    NeedPredictions,
    NeedRows,
    NeedTiming,
    TrialRuns,
)
from evalspec.language.requirement import Requirement, Same
from evalspec.loading import Spec

PREDICT_ROWS_PER_S = 2000.0
"""A guess for the plan where nothing was measured before."""
LIKELIHOOD_TEXTS_PER_S = 2.0
"""The same for texts of which a language model gives likelihoods."""
START_S = 2.0
"""Starting a process and loading a model, a guess likewise."""


@dataclass(frozen=True, slots=True)
class PlannedCheck:
    """One check in its place.

    Args:
        check: The check.
        predictions: (dataset, model) that must be made before.
        datasets: Every dataset that it reads.
        models: Every model that it reads, runs or times.
        timed: Models that it times.
        asked: Models that it asks about rows of its own making.
        queries: Timed queries, all processes; warm-up is not counted.
        seconds: A guess at its duration.
        far_seconds: The same where all that it requires is far from its threshold, so that it ends at the first look.
        more: What else may be asked for, in words; empty: nothing.
    """

    check: Check
    predictions: tuple[tuple[str, str], ...]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    timed: tuple[str, ...]
    asked: tuple[str, ...]
    queries: int
    seconds: float
    far_seconds: float
    more: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a run.

    Args:
        spec: The spec.
        checks: In the order in which they run: data, model, system (which runs alone).
        predictions: (dataset, model), each made once.
        family: Blocking requirements that are decided from a sample; Holm corrects over all of them.
        family_warn: Likewise those under ``warn``.
        same: Requirement: one of the family that makes the same claim of the same rows; both count once.
        only: Names given by ``--only``; checks outside are not run, and the family stays.
    """

    spec: Spec
    checks: tuple[PlannedCheck, ...]
    predictions: tuple[tuple[str, str], ...]
    family: tuple[str, ...]
    family_warn: tuple[str, ...]
    same: Mapping[str, str]
    only: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        """1 - confidence."""
        return 1.0 - self.spec.policy.confidence

    @property
    def alpha_fail(self) -> float:
        """The strictest level that Holm will ask for."""
        return self.alpha / max(1, len(self.family), len(self.family_warn))

    @property
    def seconds(self) -> float:
        """A guess at the whole duration."""
        return sum(one.seconds for one in self.checks)


def plan(spec: Spec, *, only: Iterable[str] = ()) -> Plan:
    """The plan of a spec.

    Args:
        spec: The spec.
        only: Check ids or requirement names.

    Raises:
        SpecError: ``only`` names something that is not there.
    """
    only = tuple(only)
    wanted = _wanted(spec, only)
    planned = tuple(_planned(check, spec) for check in (*spec.data, *spec.model, *spec.system) if check.name in wanted)
    predictions = tuple(dict.fromkeys(pair for one in planned for pair in one.predictions))
    family, same = _family(spec, lambda check: check.blocking)
    family_warn, same_warn = _family(spec, lambda check: check.warn)
    return Plan(
        spec=spec,
        checks=planned,
        predictions=predictions,
        family=family,
        family_warn=family_warn,
        same=same | same_warn,
        only=only,
    )


def _wanted(spec: Spec, only: tuple[str, ...]) -> set[str]:
    names = {check.name: check.name for check in spec.checks}
    names |= {one.name(check.name): check.name for check in spec.checks for one in check.requirements}
    problems = [
        Problem(
            f"--only {name!r} is not a check and no requirement of this spec",
            choices=tuple(names),
            remedy=did_you_mean(name, names),
        )
        for name in only
        if name not in names
    ]
    if problems:
        raise SpecError(problems)
    return {names[name] for name in only} if only else {check.name for check in spec.checks}


def _planned(check: Check, spec: Spec) -> PlannedCheck:
    rows = {name: header.rows for name, header in spec.headers.items()}
    served = frozenset(name for name, model in spec.models.items() if model.served)
    needs = check.needs()
    answers = [need for need in needs if isinstance(need, NeedPredictions)]
    predictions = tuple((need.dataset, need.model) for need in answers)
    known = Known(served, spec.seen.get(check.name))
    timings = check.timings(known)
    looks = check.looks(known) if spec.policy.stop == "early" and check.requirements and not check.report_only else ()
    seconds = START_S + sum(need.seconds for need in timings)
    for need in answers:
        seconds += START_S + (1 + need.copies) * (rows.get(need.dataset) or 0) / PREDICT_ROWS_PER_S
    likelihoods = [need for need in needs if isinstance(need, NeedLikelihoods)]
    for one in likelihoods:
        seconds += START_S + (rows.get(one.dataset) or 0) / LIKELIHOOD_TEXTS_PER_S
    asked = [name for need in likelihoods for name in (need.model, need.together) if name is not None]
    read = [need.dataset for need in needs if isinstance(need, NeedRows | NeedLikelihoods)]
    return PlannedCheck(
        check=check,
        predictions=tuple(dict.fromkeys(predictions)),
        datasets=tuple(dict.fromkeys([*read, *(d for d, _ in predictions), *(need.dataset for need in timings)])),
        models=tuple(dict.fromkeys([*(m for _, m in predictions), *(need.model for need in timings), *asked])),
        timed=tuple(dict.fromkeys(need.model for need in timings)),
        asked=tuple(dict.fromkeys(need.model for need in answers if need.copies)),
        queries=sum(need.queries for need in timings),
        seconds=seconds,
        far_seconds=seconds - _saved(timings, looks[0].timings(known) if looks else timings),
        more=" and ".join(need.more for need in timings if need.more),
    )


def _saved(whole: Sequence[NeedTiming], look: Sequence[NeedTiming]) -> float:
    """Seconds of timing that are left out by a check that ends at a look."""
    return max(0.0, sum(need.seconds for need in whole) - sum(need.seconds for need in look))


def _family(spec: Spec, which: Callable[[Check], tuple[Requirement, ...]]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Requirements that are decided from a sample, each claim once, and those that repeat another one's claim."""
    names: list[str] = []
    first: dict[Same, str] = {}
    same: dict[str, str] = {}
    for check in spec.checks:
        for one in which(check):
            metric, name = check.metric(one.metric), one.name(check.name)
            if one.model is None and metric is not None and metric.exact:
                continue
            claim = check.same(one)
            known = name if claim is None else first.setdefault(claim, name)
            if known == name:
                names.append(name)
            else:
                same[name] = known
    return tuple(dict.fromkeys(names)), same


def trial_runs(plan: Plan, training: str) -> TrialRuns:
    """Runs of a training beside those that count, which several checks may share.

    Args:
        plan: Its checks ask for them.
        training: Name of the training.
    """
    asked = [planned.check.trials_of(training) for planned in plan.checks]
    return TrialRuns(*(max((getattr(one, part.name) for one in asked), default=0) for part in fields(TrialRuns)))
