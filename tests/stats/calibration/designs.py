"""Populations of confidences and answers in which accuracy follows the confidence, or doesn't, or crosses it.

Each gives rows: what was said, and the chance that it came true. The errors of a population are those at every
confidence, or over 400 bins of equal mass where that is estimated from a pool of a million rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = tuple[Floats, Floats]
Draw = Callable[[int, np.random.Generator], Rows]
POOL = 1_000_000
FINE = 400


def of(said: Callable[[int, np.random.Generator], Floats], right: Callable[[Floats], Floats | float]) -> Draw:
    """What is said, and the accuracy at each confidence."""

    def draw(n: int, rng: np.random.Generator) -> Rows:
        c = said(n, rng)
        return c, np.clip(right(c) + np.zeros(n), 0.0, 1.0)

    return draw


def beta(a: float, b: float) -> Callable[[int, np.random.Generator], Floats]:
    return lambda n, rng: rng.beta(a, b, n)


def atoms(values: list[float], shares: list[float]) -> Callable[[int, np.random.Generator], Floats]:
    return lambda n, rng: rng.choice(values, n, p=shares)


def crossing(at: float, gap: float) -> Callable[[Floats], Floats]:
    """Too modest below, too sure above."""
    return lambda c: np.where(c < at, c + gap, c - gap)


def waves(count: int, gap: float) -> Callable[[Floats], Floats]:
    """Gaps that change their sign so many times between one half and 1."""
    return lambda c: c + gap * np.where(np.floor((c - 0.5) * 2 * count) % 2, 1.0, -1.0)


def half_to_one(n: int, rng: np.random.Generator) -> Floats:
    return rng.uniform(0.5, 1.0, n)


AUDIT: dict[str, Draw] = {
    "always right": of(beta(8, 1), lambda c: 1.0),
    "nearly always right": of(beta(8, 1), lambda c: 1.0 - 0.1 * (1.0 - c)),
    "sure or at one half, always right": of(atoms([1.0, 0.5], [0.9, 0.1]), lambda c: 1.0),
    "right in 97 % whatever is said": of(beta(6, 2), lambda c: 0.97),
    "two confidences, both too modest": of(atoms([0.55, 0.95], [0.5, 0.5]), lambda c: np.where(c < 0.7, 0.95, 0.97)),
    "crossing at .8": of(beta(8, 2), crossing(0.8, 0.05)),
    "two confidences that cancel": of(atoms([0.98, 0.78], [0.6, 0.4]), lambda c: np.where(c > 0.9, 0.85, 0.98)),
    "crossing at .93": of(beta(12, 1.5), crossing(0.93, 0.1)),
}
"""Those of the findings S1 and S2."""
OTHERS: dict[str, Draw] = {
    "crossing at .96": of(beta(30, 1.5), crossing(0.96, 0.06)),
    "evenly too sure": of(beta(8, 2), lambda c: c - 0.05),
    "evenly too modest": of(beta(8, 2), lambda c: c + 0.05),
    "too sure where unsure": of(beta(12, 1.5), lambda c: c - 0.5 * (1.0 - c)),
    "too sure where sure": of(beta(20, 2), lambda c: c**3),
    "right in 80 % whatever is said": of(beta(8, 2), lambda c: 0.8),
    "smoothed labels": of(lambda n, rng: 0.9 - 0.4 * rng.beta(1, 20, n), lambda c: 0.99),
    "rarely unsure, always right": of(atoms([1.0, 0.5], [0.97, 0.03]), lambda c: 1.0),
    "nine in ten at 1": of(
        lambda n, rng: np.where(rng.random(n) < 0.9, 1.0, rng.beta(5, 2, n)),
        lambda c: np.where(c == 1.0, 0.97, c - 0.1),
    ),
    "one decimal": of(lambda n, rng: np.round(rng.beta(6, 2, n), 1), lambda c: 0.85 * c + 0.05),
    "neighbours' shares": of(lambda n, rng: rng.binomial(15, rng.beta(9, 1, n)) / 15, lambda c: 0.4 + 0.59 * c),
    "uniform, sharpened": of(half_to_one, lambda c: 1.0 / (1.0 + (1.0 / c - 1.0) ** 0.6)),
    "uniform, blunted": of(half_to_one, lambda c: 1.0 / (1.0 + (1.0 / np.maximum(c, 1e-9) - 1.0) ** 1.8)),
    "four waves": of(half_to_one, waves(4, 0.08)),
}
"""Others in which error rates are to hold at any number of rows."""
WAVES: dict[str, Draw] = {
    "ten waves": of(half_to_one, waves(10, 0.06)),
    "thirty waves": of(half_to_one, waves(30, 0.06)),
}
"""Those which few rows can't see."""


@cache
def pool(name: str) -> Rows:
    """A population's rows: drawn, or what a learned model says beside the known chance of its answer."""
    known = AUDIT | OTHERS | WAVES
    rng = np.random.default_rng(1)
    return known[name](POOL, rng) if name in known else learned(name, rng)


