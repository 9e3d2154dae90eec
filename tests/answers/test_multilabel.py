"""Rows with any number of classes, and rows of text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.answers.from_outputs import Mapped, map_outputs, resolve_outputs
from evalspec.answers.multilabel import true_members
from evalspec.answers.texts import true_texts
from evalspec.errors import InputError
from evalspec.language.parts import OutputName

ABC = ("a", "b", "c")


def mapped(kind: OutputName, array: Any, **others: Any) -> Mapped:
    outputs = {"y": np.asarray(array), **others}
    kinds: dict[OutputName, str] = {kind: "y", **({"label": "l"} if others else {})}
    return map_outputs(outputs, kinds, ABC, None, 40, multilabel=True)


def objects(rows: list[Any]) -> np.ndarray:
    found = np.empty(len(rows), dtype=object)
    found[:] = rows
    return found


def test_each_logit_has_its_own_probability() -> None:
    got = mapped("logits", [[0.0, np.log(3.0), -np.log(3.0)]])
    assert got.probabilities is not None and got.members is not None and got.predicted is None
    np.testing.assert_allclose(got.probabilities, [[0.5, 0.75, 0.25]])
    assert got.members.tolist() == [[True, True, False]]


def test_probabilities_need_not_sum_to_one_and_labels_go_before_them() -> None:
    got = mapped("probabilities", [[0.9, 0.9, 0.0], [0.1, 0.2, 0.4]], l=objects([["a"], ["c", "b"]]))
    assert got.probabilities is not None and got.probabilities[0].sum() == pytest.approx(1.8)
    assert got.members is not None
    assert got.members.tolist() == [[True, False, False], [False, True, True]]


def test_labels_alone() -> None:
    assert mapped("label", objects([[], ["a"], ["b", "c"]])).members.tolist() == [  # type: ignore[union-attr]
        [False, False, False], [True, False, False], [False, True, True],
    ]  # fmt: skip
    assert mapped("label", [["a", "b"], ["b", "c"]]).members.tolist() == [  # type: ignore[union-attr]
        [True, True, False], [False, True, True],
    ]  # fmt: skip
    flags = np.array([[True, False, True]])
    assert mapped("label", flags).members.tolist() == flags.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "array", "sentence"),
    [
        ("logits", [[0.1]], r"has 1 column and there are 3 classes"),
        ("probabilities", [[0.1, 1.2, 0.3]], r"not a probability in row 40 .* 1.2 is not within 0..1"),
        ("probabilities", [[0.1, np.nan, 0.3]], r"NaN or infinite in row 40"),
        ("label", objects([["a"], ["z"]]), r"'z' \(1 of 2 rows\) is in no class \(choices: a, b, c\)"),
        ("label", objects([["a"], None]), r"the label output 'y' has no list in row 41"),
        ("label", ["a", "b"], r"has shape \[2\], not a list in each row"),
        ("label", [[True, False]], r"has shape \[1, 2\] and there are 3 classes"),
    ],
)
def test_outputs_that_are_no_sets_of_labels(kind: OutputName, array: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mapped(kind, array)


def test_the_truth_of_lists_of_labels() -> None:
    table = pa.table({
        "tags": [["a"], [], ["c", "b"]], "numbers": [[1], [2, 3], [1]], "one": ["a", "b", "c"],
        "gap": [["a"], None, []], "hole": [["a"], [None], []], "other": [["z"], [], []],
        "none": pa.array([[], [], []], pa.list_(pa.null())),
    })  # fmt: skip
    assert true_members(table, "tags", ABC).tolist() == [[1, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert true_members(table, "numbers", ("1", "2", "3")).tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
    assert not true_members(table, "none", ABC).any()
    for column, sentence in (
        ("one", r"the label column 'one' holds string, not a list in each row"),
        ("gap", r"the label column 'gap' has no list in row 1 \(counted from 0\); write an empty list"),
        ("hole", r"1 of 2 labels are missing"),
        ("other", r"'z' \(1 of 1 row\) is in no class"),
        ("tag", r"the dataset has no column 'tag' .*did you mean 'tags'"),
    ):
        with pytest.raises(InputError, match=sentence):
            true_members(table, column, ABC)


def said(array: Any) -> list[str]:
    texts = map_outputs({"y": np.asarray(array)}, {"text": "y"}, None, None, 40).texts
    assert texts is not None
    return list(texts.tolist())


def test_texts_of_every_kind() -> None:
    assert said(["a b", ""]) == ["a b", ""]
    assert said(objects(["naïve", "日本語"])) == ["naïve", "日本語"]
    assert said(objects(["é".encode(), b"b"])) == ["é", "b"]
    assert said(np.array([["a"], ["b"]])) == ["a", "b"]


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (objects(["a", None]), r"no text in row 41 \(counted from 0\); write an empty text for an empty answer"),
        ([1.0, 2.0], r"the output 'y' holds float64, not text"),
        (objects(["a", 3]), r"holds int in row 41"),
        (objects([b"\xff", b"a"]), r"not UTF-8 in row 40"),
        ([["a", "b"]], r"has shape \[1, 2\], not one text per row"),
    ],
)
def test_outputs_that_are_no_texts(array: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        said(array)


def test_the_truth_of_texts() -> None:
    table = pa.table({
        "one": ["a", "b"], "several": [["a", "b"], ["c"]], "none": [["a"], []], "gap": ["a", None],
        "hole": [["a", None], ["b"]], "number": [1, 2], "coded": pa.array(["x", "y"]).dictionary_encode(),
    })  # fmt: skip
    assert true_texts(table, "one").tolist() == ["a", "b"]
    assert true_texts(table, "coded").tolist() == ["x", "y"]
    assert true_texts(table, "several").tolist() == [("a", "b"), ("c",)]
    for column, sentence in (
        ("none", r"no reference in row 1 \(counted from 0\); drop it with `where:`"),
        ("gap", r"no text in row 1"),
        ("hole", r"no text in row 0"),
        ("number", r"holds int64 but the model gives text; label: a column of texts, or of lists of texts"),
    ):
        with pytest.raises(InputError, match=sentence):
            true_texts(table, column)


@pytest.mark.parametrize(
    ("stated", "multilabel", "sentence"),
    [
        ({"text": "t", "label": "l"}, False, r"names both text and label; keep the one"),
        ({"mask": "m", "value": "v"}, False, r"names both mask and value"),
        ({"boxes": "b"}, False, r"must name boxes and scores together, and label where"),
        ({"boxes": "b", "scores": "s", "value": "v"}, False, r"names both boxes and value"),
        ({"text": "t"}, True, r"`multilabel: true` is about classes, and `outputs` names text"),
    ],
)
def test_outputs_that_exclude_each_other(stated: dict[OutputName, str], multilabel: bool, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_outputs(stated, ("t", "l", "m", "v", "b", "s"), {}, multilabel=multilabel)


def test_outputs_that_are_called_what_they_are() -> None:
    assert resolve_outputs({}, ("text", "label"), {}) == {"label": "label"}
    assert resolve_outputs({}, ("question", "text"), {}) == {"text": "text"}
    assert set(resolve_outputs({}, ("label", "boxes", "scores", "text"), {})) == {"boxes", "scores", "label"}
    assert resolve_outputs({}, ("mask",), {}) == {"mask": "mask"}
