"""To whom failing requirements point: the data, the calibration or the system, by which of them fail and which hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evalspec.evidence.metric import Shows
from evalspec.evidence.notes import name_in
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.words import and_list, verb
from evalspec.lineage.declared import is_shown, tests_that_show
from evalspec.verdict.decide import by_own_evidence

Owner = Literal["data", "calibration", "system"]

COLUMNS_OF = "columns of "
"""What a condition of `slices` begins with that tells which columns a named slice looks at."""
MOST_NAMED = 4
MOVED: tuple[Shows, ...] = ("moved column", "share of moved columns")
LACKING: tuple[Shows, ...] = ("rare group", "absent group")
Judged = tuple[CheckRecord, Test]


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Conclusion that a pattern of requirements points to.

    Args:
        owner: Where to look.
        sentence: With the requirements that it stands on.
        checks: Ids of their checks.
    """

    owner: Owner
    sentence: str
    checks: tuple[str, ...]


def conclude(record: Record) -> tuple[Conclusion, ...]:
    """Conclusions from the pattern of failing requirements; where evidence is missing nothing is said.

    Only what is decided counts: FAIL on one side, PASS on the other. A requirement against another model tells what
    a change did, not where errors come from, and is left out.

    Args:
        record: A record with its verdict.

    References:
        Diagnosis by the pattern of errors: Machine Learning Systems (Reddi et al.), benchmarking chapter.
    """
    seen = _Seen(record)
    return (*_data(seen), *_calibration(seen), *_system(seen))


class _Seen:
    """Requirements by how they ended."""

    def __init__(self, record: Record) -> None:
        decisions = () if record.verdict is None else record.verdict.decisions
        self._status: Mapping[str, str] = {one.name: one.status for one in decisions}
        self._own: Mapping[str, str] = by_own_evidence(record) if self._status else {}
        self._checks = record.checks

    def failing(self, *what: Shows, model: str = "", dataset: str = "") -> list[Judged]:
        """Requirements that show one of these and FAIL; ``model`` and ``dataset`` empty: of any."""
        return [
            (check, test)
            for check, test in self._of(what, model, dataset)
            if test.against is None and self._status.get(test.name) == "FAIL"
        ]

    def holding(self, what: Shows, model: str, dataset: str = "", *, on_these_rows: bool = False) -> list[Judged]:
        """All requirements that show something, where each is PASS; empty: that it holds is not shown.

        Args:
            what: That.
            model: That their checks are about.
            dataset: Empty: of any.
            on_these_rows: By their own evidence, although the data may leave nothing of it for others.
        """
        status = self._own if on_these_rows else self._status
        found = self._of((what,), model, dataset)
        return found if all(status.get(test.name) == "PASS" for _, test in found) else []

    def _of(self, what: Sequence[Shows], model: str, dataset: str) -> list[Judged]:
        return [
            (check, test)
            for check in self._checks
            if model in ("", model_of(check)) and (not dataset or dataset in check.datasets)
            for test in tests_that_show(check, *what)
        ]


def model_of(check: CheckRecord) -> str:
    """The model that a check is about, not those that it is compared with."""
    return next((name for name in check.models if name not in check.baseline_models), "")


def dataset_of(check: CheckRecord) -> str:
    """The dataset that a check is about first; empty: none, so that nothing is known to be about the same rows."""
    return next(iter(check.datasets), "")


def _data(seen: _Seen) -> Iterator[Conclusion]:
    """A slice fails, and the column that it is cut by moved or lacks rows; the confidence of the whole holds.

    Where the data fail no score is shown for others, so that confidence counts as it is on these rows.
    """
    failing: dict[tuple[str, str, str], list[Judged]] = {}
    names: dict[tuple[str, str, str], set[str]] = {}
    for check, test in seen.failing("answers in slices"):
        for slice_ in violated_parts(test):
            for column in slice_columns(check, slice_) or (slice_,):
                at = model_of(check), dataset_of(check), column
                failing.setdefault(at, []).append((check, test))
                names.setdefault(at, {column}).add(slice_)
    for (model, dataset, column), slices in failing.items():
        called = names[model, dataset, column]
        moved = [one for one in seen.failing(*MOVED, dataset=dataset) if column in _moved(*one)]
        lacking = [one for one in seen.failing(*LACKING, dataset=dataset) if not called.isdisjoint(_lacking(*one))]
        calibrated = seen.holding("confidence", model, dataset, on_these_rows=True)
        if dataset and (moved or lacking) and calibrated:
            yield _said(
                "data", f"Errors go with {column}", [*slices, *moved, *lacking], calibrated,
                "The pattern points to the data, not to the calibration", "PASS on these rows",
            )  # fmt: skip


