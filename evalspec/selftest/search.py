"""Search for the defect of each requirement of a check: one for which no other requirement goes red."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from evalspec.errors import EvalspecError
from evalspec.evidence.test import Test, holds
from evalspec.language.defects import Defect
from evalspec.planning import PlannedCheck
from evalspec.selftest.ladders import Ladder
from evalspec.selftest.outcomes import RequirementOutcome
from evalspec.selftest.trials import Trial, Trials


@dataclass
class Search:
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
        """Those of the wanted requirements that went red alone; each is tried up to the strength that turns it red."""
        strongest = self._try(ladder[-1])
        left = wanted if strongest is None else {name for name in wanted if self._moved(strongest, name)}
        alone: set[str] = set()
        for defect in ladder:
            if not left:
                break
            trial = strongest if defect is ladder[-1] else self._try(defect)
            if trial is not None:
                self._tried.append(trial)
                red = left & trial.red
                alone |= {name for name in red if not self._others(trial, name)}
                left = left - red
        return alone

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
