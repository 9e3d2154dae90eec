"""Rows with their truth and what a model said of them, checked once, cut into slices at will."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.answers.canonical import canonical
from evalspec.errors import InputError, InvalidError, NotRunError
from evalspec.evidence.words import plural
from evalspec.language.inputs import Predictions
from evalspec.language.predictions import GIVES, all_answers, task_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs
    from evalspec.language.predictions import AnswerKind, Boxes, Task


SHOWN = 60
"""Characters of a reference in a sentence."""
LEAST_MASS = 0.01
"""Mean probability of all options together, below which nobody answers the question that is scored."""
SAME, MOST_EQUAL = 1e-9, 0.9
"""Probabilities that are the same, and the share of rows whose options all are, above which nothing was scored."""


class Undefined(NotRunError):
    """A metric has no value on these rows (0/0, no probabilities, no classes), and why."""


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Options by which texts are read before they are scored.

    Args:
        normalize: Before ``exact_match``: ``none``, or ``squad``.
        tokenize: sacrebleu's name of the tokenizer of BLEU.
        answer: How the answers inside texts are compared; None: whole texts are.
    """

    normalize: str = "none"
    tokenize: str = "13a"
    answer: AnswerKind | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows of a dataset with the answers of one model.

    Args:
        model: Name of the model.
        dataset: Name of the dataset.
        truth: By task, as `Predictions` has it, its first axis the row; of ``boxes``: shape (n,), how many there are.
        classes: Label of each class index; None where nothing has classes.
        predicted: shape (n,), class index; None for another task.
        probabilities: shape (n, C), or None.
        values: shape (n,), predicted values; None for another task.
        clusters: shape (n,), or None.
        positive: Index of the class that binary metrics are about; None: there is none.
        members: ``labels``: shape (n, C), classes that the model says a row has.
        texts: ``text``: shape (n,), str objects, as they were written.
        masks: ``mask``: shape (n, H, W), class index.
        boxes: ``boxes``: what the model found.
        true_boxes: ``boxes``: what is there.
        options: ``text``: how texts are read.
        extracted: ``text``: shape (n,), the answer inside each text, None where there is none; None: it is all of it.
        queries: shape (n,), index of the list that each row is one of, or None.
        asked: Answers to each row of the dataset (samples, orders of options), ``n / asked`` apart; a row here is an
            answer, and its row of the dataset its cluster.
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
    members: NDArray[np.bool_] | None = None
    texts: NDArray[np.object_] | None = None
    masks: NDArray[np.int64] | None = None
    boxes: Boxes | None = None
    true_boxes: Boxes | None = None
    options: TextOptions = TextOptions()
    queries: NDArray[np.int64] | None = None
    extracted: NDArray[np.object_] | None = None
    asked: int = 1

    @property
    def task(self) -> Task:
        """Task of the model, by the answer that it gives for a row."""
        return task_of(self)

    @property
    def n(self) -> int:
        """Rows: answers that are scored."""
        return len(self.truth)

    @property
    def questions(self) -> int:
        """Rows of the dataset."""
        return self.n // self.asked

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Something of each row of the dataset as something of each answer, shape (n, ...).

        Args:
            values: shape (questions, ...).
        """
        return values if self.asked == 1 else np.concatenate([values] * self.asked)

    def number(self, row: NDArray[np.intp]) -> NDArray[np.intp]:
        """Numbers of the rows of the dataset that answers are about."""
        return row % max(self.questions, 1)

    @property
    def where(self) -> str:
        """The dataset as it stands in a sentence."""
        return f"dataset {self.dataset!r}"

    def rows(self, inside: NDArray[np.bool_] | NDArray[np.intp]) -> Scored:
        """Only some rows of the dataset, with all answers to them.

        Args:
            inside: shape (questions,); or the numbers of the rows, rising, which is faster where they are few.
        """
        if self.asked == 1:
            return self.part(inside)
        if inside.dtype == np.bool_:
            return self.part(self.spread(inside))
        return self.part(np.concatenate([inside + first for first in range(0, self.n, self.questions)]))

    def part(self, inside: NDArray[np.bool_] | NDArray[np.intp]) -> Scored:
        """Only some answers: of each row of the dataset all or none.

        Args:
            inside: shape (n,); or the numbers of the answers.
        """
        cut: dict[str, Any] = {}
        for name in BY_ROW:
            array = getattr(self, name)
            cut[name] = None if array is None else array[inside]
        for name in ("boxes", "true_boxes"):
            boxes = getattr(self, name)
            cut[name] = None if boxes is None else _boxes_inside(boxes, self._mask(inside))
        return replace(self, **cut)

    def _mask(self, inside: NDArray[np.bool_] | NDArray[np.intp]) -> NDArray[np.bool_]:
        mask = np.zeros(self.n, dtype=np.bool_)
        mask[inside] = True
        return mask

    def labels(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """Classes, and the predicted class index, shape (n,).

        Raises:
            Undefined: The model gives something else.
        """
        if self.classes is None or self.predicted is None:
            raise Undefined(f"model {self.model!r} gives {GIVES[self.task]}, and this metric needs classes")
        return self.classes, self.predicted

    def is_of(self, index: int) -> NDArray[np.bool_]:
        """Rows of a class (with several labels a row: that have it), shape (n,)."""
        members: NDArray[np.bool_] = self.truth[:, index] if self.task == "labels" else self.truth == index
        return members

    def is_said(self, index: int) -> NDArray[np.bool_]:
        """Rows that are said to be of a class, or to have it, shape (n,).

        Raises:
            Undefined: The model gives something else.
        """
        if self.members is not None:
            return self.members[:, index]
        said: NDArray[np.bool_] = self.labels()[1] == index
        return said

    def class_counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of each class, and rows that are said to be of it, shape (C,) each.

        Raises:
            Undefined: The model gives something else.
        """
        if self.members is not None:
            return self.truth.sum(axis=0), self.members.sum(axis=0)
        classes, predicted = self.labels()
        return np.bincount(self.truth, minlength=len(classes)), np.bincount(predicted, minlength=len(classes))

    def class_name(self, index: int) -> str:
        """A class as it stands in a sentence."""
        return repr(self.classes[index]) if self.classes is not None else str(index)

    def shares(self) -> NDArray[np.float64]:
        """Probabilities, shape (n, C).

        Raises:
            Undefined: The model gives none.
        """
        if self.task != "labels":
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
            Undefined: The model gives something else.
        """
        if self.values is None:
            raise Undefined(f"model {self.model!r} gives {GIVES[self.task]}, and this metric needs values")
        errors: NDArray[np.float64] = self.values - self.truth
        return errors

    def named_class(self, name: str) -> int:
        """Index of a class.

        Raises:
            Undefined: There is no such class.
        """
        if self.classes is None:
            raise Undefined(f"model {self.model!r} gives {GIVES[self.task]}, and this metric needs classes")
        if name not in self.classes:
            shown = ", ".join(self.classes[:30])
            raise Undefined(f"model {self.model!r} has no class {name!r}; its classes are {shown}")
        return self.classes.index(name)


BY_ROW = (
    "truth",
    "predicted",
    "probabilities",
    "values",
    "clusters",
    "members",
    "texts",
    "masks",
    "queries",
    "extracted",
)
"""Fields of `Scored` whose first axis is the row."""


def _boxes_inside(boxes: Boxes, inside: NDArray[np.bool_]) -> Boxes:
    kept = inside[boxes.row]
    place = np.cumsum(inside) - 1
    return replace(
        boxes,
        row=place[boxes.row[kept]],
        corners=boxes.corners[kept],
        classes=boxes.classes[kept],
        scores=None if boxes.scores is None else boxes.scores[kept],
        ignored=None if boxes.ignored is None else boxes.ignored[kept],
    )


def scored(
    inputs: Inputs,
    dataset: str,
    model: str,
    *,
    positive: str | None = None,
    decision_threshold: float | None = None,
    options: TextOptions | None = None,
) -> Scored:
    """A model's answers on a dataset, ready to be scored.

    Args:
        inputs: What the check is handed.
        dataset: Name of the dataset.
        model: Name of the model.
        positive: Class that binary metrics are about; default: the second of two.
        decision_threshold: Predict the positive class (of several labels: each class) where its probability is at
            least this.
        options: How texts are read.

    Raises:
        InputError: No rows, no label, numbers that aren't finite, no such class, or a threshold that means nothing.
    """
    return scored_answers(
        inputs.predictions(dataset, model), dataset, positive=positive, decision_threshold=decision_threshold,
        options=options,
    )  # fmt: skip


def scored_answers(
    answers: Predictions,
    dataset: str,
    *,
    positive: str | None = None,
    decision_threshold: float | None = None,
    options: TextOptions | None = None,
) -> Scored:
    """As `scored`, of answers that are there; all that there are to each row."""
    answers = all_answers(answers)
    truth = _admitted(answers)
    if answers.extracted_as is not None:
        _check_references(answers, answers.extracted_as)
    chosen = _positive_index(answers, positive)
    predicted, members = answers.predicted, answers.members
    if decision_threshold is not None and answers.task == "labels":
        members = _shares(answers, decision_threshold) >= decision_threshold
    elif decision_threshold is not None:
        predicted = _decided(answers, chosen, decision_threshold)
    return Scored(
        model=answers.model, dataset=dataset, truth=truth, classes=answers.classes, predicted=predicted,
        probabilities=answers.probabilities, values=answers.values, clusters=answers.clusters, positive=chosen,
        members=members, texts=answers.texts, masks=answers.masks, boxes=answers.boxes, true_boxes=answers.true_boxes,
        options=replace(options or TextOptions(), answer=answers.extracted_as), extracted=answers.extracted,
        asked=answers.asked,
    )  # fmt: skip


def check_choosing(answers: Predictions) -> None:
    """Stop where a model that chooses from options gives them next to no probability, or all of them the same.

    Raises:
        InvalidError: It does: what is scored is no answer.
    """
    if answers.masses is None or answers.probabilities is None or not answers.n:
        return
    mass = float(answers.masses.mean())
    if mass < LEAST_MASS:
        raise InvalidError(
            f"the options have {100 * mass:.2g} % of the probability of a first token: {answers.model} answers "
            "something else than one of their letters"
        )
    equal = float((np.ptp(answers.probabilities, axis=1) < SAME).mean())
    if equal > MOST_EQUAL:
        raise InvalidError(
            f"{answers.model} gives all options of a row the same probability in {100 * equal:.3g} % of rows: nothing "
            "was scored"
        )


def needs_task(answers: Predictions | Scored, tasks: Sequence[Task], check: str) -> None:
    """Stop a check where a model gives what the check is not made for.

    Args:
        answers: The model's.
        tasks: Those that the check is made for.
        check: Its kind, for the sentence.

    Raises:
        NotRunError: The model's task is another one.
    """
    if isinstance(answers, Predictions):
        check_choosing(answers)
    if answers.task not in tasks:
        wanted = " or ".join(GIVES[task] for task in tasks)
        raise NotRunError(f"{check} is about models that give {wanted}; {answers.model!r} gives {GIVES[answers.task]}")


def aligned(other: Scored, like: Scored) -> Scored:
    """Another model's answers on the same rows, with the classes in the same order.

    Raises:
        NotRunError: It answered other rows, gives something else, or has other classes, or answers inside texts that
            are compared in another way; it was asked another number of times, and not once.
    """
    other = as_often(other, like)
    if other.task != like.task:
        raise NotRunError(
            f"{like.model!r} and {other.model!r} can't be compared: "
            f"one gives {GIVES[like.task]}, one gives {GIVES[other.task]}"
        )
    if other.options.answer != like.options.answer:
        ways = [f"{one.model!r} as {one.options.answer or 'whole texts'}" for one in (like, other)]
        raise NotRunError(f"answers are compared {' and '.join(ways)}; give both models `answer:` with the same `as:`")
    if other.classes is not None and like.classes is not None:
        other = _in_order(other, like)
    if other.n != like.n or not _same_truth(other, like):
        raise NotRunError(
            f"{like.model!r} and {other.model!r} can't be paired on {like.where}: "
            f"they answered other rows ({like.n} and {other.n})"
        )
    return replace(other, truth=like.truth, true_boxes=like.true_boxes, positive=like.positive)


def as_often(other: Scored, like: Scored) -> Scored:
    """The same, with as many answers to each row as ``like`` has: of a model that was asked once, its one answer."""
    if other.asked == like.asked:
        return other
    if other.asked > 1:
        raise NotRunError(
            f"{like.model!r} gives {plural(like.asked, 'answer')} to each row and {other.model!r} {other.asked}: give "
            "both the same `orders` and `samples`, or the other model one"
        )
    return replace(other.part(np.tile(np.arange(other.n), like.asked)), asked=like.asked, clusters=like.clusters)


def _in_order(other: Scored, like: Scored) -> Scored:
    """The same with the classes of ``like``, in its order."""
    assert other.classes is not None and like.classes is not None
    if set(other.classes) != set(like.classes):
        different = sorted(set(other.classes) ^ set(like.classes))
        raise NotRunError(
            f"{like.model!r} and {other.model!r} can't be compared: only one of them has the class {different[0]!r}"
        )
    columns = np.array([other.classes.index(name) for name in like.classes], dtype=np.int64)
    place = np.empty_like(columns)
    place[columns] = np.arange(len(columns))

    def renamed(codes: NDArray[Any] | None) -> NDArray[Any] | None:
        return None if codes is None else np.where(codes < 0, codes, place[codes])

    def moved(boxes: Boxes | None) -> Boxes | None:
        return None if boxes is None else replace(boxes, classes=place[boxes.classes])

    truth = other.truth
    if other.task in ("classes", "mask"):
        truth = np.asarray(renamed(truth))
    elif other.task == "labels":
        truth = truth[:, columns]
    return replace(
        other,
        classes=like.classes,
        truth=truth,
        predicted=renamed(other.predicted),
        probabilities=None if other.probabilities is None else other.probabilities[:, columns],
        members=None if other.members is None else other.members[:, columns],
        masks=renamed(other.masks),
        boxes=moved(other.boxes),
        true_boxes=moved(other.true_boxes),
    )


def _same_truth(other: Scored, like: Scored) -> bool:
    if not np.array_equal(other.truth, like.truth):
        return False
    if other.true_boxes is None or like.true_boxes is None:
        return True
    first, second = other.true_boxes, like.true_boxes
    return np.array_equal(first.classes, second.classes) and np.array_equal(first.corners, second.corners)


def _admitted(answers: Predictions) -> NDArray[Any]:
    """The truth, first axis the row, where there is one and all numbers are finite."""
    if answers.n == 0:
        raise InputError(f"dataset {answers.dataset!r} has no rows", remedy="check its path and its `where:`")
    truth = answers.truth
    if answers.task == "embedding":
        raise NotRunError(f"model {answers.model!r} gives nothing but embeddings, so there is nothing to score")
    if answers.task == "boxes" and answers.true_boxes is not None:
        truth = np.bincount(answers.true_boxes.row, minlength=answers.n)
    if truth is None:
        raise InputError(
            f"dataset {answers.dataset!r} has no label, so nothing can be scored on it",
            remedy="name the column with the truth: `label:`",
        )
    check_choosing(answers)
    named = {"probabilities": answers.probabilities, "values": answers.values}
    if answers.task == "values":
        named["labels"] = np.asarray(truth, dtype=np.float64)
    for what, numbers in named.items():
        if numbers is not None and not np.isfinite(numbers).all():
            row = int(np.argmin(np.isfinite(numbers).reshape(len(numbers), -1).all(axis=1)))
            raise InputError(f"{what} of {answers.model!r} on {answers.dataset!r} are not finite in row {row}")
    return np.asarray(truth)


def _check_references(answers: Predictions, kind: AnswerKind) -> None:
    """Stop where a reference is nothing that could be the answer inside a text.

    Raises:
        InputError: One is no number, or no letter.
    """
    assert answers.truth is not None
    for row, one in enumerate(answers.truth.tolist()):
        for reference in (one,) if isinstance(one, str) else one:
            if canonical(reference, kind, whole=True) is None:
                shown = repr(reference if len(reference) <= SHOWN else f"{reference[:SHOWN]}...")
                raise InputError(
                    f"the label of dataset {answers.dataset!r} is {shown} in row {row} (counted from 0), and "
                    f"{answers.model!r} has answer: {{as: {kind}}}",
                    remedy="make the label the answer alone",
                )


def _positive_index(answers: Predictions, positive: str | None) -> int | None:
    if positive is not None:
        if answers.classes is None:
            raise InputError(f"`positive: {positive}` needs classes, and {answers.model!r} gives {GIVES[answers.task]}")
        if positive not in answers.classes:
            raise InputError(f"model {answers.model!r} has no class {positive!r}", choices=answers.classes[:30])
        return answers.classes.index(positive)
    return 1 if answers.task == "classes" and answers.classes is not None and len(answers.classes) == 2 else None


def _decided(answers: Predictions, positive: int | None, threshold: float) -> NDArray[np.int64]:
    if answers.task != "classes" or answers.classes is None or len(answers.classes) != 2 or positive is None:
        raise InputError(
            f"`decision_threshold: {threshold}` needs a model with two classes",
            remedy="leave it out: the most probable class is predicted",
        )
    shares = _shares(answers, threshold)
    chosen: NDArray[np.int64] = np.where(shares[:, positive] >= threshold, positive, 1 - positive)
    return chosen.astype(np.int64)


def _shares(answers: Predictions, threshold: float) -> NDArray[np.float64]:
    if answers.probabilities is None:
        raise InputError(
            f"`decision_threshold: {threshold}` needs probabilities, and {answers.model!r} gives labels only",
            remedy="name its `probabilities` or `logits` in `outputs:`",
        )
    return answers.probabilities


def over(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Above / below, NaN where below is 0."""
    ratio: NDArray[np.float64] = np.full(above.shape, np.nan)
    np.divide(above, below, out=ratio, where=below > 0)
    return ratio