LEARNED = ("k-NN", "bagging", "naive Bayes", "forest", "logistic, sharpened")


def learned(name: str, rng: np.random.Generator, size: int = 100_000) -> Rows:
    """A model trained on 600 rows of two overlapping classes in five dimensions, and its confidence in many others."""
    from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier

    kinds = {
        "k-NN": KNeighborsClassifier(11),
        "bagging": BaggingClassifier(n_estimators=20, random_state=0),
        "naive Bayes": GaussianNB(),
        "forest": RandomForestClassifier(100, min_samples_leaf=5, random_state=0),
        "logistic, sharpened": LogisticRegression(),
    }
    mixing = rng.normal(size=(5, 5))

    def rows(n: int) -> tuple[Floats, Floats]:
        x = rng.normal(size=(n, 5))
        chance = 1.0 / (1.0 + np.exp(-(4.0 * x[:, 0] + 2.0 * x[:, 1] * x[:, 2] + 3.0)))
        return x @ mixing, chance

    x, chance = rows(600)
    model = kinds[name].fit(x, rng.random(600) < chance)
    x, chance = rows(size)
    said = model.predict_proba(x)[:, 1]
    if name.endswith("sharpened"):
        said = said**2 / (said**2 + (1.0 - said) ** 2)
    return np.maximum(said, 1.0 - said), np.where(said > 0.5, chance, 1.0 - chance)


@cache
def truth(name: str, power: int = 1) -> float:
    """The mean of |accuracy - confidence| of a population, or the root of the mean square.

    Args:
        name: Of a population.
        power: 1 or 2.
    """
    said, right = pool(name)
    if name in AUDIT | OTHERS | WAVES:
        return float(np.mean(np.abs(right - said) ** power) ** (1.0 / power))
    # Equal confidences belong together.
    place = np.searchsorted(np.unique(np.quantile(said, np.arange(1, FINE) / FINE)), said)
    count = np.bincount(place)
    gaps = np.abs(np.bincount(place, right - said)[count > 0] / count[count > 0])
    return float(np.average(gaps**power, weights=count[count > 0]) ** (1.0 / power))


def sample(name: str, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Confidences and answers of rows of a population."""
    said, right = pool(name)
    rows = rng.integers(0, len(said), n)
    return said[rows], rng.random(n) < right[rows]


def peaked(n: int, rng: np.random.Generator) -> Rows:
    """Always right, and never sure of it."""
    said = rng.dirichlet([8.0, 1.0, 1.0], n)
    return said, np.eye(3)[said.argmax(axis=1)]


def sharpened(classes: int, by: float) -> Draw:
    def draw(n: int, rng: np.random.Generator) -> Rows:
        true = rng.dirichlet(np.full(classes, 0.5), n)
        said = np.maximum(true, 1e-12) ** by
        return said / said.sum(axis=1, keepdims=True), true

    return draw


def smoothed(n: int, rng: np.random.Generator) -> Rows:
    """Four classes, labels smoothed by 5 to 20 %, right in 98 %."""
    true, less = np.eye(4)[rng.integers(0, 4, n)], (0.1 + 0.1 * rng.random(n))[:, None]
    return true * (1.0 - less) + less / 4, 0.98 * true + 0.005


def crossed(n: int, rng: np.random.Generator) -> Rows:
    top = 0.5 + 0.5 * rng.beta(4, 1, n)
    right = np.clip(np.where(top < 0.9, top + 0.08, top - 0.08), 0.0, 1.0)
    return tuple(np.stack([one, (1 - one) / 2, (1 - one) / 2], axis=1) for one in (top, right))


def rarely(n: int, rng: np.random.Generator) -> Rows:
    return np.tile([0.97, 0.02, 0.01], (n, 1)), np.tile([0.9, 0.06, 0.04], (n, 1))


CLASSES: dict[str, Draw] = {
    "peaked, always right": peaked,
    "sharpened, 5 classes": sharpened(5, 1.5),
    "blunted, 3 classes": sharpened(3, 0.6),
    "blunted, 30 classes": sharpened(30, 0.7),
    "smoothed labels": smoothed,
    "crossing": crossed,
    "rare classes": rarely,
}
"""What is said of each class and what is true, shape (n, C)."""


@cache
def class_truth(name: str) -> float:
    """Mean over classes of the mean of |share - probability| over 400 bins of 300,000 rows."""
    said, true = CLASSES[name](300_000, np.random.default_rng(2))
    found = 0.0
    for k in range(said.shape[1]):
        place = np.searchsorted(np.unique(np.quantile(said[:, k], np.arange(1, FINE) / FINE)), said[:, k])
        found += float(np.abs(np.bincount(place, true[:, k] - said[:, k])).sum()) / said.size
    return found


def class_sample(name: str, n: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """Probabilities and classes of rows of a population."""
    said, true = CLASSES[name](n, rng)
    return said, np.minimum((rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1), said.shape[1] - 1)
