"""Mapping of a model's outputs to probabilities, classes, values, texts, boxes, masks and embeddings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.boxes import found_boxes
from evalspec.answers.classes import class_indices
from evalspec.answers.masks import said_masks
from evalspec.answers.multilabel import said_members
from evalspec.answers.numbers import (
    finite,
    matrix,
    one_column,
    shape_text,
    shares,
    sigmoid,
    softmax64,
    two_columns,
)
from evalspec.answers.texts import said_reasons, said_texts, said_tokens
from evalspec.errors import InputError, InvalidError, did_you_mean
from evalspec.language.parts import OutputName
from evalspec.language.predictions import AnswerKind, Boxes

SUM_TOLERANCE = 1e-3
FEWEST_SUMS = 20
"""Unlike rows that sum to 1, from which on no chance does it."""
CLASS_OUTPUTS = ("logits", "probabilities", "label")
ALONE: tuple[OutputName, ...] = ("text", "mask")
"""Outputs beside which no other is judged."""
BESIDE_TEXT: tuple[OutputName, ...] = ("finish_reason", "tokens")
"""Outputs that say something of a text. Taken where they are named: columns of files are often called ``tokens``."""

OUTPUT_NAMES: tuple[OutputName, ...] = get_args(OutputName)
Kinds = Mapping[OutputName, str]


@dataclass(frozen=True, slots=True)
class Mapped:
    """Answers of some rows.

    Args:
        n: Rows.
        probabilities: shape (n, C) or None.
        predicted: shape (n,), class index, or None.
        values, lower, upper: shape (n,) or None.
        members: shape (n, C), or None.
        texts: shape (n,), or None.
        masks: shape (n, H, W), or None.
        boxes: Their rows counted from the first of these, or None.
        embeddings: shape (n, d), or None.
        finish_reasons: shape (n,), or None.
        tokens: shape (n,), or None.
        extracted: shape (n,), objects: the answer inside each text, None where there is none; or None.
        extracted_as: How these are compared, or None.
        masses: shape (n,), probability that all options together have, of a model that chooses; or None.
    """

    n: int
    probabilities: NDArray[np.float64] | None = None
    predicted: NDArray[np.int64] | None = None
    values: NDArray[np.float64] | None = None
    lower: NDArray[np.float64] | None = None
    upper: NDArray[np.float64] | None = None
    members: NDArray[np.bool_] | None = None
    texts: NDArray[np.object_] | None = None
    masks: NDArray[np.int64] | None = None
    boxes: Boxes | None = None
    embeddings: NDArray[np.float32] | None = None
    finish_reasons: NDArray[np.object_] | None = None
    tokens: NDArray[np.int64] | None = None
    extracted: NDArray[np.object_] | None = None
    extracted_as: AnswerKind | None = None
    masses: NDArray[np.float64] | None = None


def only_embeds(parts: Sequence[Mapped]) -> bool:
    """True if they hold embeddings and no answer."""
    if not parts or parts[0].embeddings is None:
        return False
    one = parts[0]
    return all(answer is None for answer in (one.predicted, one.values, one.members, one.texts, one.masks, one.boxes))


def resolve_outputs(
    stated: Mapping[OutputName, str | int], given: Sequence[str], default: Kinds, *, multilabel: bool = False
) -> dict[OutputName, str]:
    """Outputs of a model, as kind of output: the model's name for it.

    Args:
        stated: The spec's ``outputs``.
        given: Names of the model's outputs, in its order.
        default: What the runtime says where the spec says nothing.
        multilabel: A row may have any number of classes.

    Raises:
        InputError: A name or position that the model has not, kinds that exclude each other, or nothing said.
    """
    if stated:
        outputs = {kind: _output(name, given) for kind, name in stated.items()}
    else:
        outputs = dict(default) or _by_name(given)
    if not outputs:
        raise InputError(
            f"the spec does not say what the model's outputs are ({', '.join(given)})",
            remedy=f"add outputs: {{logits: {given[0] if given else 'name'}}}, or probabilities, label, value, text, "
            "boxes with scores and label, mask",
        )
    _refuse_excluding(outputs)
    if multilabel and not any(kind in outputs for kind in CLASS_OUTPUTS):
        raise InputError(
            f"`multilabel: true` is about classes, and `outputs` names {', '.join(outputs)}",
            choices=CLASS_OUTPUTS,
        )
    return outputs


def _by_name(given: Sequence[str]) -> dict[OutputName, str]:
    """Outputs that are called what they are; a text or a mask only where nothing else is."""
    outputs: dict[OutputName, str] = {kind: kind for kind in OUTPUT_NAMES if kind in given and kind not in BESIDE_TEXT}
    if "boxes" not in outputs:
        outputs.pop("scores", None)
        plain = {kind: name for kind, name in outputs.items() if kind not in ALONE}
        return plain or dict(list(outputs.items())[:1])
    return {kind: name for kind, name in outputs.items() if kind in ("boxes", "scores", "label")}


def _refuse_excluding(outputs: Kinds) -> None:
    if "logits" in outputs and "probabilities" in outputs:
        raise InputError("`outputs` names both logits and probabilities", remedy="keep the one that should be judged")
    classes = [kind for kind in CLASS_OUTPUTS if kind in outputs]
    if "value" in outputs and classes:
        raise InputError(f"`outputs` names both value and {classes[0]}: a model predicts values or classes, not both")
    if ("lower" in outputs) != ("upper" in outputs) or ("lower" in outputs and "value" not in outputs):
        raise InputError("`outputs` must name value, lower and upper together, or value alone")
    beside = next((kind for kind in BESIDE_TEXT if kind in outputs), None)
    if beside is not None and "text" not in outputs:
        raise InputError(
            f"`outputs` names {beside} and no text that it belongs to", remedy="add text: the output that has it"
        )
    others = [kind for kind in outputs if kind not in ("embedding", *BESIDE_TEXT)]
    alone = next((kind for kind in ALONE if kind in outputs), None)
    if alone is not None and len(others) > 1:
        other = next(kind for kind in others if kind != alone)
        raise InputError(f"`outputs` names both {alone} and {other}", remedy="keep the one that should be judged")
    if ("boxes" in outputs) != ("scores" in outputs):
        raise InputError("`outputs` must name boxes and scores together, and label where there are several classes")
    if "boxes" in outputs and set(others) - {"boxes", "scores", "label"}:
        other = next(kind for kind in others if kind not in ("boxes", "scores", "label"))
        raise InputError(f"`outputs` names both boxes and {other}", remedy="keep the one that should be judged")


def _output(name: str | int, given: Sequence[str]) -> str:
    if isinstance(name, int):
        if not 0 <= name < len(given):
            raise InputError(f"the model has {len(given)} outputs, so there is no output number {name}", choices=given)
        return given[name]
    if name not in given:
        raise InputError(f"the model has no output {name!r}", choices=given, remedy=did_you_mean(name, given))
    return name


def map_outputs(
    outputs: Mapping[str, NDArray[Any]],
    kinds: Kinds,
    classes: Sequence[str] | None,
    labels: Sequence[str] | None,
    first_row: int = 0,
    *,
    multilabel: bool = False,
) -> Mapped:
    """Answers of one batch.

    Args:
        outputs: As the model gives them, rows first.
        kinds: As `resolve_outputs`.
        classes: Label of each index; None for values and texts.
        labels: Labels that the model itself uses in a ``label`` output, in the order of ``classes``.
        first_row: Index of the first row in its dataset, for sentences.
        multilabel: A row may have any number of classes.

    Raises:
        InputError: Another width than the classes, NaN or infinity, no probabilities, a label that no class has, no
            text, boxes, masks or embeddings that can't be read; an output that was there before is not.
    """
    missing = [name for name in kinds.values() if name not in outputs]
    if missing:
        there = ", ".join(map(repr, outputs)) or "none"
        raise InputError(f"the model did not return the output {missing[0]!r} this time, but {there}")
    named: dict[OutputName, NDArray[Any]] = {kind: np.asarray(outputs[name]) for kind, name in kinds.items()}
    embedding = named.pop("embedding", None)
    if embedding is None:
        return _judged(named, kinds, classes, labels, first_row, multilabel=multilabel)
    embeddings = _embeddings(embedding, kinds["embedding"], first_row)
    if not named:
        return Mapped(len(embeddings), embeddings=embeddings)
    answers: Kinds = {kind: name for kind, name in kinds.items() if kind != "embedding"}
    mapped = _judged(named, answers, classes, labels, first_row, multilabel=multilabel)
    return replace(mapped, embeddings=embeddings)


def _embeddings(array: NDArray[Any], name: str, first_row: int) -> NDArray[np.float32]:
    """One vector a row, shape (n, d); sizes of 1 are dropped, as pooling leaves them."""
    sizes = [size for size in array.shape[1:] if size != 1]
    if len(sizes) > 1 or array.ndim < 2:
        raise InputError(
            f"the embedding {name!r} has shape {shape_text(array)}, not one vector for each row",
            remedy="name an output after pooling, with one vector per row",
        )
    return finite(array, name, first_row).reshape(len(array), -1).astype(np.float32)


def _judged(
    named: Mapping[OutputName, NDArray[Any]],
    kinds: Kinds,
    classes: Sequence[str] | None,
    labels: Sequence[str] | None,
    first_row: int,
    *,
    multilabel: bool,
) -> Mapped:
    """Answers that quality is computed on."""
    n = len(next(iter(named.values())))
    if "value" in named:
        value, lower, upper = (
            one_column(named[kind], kind, first_row) if kind in named else None for kind in VALUE_OUTPUTS
        )
        return Mapped(n, values=value, lower=lower, upper=upper)
    if "text" in named:
        reasons, tokens = (named.get(kind) for kind in BESIDE_TEXT)
        return Mapped(
            n,
            texts=said_texts(named["text"], kinds["text"], first_row),
            finish_reasons=None if reasons is None else said_reasons(reasons, kinds["finish_reason"], first_row),
            tokens=None if tokens is None else said_tokens(tokens, kinds["tokens"], first_row),
        )
    if classes is None:
        raise InputError(
            "the model predicts classes, and neither it nor the spec lists them",
            remedy="add `classes:`, the label of each output index, as a list or a file with one a line",
        )
    if "boxes" in named:
        return Mapped(n, boxes=found_boxes(named, labels or classes, first_row))
    if "mask" in named:
        return Mapped(n, masks=said_masks(named["mask"], kinds["mask"], len(classes), first_row))
    if multilabel:
        probabilities, members = said_members(named, kinds, classes, labels or classes, first_row)
        return Mapped(n, probabilities=probabilities, members=members)
    return _one_class(named, kinds, classes, labels or classes, first_row)


VALUE_OUTPUTS: tuple[OutputName, ...] = ("value", "lower", "upper")


def _one_class(
    named: Mapping[OutputName, NDArray[Any]],
    kinds: Kinds,
    classes: Sequence[str],
    labels: Sequence[str],
    first_row: int,
) -> Mapped:
    probabilities = _probabilities(named, kinds, len(classes), first_row)
    if "label" in kinds:
        array = named["label"]
        flat = array.reshape(len(array), -1)
        if flat.shape[1] != 1 or isinstance(flat[0, 0], list | np.ndarray):
            shape = f"shape {array.shape}" if flat.shape[1] != 1 else "lists"
            raise InputError(
                f"the label output {kinds['label']!r} has {shape}, not one label per row",
                remedy="if a row may have several labels, set multilabel: true",
            )
        predicted = class_indices(flat[:, 0], labels, f"the label output {kinds['label']!r}")
    elif probabilities is not None:
        predicted = probabilities.argmax(axis=1).astype(np.int64)
    else:
        raise InputError(
            f"the outputs {', '.join(kinds)} can't be judged",
            choices=("logits", "probabilities", "label", "value", "text", "boxes", "mask", "embedding"),
        )
    return Mapped(len(predicted), probabilities=probabilities, predicted=predicted)


def _refuse_probabilities(scores: NDArray[np.float64], name: str) -> None:
    """Stop where what is called logits sums to 1 in row after row, as logits never do by chance.

    Raises:
        InvalidError: They are probabilities, of which softmax would make others.
    """
    if scores.shape[1] < 2 or len(scores) < FEWEST_SUMS or scores.min() < 0 or scores.max() > 1:
        return
    # One row again and again, as a padded batch or a model that always says the same gives it, is one sum.
    if len(np.unique(scores, axis=0)) >= FEWEST_SUMS and (np.abs(scores.sum(axis=1) - 1.0) < SUM_TOLERANCE).all():
        raise InvalidError(
            f"the logits {name!r} are probabilities: all {len(scores):,} rows of a batch lie in 0..1 and sum to 1, and "
            f"softmax would be applied twice; write outputs: {{probabilities: {name}}}"
        )


def _probabilities(
    named: Mapping[OutputName, NDArray[Any]], kinds: Kinds, width: int, first_row: int
) -> NDArray[np.float64] | None:
    if "logits" in kinds:
        scores = matrix(named["logits"], kinds["logits"], width, first_row)
        _refuse_probabilities(scores, kinds["logits"])
        # One less a probability near 1 has lost the digits that tell how near it is.
        return np.hstack([sigmoid(-scores), sigmoid(scores)]) if scores.shape[1] == 1 else softmax64(scores)
    if "probabilities" not in kinds:
        return None
    name = kinds["probabilities"]
    scores = shares(matrix(named["probabilities"], name, width, first_row), name, first_row)
    if scores.shape[1] == 1:
        return two_columns(scores[:, 0])
    sums = scores.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise InputError(
            f"the probabilities {name!r} sum to {sums[row]:.6g} in row {first_row + row} (counted from 0), not to 1 "
            f"({int(off.sum())} such rows in this batch)",
            remedy="if these are scores before softmax, write outputs: {logits: ...}; if a row may have several "
            "classes, multilabel: true",
        )
    return np.asarray(scores / sums[:, None])