def _calibration(seen: _Seen) -> Iterator[Conclusion]:
    """Confidence is off, but the quality of answers is met, in every slice that is asked for."""
    judged = [check for check, _ in seen.failing("confidence")]
    for model, dataset in dict.fromkeys((model_of(check), dataset_of(check)) for check in judged):
        right = seen.holding("right answers", model, dataset)
        even = seen.holding("answers in slices", model, dataset)
        if dataset and right and even:
            off = seen.failing("confidence", model=model, dataset=dataset)
            yield _said("calibration", "Confidence is off, but the quality of answers is met", off, [*right, *even],
                        "The pattern points to the calibration")  # fmt: skip


def _system(seen: _Seen) -> Iterator[Conclusion]:
    """Answers come too late, but their quality is met."""
    late_ones = seen.failing("late answers")
    for model in dict.fromkeys(model_of(check) for check, _ in late_ones):
        right = seen.holding("right answers", model)
        if right:
            late = [one for one in late_ones if model_of(one[0]) == model]
            yield _said("system", "Answers come too late, but their quality is met", late, right,
                        "The pattern points to the system")  # fmt: skip


def _said(
    owner: Owner, what: str, failing: Sequence[Judged], holding: Sequence[Judged], conclusion: str, held: str = "PASS"
) -> Conclusion:
    checks = tuple(dict.fromkeys(check.id for check, _ in (*failing, *holding)))
    return Conclusion(owner, f"{what}: {_named(failing)} FAIL, {_named(holding)} {held}. {conclusion}.", checks)


def _named(found: Sequence[Judged]) -> str:
    names = list(dict.fromkeys(test.name for _, test in found))
    left = len(names) - MOST_NAMED
    shown = [*names[:MOST_NAMED], f"{left} more"] if left > 0 else names
    return f"{and_list(shown)} {verb(len(names), 'is', 'are')}"


def violated_parts(test: Test) -> tuple[str, ...]:
    """Parts of a failing requirement that violate it by their own bound: the one that it names, or some of several."""
    if test.part:
        return (test.part,)
    if test.part_unit is not None:
        return ()
    below = test.op in (">=", ">")
    found = []
    for part in test.parts:
        bound = part.value if test.exact else part.upper if below else part.lower
        if bound is not None and (bound < test.threshold if below else bound > test.threshold):
            found.append(part.part)
    return tuple(found)


def slice_columns(check: CheckRecord, name: str) -> tuple[str, ...]:
    """Columns that a slice is cut by: those of each predicate or value that it crosses."""
    found: list[str] = []
    for one in name.split(" & "):
        told = check.conditions.get(f"{COLUMNS_OF}{one}")
        if told is not None:
            found += str(told).split(", ")
        elif "=" in one:
            found.append(one.partition("=")[0])
    return tuple(dict.fromkeys(found))


def _moved(check: CheckRecord, test: Test) -> tuple[str, ...]:
    """Columns that a failing requirement on how far they moved is about."""
    parts = violated_parts(test)
    tolerance = check.conditions.get("tolerance")
    if is_shown(check, test, "share of moved columns") and isinstance(tolerance, int | float):
        parts = tuple(part.part for part in test.parts if part.lower is not None and part.lower > tolerance)
    return tuple(part.partition(":")[0] for part in parts)


def _lacking(check: CheckRecord, test: Test) -> tuple[str, ...]:
    """Columns, conditions and slices of which a failing requirement finds too few rows."""
    parts = violated_parts(test)
    if is_shown(check, test, "absent group"):
        parts = tuple(name_in(note) for note in test.notes)
    return tuple(dict.fromkeys(name for part in parts for name in (part, part.partition("=")[0])))
