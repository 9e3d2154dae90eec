"""Two runs side by side: requirement by requirement, with the interval of each change, and what is not comparable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evalspec.evidence.comparability import FIELDS, holds_for, unlike
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_quantity, from_unit, to_unit
from evalspec.evidence.words import short_digest
from evalspec.language.parts import Access
from evalspec.records.flips import Flips, flips
from evalspec.run.folders import read_record
from evalspec.stats.between import Bounded, Change, change

Word = Literal["regression", "improvement", "no change shown", "changed", "same", "not comparable"]

RATIO_UNITS = frozenset(
    ("ms", "s", "samples/s", "qps", "J", "W", "samples/J", "MiB", "x", "GFLOP/s", "tokens/s", "label")
)
"""Units of numbers that are compared by their ratio; all others by their difference."""
SUBJECT = ("precision", "framework", "provider", "stages")
"""Fields that may change with the subject on purpose: they are named, and the numbers still compared."""


@dataclass(frozen=True, slots=True)
class Row:
    """One requirement in both runs.

    Args:
        name: Of the requirement.
        word: What became of it.
        before, after: Status in each run; empty: it was not in that run.
        values: Both values in words.
        change: The change with its interval in words; of ``not comparable`` why not.
        notes: What else is different: the threshold, a field of the subject.
    """

    name: str
    word: Word
    before: str
    after: str
    values: str = ""
    change: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs.

    Args:
        verdicts: Words of both verdicts.
        rows: Requirements, regressions first.
        flips: Rows answered otherwise, for each dataset and model that both runs asked.
        differs: What else is different between the runs: field, before, after.
        alpha: One-sided level of each interval: that of the policy, divided by the requirements compared.
    """

    verdicts: tuple[str, str]
    rows: tuple[Row, ...]
    flips: tuple[Flips, ...]
    differs: tuple[tuple[str, str, str], ...]
    alpha: float

    @property
    def regressions(self) -> tuple[Row, ...]:
        """Requirements that became worse."""
        return tuple(row for row in self.rows if row.word == "regression")

    @property
    def comparable(self) -> bool:
        """Something was compared."""
        return any(row.word != "not comparable" for row in self.rows)


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest change that counts, besides being shown.

    Args:
        ratio: Of timings and their like, as a share of the value.
        points: Of fractions, in 0..1.
    """

    ratio: float = 0.02
    points: float = 0.005


ORDER: Mapping[Word, int] = {
    "regression": 0, "not comparable": 1, "changed": 2, "no change shown": 3, "improvement": 4, "same": 5,
}  # fmt: skip


def compare(first: Path, second: Path, smallest: Smallest | None = None, access: Access | None = None) -> Compared:
    """Hold a run against an earlier one.

    A change is a regression where it is in the wrong direction, larger than ``smallest``, and shown: the interval of
    the change excludes none, at the policy's level divided by the number of requirements compared (Bonferroni). Rows
    that both runs answered are paired.

    Args:
        first: Folder of the earlier run.
        second: Folder of the later run.
        smallest: The smallest change that counts.
        access: Where the first run's datasets may be read, for the truth of the rows; None: flips have no direction.

    Raises:
        RecordError: A record can't be read.
    """
    before, after = read_record(first), read_record(second)
    paired = flips(before, after, first, second, access)
    pairs = _pairs(before, after)
    alpha = (1.0 - max(before.policy.confidence, after.policy.confidence)) / max(1, len(pairs))
    view = _View(before, after, alpha, smallest or Smallest(), {(one.dataset, one.model): one for one in paired})
    rows = [view.row(name, *found) for name, found in pairs.items()]
    rows.sort(key=lambda row: ORDER[row.word])
    return Compared((_word(before), _word(after)), tuple(rows), paired, _differs(before, after), alpha)


def _word(record: Record) -> str:
    return "no verdict" if record.verdict is None else record.verdict.headline


Found = tuple[tuple[CheckRecord, Test] | None, tuple[CheckRecord, Test] | None]


def _pairs(before: Record, after: Record) -> dict[str, Found]:
    """Requirement: where it stands in each run."""
    ours, theirs = (
        {test.name: (check, test) for check in one.checks for test in check.tests} for one in (before, after)
    )
    return {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}


@dataclass(frozen=True, slots=True)
class _View:
    """What the rows are made with."""

    before: Record
    after: Record
    alpha: float
    smallest: Smallest
    paired: Mapping[tuple[str, str], Flips]

    def row(self, name: str, old: tuple[CheckRecord, Test] | None, new: tuple[CheckRecord, Test] | None) -> Row:
        statuses = _status(self.before, name), _status(self.after, name)
        if old is None or new is None:
            which = "earlier" if old is None else "later"
            return Row(name, "not comparable", *statuses, change=f"the {which} run does not ask for it")
        why, notes = self._unlike(old, new)
        (_, ours), (check, theirs) = old, new
        if ours.threshold != theirs.threshold:
            notes = (*notes, f"threshold {_quantity(ours.threshold, ours)}, then {_quantity(theirs.threshold, theirs)}")
        if why is not None or ours.value is None or theirs.value is None:
            return Row(name, "not comparable", *statuses, change=why or "a run has no value", notes=notes)
        values = f"{_quantity(ours.value, ours)}, then {_quantity(theirs.value, theirs)}"
        if ours.exact and theirs.exact:
            word: Word = "same" if ours.value == theirs.value else _fact(theirs, theirs.value - ours.value)
            return Row(name, word, *statuses, values, "", notes)
        found = self._paired(check, theirs) or self._change(old, new)
        return Row(name, self._word(theirs, found), *statuses, values, _words(found, theirs), notes)

    def _unlike(
        self, old: tuple[CheckRecord, Test], new: tuple[CheckRecord, Test]
    ) -> tuple[str | None, tuple[str, ...]]:
        """Why two numbers can't be compared, naming the field; and what else is different."""
        (check, ours), (other, theirs) = old, new
        for one, test in (old, new):
            if one.status != "measured" or test.invalid is not None or test.missing is not None:
                return f"{one.id}: {test.invalid or test.missing or one.reason or one.status}", ()
        if (ours.unit, ours.op) != (theirs.unit, theirs.op):
            return f"unit or operator: {ours.sentence}, then {theirs.sentence}", ()
        here, there = _fields(self.before, check), _fields(self.after, other)
        if here is None or there is None:
            digests = _digests(self.before, check), _digests(self.after, other)
            return (None if digests[0] == digests[1] else f"dataset: {digests[0]}, then {digests[1]}"), ()
        wanted = FIELDS if check.dimension == "system" else ("dataset",)
        apart = [name for name in unlike(here, there) if name in wanted and here[name] != there[name]]
        hard = [name for name in apart if name not in SUBJECT]
        words = {name: f"{name}: {here[name]}, then {there[name]}" for name in apart}
        return (words[hard[0]] if hard else None), tuple(words[name] for name in apart if name in SUBJECT)

    def _paired(self, check: CheckRecord, test: Test) -> Change | None:
        """The change of an accuracy over rows that both runs answered."""
        if check.check != "quality" or test.name != f"{check.id}/accuracy":
            return None
        model = next((name for name in check.models if name not in check.baseline_models), "")
        one = self.paired.get((check.datasets[0], model)) if check.datasets else None
        return None if one is None else one.change(self.alpha)

    def _change(self, old: tuple[CheckRecord, Test], new: tuple[CheckRecord, Test]) -> Change:
        ours, theirs = _bounded(*old, self.before), _bounded(*new, self.after)
        ratio = new[1].unit in RATIO_UNITS and new[1].against is None and ours.value > 0 and theirs.value > 0
        return change(ours, theirs, self.alpha, ratio=ratio)

    def _word(self, test: Test, found: Change) -> Word:
        above = found.lower is not None and found.lower > found.none
        below = found.upper is not None and found.upper < found.none
        if not (above or below):
            return "no change shown"
        least = self.smallest.ratio if found.is_ratio else self.smallest.points
        if abs(found.value - found.none) < least:
            return "no change shown"
        return "improvement" if above == (test.op in (">=", ">")) else "regression"


