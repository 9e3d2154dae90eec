"""Maps from probabilities to better calibrated ones, fitted on some rows to be judged on others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evalspec.stats.calibration.temperature import fit_temperature, halves
from evalspec.stats.clusters import cluster_codes, cluster_sums
from evalspec.stats.types import FloatArray, IntArray

__all__ = [
    "FLOOR",
    "METHODS",
    "Isotonic",
    "Recalibration",
    "Scaling",
    "choose",
    "halves",
    "isotonic_regression",
    "log_losses",
    "temperature_scaling",
    "vector_scaling",
]

FLOOR = 1e-12
"""Least probability of which a logarithm is taken."""
FOLDS = 5
SHOWN = 1.645
"""Standard errors by which the best map must be better than doing nothing."""
_LEAST_SCALE, _MOST_SCALE = 0.01, 50.0


class Recalibration(Protocol):
    """A fitted map."""

    @property
    def parameters(self) -> Mapping[str, object]:
        """Parameters with which the map is applied elsewhere: numbers and lists of numbers."""
        ...

    def apply(self, probabilities: FloatArray) -> FloatArray:
        """Probabilities, shape (n, C), to others of the same shape; rows sum to 1."""
        ...


@dataclass(frozen=True, slots=True)
class Scaling:
    """softmax(scale x log p + bias): a temperature where all scales are one number and there is no bias.

    Args:
        scale: shape (C,), positive.
        bias: shape (C,).
    """

    scale: FloatArray
    bias: FloatArray

    @property
    def parameters(self) -> Mapping[str, object]:
        """``scale`` and ``bias``, one number for each class."""
        return {"scale": self.scale.tolist(), "bias": self.bias.tolist()}

    def apply(self, probabilities: FloatArray) -> FloatArray:
        """Apply the map, as the protocol says."""
        scores = np.log(np.maximum(probabilities, FLOOR)) * self.scale + self.bias
        scores -= scores.max(axis=1, keepdims=True)
        shares = np.exp(scores)
        result: FloatArray = shares / shares.sum(axis=1, keepdims=True)
        return result


@dataclass(frozen=True, slots=True)
class Isotonic:
    """A rising curve for each class against the rest; what the curves say is divided by its sum.

    Args:
        said: For each class, shape (k,), rising: probabilities at the knots.
        meant: For each class, shape (k,), not falling: what stands for them; straight lines between.
    """

    said: tuple[FloatArray, ...]
    meant: tuple[FloatArray, ...]

    @property
    def parameters(self) -> Mapping[str, object]:
        """``said`` and ``meant``, a list of knots for each class."""
        return {"said": [one.tolist() for one in self.said], "meant": [one.tolist() for one in self.meant]}

    def apply(self, probabilities: FloatArray) -> FloatArray:
        """Apply the map, as the protocol says."""
        columns = [np.interp(probabilities[:, k], self.said[k], self.meant[k]) for k in range(len(self.said))]
        shares = np.stack(columns, axis=1)
        result: FloatArray = shares / shares.sum(axis=1, keepdims=True)
        return result


def temperature_scaling(probabilities: FloatArray, truth: IntArray) -> Scaling | None:
    """One number that divides all logits; None where no temperature is best.

    References:
        Guo et al. (2017), On calibration of modern neural networks, ICML.
    """
    temperature = fit_temperature(probabilities, truth)
    return None if temperature is None else _of_temperature(temperature, probabilities.shape[1])


def _of_temperature(temperature: float, classes: int) -> Scaling:
    return Scaling(np.full(classes, 1.0 / temperature), np.zeros(classes))


def vector_scaling(probabilities: FloatArray, truth: IntArray) -> Scaling | None:
    """A scale and a bias for each class: smallest log loss, with a penalty that weighs as much as one row.

    Without the penalty the bias of a class without rows would have no end.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.

    Returns:
        The map; None without rows, or with one class only.

    References:
        Guo et al. (2017), On calibration of modern neural networks, ICML; on log probabilities it is the diagonal
        Dirichlet calibration of Kull et al. (2019), NeurIPS.
    """
    from scipy.optimize import minimize

    n, count = probabilities.shape
    if n == 0 or count < 2:
        return None
    logs = np.log(np.maximum(probabilities, FLOOR))
    rows = np.arange(n)
    own = np.bincount(truth, weights=logs[rows, truth], minlength=count) / n
    shares = np.bincount(truth, minlength=count) / n

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        scale, bias = parameters[:count], parameters[count:]
        scores = logs * scale + bias
        top = scores.max(axis=1, keepdims=True)
        weights = np.exp(scores - top)
        total = weights.sum(axis=1, keepdims=True)
        weights /= total
        away = np.concatenate((scale - 1.0, bias))
        value = float(np.mean(top + np.log(total)) - own @ scale - shares @ bias + 0.5 * (away @ away) / n)
        slope = np.concatenate((np.einsum("nc,nc->c", weights, logs) / n - own, weights.mean(axis=0) - shares))
        return value, slope + away / n

    start = np.concatenate((np.ones(count), np.zeros(count)))
    bounds = [(_LEAST_SCALE, _MOST_SCALE)] * count + [(None, None)] * count
    fitted = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200}).x
    # A common shift changes nothing; without it the numbers are easier to read.
    return Scaling(fitted[:count], fitted[count:] - fitted[count:].mean())


def isotonic_regression(probabilities: FloatArray, truth: IntArray) -> Isotonic | None:
    """The best rising curve of each class against the rest, kept off 0 and 1 by one part in n + 2.

    Args:
        probabilities: shape (n, C).
        truth: shape (n,), class index.

    Returns:
        The map; None without rows, or with one class only.

    References:
        Zadrozny, Elkan (2002), Transforming classifier scores into accurate multiclass probability estimates, KDD.
    """
    from scipy.optimize import isotonic_regression as pool

    n, count = probabilities.shape
    if n == 0 or count < 2:
        return None
    least = 1.0 / (n + 2.0)
    said, meant = [], []
    for k in range(count):
        knots, place = np.unique(probabilities[:, k], return_inverse=True)
        weights = np.bincount(place).astype(np.float64)
        hits = np.bincount(place, weights=truth == k) / weights
        curve = np.clip(pool(hits, weights=weights).x, least, 1.0 - least)
        # Of a level stretch its ends tell all.
        ends = np.ones(len(knots), dtype=np.bool_)
        ends[1:-1] = (curve[1:-1] != curve[:-2]) | (curve[1:-1] != curve[2:])
        said.append(knots[ends])
        meant.append(curve[ends])
    return Isotonic(tuple(said), tuple(meant))


METHODS: Mapping[str, Callable[[FloatArray, IntArray], Recalibration | None]] = {
    "temperature": temperature_scaling,
    "vector": vector_scaling,
    "isotonic": isotonic_regression,
}
"""Function that fits each kind of map, from the simplest to the one with the most freedom."""


def log_losses(probabilities: FloatArray, truth: IntArray) -> FloatArray:
    """- log of the probability of each row's class, shape (n,); probabilities below 1e-12 count as that."""
    own = probabilities[np.arange(len(truth)), truth]
    losses: FloatArray = -np.log(np.maximum(own, FLOOR))
    return losses


