"""Two runs side by side: requirement by requirement, with the interval of each change, and what is not comparable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import MINUS, format_number, format_quantity, from_unit, to_unit
from evalspec.evidence.words import and_list
from evalspec.evidence.written import as_written, in_unit
from evalspec.language.parts import Access
from evalspec.language.registry import discover
from evalspec.lineage.comparability import BASELINE, apart, own_fields
from evalspec.lineage.declared import is_shown
from evalspec.lineage.run_comparison import ORDER, ChangeWord, Flips, RequirementChange, RunComparison, run_side
from evalspec.lineage.settings import settings_of, unlike_settings
from evalspec.lineage.spec_diff import as_asked, moved
from evalspec.records.flips import accuracy_change, flips
from evalspec.records.outputs import check_decided
from evalspec.records.run_difference import differences, run_notes
from evalspec.running.folders import INPUTS, folder_of, read_record
from evalspec.running.spec_diff import otherwise, spec_beside
from evalspec.stats.run_to_run import Bounded, Change, change

RATIO_UNITS = frozenset(
    ("ms", "s", "samples/s", "qps", "J", "W", "samples/J", "MiB", "x", "GFLOP/s", "tokens/s", "label")
)
"""Units of numbers that are compared by their ratio; all others by their difference."""
SAME = 1e-9
"""Two ways to one number differ by no more."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """The smallest change that counts, besides being shown.

    Args:
        ratio: Of timings and their like, as a share of the value. No interval of a run tells how runs differ from each
            other: where they do by 1 %, this is what keeps that from being called a regression.
        points: Of fractions, in 0..1.
    """

    ratio: float = 0.03
    points: float = 0.005


NO_SPEC = "one of the records has no readable spec beside it, so the settings of checks are not compared"


def compare(
    first: Path, second: Path, smallest: Smallest | None = None, *, allow_outside: bool | None = None
) -> RunComparison:
    """Hold a run against an earlier one.

    A change is a regression where it is in the wrong direction, at least as large as ``smallest``, and shown: the
    interval of the change excludes none, at the policy's level divided by the number of requirements compared
    (Bonferroni). Rows that both runs answered are paired. A fact of a whole file is known and needs no interval; one
    that was observed once in each run has none, so that it is only said to have changed.

    Args:
        first: Folder of the earlier run.
        second: Folder of the later run.
        smallest: The smallest change that counts.
        allow_outside: Whether the later run's datasets, which are read for the truth of the rows, may lie outside the
            folder of its spec; None: they are not read, and flips have no direction.

    Raises:
        RecordError: A record can't be read.
    """
    first, second = folder_of(first), folder_of(second)
    before, after = _read(first), _read(second)
    place = (second / after.spec_file).resolve().parent
    access = None if allow_outside is None else Access(place, allow_outside=allow_outside, memory=second / INPUTS)
    paired = flips(before, after, first, second, access)
    registry = discover()
    specs = spec_beside(first, registry), spec_beside(second, registry)
    found = compare_records(before, after, smallest, paired, specs)
    blind = before.spec_digest != after.spec_digest and None in specs
    notes = (*found.notes, NO_SPEC) if blind else found.notes
    return replace(found, asked=otherwise(first, before, second, after), notes=notes)


def compare_records(
    before: Record,
    after: Record,
    smallest: Smallest | None = None,
    paired: tuple[Flips, ...] = (),
    specs: tuple[object, object] = (None, None),
) -> RunComparison:
    """`compare` of two records; what lies beside them is given, rows paired and specs as plain values."""
    pairs = _pairs(before, after)
    alpha = (1.0 - max(before.policy.confidence, after.policy.confidence)) / max(1, len(pairs))
    rows_of = {(one.dataset, one.model): one for one in paired}
    view = _View(before, after, alpha, smallest or Smallest(), rows_of, specs)
    rows = [view.row(name, *found) for name, found in pairs.items()]
    rows.sort(key=lambda row: (ORDER[row.word], not row.is_worse))
    sides = run_side(before), run_side(after)
    return RunComparison(
        sides, tuple(rows), paired, differences(before, after), alpha, notes=tuple(run_notes(before, after))
    )


def _read(folder: Path) -> Record:
    """The record of a run; one whose verdict is not what its tests give is no record.

    Raises:
        RecordError: It can't be read, or was changed.
    """
    record = read_record(folder)
    if record.verdict is not None:
        check_decided(record, folder)
    return record


Found = tuple[tuple[CheckRecord, Test] | None, tuple[CheckRecord, Test] | None]


def _pairs(before: Record, after: Record) -> dict[str, Found]:
    """Requirement: where it stands in each run."""
    ours, theirs = (
        {test.name: (check, test) for check in one.checks for test in check.tests} for one in (before, after)
    )
    return {name: (ours.get(name), theirs.get(name)) for name in {**ours, **theirs}}


@dataclass(frozen=True, slots=True)
class _View:
    """Facts that the rows are made from."""

    before: Record
    after: Record
    alpha: float
    smallest: Smallest
    paired: Mapping[tuple[str, str], Flips]
    specs: tuple[object, object] = (None, None)

    def row(
        self, name: str, old: tuple[CheckRecord, Test] | None, new: tuple[CheckRecord, Test] | None
    ) -> RequirementChange:
        statuses = _status(self.before, name), _status(self.after, name)
        if old is None or new is None:
            which, there = ("earlier", new) if old is None else ("later", old)
            why = f"the {which} run does not require it"
            return RequirementChange(name, "not comparable", *statuses, change=why, sentence=_sentence(there))
        why, plain, notes = self._unlike(old, new)
        (_, ours), (check, theirs) = old, new
        if (way := moved(ours, theirs)) is not None:
            notes = (*notes, f"required {as_asked(ours)}, then {as_asked(theirs)}: {way}")
        runs = ("earlier", self.before), ("later", self.after)
        notes += tuple(f"waived in the {which} run" for which, one in runs if _waived(one, name))
        row = RequirementChange(name, "not comparable", *statuses, notes=notes, sentence=theirs.sentence)
        if why or ours.value is None or theirs.value is None:
            return replace(row, change=why or "a run has no value", plain=plain)
        if ours.exact and theirs.exact:
            word, said = self._fact(ours, theirs)
        else:
            found = self._paired(check, ours, theirs) or self._change(old, new)
            word, said = self._word(theirs, found), _words(found, theirs)
        values = _quantity(ours.value, ours), _quantity(theirs.value, theirs)
        return replace(row, word=word, value_before=values[0], value_after=values[1], change=said)

    def _unlike(self, old: tuple[CheckRecord, Test], new: tuple[CheckRecord, Test]) -> tuple[str, str, tuple[str, ...]]:
        """Why two numbers can't be compared, naming the field, once more without digests; and what else differs."""
        (check, ours), (other, theirs) = old, new
        for one, test in (old, new):
            if one.status != "measured" or test.invalid is not None or test.missing is not None:
                return f"{one.id}: {test.invalid or test.missing or one.reason or one.status}", "", ()
        if (ours.unit, ours.op) != (theirs.unit, theirs.op):
            return f"unit or operator: {ours.sentence}, then {theirs.sentence}", "", ()
        found = apart(check.dimension, own_fields(self.before, check, ours), own_fields(self.after, other, theirs))
        if found.forbids:
            return found.forbids[0], self._by_name(found.fields[0], check), found.named
        old_spec, new_spec = self.specs
        set_otherwise = unlike_settings(settings_of(old_spec, check, ours), settings_of(new_spec, other, theirs))
        return next(iter(set_otherwise), ""), "", found.named

    def _by_name(self, field: str, check: CheckRecord) -> str:
        """Names of the datasets or the model that are others, where the two values of a field are digests."""
        if field == "dataset":
            ours, theirs = ({one.name: one.digest for one in run.datasets} for run in (self.before, self.after))
            other = [name for name in check.datasets if ours.get(name) != theirs.get(name)]
            return f"other rows in {and_list(other)}" if other else ""
        files = {f"{BASELINE}{one.name}": one.path or one.kind for one in self.after.models}
        return f"{field} is a different file ({files[field]})" if field in files else ""

    def _paired(self, check: CheckRecord, before: Test, test: Test) -> Change | None:
        """The change of an accuracy over rows that both runs answered; None: the rows do not give what it came to."""
        if not is_shown(check, test, "row accuracy") or test.name != f"{check.id}/{test.metric}":
            return None
        model = next((name for name in check.models if name not in check.baseline_models), "")
        one = self.paired.get((check.datasets[0], model)) if check.datasets else None
        found = None if one is None else accuracy_change(one, self.alpha)
        if found is None or before.value is None or test.value is None:
            return None
        moved = from_unit(test.value, test.unit) - from_unit(before.value, test.unit)
        return found if abs(found.value - moved) <= SAME else None

    def _change(self, old: tuple[CheckRecord, Test], new: tuple[CheckRecord, Test]) -> Change:
        ours, theirs = _bounded(*old, self.before), _bounded(*new, self.after)
        ratio = _by_ratio(new[1]) and ours.value > 0 and theirs.value > 0
        return change(ours, theirs, self.alpha, ratio=ratio)

    def _word(self, test: Test, found: Change) -> ChangeWord:
        above = found.lower is not None and found.lower > found.none
        below = found.upper is not None and found.upper < found.none
        if not (above or below) or self._is_small(found):
            return "no change shown"
        return "improvement" if above == (test.op in (">=", ">")) else "regression"

    def _is_small(self, found: Change) -> bool:
        return abs(found.value - found.none) < (self.smallest.ratio if found.is_ratio else self.smallest.points)

    def _fact(self, ours: Test, theirs: Test) -> tuple[ChangeWord, str]:
        """Change of a number without an interval, and how far it moved."""
        assert ours.value is not None and theirs.value is not None
        if ours.value == theirs.value:
            return "same", ""
        one, other = (from_unit(value, theirs.unit) for value in (ours.value, theirs.value))
        ratio = _by_ratio(theirs) and one > 0 and other > 0
        found = Change(other / one if ratio else other - one, None, None, is_ratio=ratio)
        said = _shown(found.value, theirs, ratio=ratio)
        if ours.in_this_run or theirs.in_this_run:
            return "changed", f"{said}; seen once in each run, so it may not be repeatable"
        if theirs.op == "==" or self._is_small(found):
            return "changed", said
        return ("improvement" if (other > one) == (theirs.op in (">=", ">")) else "regression"), said


