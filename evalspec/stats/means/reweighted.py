"""Score on rows drawn as they are elsewhere: doubly robust reweighting, with its effective sample size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.invert import NByScaling, PFromBounds
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.macro import mover_difference
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.types import BoolArray, FloatArray, IntArray
from evalspec.stats.value_only import ValueOnly

CLIP = 20.0
"""Largest weight: a row that stands for more than so many says too much alone."""
_NO_ROW = 0.5
"""Rows that the reference is taken to have where it has none, so that its share can be compared."""
FEWEST_EFFECTIVE = 200.0
"""Effective rows of the reference below which there is no bound."""
MOST_UNLIKE = 0.05
"""Share of current rows with next to nothing like them in the reference above which there is no bound."""
_FURTHEST = 4.0
_STEPS = 60
_BALANCED = 1e-4


@dataclass(frozen=True, slots=True)
class CrossFitted:
    """Rows of one side, each judged by models that never saw it.

    Args:
        odds: shape (n,), how much more frequent such a row is in the current data than in the reference.
        expected: shape (n,), the score that such a row is expected to have.
        clusters: shape (n,), or None.
        features: shape (n, d), finite: what must be the same on average in the weighted reference and in the current
            data; None: nothing.
        unlike: shape (n,), of current rows: they are known to be of a kind that the reference has next to none of;
            None: of none it is known.
    """

    odds: FloatArray
    expected: FloatArray
    clusters: IntArray | None = None
    features: FloatArray | None = None
    unlike: BoolArray | None = None


@dataclass(frozen=True, slots=True)
class Reweighted:
    """A score on the reference, and what it becomes on the current data.

    Args:
        change: How much worse the reweighted score is, with bounds or the reason why there are none.
        full: Mean score of the reference.
        reweighted: Mean score expected on the current data.
        effective: Rows of the current data's kind that the reference's rows are worth.
        unlike: Share of current rows of a kind that the reference has next to none of.
        weights: shape (n,), of the reference's rows, 1 on average.
    """

    change: Estimate
    full: float
    reweighted: float
    effective: float
    unlike: float
    weights: FloatArray


def reweighted_change(
    scores: FloatArray, reference: CrossFitted, current: CrossFitted, *, higher: bool = True, most: float = CLIP,
    limits: tuple[float, float] = (0.0, 1.0),
) -> Reweighted:  # fmt: skip
    """Change of a mean score where rows are as frequent as in the current data, and scores hang on the row alone.

    The expected score of the current rows, plus the weighted mean of what the reference's scores are off from what was
    expected of them: right where either the weights or the expectations are. As both come from models that never saw
    the row (cross-fitting), it is a difference of two means of separate rows, each with its bounds, joined by MOVER.

    Of rows that are unlike the reference's nothing is known but that they score within the limits, so both bounds allow
    for the worst: the upper bound of their share, times how far their scores may be off from what was expected. They
    are those that are known to be, those with larger odds than the cut-off, and those at the top of the odds where the
    current data have more than so many times the reference's rows: a classifier shrinks what few rows say.

    Args:
        scores: shape (n,), of the reference's rows.
        reference: What is expected of these rows.
        current: What is expected of the current ones.
        higher: Higher scores are better: the change is how much worse the reweighted score is.
        most: Weights are cut off here.
        limits: Least and largest score that a row can have.

    Returns:
        The change, in the scores' unit. It has no bound with fewer than 200 effective rows, or where more than 5 % of
        the current rows are of a kind that the reference has next to none of.

    Raises:
        InputError: There are no rows on a side, arrays differ in length or hold no finite numbers.

    References:
        Robins, Rotnitzky and Zhao (1994), JASA 89 (augmented inverse probability weighting). Chernozhukov et al.
        (2018), Double/debiased machine learning, Econometrics Journal 21 (cross-fitting). Kish (1965), Survey Sampling
        (effective sample size). Shimodaira (2000), Journal of Statistical Planning and Inference 90. Manski (1990),
        Nonparametric bounds on treatment effects, American Economic Review 80 (the worst of what is not seen).
    """
    rows = np.asarray(scores, dtype=np.float64)
    _check(rows, reference, current)
    clipped = np.minimum(reference.odds, most)
    total = float(clipped.sum())
    weights = clipped / total * len(rows) if total > 0 else np.zeros(len(rows))
    apart = _unlike(reference.odds, current, most)
    # No weights make the reference's rows like those, so they are made like the rest.
    like = None if current.features is None or apart.all() else current.features[~apart]
    balanced = _balanced(weights, reference.features, like) if total > 0 else None
    weights = weights if balanced is None else balanced
    residuals, rest = rows - reference.expected, 1.0 - float(apart.mean())
    correction = float(np.mean(weights * residuals))
    # The weights' sum varies too: by linearisation of their ratio.
    each = rows - rest * (correction + weights * (residuals - correction))
    ours = mean(each, clusters=reference.clusters)
    theirs = mean(current.expected, clusters=current.clusters)
    full, reweighted = float(rows.mean()), rest * correction + float(current.expected.mean())
    effective, unlike = _effective(weights, current.odds), float(apart.mean())
    drop = mover_difference(ours, theirs) if higher else mover_difference(theirs, ours)
    foreseen = float(current.expected[apart if apart.any() else slice(None)].mean())
    below, above = max(0.0, foreseen - limits[0]), max(0.0, limits[1] - foreseen)
    share = proportion(apart, current.clusters)
    change: Estimate = WithUnlike(drop, share, *((below, above) if higher else (above, below)))
    why = _why_no_bound(effective, unlike, balanced is not None)
    if why is not None:
        change = ValueOnly(change.value, len(rows) + len(current.odds), f"no bound: {why}")
    return Reweighted(change, full, reweighted, effective, unlike, weights)


@dataclass(frozen=True, slots=True)
class WithUnlike(PFromBounds, NByScaling):
    """A change that is known of most rows, with bounds that allow for the rest.

    Args:
        change: The change, as if the rest were as expected.
        unlike: The share of rows of which nothing is known.
        worse: How much larger the change of such a row may be.
        better: How much smaller.
    """

    change: Estimate
    unlike: Proportion
    worse: float
    better: float

    @property
    def value(self) -> float | None:
        """The change, as if the rest were as expected."""
        return self.change.value

    @property
    def n(self) -> int:
        """Rows of both sides."""
        return self.change.n

    @property
    def method(self) -> str:
        """Method of the bounds."""
        return f"{self.change.method}, rows unlike the reference's at their worst"

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound."""
        of_most, share = self.change.bound(confidence, side), self.unlike.bound(confidence, "upper")
        if of_most is None or share is None:
            return None
        return of_most + share * self.worse if side == "upper" else of_most - share * self.better