def choose(
    probabilities: FloatArray,
    truth: IntArray,
    names: Sequence[str],
    rng: np.random.Generator,
    clusters: IntArray | None = None,
) -> str | None:
    """The simplest map whose log loss is within one standard error of the best, by five-fold cross-validation.

    Doing nothing is kept unless the best is better by 1.645 standard errors. Only rows that maps are fitted on are
    looked at, so that what is judged on others owes nothing to the choice.

    Args:
        probabilities: shape (n, C), rows to fit on.
        truth: shape (n,), class index.
        names: Of `METHODS`, the simplest first.
        rng: Deals rows to folds.
        clusters: shape (n,), or None; rows of one cluster stay together.

    Returns:
        Its name; None where no map is shown to be better than the probabilities as they are.

    References:
        Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, 7.10 (one standard error).
    """
    n = len(truth)
    codes, count = (np.arange(n), n) if clusters is None else cluster_codes(clusters, n)
    if count < 2 * FOLDS:
        return None
    fold = (rng.permutation(count) % FOLDS)[codes]
    losses: dict[str | None, FloatArray] = {None: log_losses(probabilities, truth)}
    losses |= {name: np.empty(n) for name in names}
    failed: set[str | None] = set()
    for one in range(FOLDS):
        held, rest = fold == one, fold != one
        for name in names:
            fitted = METHODS[name](probabilities[rest], truth[rest])
            if fitted is None:
                failed.add(name)
            else:
                losses[name][held] = log_losses(fitted.apply(probabilities[held]), truth[held])
    kept = {name: loss for name, loss in losses.items() if name not in failed}
    best = min(kept, key=lambda name: float(kept[name].mean()))
    surplus = {one: cluster_sums(loss - kept[best], codes, count) for one, loss in kept.items()}
    reach = {one: (SHOWN if one is None else 1.0) * float(np.sqrt(count) * more.std()) for one, more in surplus.items()}
    return next(one for one, more in surplus.items() if float(more.sum()) <= reach[one])
