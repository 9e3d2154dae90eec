"""Accuracy under wrong labels: bounds, and a correction by the rows that somebody has looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate
from evalspec.stats.shares.macro import MoverSum, Transformed
from evalspec.stats.shares.proportion import Proportion, proportion
from evalspec.stats.types import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class TrueAccuracy:
    """The accuracy against the truth, of which only a random sample of rows is known.

    Args:
        claimed: Accuracy against the labels as they are given, over all rows.
        errors: Share of wrong labels, over the audited rows.
        audited: Accuracy against the truth, over the audited rows alone.
        corrected: From both: how often rows that look right are, and rows that look wrong, weighed by all rows.
    """

    claimed: Proportion
    errors: Proportion
    audited: Proportion
    corrected: Estimate

    def at_worst(self, confidence: float) -> tuple[float | None, float | None]:
        """One-sided bounds, each at this confidence, whichever labels are wrong.

        A wrong label changes whether its row counts as right, at most, so that the two accuracies differ by no more
        than the share of wrong labels. Both shares are bounded at half the level.
        """
        level = 1.0 - (1.0 - confidence) / 2.0
        wrong = self.errors.bound(level, "upper")
        lower, upper = self.claimed.bound(level, "lower"), self.claimed.bound(level, "upper")
        if wrong is None or lower is None or upper is None:
            return None, None
        return max(0.0, lower - wrong), min(1.0, upper + wrong)


def true_accuracy(
    right_as_given: BoolArray,
    audited: BoolArray,
    wrong_label: BoolArray,
    right_in_truth: BoolArray,
    clusters: IntArray | None = None,
) -> TrueAccuracy:
    """The accuracy of a model against the truth, from labels with errors and an audited random sample of them.

    The correction is post-stratified: of the audited rows that look right by their label, and of those that look wrong,
    it takes the shares that are right in truth, and weighs them by how many of all rows look right. Asymptotically it
    is never worse than the audited rows alone. Where rows come in clusters, or one of the two kinds has no audited
    row, it is these alone.

    Args:
        right_as_given: shape (n,), the model says what the label says.
        audited: shape (n,), the true label is known.
        wrong_label: shape (n,), the label is not the true one; looked at where audited.
        right_in_truth: shape (n,), the model says what is true; looked at where audited.
        clusters: shape (n,), cluster of each row, or None where rows are independent.

    Returns:
        Bounds and the correction, as shares of rows.

    Raises:
        InputError: The arrays differ in length.

    References:
        Holt and Smith (1979), Post stratification, JRSS A 142; Zou and Donner (2008), Statistics in Medicine 27.
    """
    lengths = {len(array) for array in (right_as_given, audited, wrong_label, right_in_truth)}
    if len(lengths) > 1:
        raise InputError(f"arrays of {', '.join(map(str, sorted(lengths)))} rows don't belong together")
    inside = None if clusters is None else np.asarray(clusters)[audited]
    claimed, alone = proportion(right_as_given, clusters), proportion(right_in_truth[audited], inside)
    corrected: Estimate = alone
    if inside is None:
        kinds = [proportion(right_in_truth[audited & side]) for side in (right_as_given, ~right_as_given)]
        corrected = _weighed(claimed, *kinds) or alone
    return TrueAccuracy(claimed, proportion(wrong_label[audited], inside), alone, corrected)


def _weighed(claimed: Proportion, looks_right: Proportion, looks_wrong: Proportion) -> Estimate | None:
    """Shares of two kinds of rows, weighed by how many there are of each; None where one has no rows."""
    share, first, second = claimed.value, looks_right.value, looks_wrong.value
    if share is None or first is None or second is None:
        return None
    # To first order the sum moves with each of the three by these weights; what they add too much is taken off again.
    too_much = (first - second) * share
    parts, weights = (looks_right, looks_wrong, claimed), (share, 1.0 - share, first - second)
    return Transformed(
        MoverSum(parts, weights), lambda value: value - too_much, lambda value: value + too_much,
        "audited rows, weighed by how all rows look",
    )  # fmt: skip