def _unlike(reference: FloatArray, current: CrossFitted, most: float) -> BoolArray:
    """Current rows of a kind that the reference has next to none of, shape (m,)."""
    ours, theirs = np.sort(reference), np.sort(current.odds)
    n, m = len(ours), len(theirs)
    # How many rows of either side have such odds or larger ones.
    less = np.searchsorted(ours, theirs, side="left")
    above = np.maximum(n - less, _NO_ROW) / n
    more = m - np.searchsorted(theirs, theirs, side="left")
    alone = (more / m >= most * above) & (more >= most * _NO_ROW)
    unlike: BoolArray = current.odds > most
    if alone.any():
        unlike = unlike | (current.odds >= theirs[alone][0])
    return unlike if current.unlike is None else unlike | current.unlike


def _effective(weights: FloatArray, odds: FloatArray) -> float:
    """Rows of the current data's kind that the reference's rows are worth.

    By Kish's formula, and by the mean weight of the current rows, which is the mean square of the reference's: where
    the two populations lie apart, all rows of the reference have the same small weight and only the latter tells.
    """
    squares = float(np.sum(weights**2))
    by_reference = float(weights.sum()) ** 2 / squares if squares > 0 else 0.0
    by_current = len(weights) / max(1.0, float(np.minimum(odds, 1e6).mean()))
    return min(by_reference, by_current)


def _why_no_bound(effective: float, unlike: float, balanced: bool) -> str | None:
    if unlike > MOST_UNLIKE:
        return (
            f"{100 * unlike:.0f} % of the current rows are of a kind that the reference has next to none of "
            f"(at most {100 * MOST_UNLIKE:g} % may be)"
        )
    if effective < FEWEST_EFFECTIVE:
        return (
            f"the reference's rows are worth {effective:,.0f} rows of the current data's kind, "
            f"{FEWEST_EFFECTIVE:,.0f} are needed"
        )
    return None if balanced else "no weights of the reference's rows have the means of the current columns"


def _balanced(weights: FloatArray, ours: FloatArray | None, theirs: FloatArray | None) -> FloatArray | None:
    """The nearest weights under which the features' means are those of the current rows; None: there are none.

    A classifier shrinks what it is not sure of, so its weights go only a part of the way, and so would the score.

    References:
        Deville and Saerndal (1992), Calibration estimators in survey sampling, JASA 87. Hainmueller (2012), Entropy
        balancing for causal effects, Political Analysis 20.
    """
    if ours is None or theirs is None or not ours.shape[1]:
        return weights
    pooled = np.concatenate((ours, theirs))
    spread = pooled.std(axis=0)
    kept = spread > 1e-9 * (1.0 + np.abs(pooled).max(axis=0))
    target = theirs[:, kept].mean(axis=0)
    # An outlier would carry the balance alone.
    apart = np.clip((ours[:, kept] - target) / spread[kept], -_FURTHEST, _FURTHEST)
    apart -= (np.clip((theirs[:, kept] - target) / spread[kept], -_FURTHEST, _FURTHEST)).mean(axis=0)
    tilt = np.zeros(apart.shape[1])
    for _ in range(_STEPS):
        powers = apart @ tilt
        tilted = weights * np.exp(powers - powers.max())
        shares = tilted / tilted.sum()
        slope = shares @ apart
        if float(np.abs(slope).max(initial=0.0)) < _BALANCED:
            balanced: FloatArray = shares * len(weights)
            return balanced
        curve = (apart * shares[:, None]).T @ apart - np.outer(slope, slope)
        step = np.linalg.solve(curve + 1e-6 * np.eye(len(slope)), slope)
        tilt -= step * min(1.0, 1.0 / max(1e-9, float(np.abs(step).max())))
    return None


def _check(rows: FloatArray, reference: CrossFitted, current: CrossFitted) -> None:
    if len(rows) != len(reference.odds) or len(rows) != len(reference.expected):
        raise InputError(f"{len(rows)} scores for {len(reference.odds)} rows of the reference")
    if not len(rows) or not len(current.odds):
        raise InputError("a side has no rows")
    every = (rows, reference.odds, reference.expected, current.odds, current.expected)
    if not all(np.isfinite(one).all() for one in every):
        raise InputError("scores, odds or expectations are not finite")
