"""The label column as the truth of what a model gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalspec.answers.boxes import true_boxes
from evalspec.answers.classes import truth
from evalspec.answers.masks import true_masks
from evalspec.answers.multilabel import true_members
from evalspec.answers.texts import true_texts
from evalspec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers
    from evalspec.language.parts import Access, Dataset
    from evalspec.language.predictions import Boxes


def unnamed_labels(dataset: Dataset, name: str, classes: Collection[str], access: Access) -> InputError | None:
    """Error of labels that are read as numbers where the classes are the names that the data give them; None: not so.

    Args:
        dataset: The dataset.
        name: Its name in the spec.
        classes: Of the model.
        access: Where the dataset may be read from.
    """
    try:
        names = dataset.label_names(access)
    except (InputError, OSError):
        # Whoever reads the rows says so.
        return None
    if not set(names) & set(classes) or any(one in classes for one in map(str, range(len(names)))):
        return None
    return InputError(
        f"the labels of {name} are read as numbers and the classes are names: the dataset calls 0 {names[0]!r}",
        remedy=f"add `class_names: true` to datasets.{name}",
    )


def true_answers(
    table: pa.Table, label: str, answers: Answers, access: Access
) -> tuple[NDArray[Any] | None, Boxes | None]:
    """``truth`` and ``true_boxes``, as `evalspec.language.predictions.Predictions` has them.

    Args:
        table: The rows.
        label: Column with the truth.
        answers: What the model says of them.
        access: Where pictures may lie.

    Raises:
        InputError: The labels do not fit what the model gives.
    """
    task, classes = answers.task, answers.classes or ()
    if task == "embedding":
        return None, None
    if task == "boxes":
        return None, true_boxes(table, label, classes)
    if task == "text":
        return true_texts(table, label), None
    if task == "labels":
        return true_members(table, label, classes), None
    if answers.masks is not None:
        return true_masks(table, label, answers.masks, len(classes), access), None
    return truth(table, label, answers.classes), None
