"""Slices that nobody named: where are losses higher than elsewhere, over many columns and crosses of two of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from evalspec.stats.types import BoolArray, FloatArray, IntArray

CANDIDATES = 10
"""The most slices that one search hands on to be confirmed."""
LEAST = 0.5
"""A score below which a slice is not handed on: each that is makes it harder to confirm the others."""
PARENT_Z = 3.0
"""A cross must be so much worse than what is left of either of its two slices: else one of them says it all."""


@dataclass(frozen=True, eq=False)
class Axis:
    """A column cut into pieces; slices are unions of pieces: a category, a range.

    Args:
        codes: shape (n,), the piece of each row, 0..c-1.
        slices: shape (t, c), the pieces that each slice is made of.
        merged: shape (c,), the coarse piece 0..m-1 that each piece belongs to; crosses are looked for among these.
        coarse: shape (u, m), the coarse pieces that each coarse slice is made of; every one of them is a slice too.
    """

    codes: IntArray
    slices: BoolArray
    merged: IntArray
    coarse: BoolArray

    @cached_property
    def codes_merged(self) -> IntArray:
        """The coarse piece of each row, shape (n,)."""
        codes: IntArray = self.merged[self.codes]
        return codes

    def rows(self, chosen: IntArray | BoolArray) -> Axis:
        """Only some rows."""
        return replace(self, codes=self.codes[chosen])

    def inside(self, index: int) -> BoolArray:
        """Rows of one slice, shape (n,)."""
        inside: BoolArray = self.slices[index][self.codes]
        return inside


@dataclass(frozen=True, slots=True)
class Candidate:
    """A slice that a search found.

    Args:
        parts: (axis, slice of it), one or two.
        score: How far its z lies beyond what one of so many slices of its size reaches by luck.
    """

    parts: tuple[tuple[int, int], ...]
    score: float

    def inside(self, axes: Sequence[Axis]) -> BoolArray:
        """Mask of the rows inside, shape (n,)."""
        inside: BoolArray = np.logical_and.reduce([axes[axis].inside(index) for axis, index in self.parts])
        return inside


def search(losses: FloatArray, axes: Sequence[Axis], fewest: int, *, crosses: bool = True) -> tuple[Candidate, ...]:
    """Slices whose mean loss stands out, strongest first: guesses, to be confirmed on other rows.

    The strongest slice is taken, its rows are set aside, and the search goes on over the rest, so that what one slice
    explains is found once and not again in everything that overlaps it. Slices are compared by z - `luck_z`: there
    are more small ones than large ones, and more crosses than columns, so that these need a larger z. A cross counts
    only where it is worse than what is left of either of its parts.

    Args:
        losses: shape (n,), of each row; higher is worse.
        axes: Columns over these rows.
        fewest: Rows that a slice, and the rest, must have.
        crosses: Cross every two columns too.

    Returns:
        At most `CANDIDATES`.

    References:
        Dumbgen and Spokoiny (2001), Annals of Statistics 29 (the correction for size); Chung et al. (2019), Slice
        Finder, ICDE.
    """
    candidates: list[Candidate] = []
    left, over = losses, list(axes)
    unions = [_Unions(axis.slices.astype(np.float64), axis.coarse.astype(np.float64)) for axis in axes]
    while len(candidates) < CANDIDATES:
        best = _strongest(_Rows(left, max(1, fewest), unions), over, crosses)
        if best is None:
            break
        candidates.append(best)
        outside = ~best.inside(over)
        left, over = left[outside], [axis.rows(outside) for axis in over]
    return tuple(candidates)


def luck_z(families: int, share: FloatArray) -> FloatArray:
    """The z that some slice of this share of the rows reaches by luck, about.

    Args:
        families: Columns, or pairs of them, that are looked through.
        share: Of the rows, in 0..1, any shape.
    """
    return np.sqrt(2.0 * np.log(math.e * max(families, 1) / np.clip(share, 1e-12, 1.0)))


@dataclass(frozen=True, eq=False, slots=True)
class _Unions:
    """``Axis.slices`` and ``Axis.coarse`` as numbers, shape (t, c) and (u, m): sums over pieces are products."""

    slices: FloatArray
    coarse: FloatArray


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows that one round looks at.

    Args:
        losses: shape (n,).
        fewest: Rows that a slice and the rest must have.
        unions: Of each column.
    """

    losses: FloatArray
    fewest: int
    unions: Sequence[_Unions]

    @cached_property
    def total(self) -> float:
        return float(self.losses.sum())

    @cached_property
    def spread(self) -> float:
        return float(self.losses.std())

    def by_piece(self, codes: IntArray, pieces: int) -> tuple[FloatArray, FloatArray]:
        """Rows and losses of each piece, shape (pieces,) each."""
        counts = np.bincount(codes, minlength=pieces).astype(np.float64)
        return counts, np.bincount(codes, weights=self.losses, minlength=pieces).astype(np.float64)

    def z(self, inside: _Sums, outside: _Sums, fewest: int) -> FloatArray:
        """Excess of the mean loss of slices over that of other rows; -inf where either has too few."""
        enough = (inside.counts >= fewest) & (outside.counts >= fewest)
        here, there = np.where(enough, inside.counts, 1.0), np.where(enough, outside.counts, 1.0)
        standard_error = self.spread * np.sqrt(1.0 / here + 1.0 / there)
        scores: FloatArray = np.where(enough, (inside.losses / here - outside.losses / there) / standard_error, -np.inf)
        return scores

    def score(self, inside: _Sums, families: int) -> FloatArray:
        """The z against all other rows, beyond luck."""
        n = len(self.losses)
        outside = _Sums(n - inside.counts, self.total - inside.losses)
        z = self.z(inside, outside, self.fewest)
        scores = np.full(z.shape, -np.inf)
        # Luck alone is beyond 1 always.
        stands_out = z > 1.0
        scores[stands_out] = z[stands_out] - luck_z(families, inside.counts[stands_out] / n)
        return scores