def _sentence(there: tuple[CheckRecord, Test] | None) -> str:
    return "" if there is None else there[1].sentence


def _by_ratio(test: Test) -> bool:
    return test.unit in RATIO_UNITS and test.against is None


def _waived(record: Record, name: str) -> bool:
    decisions = () if record.verdict is None else record.verdict.decisions
    return any(one.waived for one in decisions if one.name == name)


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


def _quantity(value: float, test: Test) -> str:
    to = as_written(test).unit
    return format_quantity(in_unit(value, test.unit, to), to) + (
        f" (n {test.n:,})" if test.n and not test.exact else ""
    )


def _words(found: Change, test: Test) -> str:
    """The change with its interval."""
    value, lower, upper = (_shown(one, test, ratio=found.is_ratio) for one in (found.value, found.lower, found.upper))
    return f"{value} ({lower} to {upper})"


def signed(value: float) -> str:
    """A change of three significant digits with its sign; none that is not zero becomes zero."""
    # A change of numbers that are nearly as large as floats go has no digits.
    digits = 2 - math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    number = format_number(abs(round(value, digits)) if math.isfinite(value) else abs(value))
    return f"{'+' if value >= 0 else MINUS}{number}"


def _shown(value: float | None, test: Test, *, ratio: bool) -> str:
    if value is None:
        return "no bound"
    if ratio:
        return f"{signed(100.0 * (value - 1.0))} %"
    to = as_written(test).unit
    if to in ("%", "pp"):
        return f"{signed(to_unit(value, 'pp'))} pp"
    if to == "fraction":
        return signed(value)
    return f"{signed(in_unit(value, test.unit, to))} {to}".rstrip()
