"""The runs of a spec, one after the other: of each requirement its values, thresholds and statuses."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from evalspec.evidence.frozen import Frozen
from evalspec.evidence.metric import Op
from evalspec.evidence.record import AskedOtherwise, CheckRecord, Dimension, Record
from evalspec.evidence.test import Severity, Test
from evalspec.evidence.verdict import Decision, Status, Verdict, Word
from evalspec.evidence.words import short_digest
from evalspec.evidence.written import in_unit, shown_unit
from evalspec.lineage.comparability import apart, own_fields
from evalspec.lineage.settings import settings_of, unlike_settings
from evalspec.lineage.spec_diff import as_asked, moved

DECIDED: tuple[Status, ...] = ("PASS", "FAIL", "INCONCLUSIVE")
"""Statuses of what has a value to be trusted."""


class Point(Frozen):
    """One requirement in one run. Value, bounds and threshold are in ``unit``."""

    name: str
    sentence: str
    severity: Severity
    dimension: Dimension
    op: Op
    threshold: float
    unit: str
    written_unit: str = Field("", description="Unit that the requirement is written in, if different.")
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int = 0
    status: Status
    waived: bool = False
    reason: str | None = None
    holds_for: dict[str, str] = Field(default_factory=dict, description="What the value holds for.")
    settings: dict[str, str] | None = Field(None, description="What it was measured with; None: the spec is not there.")

    @property
    def sound(self) -> bool:
        """True if it has a value that may be set beside others."""
        return self.value is not None and self.status in DECIDED

    @property
    def blocking(self) -> bool:
        """A verdict is made from it: it is required and nobody waived it."""
        return self.severity == "require" and not self.waived

    @property
    def as_written(self) -> Point:
        """The same in the unit that the requirement is written in, for people."""
        return self.converted(shown_unit(self.unit, self.written_unit))

    def converted(self, unit: str) -> Point:
        """The same in another unit of its kind."""
        if unit == self.unit:
            return self
        numbers = {name: getattr(self, name) for name in ("threshold", "value", "lower", "upper")}
        shown = {name: None if one is None else in_unit(one, self.unit, unit) for name, one in numbers.items()}
        return self.model_copy(update={**shown, "unit": unit, "written_unit": unit})


class PastRun(Frozen):
    """Facts of a record that its history needs."""

    run: str
    spec: str
    started: str
    word: Word
    headline: str
    reason: str
    subject: str
    spec_digest: str
    evalspec: str
    confidence: float
    draft: bool = False
    only: tuple[str, ...] = ()
    interrupted: bool = False
    timings_from: str | None = None
    earlier_runs: int = 0
    asked_otherwise: tuple[AskedOtherwise, ...] = ()
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class HistoryPlace:
    """A requirement in one of the runs.

    Args:
        point: What it came to; None: that run did not ask for it.
        breaks: Why its value can't be set beside the last one before it; empty: it can.
        notes: What else is different: the asking, a field of the subject.
    """

    point: Point | None
    breaks: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trend:
    """A requirement over all runs: a place for each."""

    name: str
    places: tuple[HistoryPlace, ...]

    @property
    def last(self) -> Point:
        """Point of the newest run that asked for it."""
        return next(place.point for place in reversed(self.places) if place.point is not None)

    @property
    def asked_now(self) -> bool:
        """The newest run asked for it."""
        return self.places[-1].point is not None


@dataclass(frozen=True, slots=True)
class History:
    """The runs of a spec, oldest first.

    Args:
        spec: Its name.
        runs: Those that are shown.
        trends: Requirements, in the order of the newest run.
        earlier: Runs before these, which are not shown.
        drafts: Drafts, which decide nothing and are not shown.
        unread: Folder, and why its record is not shown.
    """

    spec: str
    runs: tuple[PastRun, ...]
    trends: tuple[Trend, ...]
    earlier: int = 0
    drafts: int = 0
    unread: tuple[tuple[str, str], ...] = ()


def past_run(record: Record, verdict: Verdict, run: str, spec: object = None) -> PastRun:
    """Facts of a record that its history needs.

    Args:
        record: The record.
        verdict: What was decided of it.
        run: What the run is called.
        spec: The spec as plain values, as it was run; None: it is not at hand.
    """
    return PastRun(
        run=run,
        spec=record.spec,
        started=record.started,
        word=verdict.word,
        headline=verdict.headline,
        reason=verdict.reason,
        subject=short_digest(record.subject),
        spec_digest=record.spec_digest[:12],
        evalspec=record.evalspec,
        confidence=record.policy.confidence,
        draft=record.draft,
        only=record.only,
        interrupted=record.interrupted,
        timings_from=record.timings_from,
        earlier_runs=record.earlier_runs,
        asked_otherwise=record.asked_otherwise,
        points=tuple(_points(record, verdict, spec)),
    )


def _points(record: Record, verdict: Verdict, spec: object) -> Iterable[Point]:
    decided: Mapping[str, deque[Decision]] = defaultdict(deque)
    for decision in verdict.decisions:
        decided[decision.name].append(decision)
    for check in record.checks:
        for test in check.tests:
            mine = decided[test.name]
            if mine and not (record.only and check.status == "not_run"):
                fields = own_fields(record, check, test)
                yield _point(check, test, mine.popleft(), fields, settings_of(spec, check, test))


def _point(
    check: CheckRecord, test: Test, decision: Decision, fields: dict[str, str], settings: dict[str, str] | None
) -> Point:
    return Point(
        name=test.name,
        sentence=test.sentence,
        severity=test.severity,
        dimension=check.dimension,
        op=test.op,
        threshold=test.threshold,
        unit=test.unit,
        written_unit=test.written_unit,
        value=test.value,
        lower=test.lower,
        upper=test.upper,
        n=test.n,
        status=decision.status,
        waived=decision.waived,
        reason=decision.reason,
        holds_for=fields,
        settings=settings,
    )


def trends(runs: Sequence[PastRun]) -> tuple[Trend, ...]:
    """Each requirement over these runs, in the order of the newest run; what it no longer asks for comes last.

    Args:
        runs: Oldest first.
    """
    by_run = [{point.name: point for point in run.points} for run in runs]
    names = dict.fromkeys(name for points in reversed(by_run) for name in points)
    return tuple(Trend(name, _places([points.get(name) for points in by_run])) for name in names)


def _places(points: Sequence[Point | None]) -> tuple[HistoryPlace, ...]:
    places: list[HistoryPlace] = []
    before: Point | None = None
    asked: Point | None = None
    for point in points:
        if point is None:
            places.append(HistoryPlace(None))
            continue
        breaks, notes = "", _asked(asked, point)
        if point.sound and before is not None:
            breaks, named = _apart(before, point)
            notes += named
        places.append(HistoryPlace(point, breaks, notes))
        asked, before = point, point if point.sound else before
    return tuple(places)


def _asked(before: Point | None, now: Point) -> tuple[str, ...]:
    way = None if before is None else moved(before, now)
    return () if before is None or way is None else (f"{way}: {as_asked(now)}, was {as_asked(before)}",)


def _apart(before: Point, now: Point) -> tuple[str, tuple[str, ...]]:
    if (before.unit, before.op[0]) != (now.unit, now.op[0]):
        return f"unit or operator: {before.sentence}, then {now.sentence}", ()
    difference = apart(now.dimension, before.holds_for, now.holds_for)
    return "; ".join((*difference.forbids, *unlike_settings(before.settings, now.settings))), difference.named
