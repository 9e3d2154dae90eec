"""The requirements of a record as rows for people, worst first."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from evalspec.evidence.digits import decimals_for
from evalspec.evidence.metric import Op
from evalspec.evidence.names import owner_of, part_of
from evalspec.evidence.notes import text_in
from evalspec.evidence.record import CheckRecord, Dimension, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_number
from evalspec.evidence.verdict import Decision, Verdict
from evalspec.evidence.written import as_written, in_unit, unit_of
from evalspec.report.charts.strips import Strip, StripScale, hold_zone, strip
from evalspec.report.doubts import measured_anyway
from evalspec.report.names import anchors, quantity
from evalspec.report.words import WORST_FIRST, Badge, badge

SIGNS: dict[Op, str] = {"<=": "≤", ">=": "≥", "<": "<", ">": ">", "==": "="}


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """One requirement as it is read.

    Args:
        anchor: Its id on the page.
        name: Its name in waivers, JUnit and links.
        check: Id of its check.
        dimension: Of its check; empty where the record does not have that check.
        badge: Its status.
        sentence: As the spec says it.
        said: What the verdict says of it.
        value: With unit; empty where there is none. Of a `doubtful` row it is what was measured, with its part.
        interval: Both bounds in words; empty where there are none.
        needs: The threshold in words.
        n: Of the evidence; 0 where there is none.
        strip: The interval against the threshold.
        blocking: It keeps the verdict from READY unless it is PASS.
        decision: As the verdict has it.
        test: As the record has it; None where it has none.
        unread: Its measurement is sound, and the data that it is about are in doubt.
    """

    anchor: str
    name: str
    check: str
    dimension: Dimension | str
    badge: Badge
    sentence: str
    said: str
    value: str
    interval: str
    needs: str
    n: int
    strip: Strip | None
    blocking: bool
    decision: Decision
    test: Test | None
    unread: bool = False

    @property
    def holds(self) -> bool:
        """True if it is PASS."""
        return self.decision.status == "PASS"

    @property
    def doubtful(self) -> bool:
        """Its number was measured and is not judged."""
        return self.decision.status == "INVALID"

    @property
    def why(self) -> str:
        """Why it matters, to be printed with a failure."""
        return (self.test.why or "") if self.test and not self.holds else ""

    @property
    def owner(self) -> str:
        """Who is asked, to be printed with a failure."""
        return (self.test.owner or "") if self.test and not self.holds else ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that the sentence does not already hold."""
        found = (*self.decision.notes, *(self.test.notes if self.test else ()))
        return tuple(note for note in dict.fromkeys(found) if text_in(note) not in self.said)

    @property
    def fact(self) -> str:
        """Word on a value that is a fact, of the whole file or of this run; empty: it is an estimate."""
        if self.test is None or self.test.value is None:
            return ""
        return "in this run" if self.test.in_this_run else "exact fact" if self.test.exact else ""

    @property
    def basis(self) -> str:
        """Basis of the value: the method, or that it is a fact."""
        return ", ".join(part for part in (self.fact, self.test.method if self.test else "") if part)


def requirement_rows(record: Record, verdict: Verdict) -> tuple[RequirementRow, ...]:
    """All requirements of a record, worst first: blocking, waived, warnings, then what holds.

    A decision without a test still has a row, and a test that no decision was made about is shown as NOT_RUN:
    nothing that was asked may vanish from the page.
    """
    pairs = _paired(record, verdict)
    ids = anchors("requirement", (decision.name for decision, _ in pairs))
    checks = {check.id: check for check in record.checks}
    rows = [_row(anchor, decision, test, checks) for anchor, (decision, test) in zip(ids, pairs, strict=True)]
    return tuple(sorted(rows, key=_rank))


def _paired(record: Record, verdict: Verdict) -> list[tuple[Decision, Test | None]]:
    """Decisions beside their tests. Two sentences may share a name, then their order tells them apart."""
    tests: dict[str, deque[Test]] = defaultdict(deque)
    for check in record.checks:
        for test in check.tests:
            tests[test.name].append(test)
    pairs: list[tuple[Decision, Test | None]] = []
    for decision in verdict.decisions:
        left = tests[decision.name]
        pairs.append((decision, left.popleft() if left else None))
    for test in (test for left in tests.values() for test in left):
        said = f"{test.sentence}: the verdict does not cover it."
        pairs.append(
            (Decision(name=test.name, status="NOT_RUN", blocking=test.severity == "require", sentence=said), test)
        )
    return pairs


