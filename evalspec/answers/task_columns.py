"""Answers of tasks that are neither one class nor one value, as columns of a file, and as one number to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evalspec.arrow import column_of, column_of_texts
from evalspec.errors import InputError
from evalspec.language.predictions import Boxes

if TYPE_CHECKING:
    import pyarrow as pa

    Numbers = NDArray[np.float64]

DIGEST_BYTES = 6
"""A float64 holds whole numbers of so many bytes exactly."""
ROWS_AT_ONCE = 64
CORNER_WEIGHTS = np.array([0.31, 0.47, 0.59, 0.71]) / 100.0


class Given(Protocol):
    """Answers of some rows, of any task."""

    @property
    def n(self) -> int:
        """Rows."""
        ...

    @property
    def members(self) -> NDArray[np.bool_] | None:
        """Classes of each row, where it may have several."""
        ...

    @property
    def texts(self) -> NDArray[np.object_] | None:
        """Texts of the rows."""
        ...

    @property
    def finish_reasons(self) -> NDArray[np.object_] | None:
        """Why each text ends."""
        ...

    @property
    def tokens(self) -> NDArray[np.int64] | None:
        """Tokens of each text."""
        ...

    @property
    def extracted(self) -> NDArray[np.object_] | None:
        """The answer inside each text."""
        ...

    @property
    def masks(self) -> NDArray[np.int64] | None:
        """Masks of the rows."""
        ...

    @property
    def boxes(self) -> Boxes | None:
        """Boxes of the rows."""
        ...

    @property
    def masses(self) -> NDArray[np.float64] | None:
        """Probability that all options of each row have."""
        ...

    @property
    def embeddings(self) -> NDArray[np.float32] | None:
        """Embeddings of the rows."""
        ...


def columns_of(answers: Given) -> dict[str, pa.Array]:
    """Columns that hold them, one row each.

    Args:
        answers: Of any task.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    if answers.members is not None:
        columns["members"] = _fixed(answers.members)
    if answers.texts is not None:
        columns["text"] = column_of_texts(answers.texts.tolist())
    if answers.finish_reasons is not None:
        columns["finish_reason"] = column_of_texts(answers.finish_reasons.tolist())
    if answers.tokens is not None:
        columns["tokens"] = column_of(answers.tokens)
    if answers.extracted is not None:
        columns["extracted"] = column_of_texts(answers.extracted.tolist())
    if answers.masks is not None:
        smallest = np.min_scalar_type(int(answers.masks.max(initial=0)))
        columns["mask"] = _fixed(answers.masks.astype(smallest))
    if answers.masses is not None:
        columns["option_mass"] = column_of(answers.masses)
    if answers.embeddings is not None:
        columns["embedding"] = _fixed(answers.embeddings)
    boxes = answers.boxes
    if boxes is not None and boxes.scores is not None:
        ends = column_of(np.searchsorted(boxes.row, np.arange(answers.n + 1)).astype(np.int64))
        columns["boxes"] = pa.LargeListArray.from_arrays(ends, _fixed(boxes.corners, 4))
        columns["scores"] = pa.LargeListArray.from_arrays(ends, column_of(boxes.scores))
        columns["box_classes"] = pa.LargeListArray.from_arrays(ends, column_of(boxes.classes))
    return columns


def shape_of(answers: Given) -> tuple[int, ...] | None:
    """Height and width of masks; None: there are none."""
    return None if answers.masks is None else answers.masks.shape[1:]


