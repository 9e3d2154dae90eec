"""The label column as the truth of what a model gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalspec.answers.boxes import true_boxes
from evalspec.answers.classes import truth
from evalspec.answers.masks import true_masks
from evalspec.answers.multilabel import true_members
from evalspec.answers.texts import true_texts

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers
    from evalspec.language.inputs import Boxes
    from evalspec.language.parts import Access


def true_answers(
    table: pa.Table, label: str, answers: Answers, access: Access
) -> tuple[NDArray[Any] | None, Boxes | None]:
    """``truth`` and ``true_boxes``, as `evalspec.language.inputs.Predictions` has them.

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
