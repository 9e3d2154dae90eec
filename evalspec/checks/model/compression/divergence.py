"""Distance of each row's output from the baseline's: divergence of the probabilities, distance before softmax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.scoring.losses import PROBABILITY_FLOOR
from evalspec.scoring.scored_rows import Undefined
from evalspec.stats.means.spreads import spread_shares

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.scoring.scored_rows import Scored

    FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Away:
    """Distance of each row's output from the baseline's.

    Args:
        each: shape (n,), never negative.
        unit: shape (n,), share of each row in the unit that ``each`` is measured in, 1 on average; ones where that
            unit is known exactly.
    """

    each: FloatArray
    unit: FloatArray


def divergences(rows: Scored, baseline: Scored) -> Away:
    """Divergence of each row's output from the baseline's.

    For classes: Kullback-Leibler divergence of the probabilities from the baseline's, in nats; where a row may have
    several, the sum over the classes, each by itself. For values: their difference, in spreads of the baseline's.

    Raises:
        Undefined: A model gives labels only, or the baseline gives always the same value.
    """
    if rows.values is not None and baseline.values is not None:
        return _in_spreads(rows.values[:, None], baseline.values[:, None], baseline.model)
    p, q = (np.clip(one.shares(), PROBABILITY_FLOOR, None) for one in (baseline, rows))
    if rows.task == "labels":
        p, q = (np.minimum(one, 1.0 - PROBABILITY_FLOOR) for one in (p, q))
        each = p * np.log(p / q) + (1.0 - p) * (np.log1p(-p) - np.log1p(-q))
    else:
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        each = p * (np.log(p) - np.log(q))
    # Rounding may leave -1e-17 where the two are alike, which no divergence is.
    return Away(np.asarray(np.maximum(0.0, each.sum(axis=1))), np.ones(rows.n))


def logit_distances(rows: Scored, baseline: Scored) -> Away:
    """Distance of each row's scores before softmax from the baseline's, in spreads of the baseline.

    Euclidean distance over the classes, divided by the mean distance of the baseline's rows from their own mean: 0.1
    is a tenth of what tells one row from another.

    Raises:
        Undefined: The scores are not known, or the baseline gives every row the same ones.
    """
    return _in_spreads(logits(rows), logits(baseline), baseline.model)


def _in_spreads(ours: FloatArray, theirs: FloatArray, baseline: str) -> Away:
    shares = spread_shares(theirs)
    spread = float(shares.mean())
    # Rounding leaves a spread of 1e-16 or so of rows that are all alike.
    if spread <= 1e-12 * float(np.abs(theirs).max()):
        raise Undefined(f"{baseline} answers every row alike, so there is no spread to measure a distance by")
    return Away(np.asarray(np.sqrt(np.sum((ours - theirs) ** 2, axis=1)) / spread), shares / spread)


def logits(rows: Scored) -> FloatArray:
    """Scores before softmax, less their mean over the classes, shape (n, C).

    Softmax ignores a constant added to all scores of a row, so probabilities determine the scores up to that constant;
    less their mean, the scores are the same whether a model gives logits or probabilities. Where a row may have
    several classes there is no such constant: the scores are the log-odds of each class.

    Raises:
        Undefined: The model gives no probabilities, or some that are 0 (with several classes a row, or 1): the score is
            then not known.
    """
    p = rows.shares()
    several = rows.task == "labels"
    whole = (p > 0.0) & (p < 1.0) if several else p > 0.0
    lost = int(np.count_nonzero(~whole.all(axis=1)))
    if lost:
        ends = "0 or 1" if several else "0"
        raise Undefined(
            f"{lost:,} of {rows.n:,} rows of {rows.model} have a probability of {ends}, whose score before softmax is "
            "not known; name its `logits` in outputs"
        )
    scores = np.log(p)
    return np.asarray(scores - np.log1p(-p) if several else scores - scores.mean(axis=1, keepdims=True))
