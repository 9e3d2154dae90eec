"""Answers of a model to the rows of a dataset, as checks are handed them; all that there are to one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cells

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Task = Literal["classes", "values", "labels", "text", "boxes", "mask", "embedding"]
"""What a model gives for a row: one class, one value, any number of classes, a text, boxes, a class for each pixel, or
nothing but an embedding."""

AnswerKind = Literal["text", "number", "letter"]
"""How the answer inside a text is compared: as it is, by its decimal value, as one letter."""

GIVES: Mapping[Task, str] = {
    "classes": "classes", "values": "values", "labels": "several labels a row", "text": "texts", "boxes": "boxes",
    "mask": "masks", "embedding": "embeddings",
}  # fmt: skip
"""What a model of each task gives, as it stands in a sentence."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """Answers of a model to every row of a dataset, in the dataset's row order.

    Args:
        model: Name of the model in the spec.
        dataset: Name of the dataset.
        n: Number of rows.
        classes: Label of each class index, as text; None: the task has no classes.
        probabilities: shape (n, C), rows sum to 1 (not for ``labels``); None: the model gives none.
        predicted: shape (n,), class index; None for other tasks.
        values: shape (n,), predicted value in the label's unit; None for other tasks.
        lower, upper: shape (n,), a stated prediction interval, or None.
        truth: None if the dataset has no label, else by task. ``classes``: shape (n,), class index (int64).
            ``values``: shape (n,), float64. ``labels``: shape (n, C), bool. ``text``: shape (n,), objects: a str, or
            a tuple of str if a row has several references. ``boxes``: None (see ``true_boxes``). ``mask``: shape
            (n, H, W), class index, -1 for pixels that are not judged.
        clusters: shape (n,), index of each row's cluster; None: there are no clusters.
        digest: Digest of model, preprocessing, dataset and batch.
        label_unit: Unit of ``values``, or None.
        details: Facts of the run: precision and provider observed, batch, padding, seconds.
        members: ``labels``: shape (n, C), predicted classes of a row.
        texts: ``text``: shape (n,), str objects, as the model wrote them.
        masks: ``mask``: shape (n, H, W), class index of each pixel.
        boxes: ``boxes``: predicted boxes.
        true_boxes: ``boxes``: true boxes; None if the dataset has no label.
        embeddings: shape (n, d), float32: embedding of each row; None: ``outputs`` names none.
        finish_reasons: ``text``: shape (n,), str objects: why the model stopped (``stop``, ``length``), or None.
        tokens: ``text``: shape (n,), number of tokens in each text, or None.
        extracted: ``text``: shape (n,), the answer inside each text, as a str in the form for comparison, or None if a
            text has none. None: the model has no ``answer:``, and whole texts are compared.
        extracted_as: How these answers are compared; None: there are none.
        masses: ``classes`` of a model that chooses from options: shape (n,), total probability of the options; or None.
        again: Further answers to the same rows, equally valid: other samples, or other orders of options.
        by_template: Answers with the other templates of the model's prompt, each with its own further ones.
        written: Texts from a model that chooses and also writes, with their own further ones; or None.
        asked: Answers to each row of the dataset, if all answers are concatenated; then ``n`` counts answers.
    """

    model: str
    dataset: str
    n: int
    classes: tuple[str, ...] | None
    probabilities: NDArray[np.float64] | None
    predicted: NDArray[np.int64] | None
    values: NDArray[np.float64] | None
    lower: NDArray[np.float64] | None
    upper: NDArray[np.float64] | None
    truth: NDArray[Any] | None
    clusters: NDArray[np.int64] | None
    digest: str
    label_unit: str | None = None
    details: Cells = field(default_factory=dict)
    members: NDArray[np.bool_] | None = None
    texts: NDArray[np.object_] | None = None
    masks: NDArray[np.int64] | None = None
    boxes: Boxes | None = None
    true_boxes: Boxes | None = None
    embeddings: NDArray[np.float32] | None = None
    finish_reasons: NDArray[np.object_] | None = None
    tokens: NDArray[np.int64] | None = None
    extracted: NDArray[np.object_] | None = None
    extracted_as: AnswerKind | None = None
    masses: NDArray[np.float64] | None = None
    again: tuple[Predictions, ...] = ()
    by_template: tuple[Predictions, ...] = ()
    written: Predictions | None = None
    asked: int = 1

    @property
    def task(self) -> Task:
        """Kind of answer to a row."""
        return task_of(self)

    @property
    def is_classification(self) -> bool:
        """True if an answer is one class."""
        return self.task == "classes"


@dataclass(frozen=True, slots=True)
class Variant:
    """How a language model is asked about a row.

    Args:
        template: Place in the list of texts of its prompt; the first is what ships.
        sample: Number of an answer that is drawn at random, from 0.
        order: Rotation in which options are shown; the first is what ships.
        writes: Of a model that chooses and writes: it writes.
    """

    template: int = 0
    sample: int = 0
    order: int = 0
    writes: bool = False


FIRST = Variant()
"""What ships."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes in many pictures, those of one row after those of the row before.

    Args:
        row: shape (m,), rising: index of the row that each box is in.
        corners: shape (m, 4): left, top, right, bottom, in pixels.
        classes: shape (m,), class index.
        scores: shape (m,), how sure the model is; None: they are true.
        ignored: shape (m,), true boxes that count neither for nor against (COCO's crowds); None: none.
    """

    row: NDArray[np.int64]
    corners: NDArray[np.float64]
    classes: NDArray[np.int64]
    scores: NDArray[np.float64] | None = None
    ignored: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class RowScores:
    """How good each answer is, as a check that requires something of answers scores them.

    Args:
        name: Of the metric.
        scores: shape (n,), in 0..1, larger is better.
        margin: Largest loss of the mean that the check lets pass against another model, as a fraction.
    """

    name: str
    scores: NDArray[np.float64]
    margin: float


class Answered(Protocol):
    """Answers that show by what is there which task they are of."""

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Label of each class index."""
        ...

    @property
    def values(self) -> NDArray[np.float64] | None:
        """Of values."""
        ...

    @property
    def members(self) -> NDArray[np.bool_] | None:
        """Of several labels a row."""
        ...

    @property
    def texts(self) -> NDArray[np.object_] | None:
        """Of texts."""
        ...

    @property
    def masks(self) -> NDArray[np.int64] | None:
        """Of masks."""
        ...

    @property
    def boxes(self) -> Boxes | None:
        """Of boxes."""
        ...


def task_of(answers: Answered) -> Task:
    """Task of a model: the kind of answer that it gives for a row.

    Args:
        answers: Its answers.
    """
    others: tuple[tuple[Task, object | None], ...] = (
        ("labels", answers.members), ("text", answers.texts), ("boxes", answers.boxes), ("mask", answers.masks),
    )  # fmt: skip
    given = next((task for task, found in others if found is not None), None)
    if given is not None:
        return given
    if answers.classes is not None:
        return "classes"
    return "embedding" if answers.values is None else "values"


def all_answers(answers: Predictions) -> Predictions:
    """Those that ship, and below them all further ones; a row is a cluster.

    ``asked`` says how many there are to each row; the answers to a row stand ``n / asked`` apart.

    Args:
        answers: With further ones in ``again``, or without.
    """
    import numpy as np

    every = (answers, *answers.again)
    if len(every) == 1:
        return answers
    clusters = np.arange(answers.n) if answers.clusters is None else answers.clusters
    joined: dict[str, Any] = {}
    for name in (one.name for one in fields(answers)):
        arrays = [getattr(one, name) for one in every]
        if all(isinstance(array, np.ndarray) for array in arrays):
            joined[name] = np.concatenate(arrays)
    joined |= {"clusters": np.tile(clusters, len(every)), "n": answers.n * len(every)}
    return replace(answers, **joined, again=(), written=None, asked=len(every))


def of_template(answers: Predictions, template: int) -> Predictions:
    """Answers by one template of the prompt; of a model with one, these.

    Args:
        answers: By the first, with all others.
        template: Place in the prompt's list.

    Raises:
        NotRunError: There is no such template.
    """
    if template == 0 or not answers.by_template:
        return answers
    if template > len(answers.by_template):
        raise NotRunError(
            f"{answers.model} has {1 + len(answers.by_template)} templates, and number {template + 1} is needed; "
            "give both models the same number of templates, or one of them a single one"
        )
    return answers.by_template[template - 1]


def with_clusters(answers: Predictions, clusters: NDArray[np.int64] | None) -> Predictions:
    """The same, all sets of answers with these clusters.

    Args:
        answers: With further ones.
        clusters: shape (n,), or None.
    """
    return each_set(answers, lambda one: replace(one, clusters=clusters))


def as_often(answers: Predictions, times: int) -> Predictions:
    """All answers, so many to each row: of a model that was asked once, its one answer so many times.

    Args:
        answers: With further ones, or without.
        times: Answers of the model that these are set beside.

    Raises:
        NotRunError: There is another number of them.
    """
    if not answers.again:
        return all_answers(replace(answers, again=(answers,) * (times - 1)))
    if 1 + len(answers.again) != times:
        raise NotRunError(
            f"{answers.model} gives {1 + len(answers.again)} answers to each row, and the other model {times}: "
            "give both the same `orders` and `samples`, or make the other model give one answer"
        )
    return all_answers(answers)


def each_set(answers: Predictions, change: Callable[[Predictions], Predictions]) -> Predictions:
    """The same with a change to every set of answers: samples, orders, templates.

    Args:
        answers: With further ones, or without.
        change: Of one set.
    """
    again = tuple(each_set(one, change) for one in answers.again)
    by_template = tuple(each_set(one, change) for one in answers.by_template)
    written = None if answers.written is None else each_set(answers.written, change)
    alone = replace(answers, again=(), by_template=(), written=None)
    return replace(change(alone), again=again, by_template=by_template, written=written)