def _rank(row: RequirementRow) -> tuple[int, int, bool]:
    set_aside = 0 if row.blocking else 1 if row.decision.waived else 2
    return (3 if row.holds else 0) + set_aside, WORST_FIRST.index(row.decision.status), not row.decision.looks_violated


def _extra(decision: Decision, test: Test | None) -> str:
    words = []
    if decision.waived:
        words.append("waived")
    elif not decision.blocking if test is None else test.severity == "warn":
        words.append("warn")
    if decision.looks_violated:
        words.append("looks violated")
    return ", ".join(words)


def _row(anchor: str, decision: Decision, test: Test | None, checks: Mapping[str, CheckRecord]) -> RequirementRow:
    owner = test.check if test else owner_of(decision.name)
    check = checks.get(owner)
    test = None if test is None else as_written(test)
    row = RequirementRow(
        anchor=anchor,
        name=decision.name,
        check=owner,
        dimension=check.dimension if check else "",
        badge=badge(decision.status, _extra(decision, test), blocking=decision.blocking),
        sentence=test.sentence if test else decision.name,
        said=decision.sentence,
        value="" if test is None or test.value is None else quantity(test.value, test.unit, decimals_for(test)),
        interval="" if test is None else interval_words(test.lower, test.upper, test.unit, decimals_for(test)),
        needs="" if test is None else f"{SIGNS[test.op]} {quantity(test.threshold, test.unit)}",
        n=test.n if test else 0,
        strip=requirement_strip(test) if test else None,
        blocking=decision.blocking,
        decision=decision,
        test=test,
        unread=decision.status == "INVALID" and check is not None and _sound(check, test),
    )
    return _as_measured(row, check, test) if test is not None and row.doubtful else row


def _sound(check: CheckRecord, test: Test | None) -> bool:
    """Nothing is wrong with a measurement itself."""
    return check.status == "measured" and test is not None and test.invalid is None


def _as_measured(row: RequirementRow, check: CheckRecord | None, test: Test) -> RequirementRow:
    """The row with what was measured where its test, decided from what is sound, has no number of it."""
    found = measured_anyway(check, test)
    if found is None:
        return row
    name, value, unit = found
    part = part_of(name)
    assert check is not None
    to = unit_of(check, name)
    shown = quantity(in_unit(value, unit, to), to)
    return replace(row, value=f"{shown} ({part})" if part else shown, interval="", n=0, strip=None)


def interval_words(lower: float | None, upper: float | None, unit: str, decimals: int | None = None) -> str:
    """Both bounds for people: ``0.946 to 0.975``, ``at least 0.946``, ``at most 0.975``, or nothing."""
    if lower is not None and lower == upper:
        return f"exactly {quantity(lower, unit, decimals)}"
    if lower is not None and upper is not None:
        return f"{format_number(lower, unit, decimals)} to {quantity(upper, unit, decimals)}"
    if lower is not None:
        return f"at least {quantity(lower, unit, decimals)}"
    return f"at most {quantity(upper, unit, decimals)}" if upper is not None else ""


def requirement_strip(test: Test) -> Strip | None:
    """The interval of a test against its threshold, on a scale of its own; None without a value.

    Under an upper limit the scale begins at zero, so that what is used of the limit can be seen.
    """
    if test.value is None and test.lower is None and test.upper is None:
        return None
    values = (test.value, test.lower, test.upper, test.threshold)
    whole = test.op in ("<", "<=") and test.against is None and all(one is None or one >= 0 for one in values)
    scale = StripScale.over(values, pad=0.14, zero=whole)
    if scale is None:
        return None
    drawn = strip(scale, test.value, test.lower, test.upper, limits=(test.threshold,))
    words = [
        "" if test.value is None else f"{test.metric} {quantity(test.value, test.unit, decimals_for(test))}",
        interval_words(test.lower, test.upper, test.unit, decimals_for(test)),
        f"needs {SIGNS[test.op]} {quantity(test.threshold, test.unit)}",
    ]
    return Strip(
        dot=drawn.dot,
        start=drawn.start,
        end=drawn.end,
        limits=drawn.limits,
        zone=hold_zone(scale, test.threshold, test.op),
        open_start=drawn.open_start,
        open_end=drawn.open_end,
        title="; ".join(word for word in words if word),
    )


def by_check(rows: Iterable[RequirementRow]) -> dict[str, tuple[RequirementRow, ...]]:
    """Rows by the id of their check, worst first in each."""
    grouped: dict[str, list[RequirementRow]] = defaultdict(list)
    for row in rows:
        grouped[row.check].append(row)
    return {check: tuple(found) for check, found in grouped.items()}
