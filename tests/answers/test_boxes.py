"""Boxes: from padded tensors and ragged lists to what was found, and from label columns to what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.answers.boxes import joined_boxes, true_boxes
from evalspec.answers.from_outputs import map_outputs
from evalspec.errors import InputError
from evalspec.language.parts import OutputName
from evalspec.language.predictions import Boxes

CLASSES = ("cat", "dog")
KINDS: dict[OutputName, str] = {"boxes": "b", "scores": "s", "label": "l"}


def objects(rows: list[Any]) -> np.ndarray:
    found = np.empty(len(rows), dtype=object)
    for index, row in enumerate(rows):
        found[index] = row
    return found


def found(boxes: Any, scores: Any, label: Any, first_row: int = 0, classes: tuple[str, ...] = CLASSES) -> Boxes:
    outputs = {"b": np.asarray(boxes), "s": np.asarray(scores), "l": np.asarray(label)}
    mapped = map_outputs(outputs, KINDS, classes, None, first_row).boxes
    assert mapped is not None
    return mapped


def test_padding_of_tensors_is_dropped() -> None:
    boxes = np.arange(24.0).reshape(2, 3, 4)
    boxes[0, 2] = np.nan
    got = found(boxes, [[0.9, 0.5, 0.0], [0.8, 0.7, 0.6]], [[0, 1, 0], [1, -1, 0]])
    assert got.row.tolist() == [0, 0, 1, 1]
    assert got.classes.tolist() == [0, 1, 1, 0]
    assert got.scores is not None and got.scores.tolist() == [0.9, 0.5, 0.8, 0.6]
    assert got.corners.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [12, 13, 14, 15], [20, 21, 22, 23]]


def test_lists_may_be_of_any_length() -> None:
    got = found(
        objects([[], [[0, 0, 2, 2]], [[0, 0, 1, 1], [1, 1, 3, 3]]]),
        objects([[], [0.5], [0.25, 1.0]]),
        objects([[], ["dog"], ["cat", "dog"]]),
    )
    assert got.row.tolist() == [1, 2, 2]
    assert got.classes.tolist() == [1, 0, 1]
    nothing = found(objects([[], []]), objects([[], []]), objects([[], []]))
    assert nothing.corners.shape == (0, 4) and len(nothing.row) == 0


def test_one_class_needs_no_label() -> None:
    outputs = {"b": np.ones((1, 2, 4)), "s": np.array([[0.5, 0.0]])}
    kinds: dict[OutputName, str] = {"boxes": "b", "scores": "s"}
    got = map_outputs(outputs, kinds, ("cell",), None).boxes
    assert got is not None and got.classes.tolist() == [0]
    with pytest.raises(InputError, match=r"but not which of the 2 classes a box has; add label:"):
        map_outputs(outputs, kinds, CLASSES, None)


def test_whole_numbers_are_indices_unless_classes_are_numbers() -> None:
    one = np.ones((1, 1, 4))
    assert found(one, [[0.5]], [[1]]).classes.tolist() == [1]
    assert found(one, [[0.5]], [[7]], classes=("3", "7")).classes.tolist() == [1]
    with pytest.raises(InputError, match=r"'0' \(1 of 1 row\) is in no class \(choices: 3, 7\)"):
        found(one, [[0.5]], [[0]], classes=("3", "7"))


@pytest.mark.parametrize(
    ("boxes", "scores", "label", "sentence"),
    [
        ([[[0, 0, 1, 1]]], [[1.5]], [[0]], r"score 1.5 of a box in row 40 \(counted from 0\) is not in 0..1"),
        ([[[0, 0, 1, 1]]], [[np.nan]], [[0]], r"score nan of a box in row 40"),
        ([[[0, 0, 1, 1]]], [[0.5]], [[2]], r"2 \(1 of 1 boxes\) is not a class index; there are 2 `classes`, so"),
        ([[[0, 0, 1, 1]]], [[0.5]], [["owl"]], r"'owl' \(1 of 1 row\) is in no class"),
        ([[[5, 0, 1, 1]]], [[0.5]], [[0]], r"the box \[5, 0, 1, 1\] in row 40 .* which has no area; a box is"),
        ([[[0, 0, np.inf, 1]]], [[0.5]], [[0]], r"the box \[0, 0, inf, 1\] in row 40"),
        ([[[0, 0, 1]]], [[0.5]], [[0]], r"shape \[3\] for each box, not 4 numbers"),
        ([[[0, 0, 1, 1]]], [[0.5, 0.4]], [[0]], r"boxes and scores of different shapes"),
        ([[[0, 0, 1, 1]]], [[0.5]], [[0, 1]], r"boxes and label of different shapes"),
        ([3.0], [[0.5]], [[0]], r"the output for 'boxes' has shape \[1\], not a list in each row"),
    ],
)
def test_what_is_no_box(boxes: Any, scores: Any, label: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        found(boxes, scores, label, first_row=40)


def test_batches_are_joined_by_row() -> None:
    first = Boxes(np.array([0, 2]), np.zeros((2, 4)), np.array([0, 1]), np.array([0.5, 0.6]))
    second = Boxes(np.array([1]), np.ones((1, 4)), np.array([1]), np.array([0.7]))
    got = joined_boxes([(3, first), (2, second)])
    assert got.row.tolist() == [0, 2, 4]
    assert got.scores is not None and got.scores.tolist() == [0.5, 0.6, 0.7]


def truth(column: Any, kind: pa.DataType | None = None) -> Boxes:
    return true_boxes(pa.table({"objects": pa.array(column, kind)}), "objects", CLASSES)


def test_lists_of_structs_and_structs_of_lists_are_one() -> None:
    listed = truth([[{"box": [0, 0, 2, 3], "label": "dog"}], [], [{"box": [1, 1, 2, 2], "label": "cat"}] * 2])
    apart = truth(
        [
            {"box": [[0, 0, 2, 3]], "label": ["dog"]},
            {"box": [], "label": []},
            {"box": [[1, 1, 2, 2]] * 2, "label": ["cat"] * 2},
        ]
    )
    for one in (listed, apart):
        assert one.row.tolist() == [0, 2, 2]
        assert one.classes.tolist() == [1, 0, 0]
        assert one.corners.tolist() == [[0, 0, 2, 3], [1, 1, 2, 2], [1, 1, 2, 2]]
        assert one.scores is None and one.ignored is None


def test_coco_says_width_and_height_and_crowds() -> None:
    got = truth(
        [
            [{"bbox": [10.0, 20.0, 5.0, 6.0], "category": 1, "iscrowd": 0}],
            [
                {"bbox": [0.0, 0.0, 1.0, 1.0], "category": 0, "iscrowd": 1},
                {"bbox": [0.0, 0.0, 2.0, 2.0], "category": 0},
            ],
        ]
    )
    assert got.corners[0].tolist() == [10, 20, 15, 26]
    assert got.classes.tolist() == [1, 0, 0]
    assert got.ignored is not None and got.ignored.tolist() == [False, True, False]


def test_a_sliced_table_has_its_own_boxes() -> None:
    column = [[{"box": [row, 0, row + 1, 1], "label": 0}] * (row % 3) for row in range(9)]
    table = pa.table({"objects": pa.array(column)}).slice(4, 3)
    got = true_boxes(table, "objects", CLASSES)
    assert got.row.tolist() == [0, 1, 1]
    assert got.corners[:, 0].tolist() == [4, 5, 5]


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([[{"label": 0}]], r"'objects' has neither 'box' nor 'bbox' \(choices: label\); a list of structs"),
        ([[{"box": [0, 0, 1, 1], "bbox": [0, 0, 1, 1], "label": 0}]], r"has both 'box' and 'bbox'"),
        ([[{"box": [0, 0, 1, 1]}]], r"has neither 'label' nor 'category'"),
        ([[{"box": [0, 0, 1], "label": 0}]], r"of shape \[3\] for each box, not 4 numbers"),
        ([[{"box": [0, 0, 1], "label": 0}, {"box": [0, 0, 1, 1], "label": 0}]], r"a box of 4 numbers|not of 4"),
        ([[{"box": [2, 0, 1, 1], "label": 0}]], r"the box \[2, 0, 1, 1\] in row 0"),
        ([[{"bbox": [2, 0, -1, 1], "label": 0}]], r"the box \[2, 0, 1, 1\] in row 0"),
        ([[{"box": [0, 0, 1, 1], "label": "owl"}]], r"'label': 'owl' \(1 of 1 row\) is in no class"),
        ([[{"box": [0, 0, 1, 1], "label": None}]], r"every value of the column|labels are missing"),
        ([None, [{"box": [0, 0, 1, 1], "label": 0}]], r"has no list in row 0 \(counted from 0\); write an empty list"),
        ([{"box": [[0, 0, 1, 1]], "label": []}], r"different numbers of 'label' and boxes in row 0"),
        (["a"], r"holds string but the model gives boxes; label: a column with a list of structs"),
        ([[], []], r"has no box in any of its 2 rows"),
    ],
)
def test_labels_that_are_no_boxes(column: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        truth(column)
