"""One column of many that breaks: another unit, missing cells, values out of range, categories never seen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from evalspec.errors import InputError
from evalspec.evidence.screens import Suspicion
from evalspec.evidence.words import in_percent
from evalspec.screens.evidence import Look
from evalspec.screens.pairs import alike, independent
from evalspec.stats.drift.distances import matched_counts
from evalspec.tables.columns import ColumnPair, compare_columns
from evalspec.tables.entities import called_as_code
from evalspec.tables.row_names import row_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.screens.evidence import Evidence
    from evalspec.screens.pairs import Pair

    CategoryCounts = tuple[list[str], NDArray[np.int64], NDArray[np.int64]]
    """Categories, and rows of each on both sides."""

FEWEST = 30
"""Rows on each side."""
MOVED = 0.3
"""Least distance, Kolmogorov-Smirnov or total variation, 0..1."""
GONE = 0.05
"""Least difference of the shares of missing cells."""
OUTSIDE = 0.02
"""Least share of rows beyond all values of the other side."""
CODED = 5
"""Rows with one value beyond all others, from which on it is a code such as -999: it is beyond them by more than their
range, or where most values occur once, by a quarter of it."""
NEARER = 0.25
NEW = 0.01
"""Least share of rows of categories that the other side lacks."""
RESCALED = 1.5
"""Least ratio of medians that is told as another unit, where the rest then fits."""
FITS = 0.15
BINS = 100
"""Bins in which rows are counted, to see at once that a distance is small."""
MANY = 1 / 3
"""Share of columns from which on it is no single column that moved."""
MOST_CATEGORIES = 50
ENTITIES = 20
"""Values from which on a column whose values nearly all are new names who it is, and nothing is wrong with that."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """Suspected fault of a column.

    Args:
        sentence: With numbers.
        require: The sentence that would decide it; empty: bounds of the column.
        bounds: Smallest and largest value that would do, where these are broken.
        p_value: By itself; None: a fact.
    """

    sentence: str
    require: str
    p_value: float | None
    bounds: tuple[float, float] | None = None


def look(evidence: Evidence) -> Look:
    """Columns of the datasets that the spec compares."""
    suspicions: list[Suspicion] = []
    questions = 0
    for pair in alike(evidence):
        if set(pair) <= set(evidence.datasets):
            found, asked = _of_pair(evidence, pair)
            suspicions += found
            questions += asked
    return Look(tuple(suspicions), questions)


def _of_pair(evidence: Evidence, pair: Pair) -> tuple[list[Suspicion], int]:
    reference, current = (independent(evidence, name) for name in pair)
    if min(reference.num_rows, current.num_rows) < FEWEST:
        return [], 0
    columns = list(_columns(evidence, pair, reference, current))
    counts = {one.name: _counts(one) for one in columns if one.kind == "category"}
    moved = [(one.name, change) for one in columns if (change := _moved(one, counts.get(one.name), *pair)) is not None]
    together = len(moved) > max(3.0, MANY * len(columns))
    aside = {name for name, _ in moved}
    changes = [] if together else moved
    for one in columns:
        outside = None if one.name in aside else _outside(one, *pair)
        others = (_gone(one, *pair), _new(one, counts.get(one.name), *pair), outside)
        changes = changes + [(one.name, change) for change in others if change is not None]
    found = [_suspicion(evidence, pair, *one) for one in changes if not _asked(evidence, pair, *one)]
    if together:
        found += _many(evidence, pair, moved, len(columns))
    return found, 3 * len(columns)


def _columns(evidence: Evidence, pair: Pair, reference: pa.Table, current: pa.Table) -> Iterator[ColumnPair]:
    """Columns of both that are comparable, but for names of rows, times and texts."""
    theirs, aside = evidence.features(pair[1]), _not_alike(evidence, pair)
    names = [name for name in evidence.features(pair[0]) if name in theirs and name not in aside]
    named = row_names((reference, current), names, (), [evidence.count(name) for name in pair]) if names else ()
    # Numbers of wards and of cases are names: those of other rows may be others.
    stated = evidence.stated_columns(pair[0])
    named += tuple(
        name for name in names
        if name not in stated and called_as_code(name) and pa.types.is_integer(reference.schema.field(name).type)
    )  # fmt: skip
    for name in names:
        if name in named or any(pa.types.is_temporal(table.schema.field(name).type) for table in (reference, current)):
            continue
        try:
            pairs, _ = compare_columns(reference, current, [name])
        except InputError:
            continue
        yield from (one for one in pairs if one.name == one.source or one.kind == "number")


def _not_alike(evidence: Evidence, pair: Pair) -> set[str]:
    """Columns that need not be alike: entities, times and positions, and what the spec leaves out of the comparison."""
    found: set[str | None] = set()
    for check in evidence.checks:
        for field in ("group", "time", "index", "key"):
            value = getattr(check, field, None)
            found |= {value} if isinstance(value, str) else set(value or ())
        named: tuple[str, ...] = getattr(check, "columns", ())
        if named and pair in tuple(check.sides()):
            found |= set(evidence.features(pair[0])) - set(named)
    parts = [evidence.dataset(name) for name in evidence.datasets]
    found |= {name for part in parts for name in (part.label, part.key, part.cluster)}
    return {name for name in found if name is not None}


def _asked(evidence: Evidence, pair: Pair, name: str, change: ColumnChange) -> bool:
    if change.bounds is not None:
        rules = [getattr(check, "table_schema", {}) for check in evidence.checks
                 if getattr(check, "dataset", "") == pair[1]]  # fmt: skip
        return any(name in rule for rule in rules) and evidence.asks("schema_violations", (pair[1],))
    metric = change.require.partition("(")[0]
    # What tells rows apart by all columns sees a column that lies elsewhere.
    whole = metric == "shift" and evidence.asks("c2st_auc", pair)
    return whole or evidence.asks(metric, pair, name)


def _suspicion(evidence: Evidence, pair: Pair, name: str, change: ColumnChange) -> Suspicion:
    if change.bounds is None:
        fields: dict[str, object] = {"reference": pair[0], "current": pair[1]}
        return evidence.suspicion(
            name, change.sentence, evidence.requirement("data", "shift", change.require, fields), change.p_value
        )
    low, high = change.bounds
    fields = {"dataset": pair[1], "table_schema": {name: {"min": low, "max": high}}}
    suggestion = evidence.requirement("data", "integrity", "schema_violations == 0", fields)
    return evidence.suspicion(name, change.sentence, suggestion, change.p_value)


def _many(evidence: Evidence, pair: Pair, moved: list[tuple[str, ColumnChange]], columns: int) -> Iterator[Suspicion]:
    if any(evidence.asks(metric, pair) for metric in ("drifted_columns", "shift", "c2st_auc")):
        return
    names = ", ".join(name for name, _ in moved[:3])
    sentence = (
        f"{len(moved)} of {columns} columns of {pair[1]} are far from those of {pair[0]} (distance {MOVED:g} or more): "
        f"{names} and others"
    )
    fields = {"reference": pair[0], "current": pair[1]}
    # A share of columns lets one of them be anything.
    suggestion = evidence.requirement("data", "shift", f"shift <= {MOVED / 3:g}", fields)
    yield evidence.suspicion(
        " and ".join(pair), sentence, suggestion, max(change.p_value or 0.0 for _, change in moved)
    )


def _gone(one: ColumnPair, reference: str, current: str) -> ColumnChange | None:
    """Cells that are missing on one side."""
    if one.name != one.source:
        return None
    ours, theirs = (int(side.missing.sum()) for side in (one.reference, one.current))
    n, m = len(one.reference.missing), len(one.current.missing)
    if abs(theirs / m - ours / n) < GONE:
        return None
    from scipy.stats import fisher_exact

    p_value = float(fisher_exact([[ours, n - ours], [theirs, m - theirs]])[1])
    sentence = (
        f"{one.name} is missing in {_percent(theirs / m)} of the rows of {current} and in {_percent(ours / n)} of "
        f"those of {reference}"
    )
    return ColumnChange(sentence, f"missingness_shift({one.name}) <= 2 pp", p_value)


def _new(one: ColumnPair, counts: CategoryCounts | None, reference: str, current: str) -> ColumnChange | None:
    """Categories that the reference lacks: of one with k rows in all, chance puts all into the current rows."""
    if counts is None:
        return None
    names, ours, theirs = counts
    unseen = (ours == 0) & (theirs > 0)
    n, m = int(ours.sum()), int(theirs.sum())
    if len(names) > MOST_CATEGORIES or not unseen.any() or theirs[unseen].sum() < NEW * m or _entities(ours, theirs):
        return None
    most = int(theirs[unseen].max())
    p_value = min(1.0, len(names) * _all_in_one(most, m, n))
    first = names[int(np.argmax(np.where(unseen, theirs, -1)))]
    sentence = (
        f"{one.name} has a category in {_percent(theirs[unseen].sum() / m)} of the rows of {current} that no row of "
        f"{reference} has, such as {first!r}"
    )
    return ColumnChange(sentence, f"unseen_categories({one.name}) <= 1 %", p_value)


def _entities(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> bool:
    """Nearly all values of one side are new to the other, and they are many."""
    return int((ours > 0).sum()) >= ENTITIES and bool(theirs[ours > 0].sum() < theirs.sum() / 10)


def _outside(one: ColumnPair, reference: str, current: str) -> ColumnChange | None:
    """Values beyond all those of the reference."""
    if one.kind != "number" or one.name != one.source:
        return None
    ours, theirs = (np.asarray(side.values, np.float64) for side in (one.reference, one.current))
    if min(len(ours), len(theirs)) < FEWEST:
        return None
    low, high = float(ours.min()), float(ours.max())
    beyond = theirs[(theirs < low) | (theirs > high)]
    share = len(beyond) / len(theirs)
    if share < OUTSIDE:
        return None
    side = max(int((theirs < low).sum()), int((theirs > high).sum()))
    values, counts = np.unique(beyond, return_counts=True)
    most = int(np.argmax(counts))
    # One value again and again where others hardly repeat, or farther off than these reach: a code, whatever the level.
    distance = max(low - values[most], values[most] - high)
    reach = high - low if len(np.unique(ours)) < len(ours) / 2 else NEARER * (high - low)
    coded = counts[most] >= CODED and distance > reach
    p_value = None if coded else min(1.0, 2.0 * _all_in_one(side, len(theirs), len(ours)))
    what = (
        f"{one.name} is {values[most]:g} in {_percent(counts[most] / len(theirs))} of the rows of {current}"
        if counts[most] > len(beyond) / 2
        else f"{one.name} is out of range in {_percent(share)} of the rows of {current}"
    )
    sentence = f"{what}; in {reference} it lies between {low:g} and {high:g}"
    if coded:
        # Half way to the code: a distance of distributions does not move for a few rows of it.
        half = float(f"{(values[most] + (low if values[most] < low else high)) / 2:.3g}")
        ends = (half, 2 * high - low) if values[most] < low else (2 * low - high, half)
        return ColumnChange(sentence, "", p_value, (float(f"{ends[0]:.3g}"), float(f"{ends[1]:.3g}")))
    # A range once more on either side: that far no value of the same population is likely to come.
    least, most_allowed = (float(f"{end:.3g}") for end in (2 * low - high, 2 * high - low))
    if np.mean((theirs < least) | (theirs > most_allowed)) >= OUTSIDE:
        return ColumnChange(sentence, "", p_value, (least, most_allowed))
    return ColumnChange(sentence, f"shift({one.name}) <= {MOVED / 3:g}", p_value)


def _moved(one: ColumnPair, counts: CategoryCounts | None, reference: str, current: str) -> ColumnChange | None:
    """The whole column lies elsewhere."""
    if min(len(one.reference.values), len(one.current.values)) < FEWEST:
        return None
    require = f"shift({one.name}) <= {MOVED / 3:g}"
    if counts is not None:
        names, ours, theirs = counts
        distance = float(np.abs(ours / ours.sum() - theirs / theirs.sum()).sum() / 2)
        if distance < MOVED or len(names) > MOST_CATEGORIES or _entities(ours, theirs):
            return None
        from scipy.stats import chi2_contingency

        both = np.stack([ours, theirs])
        few = both.sum(axis=0) < 10
        both = np.column_stack([both[:, ~few], both[:, few].sum(axis=1)]) if few.any() else both
        both = both[:, both.sum(axis=0) > 0]
        p_value = float(chi2_contingency(both, correction=False)[1]) if both.shape[1] > 1 else 1.0
        sentence = (
            f"the categories of {one.name} have different shares in {current} and {reference}: "
            f"{in_percent(distance, 0)} of the rows would have to change category"
        )
        return ColumnChange(sentence, require, p_value)
    x, y = (np.asarray(side.values, np.float64) for side in (one.reference, one.current))
    if _at_most(x, y) < MOVED or (distance := _distance(x, y)) < MOVED:
        return None
    weight = len(x) * len(y) / (len(x) + len(y))
    p_value = min(1.0, float(np.e * np.exp(-2.0 * weight * distance**2)))
    sentence = (
        f"the median of {one.name} is {np.median(y):.3g} in {current} and {np.median(x):.3g} in {reference} "
        f"(Kolmogorov-Smirnov distance {distance:.2f}){_rescaled(x, y)}"
    )
    return ColumnChange(sentence, require, p_value)


def _rescaled(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> str:
    """Words on one factor that makes the sides alike; empty: none does."""
    first, second = float(np.median(ours)), float(np.median(theirs))
    ratio = second / first if first else 0.0
    if ratio <= 0 or 1 / RESCALED < ratio < RESCALED or _distance(ours, theirs / ratio) > FITS:
        return ""
    return f", as if its unit had changed by a factor of {ratio:.3g}"


def _at_most(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Upper bound of the Kolmogorov-Smirnov distance by counts in bins, without sorting."""
    some = ours[:: max(1, len(ours) // BINS)]
    low = float(some.min())
    width = (float(some.max()) - low) / BINS
    if not 0.0 < width < math.inf:
        return 1.0
    # What is beyond the largest number is beyond the last bin.
    with np.errstate(over="ignore"):
        sides = [np.clip((side - low) / width, -1.0, BINS).astype(np.int64) for side in (ours, theirs)]
    counts = (np.bincount(1 + side, minlength=BINS + 2) for side in sides)
    # Within a bin neither distribution function leaves what it has at its ends.
    first, second = (np.concatenate([[0], np.cumsum(one)]) / one.sum() for one in counts)
    return float(max((first[1:] - second[:-1]).max(), (second[1:] - first[:-1]).max()))


def _distance(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """Kolmogorov-Smirnov."""
    ours, theirs = np.sort(ours), np.sort(theirs)
    # Points in order are looked up in a third of the time.
    points = np.sort(np.concatenate([ours, theirs]), kind="stable")
    first = np.searchsorted(ours, points, side="right") / len(ours)
    second = np.searchsorted(theirs, points, side="right") / len(theirs)
    return float(np.abs(first - second).max())


def _all_in_one(k: int, m: int, n: int) -> float:
    """Chance that k rows, dealt out among m + n, all come among the m: a hypergeometric tail."""
    places = np.arange(k)
    return float(np.exp(np.log((m - places) / (m + n - places)).sum()))


def _counts(one: ColumnPair) -> CategoryCounts:
    """Categories, and rows of each on both sides."""
    ours, theirs = (Counter(np.asarray(side.values, dtype=str).tolist()) for side in (one.reference, one.current))
    return matched_counts(ours, theirs)


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
