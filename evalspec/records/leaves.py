"""Two records as JSON, leaf by leaf."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

TOLERANCE = 1e-9
"""Relative: what another machine's rounding may change."""
NAMED_BY = ("id", "name", "path", "part", "metric")
"""Keys whose value names an item of a list, where all of them have it and no two the same."""
DECIDES = {
    "word", "exit_code", "status", "blocking", "waived", "looks_violated",
    "op", "threshold", "severity", "unit", "metric", "against", "part", "must_hold", "exact",
    "value", "candidate", "baseline", "lower", "upper", "p_pass", "p_fail", "n", "invalid", "withhold", "missing",
}  # fmt: skip
"""Keys of a test and of a decision that a verdict is made from, or is."""
_PLAIN = {str, int, float, bool, type(None)}
SHOWN = 5
"""Leaves of one finding that are shown."""


class Leaf(NamedTuple):
    """A place in which two records differ.

    ``before`` and ``now`` are values at ``place``; where an item of a list is on one side only, whole items.
    """

    place: tuple[str, ...]
    before: Any
    now: Any

    @property
    def decides(self) -> bool:
        """A verdict is made from it, or is it."""
        return next((name for name in reversed(self.place) if not name.isdigit()), "") in DECIDES

    @property
    def wording(self) -> bool:
        """Both sides are words."""
        return _text(self.before) and _text(self.now)

    @property
    def more(self) -> bool:
        """Only the later side says anything."""
        return self.before is None or self.before is False or self.before in ("", [], {}, ())


def leaves(before: Any, now: Any, *, exact: bool, place: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The places in which two values differ.

    Args:
        before: As JSON says it.
        now: Likewise.
        exact: Numbers differ when a bit does; else by more than rounding.
        place: Of both.
    """
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            one, other = before.get(key), now.get(key)
            if not _alike(one, other):
                yield from leaves(one, other, exact=exact, place=(*place, str(key)))
    elif _many(before) and _many(now):
        yield from _items(before, now, exact, place)
    elif not _same(before, now, exact):
        yield Leaf(place, before, now)


def _items(before: Sequence[Any], now: Sequence[Any], exact: bool, place: tuple[str, ...]) -> Iterator[Leaf]:
    if len(before) == len(now) and all(map(_alike, before, now)):
        return
    key = _key(before, now)
    if key is not None and [one[key] for one in before] == [one[key] for one in now]:
        names = [str(one[key]) for one in now]
    elif len(before) == len(now):
        names = [str(index) for index in range(len(now))]
    else:
        yield Leaf(place, before, now)
        return
    for name, one, other in zip(names, before, now, strict=True):
        if not _alike(one, other):
            yield from leaves(one, other, exact=exact, place=(*place, name))


def _key(*lists: Sequence[Any]) -> str | None:
    """The key by which all items of some lists can be told apart."""
    for key in NAMED_BY:
        if all(
            all(isinstance(one, Mapping) and isinstance(one.get(key), str) for one in items)
            and len({one[key] for one in items}) == len(items)
            for items in lists
        ):
            return key
    return None


def _same(before: Any, now: Any, exact: bool) -> bool:
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        whole = isinstance(before, int) and isinstance(now, int)
        return before == now if exact or whole else math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=1e-12)
    return bool(before == now)


def _alike(before: Any, now: Any) -> bool:
    """Both are one word or number, or a list of such: most of two records is, and this tells it soonest."""
    kind = type(before)
    if kind is not type(now):
        return False
    if kind in _PLAIN:
        return bool(before == now)
    if kind is not list or before != now:
        return False
    kinds = [*map(type, before)]
    return _PLAIN.issuperset(kinds) and kinds == [*map(type, now)]


def _many(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _text(value: Any) -> bool:
    return isinstance(value, str) or (_many(value) and all(isinstance(one, str) for one in value))


def at(record: Any, place: Sequence[str]) -> Any:
    """Value at a place of a record, items of lists by name; None: there is none."""
    for name in place:
        if isinstance(record, Mapping):
            record = record.get(name)
        elif _many(record):
            record = next((one for one in record if any(one.get(key) == name for key in ("id", "name"))), None)
        else:
            return None
    return record


def sentence(what: str, found: Sequence[Leaf], now: str) -> str:
    """Sentence on how a record differs from something.

    Args:
        what: The part of the record.
        found: Where it differs.
        now: What the other values are: ``recomputed``, ``the journal says``.
    """
    parts = [f"{' '.join((*one.place, shortly(one.before)))}, {now} {shortly(one.now)}" for one in found[:SHOWN]]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return f"{what}: the record says {'; '.join(parts)}{more}"


def shortly(value: object) -> str:
    """A value as a sentence shows it."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 160 else f"{text[:157]}..."
