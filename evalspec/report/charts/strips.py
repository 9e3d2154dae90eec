"""Geometry of intervals and bars, in percent of the width: the templates draw it, fluid and crisp at any size."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from evalspec.evidence.metric import Op
from evalspec.evidence.units import format_number


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: where it is in percent, and its text. A ``spare`` one is left out where the axis is narrow."""

    at: float
    text: str
    spare: bool = False


@dataclass(frozen=True, slots=True)
class StripScale:
    """A linear scale from values to percent of the width."""

    low: float
    high: float

    @classmethod
    def over(cls, values: Iterable[float | None], *, pad: float = 0.06, zero: bool = False) -> StripScale | None:
        """The scale that shows all these values with some room on both sides; None where there are none."""
        found = [value for value in values if value is not None and math.isfinite(value)]
        if zero and found:
            found.append(0.0)
        if not found:
            return None
        low, high = min(found), max(found)
        span = high - low
        if not math.isfinite(span):
            return None
        room = span * pad if span else (abs(low) * 0.1 or 1.0)
        return cls(low if zero and low == 0 else low - room, high if zero and high == 0 else high + room)

    def at(self, value: float) -> float:
        """Where a value lies, in percent, kept within the width."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self, count: int = 5) -> tuple[float, ...]:
        """Round values inside the scale, about ``count`` of them."""
        raw = (self.high - self.low) / max(1, count)
        if raw <= 0 or not math.isfinite(raw):
            return ()
        power = 10.0 ** math.floor(math.log10(raw))
        step = next((power * factor for factor in (1, 2, 5) if power * factor >= raw), power * 10)
        first = math.ceil(self.low / step)
        places = 1 - math.floor(math.log10(step))
        values = (round(index * step, places) for index in range(first, first + 2 * count + 2))
        return tuple(value for value in values if self.low <= value <= self.high)


NARROWEST, CHARACTER, GAP = 96.0, 6.6, 5.0
"""Pixels: the narrowest strip, the widest digit beside one, and what lies between two texts."""
WIDER = 240.0
"""A strip that is not narrow is as wide as this."""


def text_room(text: str, width: float = NARROWEST) -> float:
    """Room that a text takes of a strip of this width, in percent, with the gap to the next one."""
    return 100.0 * (CHARACTER * len(text) + GAP) / width


def axis_ticks(scale: StripScale, unit: str) -> tuple[Tick, ...]:
    """The marks below a strip: as many as fit, and of these every second or so only where there is room."""
    for count in (5, 4, 3, 2, 1):
        made = [Tick(scale.at(tick), format_number(tick, unit)) for tick in scale.ticks(count)]
        if not _crowded(made, WIDER):
            break
    for every in range(1, len(made) + 1):
        if not _crowded(made[::every], NARROWEST):
            return tuple(Tick(tick.at, tick.text, spare=index % every != 0) for index, tick in enumerate(made))
    return ()


def _crowded(ticks: list[Tick], width: float) -> bool:
    """Two texts would touch each other."""
    rooms = [text_room(tick.text, width) / 2 for tick in ticks]
    return any(
        after.at - tick.at < room + next_room
        for tick, after, room, next_room in zip(ticks, ticks[1:], rooms, rooms[1:], strict=False)
    )


@dataclass(frozen=True, slots=True)
class Strip:
    """An interval against a threshold, in percent of the width.

    Args:
        dot: The value; None where there is none.
        start: Where the interval begins.
        end: Where it ends.
        limits: Threshold or reference lines.
        zone: Where the requirement holds: (start, width).
        open_start: There is no lower bound: the interval is drawn without its end.
        open_end: There is no upper bound.
        title: All of it in words.
    """

    dot: float | None
    start: float | None = None
    end: float | None = None
    limits: tuple[float, ...] = ()
    zone: tuple[float, float] | None = None
    open_start: bool = False
    open_end: bool = False
    title: str = ""


def strip(
    scale: StripScale,
    value: float | None,
    lower: float | None,
    upper: float | None,
    *,
    limits: Iterable[float] = (),
    title: str = "",
) -> Strip:
    """An interval on a scale that is shared with others."""
    ends = [end for end in (lower, value, upper) if end is not None]
    has_interval = lower is not None or upper is not None
    return Strip(
        dot=None if value is None else scale.at(value),
        start=scale.at(min(ends)) if has_interval else None,
        end=scale.at(max(ends)) if has_interval else None,
        limits=tuple(scale.at(limit) for limit in limits),
        open_start=lower is None,
        open_end=upper is None,
        title=title,
    )


def hold_zone(scale: StripScale, threshold: float, op: Op) -> tuple[float, float] | None:
    """The part of the width in which a requirement holds: (start, width) in percent; None for ``==``."""
    edge = scale.at(threshold)
    if op in ("<=", "<"):
        return 0.0, edge
    return (edge, round(100 - edge, 2)) if op in (">=", ">") else None