def _fact(test: Test, difference: float) -> Word:
    if test.op == "==":
        return "changed"
    return "improvement" if (difference > 0) == (test.op in (">=", ">")) else "regression"


def _status(record: Record, name: str) -> str:
    decisions = () if record.verdict is None else record.verdict.decisions
    return next((one.status for one in decisions if one.name == name), "")


def _bounded(check: CheckRecord, test: Test, record: Record) -> Bounded:
    """In the units of estimates: fractions in 0..1."""
    assert test.value is not None
    processes = check.conditions.get("processes") if check.dimension == "system" else None
    degrees = float(processes) - 1.0 if isinstance(processes, int | float) else None
    value, lower, upper = (
        None if one is None else from_unit(one, test.unit) for one in (test.value, test.lower, test.upper)
    )
    assert value is not None
    return Bounded(value, lower, upper, record.policy.confidence, degrees)


def _fields(record: Record, check: CheckRecord) -> dict[str, str] | None:
    models = {one.name: one for one in record.models}
    own = [name for name in check.models if name not in check.baseline_models and name in models]
    return holds_for(record, check, models[own[0]]) if own else None


def _digests(record: Record, check: CheckRecord) -> str:
    known = {one.name: short_digest(one.digest) for one in record.datasets}
    return ", ".join(f"{name} {known.get(name, 'not shown')}" for name in check.datasets)


