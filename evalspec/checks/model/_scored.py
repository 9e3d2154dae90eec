"""Rows with their truth and what a model said of them, checked once, cut into slices at will."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError, NotRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs, Predictions


class Undefined(NotRunError):
    """A metric has no value on these rows (0/0, no probabilities, no classes), and why."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows of a dataset with the answers of one model.

    Args:
        model: Name of the model.
        dataset: Name of the dataset.
        truth: shape (n,), class index (int64) or value (float64).
        classes: Label of each class index; None for regression.
        predicted: shape (n,), class index; None for regression.
        probabilities: shape (n, C), or None.
        values: shape (n,), predicted values; None for classification.
        clusters: shape (n,), or None.
        positive: Index of the class that binary metrics are about; None: there is none.
    """

    model: str
    dataset: str
    truth: NDArray[Any]
    classes: tuple[str, ...] | None
    predicted: NDArray[np.int64] | None
    probabilities: NDArray[np.float64] | None
    values: NDArray[np.float64] | None
    clusters: NDArray[np.int64] | None
    positive: int | None = None

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.truth)

    @property
    def where(self) -> str:
        """The dataset as it stands in a sentence."""
        return f"dataset {self.dataset!r}"

    def rows(self, inside: NDArray[np.bool_]) -> Scored:
        """Only some rows.

        Args:
            inside: shape (n,).
        """
        return replace(
            self,
            truth=self.truth[inside],
            predicted=None if self.predicted is None else self.predicted[inside],
            probabilities=None if self.probabilities is None else self.probabilities[inside],
            values=None if self.values is None else self.values[inside],
            clusters=None if self.clusters is None else self.clusters[inside],
        )

    def labels(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Classes, and the predicted class index, shape (n,).

        Raises:
            Undefined: The model gives values.
        """
        if self.classes is None or self.predicted is None:
            raise Undefined(f"model {self.model!r} gives values, and this metric needs classes")
        return self.classes, self.predicted

    def shares(self) -> NDArray[np.float64]:
        """Probabilities, shape (n, C).

        Raises:
            Undefined: The model gives none.
        """
        self.labels()
        if self.probabilities is None:
            raise Undefined(
                f"model {self.model!r} gives labels without probabilities; "
                "name its `probabilities` or `logits` in `outputs:`"
            )
        return self.probabilities

    def errors(self) -> NDArray[np.float64]:
        """Predicted minus true values, shape (n,).

        Raises:
            Undefined: The model gives classes.
        """
        if self.values is None:
            raise Undefined(f"model {self.model!r} gives classes, and this metric needs values")
        errors: NDArray[np.float64] = self.values - self.truth
        return errors

    def named_class(self, name: str) -> int:
        """Index of a class.

        Raises:
            Undefined: There is no such class.
        """
        classes, _ = self.labels()
        if name not in classes:
            raise Undefined(f"model {self.model!r} has no class {name!r}; its classes are {', '.join(classes[:30])}")
        return classes.index(name)


def scored(
    inputs: Inputs, dataset: str, model: str, *, positive: str | None = None, decision_threshold: float | None = None
) -> Scored:
    """A model's answers on a dataset, ready to be scored.

    Args:
        inputs: What the check is handed.
        dataset: Name of the dataset.
        model: Name of the model.
        positive: Class that binary metrics are about; default: the second of two.
        decision_threshold: Predict the positive class where its probability is at least this.

    Raises:
        InputError: No rows, no label, numbers that aren't finite, no such class, or a threshold that means nothing.
    """
    answers = inputs.predictions(dataset, model)
    _admit(answers)
    chosen = _positive_index(answers, positive)
    predicted = answers.predicted
    if decision_threshold is not None:
        predicted = _decided(answers, chosen, decision_threshold)
    return Scored(
        model=model, dataset=dataset, truth=np.asarray(answers.truth), classes=answers.classes, predicted=predicted,
        probabilities=answers.probabilities, values=answers.values, clusters=answers.clusters, positive=chosen,
    )  # fmt: skip


def aligned(other: Scored, like: Scored) -> Scored:
    """Another model's answers on the same rows, with the classes in the same order.

    Raises:
        NotRunError: It answered other rows, or has other classes.
    """
    if other.classes is None or like.classes is None:
        if (other.classes is None) != (like.classes is None):
            raise NotRunError(
                f"{like.model!r} and {other.model!r} can't be compared: one gives classes, one gives values"
            )
        if other.n != like.n or not np.array_equal(other.truth, like.truth):
            raise _other_rows(other, like)
        return other
    if set(other.classes) != set(like.classes):
        different = sorted(set(other.classes) ^ set(like.classes))
        raise NotRunError(
            f"{like.model!r} and {other.model!r} can't be compared: only one of them has the class {different[0]!r}"
        )
    columns = np.array([other.classes.index(name) for name in like.classes], dtype=np.int64)
    place = np.empty_like(columns)
    place[columns] = np.arange(len(columns))
    if other.n != like.n or not np.array_equal(place[other.truth], like.truth):
        raise _other_rows(other, like)
    return replace(
        other,
        classes=like.classes,
        truth=like.truth,
        predicted=None if other.predicted is None else place[other.predicted],
        probabilities=None if other.probabilities is None else other.probabilities[:, columns],
        positive=like.positive,
    )


def _other_rows(other: Scored, like: Scored) -> NotRunError:
    return NotRunError(
        f"{like.model!r} and {other.model!r} can't be paired on {like.where}: "
        f"they answered other rows ({like.n} and {other.n})"
    )


def _admit(answers: Predictions) -> None:
    if answers.n == 0:
        raise InputError(f"dataset {answers.dataset!r} has no rows", remedy="check its path and its `where:`")
    if answers.truth is None:
        raise InputError(
            f"dataset {answers.dataset!r} has no label, so nothing can be scored on it",
            remedy="name the column with the truth: `label:`",
        )
    named = {"probabilities": answers.probabilities, "values": answers.values}
    if not answers.is_classification:
        named["labels"] = np.asarray(answers.truth, dtype=np.float64)
    for what, numbers in named.items():
        if numbers is not None and not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)))
            raise InputError(f"{what} of {answers.model!r} on {answers.dataset!r} are not finite in row {row}")


def _positive_index(answers: Predictions, positive: str | None) -> int | None:
    if answers.classes is None:
        if positive is not None:
            raise InputError(f"`positive: {positive}` needs classes, and {answers.model!r} gives values")
        return None
    if positive is not None:
        if positive not in answers.classes:
            raise InputError(f"model {answers.model!r} has no class {positive!r}", choices=answers.classes[:30])
        return answers.classes.index(positive)
    return 1 if len(answers.classes) == 2 else None


def _decided(answers: Predictions, positive: int | None, threshold: float) -> NDArray[np.int64]:
    if answers.classes is None or len(answers.classes) != 2 or positive is None:
        raise InputError(
            f"`decision_threshold: {threshold}` needs a model with two classes",
            remedy="leave it out: the most probable class is predicted",
        )
    if answers.probabilities is None:
        raise InputError(
            f"`decision_threshold: {threshold}` needs probabilities, and {answers.model!r} gives labels only",
            remedy="name its `probabilities` or `logits` in `outputs:`",
        )
    chosen: NDArray[np.int64] = np.where(answers.probabilities[:, positive] >= threshold, positive, 1 - positive)
    return chosen.astype(np.int64)
