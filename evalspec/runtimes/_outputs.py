"""From what a model gives to probabilities, classes and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError, did_you_mean
from evalspec.language.parts import OutputName
from evalspec.runtimes._labels import class_indices

SUM_TOLERANCE = 1e-3
EDGE_TOLERANCE = 1e-6
CLASS_OUTPUTS = ("logits", "probabilities", "label")

OUTPUT_NAMES: tuple[OutputName, ...] = get_args(OutputName)


@dataclass(frozen=True, slots=True)
class Mapped:
    """Answers of some rows.

    Args:
        probabilities: shape (n, C) or None.
        predicted: shape (n,), class index, or None.
        values, lower, upper: shape (n,) or None.
    """

    probabilities: NDArray[np.float64] | None = None
    predicted: NDArray[np.int64] | None = None
    values: NDArray[np.float64] | None = None
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None


def resolve_outputs(
    stated: Mapping[OutputName, str | int], given: Sequence[str], default: Mapping[OutputName, str]
) -> dict[OutputName, str]:
    """What each output is: kind of output: the model's name for it.

    Args:
        stated: The spec's ``outputs``.
        given: Names of the model's outputs, in its order.
        default: What the runtime says where the spec says nothing.

    Raises:
        InputError: A name or position that the model has not, kinds that exclude each other, or nothing said.
    """
    if stated:
        found = {kind: _output(name, given) for kind, name in stated.items()}
    else:
        found = dict(default) or {kind: kind for kind in OUTPUT_NAMES if kind in given}
    if not found:
        raise InputError(
            f"nothing says what the model's outputs are ({', '.join(given)})",
            remedy=f"add outputs: {{logits: {given[0] if given else 'name'}}}, or probabilities, label, value",
        )
    if "logits" in found and "probabilities" in found:
        raise InputError("`outputs` names both logits and probabilities", remedy="keep the one that should be judged")
    classes = [kind for kind in CLASS_OUTPUTS if kind in found]
    if "value" in found and classes:
        raise InputError(f"`outputs` names both value and {classes[0]}: a model predicts values or classes, not both")
    if ("lower" in found) != ("upper" in found) or ("lower" in found and "value" not in found):
        raise InputError("`outputs` must name value, lower and upper together, or value alone")
    return found


def _output(name: str | int, given: Sequence[str]) -> str:
    if isinstance(name, int):
        if not 0 <= name < len(given):
            raise InputError(f"the model has {len(given)} outputs and none is number {name}", choices=given)
        return given[name]
    if name not in given:
        raise InputError(f"the model has no output {name!r}", choices=given, remedy=did_you_mean(name, given))
    return name


def map_outputs(
    outputs: Mapping[str, NDArray[Any]],
    kinds: Mapping[OutputName, str],
    classes: Sequence[str] | None,
    labels: Sequence[str] | None,
    first_row: int = 0,
) -> Mapped:
    """Answers of one batch.

    Args:
        outputs: As the model gives them, rows first.
        kinds: As `resolve_outputs`.
        classes: Label of each index; None for values.
        labels: Labels that the model itself uses in a ``label`` output, in the order of ``classes``.
        first_row: Index of the first row in its dataset, for sentences.

    Raises:
        InputError: Another width than the classes, NaN or infinity, no probabilities, a label that no class has.
    """
    if "value" in kinds:
        value, lower, upper = (
            _column(outputs[kinds[kind]], kind, first_row) if kind in kinds else None
            for kind in ("value", "lower", "upper")
        )
        return Mapped(values=value, lower=lower, upper=upper)
    if classes is None:
        raise InputError(
            "the model predicts classes and nothing says which: it has no list of its own",
            remedy="add `classes:`, the label of each output index, as a list or a file with one a line",
        )
    probabilities = _probabilities(outputs, kinds, len(classes), first_row)
    if "label" in kinds:
        array = np.asarray(outputs[kinds["label"]])
        flat = array.reshape(len(array), -1)
        if flat.shape[1] != 1:
            raise InputError(f"the label output {kinds['label']!r} has shape {array.shape}, not one label a row")
        predicted = class_indices(flat[:, 0], labels or classes, f"the label output {kinds['label']!r}")
    elif probabilities is not None:
        predicted = probabilities.argmax(axis=1).astype(np.int64)
    else:
        raise InputError(
            f"the outputs {', '.join(kinds)} hold nothing that can be judged",
            choices=("logits", "probabilities", "label", "value"),
        )
    return Mapped(probabilities=probabilities, predicted=predicted)


def _probabilities(
    outputs: Mapping[str, NDArray[Any]], kinds: Mapping[OutputName, str], width: int, first_row: int
) -> NDArray[np.float64] | None:
    if "logits" in kinds:
        name = kinds["logits"]
        scores = _matrix(outputs[name], name, width, first_row)
        return two_columns(sigmoid(scores[:, 0])) if scores.shape[1] == 1 else softmax64(scores)
    if "probabilities" not in kinds:
        return None
    name = kinds["probabilities"]
    scores = _matrix(outputs[name], name, width, first_row)
    outside = ((scores < -EDGE_TOLERANCE) | (scores > 1 + EDGE_TOLERANCE)).any(axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        worst = scores[row][np.argmax(np.abs(scores[row] - 0.5))]
        raise InputError(
            f"the output {name!r} is no probability in row {first_row + row} (counted from 0): {worst:.6g} is not "
            "within 0..1",
            remedy="if it gives scores before softmax, say outputs: {logits: ...}",
        )
    scores = np.clip(scores, 0.0, 1.0)
    if scores.shape[1] == 1:
        return two_columns(scores[:, 0])
    sums = scores.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise InputError(
            f"the probabilities {name!r} sum to {sums[row]:.6g} in row {first_row + row} (counted from 0), not to 1 "
            f"({int(off.sum())} such rows in this batch)",
            remedy="if it gives scores before softmax, say outputs: {logits: ...}",
        )
    return np.asarray(scores / sums[:, None])


def _matrix(array: NDArray[Any], name: str, width: int, first_row: int) -> NDArray[np.float64]:
    """Finite scores, one column for each class, or one for two classes."""
    array = np.asarray(array)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2:
        raise InputError(f"the output {name!r} has shape {_shape(array)}, not one row of scores for each row")
    if array.shape[1] != width and not (array.shape[1] == 1 and width == 2):
        raise InputError(
            f"the output {name!r} has {array.shape[1]} columns and there are {width} classes",
            remedy="make `classes` the label of each output index",
        )
    return _finite(array, name, first_row)


def _column(array: NDArray[Any], kind: str, first_row: int) -> NDArray[np.float64]:
    array = np.asarray(array)
    flat = array.reshape(len(array), -1)
    if flat.shape[1] != 1:
        raise InputError(f"the output for {kind!r} has shape {_shape(array)}, not one value a row")
    return _finite(flat[:, 0], kind, first_row)


def _finite(array: NDArray[Any], name: str, first_row: int) -> NDArray[np.float64]:
    if array.dtype.kind not in "biuf":
        raise InputError(f"the output {name!r} holds {array.dtype}, not numbers")
    numbers = array.astype(np.float64)
    bad = ~np.isfinite(numbers.reshape(len(numbers), -1)).all(axis=1)
    if bad.any():
        raise InputError(
            f"the output {name!r} is NaN or infinite in row {first_row + int(np.argmax(bad))} (counted from 0) and in "
            f"{int(bad.sum()) - 1} others of this batch"
        )
    return numbers


def _shape(array: NDArray[Any]) -> str:
    return str(list(array.shape))


def softmax64(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities from logits, shape (n, C), without overflow."""
    exp = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True))


def sigmoid(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability from one logit, shape (n,), without overflow."""
    small = np.exp(-np.abs(scores))
    return np.where(scores >= 0, 1.0, small) / (1.0 + small)


def two_columns(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of both classes from that of the second, shape (n, 2)."""
    return np.stack([1.0 - positive, positive], axis=1)