def _quantity(value: float, test: Test) -> str:
    return format_quantity(value, test.unit)


def _words(found: Change, test: Test) -> str:
    """The change with its interval."""

    def shown(value: float | None) -> str:
        if value is None:
            return "no bound"
        if found.is_ratio:
            return f"{100.0 * (value - 1.0):+.3g} %"
        unit = "pp" if test.unit in ("fraction", "%", "pp") else test.unit
        return f"{to_unit(value, 'pp' if unit == 'pp' else ''):+.3g} {unit}".rstrip()

    return f"{shown(found.value)} ({shown(found.lower)} to {shown(found.upper)})"


def _differs(before: Record, after: Record) -> tuple[tuple[str, str, str], ...]:
    """Spec, policy, subject, datasets, machine and packages that are not the same in both runs."""
    pairs: list[tuple[str, object, object]] = [
        ("spec", before.spec_digest[:12], after.spec_digest[:12]),
        ("confidence", before.policy.confidence, after.policy.confidence),
        ("inconclusive", before.policy.inconclusive, after.policy.inconclusive),
        ("subject", short_digest(before.subject), short_digest(after.subject)),
    ]
    ours, theirs = _facts(before), _facts(after)
    pairs += [(name, ours.get(name), theirs.get(name)) for name in {**ours, **theirs}]
    return tuple(
        (name, "absent" if old is None else str(old), "absent" if new is None else str(new))
        for name, old, new in pairs
        if old != new and name not in MOVES
    )


MOVES = ("machine cpu_steal_s_since_boot", "machine cpu_MHz")
"""Facts that are another number each time they are read."""


def _facts(record: Record) -> dict[str, object]:
    """What a run took place with: field, its value."""
    found: dict[str, object] = {f"model {one.name}": short_digest(one.digest) for one in record.models}
    found |= {f"dataset {one.name}": short_digest(one.digest) for one in record.datasets}
    found |= {f"machine {name}": value for name, value in record.environment.facts.items()}
    found |= {f"package {name}": value for name, value in record.environment.packages.items()}
    return found | {f"control {one.name}": one.state for one in record.environment.controls}
