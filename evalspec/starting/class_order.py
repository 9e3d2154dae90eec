"""Order of a model's classes: its own, the data's, or the one in which it agrees with the labels most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from evalspec.answers.classes import label_text
from evalspec.errors import InputError
from evalspec.starting.rows import RowsSketch

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLEARLY = 0.2
"""By so much more of the rows must another order agree before it is taken."""


class ClassOrder(NamedTuple):
    """Classes of a model.

    Args:
        classes: In its order.
        stated: As the spec has to state them; empty: the model tells them itself.
        class_names: Labels are to be read as the names that the data give them.
        note: What is a guess; empty: nothing.
    """

    classes: tuple[str, ...]
    stated: tuple[str, ...] = ()
    class_names: bool = False
    note: str = ""


def in_order(
    own: Sequence[Any] | None, rows: RowsSketch, width: int, agreement: NDArray[np.int64] | None
) -> ClassOrder:
    """Classes in the order of the model's output.

    Args:
        own: The model's own; None: it tells none.
        rows: The dataset as it was seen.
        width: Classes that its output has; 0: it gives labels.
        agreement: shape (width, values): how often each index was given to rows with each value of the label.

    Raises:
        InputError: The labels do not fit the model.
    """
    values = rows.values
    if own is not None:
        texts = tuple(map(label_text, own))
        if not values or (not rows.names and set(values) <= set(texts)):
            return ClassOrder(texts)
        if rows.names and set(texts) & set(rows.names):
            return ClassOrder(texts, class_names=True)
        if rows.names and texts == tuple(map(str, range(len(rows.names)))):
            return ClassOrder(rows.names, rows.names, class_names=True)
        if len(values) != len(texts):
            raise InputError(
                f"the labels in {rows.label!r} ({_listed(values)}) are not the model's classes ({_listed(texts)})",
                remedy="name a different column with --label, or use other data",
            )
        return _by_rows(values, agreement, bool(rows.names))
    if not values:
        raise InputError(
            f"the model gives {width or 'unnamed'} classes, and {rows.label or 'no column'} holds no class labels",
            remedy="name the label column: --label COLUMN",
        )
    if rows.names:
        return ClassOrder(rows.names, rows.names, class_names=True)
    if all(one.isdigit() for one in values) and int(values[-1]) < max(width, 1):
        numbers = tuple(map(str, range(width)))
        return ClassOrder(numbers, numbers)
    if width and len(values) != width:
        raise InputError(
            f"the model gives {width} classes, and the first rows hold {len(values)} labels: {_listed(values)}",
            remedy="name a different column with --label, or a test set with all classes",
        )
    return _by_rows(values, agreement, False)


def _by_rows(values: tuple[str, ...], agreement: NDArray[np.int64] | None, named: bool) -> ClassOrder:
    """Labels in the order of the alphabet, unless the model clearly agrees with the rows in another one."""
    guess = "`classes` are in alphabetical order: check that training used the same order"
    if agreement is None or agreement.shape != (len(values), len(values)) or not agreement.sum():
        return ClassOrder(values, values, named, guess)
    from scipy.optimize import linear_sum_assignment

    _, best = linear_sum_assignment(-agreement)
    total = int(agreement.sum())
    before, after = int(agreement.trace()), int(agreement[range(len(values)), best].sum())
    if after - before <= CLEARLY * total:
        return ClassOrder(values, values, named, f"{guess} ({before / total * 100:.0f} % of the first rows agree)")
    order = tuple(values[one] for one in best)
    told = (
        f"`classes` are in the order in which {after / total * 100:.0f} % of the first rows agree "
        f"(in alphabetical order {before / total * 100:.0f} %): check that training used the same order"
    )
    return ClassOrder(order, order, named, told)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
