"""Every quality metric on any rows: its estimate, and its comparison with another model on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import TYPE_CHECKING, Any, Protocol
from zlib import crc32

import numpy as np

from evalspec.scoring import resampled as statistics
from evalspec.scoring.on_demand import OnDemand
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.stats.means.auc import paired_roc_auc, roc_auc
from evalspec.stats.means.bounded import SHARE, Limits
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.means.mean_area import mean_area, paired_mean_area
from evalspec.stats.resampling.bootstrap import bca, paired_statistic
from evalspec.stats.shares.macro import Transformed, f1, mean_comparison, mover_mean
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.language.inputs import Inputs

    Rows = Callable[[Scored], NDArray[np.bool_]]
    Losses = Callable[[Scored], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Estimators:
    """Settings that estimates need beside rows.

    Args:
        root: Seed that every metric's own Generator starts from.
        alpha: The strictest level that will be asked for.
        kept: What several metrics are made of, by what it was made from.
    """

    root: int
    alpha: float
    kept: dict[str, object] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, inputs: Inputs) -> Estimators:
        """Take them from the inputs of a check."""
        return cls(int(inputs.rng.integers(2**63)), inputs.alpha_fail)

    def rng(self, *names: str) -> np.random.Generator:
        """A Generator of this metric's own, so that one requirement more changes no other's bounds."""
        return np.random.default_rng([self.root, crc32("\0".join(names).encode())])


class Statistic(Protocol):
    """A statistic of rows, of weights that say how often each was drawn."""

    def arrays(self, rows: Scored) -> tuple[NDArray[Any], ...]:
        """Arrays that the statistic is made of, the row first."""
        ...

    def __call__(self, arrays: Sequence[NDArray[Any]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values of the resamples, shape (B,), from weights of shape (B, n)."""
        ...


class Score(Protocol):
    """One metric, of one part where it has parts."""

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """Estimate of the score.

        Raises:
            Undefined: It has no value on these rows.
        """
        ...

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Candidate beside baseline, which answered the same rows.

        Raises:
            Undefined: One of them has no value on these rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class Share:
    """A share of rows.

    Args:
        name: Of the metric.
        hit: Rows that count, shape (n,).
        among: Rows that it is a share of, shape (n,).
        nothing: Says why there is no value where ``among`` is empty.
        by_answers: The statistic, where ``among`` depends on the answers: two models then have different rows.
    """

    name: str
    hit: Rows
    among: Rows
    nothing: Callable[[Scored], str]
    by_answers: Statistic | None = None

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """Clopper-Pearson, Korn and Graubard with clusters."""
        among = self.counted(rows)
        return proportion(self.hit(rows)[among], None if rows.clusters is None else rows.clusters[among])

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Tango's score interval; paired BCa where the rows depend on the answers."""
        among = self.counted(candidate)
        if self.by_answers is not None:
            self.counted(baseline)
            return _paired(self.name, self.by_answers, candidate, baseline, tools)
        clusters = None if candidate.clusters is None else candidate.clusters[among]
        hits = self.hit(candidate)[among], self.hit(baseline)[among]
        return paired_proportion(*hits, clusters, rng=tools.rng(self.name, "paired"), alpha=tools.alpha)

    def counted(self, rows: Scored) -> NDArray[np.bool_]:
        """Rows that it is a share of, shape (n,).

        Raises:
            Undefined: There are none.
        """
        among = self.among(rows)
        if not among.any():
            raise Undefined(self.nothing(rows))
        return among


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """A mean of the rows' losses.

    Args:
        name: Of the metric.
        losses: shape (n,).
        limits: The smallest and the largest loss that a row can have; None: it has none.
    """

    name: str
    losses: Losses
    limits: Callable[[Scored], Limits] | None = None

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """BCa, or Gaffke's bound where few rows carry; BCa alone where a loss has no largest value."""
        return mean(
            self.losses(rows), rng=tools.rng(self.name), clusters=rows.clusters, alpha=tools.alpha,
            limits=self._limits(rows),
        )  # fmt: skip

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """The same of the differences."""
        return paired_mean(
            self.losses(candidate), self.losses(baseline), rng=tools.rng(self.name, "paired"),
            clusters=candidate.clusters, alpha=tools.alpha, limits=self._limits(candidate),
        )  # fmt: skip

    def _limits(self, rows: Scored) -> Limits | None:
        return None if self.limits is None else self.limits(rows)


@dataclass(frozen=True, slots=True)
class RootMeanSquare:
    """Root of the mean squared error."""

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """The root of the mean's interval: roots keep order."""
        squares = mean(rows.errors() ** 2, rng=tools.rng("rmse"), clusters=rows.clusters, alpha=tools.alpha)
        return Transformed(squares, _root, _square, "root of the mean square")

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired BCa of the difference of the roots."""
        return _paired("rmse", statistics.root_mean_square(), candidate, baseline, tools)


@dataclass(frozen=True, slots=True)
class F1:
    """F1 of one class: defined as soon as a row is of it or called so.

    Args:
        index: Of the class.
        statistic: The same, to be resampled.
    """

    index: int
    statistic: Statistic

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """Clopper-Pearson on the share of hits among the rows that are of the class or called so."""
        each_seen(rows, (self.index,))
        return f1(rows.is_of(self.index), rows.is_said(self.index), rows.clusters)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired BCa."""
        one = (self.index,)
        return Resampled("f1", self.statistic, partial(each_seen, classes=one), one).compare(candidate, baseline, tools)


