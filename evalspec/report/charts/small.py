"""Many small histograms at once: a column each, two datasets over each other."""

from __future__ import annotations

from dataclasses import dataclass

from evalspec.evidence.blocks import SmallHistogram, SmallHistograms
from evalspec.evidence.words import and_list
from evalspec.report.charts.svg import Point, add, as_text, path, picture
from evalspec.report.names import shorten

MOST = 60
"""Columns that are drawn."""
MOST_SERIES = 6
WIDTH, HEIGHT = 150.0, 40.0
GAP = 1.0


@dataclass(frozen=True, slots=True)
class SmallView:
    """One of them."""

    label: str
    note: str
    first: str
    last: str
    svg: str


@dataclass(frozen=True, slots=True)
class SmallHistogramsView:
    """All of them, with the datasets that they show."""

    title: str
    caption: str
    keys: tuple[str, ...]
    items: tuple[SmallView, ...]
    left_out: int
    kind: str = "small"
    wide: bool = True


def small_histograms(block: SmallHistograms) -> SmallHistogramsView:
    """View of small histograms; each has a scale of its own, since shapes are compared and not heights."""
    keys = tuple(dict.fromkeys(name for item in block.items for name in item.shares))[:MOST_SERIES]
    items = tuple(_view(item, keys) for item in block.items[:MOST])
    return SmallHistogramsView(block.title, block.caption, keys, items, max(0, len(block.items) - MOST))


def _view(item: SmallHistogram, keys: tuple[str, ...]) -> SmallView:
    first, last = shorten(item.first, 16), shorten(item.last, 16)
    return SmallView(shorten(item.label, 40), item.note, first, last, _drawn(item, keys))


def _drawn(item: SmallHistogram, keys: tuple[str, ...]) -> str:
    root = picture(WIDTH, HEIGHT, f"{item.label}: {and_list(list(item.shares) or ['nothing'])}")
    top = max((share for shares in item.shares.values() for share in shares), default=0.0)
    for index, name in enumerate(keys):
        shares = item.shares.get(name, ())
        if shares and top > 0:
            colour = f"var(--series-{index + 1})"
            # The first is filled, the others are outlines over it: all are seen, in grey too.
            style: dict[str, str | float] = {"stroke": colour, "stroke-width": 1.5, "fill": "none" if index else colour}
            add(root, "path", {"d": path(_steps(shares, top), closed=not index), **style, "fill-opacity": 0.25}, name)
    return as_text(root)


def _steps(shares: tuple[float, ...], top: float) -> list[Point]:
    """Outline of the bars, from the left end of the base line to its right end."""
    across, tall = WIDTH / len(shares), HEIGHT - 2 * GAP
    points = [(0.0, HEIGHT - GAP)]
    for index, share in enumerate(shares):
        y = HEIGHT - GAP - tall * share / top
        points += [(index * across, y), ((index + 1) * across, y)]
    return [*points, (WIDTH, HEIGHT - GAP)]