def fields_of(table: pa.Table, meta: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of answers that `columns_of` wrote.

    Args:
        table: As it was read.
        meta: The file's facts; ``mask_shape``: as `shape_of`.
    """
    fields: dict[str, Any] = {}
    there = table.column_names
    if "members" in there:
        fields["members"] = _unfixed(table.column("members")).astype(np.bool_)
    if "text" in there:
        fields["texts"] = np.array(table.column("text").to_pylist(), dtype=object)
    if "finish_reason" in there:
        fields["finish_reasons"] = np.array(table.column("finish_reason").to_pylist(), dtype=object)
    if "tokens" in there:
        fields["tokens"] = table.column("tokens").to_numpy()
    if "extracted" in there:
        fields["extracted"] = np.array(table.column("extracted").to_pylist(), dtype=object)
    if "mask" in there:
        fields["masks"] = _unfixed(table.column("mask")).reshape(-1, *meta["mask_shape"]).astype(np.int64)
    if "option_mass" in there:
        fields["masses"] = table.column("option_mass").to_numpy()
    if "embedding" in there:
        fields["embeddings"] = _unfixed(table.column("embedding")).astype(np.float32)
    if "boxes" in there:
        listed = {name: table.column(name).combine_chunks() for name in ("boxes", "scores", "box_classes")}
        flat = {name: column.flatten() for name, column in listed.items()}
        counts = np.asarray(listed["scores"].value_lengths())
        fields["boxes"] = Boxes(
            row=np.repeat(np.arange(len(table)), counts),
            corners=flat["boxes"].flatten().to_numpy(zero_copy_only=False).reshape(-1, 4),
            classes=flat["box_classes"].to_numpy(zero_copy_only=False),
            scores=flat["scores"].to_numpy(zero_copy_only=False),
        )
    return fields


def _fixed(array: NDArray[Any], width: int | None = None) -> pa.Array:
    import pyarrow as pa

    flat = np.ascontiguousarray(array).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(column_of(flat), width or int(np.prod(array.shape[1:])))


def _unfixed(column: pa.ChunkedArray) -> NDArray[Any]:
    listed = column.combine_chunks()
    flat: NDArray[Any] = listed.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(column), -1)


def numbers(answers: Given) -> Numbers:
    """One number for each row, by which answers are held against others, shape (n,).

    Texts and sets of labels give 48 bits of a digest: equal numbers are equal answers. Boxes and masks give a weighted
    sum (of scores with classes and corners; of the class of each pixel; of an embedding's numbers), in which rounding
    changes little and another answer much.

    Args:
        answers: Of a task with several labels, a text, boxes, a mask or an embedding for each row.

    Raises:
        InputError: They are of none of these.
    """
    if answers.texts is not None:
        return np.array([_digest(text.encode(errors="surrogatepass")) for text in answers.texts.tolist()])
    if answers.members is not None:
        packed = np.packbits(answers.members, axis=1)
        return np.array([_digest(row.tobytes()) for row in packed])
    if answers.masks is not None:
        return _of_masks(answers.masks)
    if answers.boxes is not None:
        return _of_boxes(answers.boxes, answers.n)
    if answers.embeddings is not None:
        weights = 1.0 + np.random.default_rng(0).random(answers.embeddings.shape[1])
        return np.asarray(answers.embeddings.astype(np.float64) @ weights)
    raise InputError("the outputs hold no answers to compare")


def _digest(data: bytes) -> float:
    return float(int.from_bytes(hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest(), "little"))


def _of_masks(masks: NDArray[np.int64]) -> Numbers:
    pixels, (height, width) = masks.reshape(len(masks), -1), masks.shape[1:]
    # A mask that is moved is another one, and so is one in which classes of two places are swapped.
    down, across = np.arange(height)[:, None] / height, np.arange(width)[None, :] / (2.0 * width)
    weights = (1.0 + down + across).reshape(-1) + 0.25 * np.random.default_rng(0).random(height * width)
    per_picture = np.empty(len(masks))
    for first in range(0, len(masks), ROWS_AT_ONCE):
        part = pixels[first : first + ROWS_AT_ONCE]
        per_picture[first : first + len(part)] = 1.0 + part @ weights / max(1, pixels.shape[1])
    return per_picture


def _of_boxes(boxes: Boxes, n: int) -> Numbers:
    assert boxes.scores is not None
    each = boxes.scores * (1.0 + boxes.classes + boxes.corners @ CORNER_WEIGHTS)
    return np.bincount(boxes.row, weights=each, minlength=n).astype(np.float64)
