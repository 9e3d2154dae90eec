"""Search for the defect of each requirement of a check: one for which no other requirement goes red."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from evalspec.errors import EvalspecError
from evalspec.evidence.test import Test, holds
from evalspec.language.defects import Defect
from evalspec.planning import PlannedCheck
from evalspec.selftest.ladders import Ladder
from evalspec.selftest.outcomes import RequirementOutcome
from evalspec.selftest.trials import Trial, Trials

FEW = 4
"""Strengths that are all tried: where a check names so few, they need not go one way."""


@dataclass
class DefectSearch:
    """Trials of one check, until each of its requirements was red alone or nothing is left to plant.

    Args:
        planned: The check.
        sound: It, made again with nothing planted.
        trials: Makes it again.
    """

    planned: PlannedCheck
    sound: Trial
    trials: Trials
    _tried: list[Trial] = field(default_factory=list)
    _fell: dict[Defect, frozenset[str]] = field(default_factory=dict)

    def outcomes(self, planted: Iterable[Ladder]) -> Iterator[RequirementOutcome]:
        """Outcome of each requirement.

        Args:
            planted: Defects, each in its strengths.
        """
        left = {name for name, status in self.sound.status.items() if status != "FAIL"}
        for ladder in planted:
            if not left:
                break
            left -= self._climb(ladder, left)
        for name, test in self.sound.tests.items():
            if self.sound.status[name] == "FAIL":
                yield RequirementOutcome(name, test.sentence, "red", "what the run measured")
            else:
                yield self._outcome(name, test)

    def _climb(self, ladder: Ladder, wanted: set[str]) -> set[str]:
        """Those of the wanted requirements that went red alone; each by the mildest strength that turns it red."""
        tried: dict[int, Trial | None] = {}

        def at(place: int) -> Trial | None:
            if place not in tried:
                tried[place] = self._try(ladder[place])
            return tried[place]

        strongest = at(len(ladder) - 1)
        moved = {name for name in wanted if strongest is None or self._moved(strongest, name)}
        mildest = {name: _first(len(ladder), lambda place, name=name: self._turns(at(place), name)) for name in moved}  # type: ignore[misc]
        self._tried += [trial for _, trial in sorted(tried.items()) if trial is not None]
        reached = {name: tried.get(place) for name, place in mildest.items()}
        return {
            name for name, trial in reached.items()
            if trial is not None and name in trial.red and not self._others(trial, name)
        }  # fmt: skip

    def _turns(self, trial: Trial | None, name: str) -> bool:
        """True where a strength turns a requirement red, or is so much that nothing is left to judge."""
        if trial is None or name in trial.red:
            return True
        test, sound = trial.tests[name], self.sound.tests[name]
        return (test.value is None or test.invalid is not None) and sound.value is not None and sound.invalid is None

    def _moved(self, trial: Trial, name: str) -> bool:
        one, sound = trial.tests[name], self.sound.tests[name]
        return (one.value, one.invalid, one.missing) != (sound.value, sound.invalid, sound.missing)

    def _try(self, defect: Defect) -> Trial | None:
        try:
            return self.trials.of(self.planned, defect)
        except EvalspecError:
            # An error is not red: this defect says nothing.
            return None

    def _others(self, trial: Trial, name: str) -> frozenset[str]:
        """Requirements that go red for the same defect, and were not violated in the run."""
        own = self.trials.newly(trial.red) - {name}
        return own | (self._elsewhere(trial) - {name})

    def _elsewhere(self, trial: Trial) -> frozenset[str]:
        if trial.defect not in self._fell:
            self._fell[trial.defect] = self.trials.red_elsewhere(self.planned, trial.defect)
        return self._fell[trial.defect]

    def _outcome(self, name: str, test: Test) -> RequirementOutcome:
        others = {trial.defect: self._others(trial, name) for trial in self._tried if name in trial.red}
        if not others:
            return self._not_red(name)
        best = min(others, key=lambda one: len(others[one]))
        if not others[best]:
            return RequirementOutcome(name, test.sentence, "red", best.what)
        return RequirementOutcome(
            name, test.sentence, "implied", best.what,
            fell_with=tuple(sorted(others[best])), implied_by=_implying(others.values()),
        )  # fmt: skip

    def _not_red(self, name: str) -> RequirementOutcome:
        """A requirement that no defect turned red, and why."""
        test = self.sound.tests[name]
        if test.missing is not None or test.invalid is not None:
            why = f"no value in this run: {test.missing or test.invalid}"
            return RequirementOutcome(name, test.sentence, "excused", why=why)
        beyond = next((one for one in self._tried if _violated(one.tests[name])), None)
        if beyond is not None:
            why = f"its value is beyond the threshold, and {beyond.tests[name].n:,} are too few to show it"
            return RequirementOutcome(name, test.sentence, "excused", beyond.defect.what, why)
        void = next((one for one in self._tried if _beyond(one.tests[name])), None)
        if void is not None:
            why = f"a value beyond the threshold is void in this run: {void.tests[name].invalid}"
            return RequirementOutcome(name, test.sentence, "excused", void.defect.what, why)
        values = {one.tests[name].value for one in self._tried if one.tests[name].value is not None}
        same = "its value is the same whatever is planted"
        why = same if values <= {test.value} else "no defect that is known moves its value past the threshold"
        return RequirementOutcome(name, test.sentence, "green", why=why)


def _first(count: int, turns: Callable[[int], bool]) -> int:
    """The first of so many strengths that turns a requirement red, as far as stronger ones do; else the last."""
    low, high = 0, count - 1
    if count <= FEW:
        return next((place for place in range(count) if turns(place)), high)
    if not turns(high):
        return high
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if turns(middle) else (middle + 1, high)
    return high


def _violated(test: Test) -> bool:
    return test.invalid is None and _beyond(test)


def _beyond(test: Test) -> bool:
    return test.value is not None and not holds(test.op, test.value, test.threshold)


def _implying(fallen: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Few requirements of which one at least is in each of the sets; the first by name among equals."""
    left, chosen = list(fallen), []
    while left:
        names = sorted({name for one in left for name in one})
        best = max(names, key=lambda name: sum(name in one for one in left))
        chosen.append(best)
        left = [one for one in left if best not in one]
    return tuple(sorted(chosen))
