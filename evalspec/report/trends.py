"""The history of a spec as one HTML page that needs nothing beside itself: a chart of each requirement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evalspec.lineage.history import History, PastRun, Trend
from evalspec.report.charts.trends import TrendChart, trend_chart
from evalspec.report.names import anchors
from evalspec.report.page import plain_page
from evalspec.report.reproduce import when
from evalspec.report.trend_lines import bounds, count, day, left_out, levels, needs, place_notes, run_notes, value_words
from evalspec.report.words import WORD_TONES, WORST_FIRST, Badge, badge


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list of runs."""

    number: int
    when: str
    badge: Badge
    subject: str
    subject_is_new: bool
    folder: str
    link: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrendCells:
    """A requirement in one run, in words."""

    number: int
    when: str
    badge: Badge | None
    value: str
    interval: str
    n: str
    needs: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """A requirement: its chart, what breaks its line, and all of it in words."""

    anchor: str
    name: str
    sentence: str
    badge: Badge
    asked_now: bool
    chart: TrendChart
    span: tuple[str, str]
    breaks: tuple[tuple[int, str], ...]
    moves: tuple[tuple[int, str], ...]
    rows: tuple[TrendCells, ...]


def render_trends(found: History, links: Mapping[str, str] | None = None) -> str:
    """The history of a spec as one HTML document, the same from the same records whatever the day.

    It loads nothing and has no script; its Content-Security-Policy lets nothing run. Everything that came from data is
    escaped.

    Args:
        found: The history.
        links: Run: the way from the page to its report; a run that is not in it has no link.

    Returns:
        The document, to be written as UTF-8.
    """
    ids = anchors("trend", (trend.name for trend in found.trends))
    last = found.runs[-1]
    days = [day(run.started) for run in found.runs]
    return plain_page(
        "trends.html",
        found=found,
        last=last,
        tone=WORD_TONES[last.word],
        when=when(last.started),
        rest=_rest(last),
        runs=_runs(found, links or {}),
        cards=[_card(anchor, trend, days) for anchor, trend in zip(ids, found.trends, strict=True)],
        statuses=[badge(status) for status in WORST_FIRST],
        left_out=list(left_out(found)),
        levels=levels(found),
    )


def _rest(run: PastRun) -> str:
    """Words of the verdict's headline beside the first."""
    return run.headline.removeprefix(run.word).strip().strip("()")


def _runs(found: History, links: Mapping[str, str]) -> list[RunRow]:
    rows: list[RunRow] = []
    before: PastRun | None = None
    for number, run in enumerate(found.runs, 1):
        shown = Badge(run.word, run.word, WORD_TONES[run.word], _rest(run))
        new = before is not None and before.subject != run.subject
        rows.append(
            RunRow(
                number,
                day(run.started),
                shown,
                run.subject,
                new,
                run.run,
                links.get(run.run, ""),
                tuple(run_notes(run, found)),
            )
        )
        before = run
    return rows


def _card(anchor: str, trend: Trend, days: Sequence[str]) -> Card:
    last = trend.last
    extra = "waived" if last.waived else "warn" if last.severity == "warn" else ""
    places = list(enumerate(trend.places, 1))
    return Card(
        anchor=anchor,
        name=trend.name,
        sentence=last.sentence,
        badge=badge(last.status, extra, blocking=last.blocking),
        asked_now=trend.asked_now,
        chart=trend_chart(trend),
        span=(days[0], days[-1]),
        breaks=tuple((number, place.breaks) for number, place in places if place.breaks),
        moves=tuple((number, note) for number, place in places for note in place.notes),
        rows=tuple(
            TrendCells(number, days[number - 1], None, "", "", "", "", ())
            if place.point is None
            else TrendCells(
                number=number,
                when=days[number - 1],
                badge=badge(place.point.status, "waived" if place.point.waived else "", blocking=place.point.blocking),
                value=value_words(place.point),
                interval=bounds(place.point),
                n=count(place.point).removeprefix("n "),
                needs=needs(place.point),
                notes=tuple(place_notes(place)),
            )
            for number, place in places
        ),
    )