@dataclass(frozen=True, eq=False, slots=True)
class _Sums:
    """Rows and losses of slices, of one shape."""

    counts: FloatArray
    losses: FloatArray

    def less(self, other: _Sums) -> _Sums:
        """Without the rows of others, which are inside."""
        return _Sums(self.counts - other.counts, self.losses - other.losses)


def _strongest(rows: _Rows, axes: Sequence[Axis], crosses: bool) -> Candidate | None:
    if len(rows.losses) < 2 * rows.fewest or float(np.ptp(rows.losses)) == 0.0:
        return None
    best: Candidate | None = None
    for index in range(len(axes)):
        score = _scores(rows, axes, index, None, len(axes))
        if not len(score):
            continue
        top = int(np.argmax(score))
        if score[top] > (LEAST if best is None else best.score):
            best = Candidate(((index, top),), float(score[top]))
    if not crosses or len(axes) < 2:
        return best
    cross: Candidate | None = None
    for pair in combinations(range(len(axes)), 2):
        beaten = cross or best
        cross = _of_two(rows, axes, pair, LEAST if beaten is None else beaten.score) or cross
    return best if cross is None else _refined(rows, axes, cross)


def _pairs(axes: Sequence[Axis]) -> int:
    return len(axes) * (len(axes) - 1) // 2


def _scores(rows: _Rows, axes: Sequence[Axis], index: int, among: BoolArray | None, families: int) -> FloatArray:
    """Scores of every slice of a column, as far as it lies among some rows (None: all), shape (t,)."""
    codes, losses = axes[index].codes, rows.losses
    if among is not None:
        codes, losses = codes[among], losses[among]
    unions = rows.unions[index].slices
    counts = np.bincount(codes, minlength=unions.shape[1]).astype(np.float64)
    losses = np.bincount(codes, weights=losses, minlength=unions.shape[1]).astype(np.float64)
    return rows.score(_Sums(unions @ counts, unions @ losses), families)


def _of_two(rows: _Rows, axes: Sequence[Axis], pair: tuple[int, int], above: float) -> Candidate | None:
    """The strongest cross of two columns with a score beyond ``above`` that neither of its parts explains.

    Its parts are coarse slices: `_refined` gives the slices.
    """
    first, second = axes[pair[0]], axes[pair[1]]
    shape = (first.coarse.shape[1], second.coarse.shape[1])
    codes = first.codes_merged.astype(np.intp) * shape[1] + second.codes_merged
    counts, losses = (table.reshape(shape) for table in rows.by_piece(codes, math.prod(shape)))
    left, right = rows.unions[pair[0]].coarse, rows.unions[pair[1]].coarse.T
    both = _Sums(left @ counts @ right, left @ losses @ right)
    score = rows.score(both, _pairs(axes))
    a, b = np.nonzero(score > above)
    if not len(a):
        return None
    cross = _Sums(both.counts[a, b], both.losses[a, b])
    parts = (
        _Sums((left @ counts.sum(axis=1))[a], (left @ losses.sum(axis=1))[a]),
        _Sums((counts.sum(axis=0) @ right)[b], (losses.sum(axis=0) @ right)[b]),
    )
    own = np.logical_and.reduce([rows.z(cross, part.less(cross), 1) >= PARENT_Z for part in parts])
    if not own.any():
        return None
    top = int(np.argmax(np.where(own, score[a, b], -np.inf)))
    return Candidate(((pair[0], int(a[top])), (pair[1], int(b[top]))), float(score[a[top], b[top]]))


def _refined(rows: _Rows, axes: Sequence[Axis], cross: Candidate) -> Candidate:
    """The cross with its parts cut finely, one after the other."""
    (first, i), (second, j) = cross.parts
    inside = [axes[first].coarse[i][axes[first].codes_merged], axes[second].coarse[j][axes[second].codes_merged]]
    parts, score = [(first, 0), (second, 0)], cross.score
    for place, index in enumerate((first, second)):
        scores = _scores(rows, axes, index, inside[1 - place], _pairs(axes))
        top = int(np.argmax(scores))
        parts[place], score = (index, top), float(scores[top])
        inside[place] = axes[index].inside(top)
    return Candidate(tuple(parts), score)
