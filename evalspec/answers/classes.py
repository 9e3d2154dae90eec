"""Labels are matched to classes by value, never by position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.evidence.words import plural, verb
from evalspec.language.bounded import read_bounded
from evalspec.language.parts import Access, Model

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN = 5


def label_text(value: Any) -> str:
    """A label as the text that it is compared by: 3, 3.0 and "3" are one label, and so are true and True."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def read_classes(classes: str | Sequence[Any] | None, access: Access) -> tuple[str, ...] | None:
    """Labels of the spec's ``classes``: a list, or a text file with one a line.

    Raises:
        InputError: The file is missing, empty or no text; or a label stands twice.
    """
    if classes is None:
        return None
    where = "classes"
    if isinstance(classes, str):
        where = f"the file of classes {classes!r}"
        try:
            lines = read_bounded(access.path(classes), where).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(f"{where} is not text: {error}") from error
        except IsADirectoryError as error:
            raise InputError(f"{where} is a folder") from error
        except OSError as error:
            raise InputError(f"{where} can't be read: {error.strerror or error}") from error
        classes = [line for line in lines if line.strip()]
    return unique_labels(classes, where)


def class_list(model: Model, access: Access) -> tuple[str, ...] | None:
    """A model's classes as the spec states them; None where it states none.

    Raises:
        InputError: As `read_classes`.
    """
    return read_classes(model.classes, access)


def unique_labels(values: Iterable[Any], where: str) -> tuple[str, ...]:
    """The labels as text.

    Raises:
        InputError: There is none, or one stands twice.
    """
    labels = tuple(label_text(value) for value in values)
    if not labels:
        raise InputError(f"{where} is empty")
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        raise InputError(f"{where} names {twice[0]!r} twice")
    return labels


def class_indices(values: NDArray[Any], classes: Sequence[str], what: str) -> NDArray[np.int64]:
    """Index of each label among the classes.

    Args:
        values: shape (n,), labels of any type.
        classes: Labels as text.
        what: Whose labels they are, for the sentence.

    Raises:
        InputError: A label is missing or NaN (with the count), or no class has it (with its name).
    """
    missing = missing_mask(values)
    if missing.any():
        raise InputError(
            f"{what}: {int(missing.sum())} of {len(values)} labels are missing (NaN or empty)",
            remedy="drop these rows with `where:`, or label them",
        )
    distinct, inverse = np.unique(_comparable(values), return_inverse=True)
    index = {label: position for position, label in enumerate(classes)}
    if values.dtype.kind == "b":
        # A file of classes may say True where YAML says true.
        index |= {label.lower(): position for label, position in index.items() if label.lower() in ("true", "false")}
    indices = np.array([index.get(label_text(value), -1) for value in distinct.tolist()], dtype=np.int64)
    if (indices < 0).any():
        strangers = [label_text(value) for value in distinct[indices < 0].tolist()]
        rows = int((indices[inverse] < 0).sum())
        more = " and others" if len(strangers) > SHOWN else ""
        listed = ", ".join(repr(label) for label in strangers[:SHOWN]) + more
        raise InputError(
            f"{what}: {listed} ({rows} of {plural(len(values), 'row')}) "
            f"{verb(len(strangers), 'is', 'are')} in no class",
            choices=(*classes[:20], "...") if len(classes) > 20 else classes,
            remedy="labels are matched to `classes` by value",
        )
    return indices[inverse.reshape(-1)]


def missing_mask(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of rows without a label: NaN or None."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype == object:
        return np.array([value is None or (isinstance(value, float) and value != value) for value in values.tolist()])
    return np.zeros(len(values), dtype=np.bool_)


def _comparable(values: NDArray[Any]) -> NDArray[Any]:
    """An array that numpy can sort: mixed objects as text."""
    if values.dtype != object:
        return values
    return np.array([label_text(value) for value in values.tolist()], dtype=np.str_)


def truth(table: pa.Table, label: str, classes: Sequence[str] | None) -> NDArray[Any]:
    """The label column: class indices, or values where there are no classes.

    Returns:
        shape (n,): int64 for classes, float64 for values.

    Raises:
        InputError: No such column, missing labels, a label that no class has, or text where values are needed.
    """
    import pyarrow.types as types

    from evalspec.answers.arrays import column, column_array

    kind = column(table, label).type
    if types.is_nested(kind):
        raise InputError(
            f"the label column {label!r} holds {kind}, not one label per row",
            remedy="if a row may have several labels, set multilabel: true; boxes and masks are outputs of their own",
        )
    values = column_array(table, label)
    if values.ndim != 1:
        shape = list(values.shape[1:])
        raise InputError(f"the label column {label!r} holds lists of shape {shape}, not one label per row")
    if classes is not None:
        return class_indices(values, classes, f"the label column {label!r}")
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"the label column {label!r} holds text but the model predicts values",
            remedy="give the model `classes:` and outputs that are logits, probabilities or label",
        )
    values = values.astype(np.float64)
    unusable = ~np.isfinite(values)
    if unusable.any():
        raise InputError(
            f"the label column {label!r}: {int(unusable.sum())} of {len(values)} labels are missing, NaN or infinite",
            remedy="drop these rows with `where:`, or label them",
        )
    return values
