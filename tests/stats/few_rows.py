"""Populations in which few rows carry a mean or an AUC: rare large losses, models that are nearly always right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from evalspec.scoring.catalogue.metrics import LARGEST_LOG_LOSS

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Losses:
    """Losses of rows between 0 and a largest value.

    Args:
        draw: Generator and n to losses, shape (n,).
        truth: Their mean.
        largest: The largest that a row can have.
        n: Rows of a sample.
    """

    draw: Draw
    truth: float
    largest: float
    n: int


def rare(share: float, loss: float, of: tuple[Draw, float], largest: float, n: int) -> Losses:
    """Some losses, and a share of rows with another."""
    draw, truth = of
    mean = share * loss + (1.0 - share) * truth
    return Losses(lambda rng, n: np.where(rng.random(n) < share, loss, draw(rng, n)), mean, largest, n)


def calibrated(a: float, b: float, n: int, *, log: bool = False) -> Losses:
    """Brier (log) losses of a model whose confidences are beta and true."""
    grid = (np.arange(200_000) + 0.5) / 200_000
    of = (lambda c, p: -np.log(p)) if log else (lambda c, p: (1.0 - p) ** 2)
    truth = float(np.mean(stats.beta.pdf(grid, a, b) * (grid * of(grid, grid) + (1 - grid) * of(grid, 1 - grid))))

    def draw(rng: np.random.Generator, n: int) -> np.ndarray:
        confidence = np.clip(rng.beta(a, b, n), 1e-12, 1 - 1e-12)
        return np.asarray(of(confidence, np.where(rng.random(n) < confidence, confidence, 1 - confidence)))

    return Losses(draw, truth, LARGEST_LOG_LOSS if log else 1.0, n)


SURE: tuple[Draw, float] = (lambda rng, n: 0.02 * rng.beta(1, 3, n), 0.005)
VOTES: tuple[Draw, float] = (
    lambda rng, n: rng.choice([0, 0.04, 0.16, 0.36], p=[0.9, 0.06, 0.03, 0.01], size=n),
    0.0108,
)
"""Brier losses of five neighbours that vote."""
SPREAD: tuple[Draw, float] = (lambda rng, n: rng.uniform(0, 0.3, n), 0.15)
LOGS: tuple[Draw, float] = (lambda rng, n: rng.exponential(0.1, n), 0.1)
LOSSES = {
    "brier, 0.3 % wrong with confidence, 500": rare(0.003, 2.0, SURE, 2.0, 500),
    "brier, 0.2 % wrong with confidence, 1,000": rare(0.002, 2.0, SURE, 2.0, 1000),
    "brier, 0.05 % wrong with confidence, 5,000": rare(0.0005, 2.0, SURE, 2.0, 5000),
    "brier, 1 % wrong with confidence, 500": rare(0.01, 2.0, SURE, 2.0, 500),
    "brier, 2 % wrong with confidence, 500": rare(0.02, 2.0, SURE, 2.0, 500),
    "brier, 1 % half wrong, 300": rare(0.01, 0.5, SURE, 2.0, 300),
    "brier of votes, 0.3 % wrong, 2,000": rare(0.003, 1.0, VOTES, 1.0, 2000),
    "brier of votes, 0.3 % wrong, 300": rare(0.003, 1.0, VOTES, 1.0, 300),
    "log loss, 0.2 % at a probability of 0, 500": rare(0.002, LARGEST_LOG_LOSS, LOGS, LARGEST_LOG_LOSS, 500),
    "log loss, 0.1 % at a probability of 0, 2,000": rare(0.001, LARGEST_LOG_LOSS, LOGS, LARGEST_LOG_LOSS, 2000),
    "spread, 0.2 % at the largest, 1,000": rare(0.002, 1.0, SPREAD, 1.0, 1000),
    "spread, 0.5 % at the largest, 300": rare(0.005, 1.0, SPREAD, 1.0, 300),
    "calibrated, 30": calibrated(8, 2, 30),
    "calibrated, 200": calibrated(8, 2, 200),
    "calibrated, 2,000": calibrated(8, 2, 2000),
    "calibrated and sure, 300": calibrated(30, 1, 300),
    "calibrated and sure, 2,000": calibrated(30, 1, 2000),
    "calibrated, log loss, 2,000": calibrated(8, 2, 2000, log=True),
    "overlap of words, 200": Losses(
        lambda rng, n: 1 - rng.beta(6, 1, n) * (rng.random(n) < 0.97), 1 - 0.97 * 6 / 7, 1.0, 200
    ),
}


@dataclass(frozen=True)
class Scores:
    """Scores of positive and of other rows."""

    positive: Draw
    other: Draw

    @property
    def area(self) -> float:
        """The AUC of the population, to about 0.001."""
        rng = np.random.default_rng(99)
        above, below = self.positive(rng, 400_000), np.sort(self.other(rng, 400_000))
        sides = [np.searchsorted(below, above, side).mean() for side in ("left", "right")]  # type: ignore[call-overload]
        return float(np.mean(sides)) / len(below)

    def sample(self, rng: np.random.Generator, positives: int, others: int) -> np.ndarray:
        """Scores, the positive rows first, shape (positives + others,)."""
        return np.concatenate((self.positive(rng, positives), self.other(rng, others)))


def _normal(shift: float, scale: float = 1.0) -> Draw:
    return lambda rng, n: shift + scale * rng.standard_normal(n)


def _mixed(draw: Draw, share: float, at: float) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, at, draw(rng, n))


def binormal(area: float) -> Scores:
    """Two normal distributions with this AUC."""
    return Scores(_normal(np.sqrt(2) * stats.norm.ppf(area)), _normal(0.0))


SCORES = {
    **{f"normal, {area}": binormal(area) for area in (0.6, 0.75, 0.86, 0.93, 0.97, 0.99)},
    "wide": Scores(_normal(np.sqrt(10) * stats.norm.ppf(0.86), 3.0), _normal(0.0)),
    "narrow": Scores(_normal(np.sqrt(1.09) * stats.norm.ppf(0.9), 0.3), _normal(0.0)),
    "heavy tails": Scores(lambda rng, n: 2 + rng.standard_t(3, n), lambda rng, n: rng.standard_t(3, n)),
    "one in twenty positives is lost": Scores(_mixed(_normal(3.0), 0.05, -3.0), _normal(0.0)),
    "one in ten positives is lost": Scores(_mixed(_normal(4.0), 0.1, -3.0), _normal(0.0)),
    "one in three positives is lost": Scores(_mixed(_normal(4.0), 0.3, -3.0), _normal(0.0)),
    "others on top": Scores(_normal(2.0), _mixed(_normal(0.0), 0.03, 9.0)),
    "five levels": Scores(
        lambda rng, n: rng.binomial(4, 0.8, n).astype(float), lambda rng, n: rng.binomial(4, 0.4, n).astype(float)
    ),
    "exponential": Scores(lambda rng, n: rng.exponential(6.0, n), lambda rng, n: rng.exponential(1.0, n)),
}
