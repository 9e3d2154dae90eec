"""The history of a spec as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from evalspec.evidence.visible import visible
from evalspec.evidence.words import and_list, in_percent, plural
from evalspec.lineage.history import History, HistoryPlace, PastRun, Point, Trend
from evalspec.lineage.spec_diff import words
from evalspec.report.names import quantity
from evalspec.report.requirements import SIGNS, interval_words
from evalspec.report.words import label


def trend_lines(found: History) -> list[str]:
    """A table of each requirement, oldest run first, below the list of runs."""
    lines = [*head(found), ""]
    for number, run in enumerate(found.runs, 1):
        lines += _run(number, run, run_notes(run, found))
    for trend in found.trends:
        lines += ["", *_table(found, trend)]
    lines += ["", levels(found)]
    return [visible(line) for line in lines]


def head(found: History) -> Iterator[str]:
    """Lines on what is shown and what is not."""
    first, last = found.runs[0], found.runs[-1]
    span = day(first.started) if len(found.runs) == 1 else f"{day(first.started)} to {day(last.started)}"
    yield f"{found.spec}: {plural(len(found.runs), 'run')}, {span}; the last is {last.headline}"
    yield from left_out(found)


def levels(found: History) -> str:
    """At what level the bounds of each run hold."""
    each = dict.fromkeys(in_percent(run.confidence) for run in found.runs)
    return f"Each bound of an interval holds by itself, at {and_list(list(each))}; times are in UTC."


def left_out(found: History) -> Iterator[str]:
    """Runs that are not shown, and why."""
    if found.earlier:
        yield f"{plural(found.earlier, 'earlier run')} not shown"
    if found.drafts:
        yield f"{plural(found.drafts, 'draft')} left out: a draft decides nothing"
    for run, why in found.unread:
        yield f"{run} is not shown: {why}"


def day(moment: str) -> str:
    """A moment, short and to be read below others: ``2026-11-20 10:00``."""
    try:
        return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M}"
    except ValueError:
        return moment


def run_notes(run: PastRun, found: History) -> Iterator[str]:
    """Notes on a run; other runs that are shown are called by their number."""
    numbers = {one.run: str(number) for number, one in enumerate(found.runs, 1)}
    if run.only:
        yield f"only a part was run: {', '.join(run.only)}"
    if run.interrupted:
        yield "interrupted"
    if run.timings_from:
        yield f"nothing was timed: the timings come from {run.timings_from}"
    if run.earlier_runs:
        yield f"{plural(run.earlier_runs, 'decided run')} before on its test set"
    if run.points and all(point.settings is None for point in run.points):
        yield "its record has no readable spec beside it, so the settings of its checks are not compared"
    yield from (words(one, numbers.get(one.run, "")) for one in run.asked_otherwise)


def _run(number: int, run: PastRun, notes: Iterable[str]) -> Iterator[str]:
    yield f"  {number:>3}  {day(run.started)}  {run.headline}  subject {run.subject}  {run.run}"
    yield from (f"{'':7}{note}" for note in notes)


def _table(found: History, trend: Trend) -> Iterator[str]:
    last = trend.last
    mark = "" if trend.asked_now else ", no longer asked"
    yield f"{trend.name}: {last.sentence}{' (warns)' if last.severity == 'warn' else ''}{mark}"
    rows = [
        (f"{number:>3}", day(run.started), place)
        for number, (run, place) in enumerate(zip(found.runs, trend.places, strict=True), 1)
    ]
    cells = [(number, when, *_cells(place.point)) for number, when, place in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    for row, (_, _, place) in zip(cells, rows, strict=True):
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        yield from (f"{'':7}{note}" for note in place_notes(place))


def place_notes(place: HistoryPlace) -> Iterator[str]:
    """Notes on a point."""
    if place.breaks:
        yield f"not comparable with the one before: {place.breaks}"
    yield from place.notes
    if place.point is not None and not place.point.sound and place.point.reason:
        yield place.point.reason


def _cells(point: Point | None) -> tuple[str, ...]:
    if point is None:
        return "not asked", "", "", "", ""
    status = label(point.status) + (", waived" if point.waived else "")
    return status, value_words(point), bounds(point), count(point), needs(point)


def value_words(point: Point) -> str:
    """The value, where it is to be trusted."""
    point = point.as_written
    return quantity(point.value, point.unit) if point.sound and point.value is not None else "no value"


def bounds(point: Point) -> str:
    """Both bounds in words, where the value is to be trusted."""
    point = point.as_written
    return interval_words(point.lower, point.upper, point.unit) if point.sound else ""


def count(point: Point) -> str:
    """Of how many the value is, where it is to be trusted."""
    return f"n {point.n:,}" if point.sound and point.n else ""


def needs(point: Point) -> str:
    """The threshold as it was in that run."""
    point = point.as_written
    return f"needs {SIGNS[point.op]} {quantity(point.threshold, point.unit)}"