@dataclass(frozen=True, slots=True)
class Macro:
    """A mean of the classes' recalls or precisions.

    Args:
        name: Of the metric.
        shares: One for each class.
        statistic: The same mean, to be resampled.
        by_truth: The truth alone says which rows each share is of: then models can be compared class by class.
    """

    name: str
    shares: tuple[Share, ...]
    statistic: Statistic
    by_truth: bool

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """By the classes' counts; with clusters, which tie classes together, BCa over clusters."""
        if rows.clusters is None:
            return mover_mean([share.estimate(rows, tools) for share in self.shares])
        return self._resampled.estimate(rows, tools)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Tango's intervals of the classes, together by MOVER; paired BCa where the answers choose the rows."""
        if self.by_truth and candidate.clusters is None:
            return mean_comparison([share.compare(candidate, baseline, tools) for share in self.shares])
        return self._resampled.compare(candidate, baseline, tools)

    @property
    def _resampled(self) -> Resampled:
        return Resampled(self.name, self.statistic, self._defined)

    def _defined(self, rows: Scored) -> None:
        for share in self.shares:
            share.counted(rows)


@dataclass(frozen=True, slots=True)
class Area:
    """Area under the ROC curve of one class against the others.

    Args:
        positive: Index of the class.
    """

    positive: int

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """DeLong on the logit."""
        both_sides(rows, (self.positive,))
        return roc_auc(rows.shares()[:, self.positive], rows.is_of(self.positive), rows.clusters)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired DeLong."""
        both_sides(candidate, (self.positive,))
        scores = candidate.shares()[:, self.positive], baseline.shares()[:, self.positive]
        return paired_roc_auc(*scores, candidate.is_of(self.positive), candidate.clusters)


@dataclass(frozen=True, slots=True)
class MacroArea:
    """Mean of the areas of each class against the others.

    Args:
        classes: Indices of the classes.
    """

    classes: tuple[int, ...]

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """DeLong over all classes at once, on the logit."""
        both_sides(rows, self.classes)
        return mean_area(rows.shares(), rows.truth, self.classes, rows.clusters)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired DeLong."""
        both_sides(candidate, self.classes)
        return paired_mean_area(
            candidate.shares(), baseline.shares(), candidate.truth, self.classes, candidate.clusters
        )


@dataclass(frozen=True, slots=True)
class Resampled:
    """A statistic whose interval is a BCa bootstrap.

    Args:
        name: Of the metric.
        statistic: What is resampled.
        defined: Raises `Undefined` where there is no value.
        classes: Those that count: a bound needs 20 rows of each; None: all; empty: no class by itself.
    """

    name: str
    statistic: Statistic
    defined: Callable[[Scored], None]
    classes: tuple[int, ...] | None = None

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """The value; its interval when somebody asks for it."""
        self.defined(rows)
        arrays = self.statistic.arrays(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.statistic(arrays, np.ones((1, rows.n)))[0])
        if not np.isfinite(value):
            raise Undefined(f"{self.name} of {rows.where} is not a number: what it is divided by is too small")
        return OnDemand(
            value,
            rows.n,
            lambda: bca(
                self.statistic, arrays, rng=tools.rng(self.name), alpha=tools.alpha, clusters=rows.clusters,
                smallest_class=self._smallest(rows),
            ),
        )  # fmt: skip

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired BCa."""
        self.defined(candidate)
        self.defined(baseline)
        return _paired(self.name, self.statistic, candidate, baseline, tools, self._smallest(candidate))

    def _smallest(self, rows: Scored) -> int | None:
        if rows.classes is None or rows.task not in ("classes", "labels") or self.classes == ():
            return None
        counts = (
            rows.truth.sum(axis=0) if rows.task == "labels" else np.bincount(rows.truth, minlength=len(rows.classes))
        )
        if isinstance(self.statistic, statistics.OfPrecision):
            counts = np.minimum(counts, rows.n - counts)
        return int(counts.min() if self.classes is None else counts[list(self.classes)].min())


def of_shares(rows: Scored) -> Limits:
    """Limits of a score that lies in 0..1."""
    return SHARE


def _root(square: float) -> float:
    return sqrt(max(0.0, square))


def _square(root: float) -> float:
    return max(0.0, root) ** 2


def _paired(
    name: str,
    statistic: Statistic,
    candidate: Scored,
    baseline: Scored,
    tools: Estimators,
    smallest_class: int | None = None,
) -> Comparison:
    return paired_statistic(
        statistic, statistic.arrays(candidate), statistic.arrays(baseline), rng=tools.rng(name, "paired"),
        alpha=tools.alpha, clusters=candidate.clusters, smallest_class=smallest_class,
    )  # fmt: skip


def each_seen(rows: Scored, classes: Sequence[int]) -> None:
    """Check that each class has a true or a predicted row.

    Raises:
        Undefined: One has none.
    """
    true, said = rows.class_counts()
    for index in classes:
        if true[index] == 0 and said[index] == 0:
            name = rows.class_name(index)
            raise Undefined(f"class {name} has no rows in {rows.where} and is never predicted: its F1 is 0/0")


def both_sides(rows: Scored, classes: Sequence[int]) -> None:
    """Check that there are rows of each class, and rows of others.

    Raises:
        Undefined: There are none.
    """
    for index in classes:
        positive = int(np.count_nonzero(rows.is_of(index)))
        name = rows.class_name(index)
        if positive == 0:
            raise Undefined(f"class {name} has no rows in {rows.where}: nothing ranks above the others")
        if positive == rows.n:
            raise Undefined(f"all rows of {rows.where} are of class {name}: no others rank below")
