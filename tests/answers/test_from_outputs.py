"""From outputs to answers, and from labels to class indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.answers.classes import class_indices, label_text, read_classes, truth
from evalspec.answers.file import joined
from evalspec.answers.from_outputs import Mapped, map_outputs, resolve_outputs, sigmoid, softmax64
from evalspec.errors import InputError, InvalidError
from evalspec.language.parts import Access, OutputName

ABC = ("a", "b", "c")
Kinds = dict[OutputName, str]


def mapped(kind: OutputName, array: Any, classes: tuple[str, ...] | None = ABC, first_row: int = 0) -> Mapped:
    return map_outputs({"y": np.asarray(array)}, {kind: "y"}, classes, None, first_row)


def test_one_logit_is_the_second_of_two_classes() -> None:
    got = mapped("logits", [[0.0], [np.log(3.0)], [-2000.0]], ("no", "yes"))
    assert got.probabilities is not None and got.predicted is not None
    np.testing.assert_allclose(got.probabilities, [[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    assert got.predicted.tolist() == [0, 1, 0]
    flat = mapped("probabilities", [0.2, 0.9], ("no", "yes"))
    assert flat.probabilities is not None
    np.testing.assert_allclose(flat.probabilities, [[0.8, 0.2], [0.1, 0.9]])


@given(st.lists(st.lists(st.floats(-500, 500), min_size=3, max_size=3), min_size=1, max_size=5))
def test_softmax_sums_to_one_and_keeps_the_order(scores: list[list[float]]) -> None:
    array = np.array(scores)
    p = softmax64(array)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    largest = np.take_along_axis(p, array.argmax(axis=1)[:, None], axis=1)[:, 0]
    np.testing.assert_array_equal(p.max(axis=1), largest)


@given(st.floats(-1000, 1000))
def test_sigmoid_has_its_symmetry(score: float) -> None:
    p = sigmoid(np.array([score, -score]))
    assert 0 <= p[0] <= 1
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)


def test_probabilities_of_half_precision_are_made_to_sum_to_one() -> None:
    p = np.array([[0.1, 0.2, 0.7004]])
    got = mapped("probabilities", p)
    assert got.probabilities is not None
    np.testing.assert_allclose(got.probabilities, p / 1.0004)


@pytest.mark.parametrize(
    ("kind", "array", "sentence"),
    [
        ("probabilities", [[0.2, 0.3, 0.5], [0.2, 0.3, 0.6]], r"sum to 1.1 in row 41 \(counted from 0\), not to 1"),
        ("probabilities", [[0.2, 0.3, 0.5], [1.2, -0.2, 0.0]], r"not a probability in row 41 .*1.2 is not within 0..1"),
        ("probabilities", [[0.2, 0.3, 0.5], [np.nan, 0.5, 0.5]], r"NaN or infinite in row 41"),
        ("logits", [[0.2, 0.3, np.inf]], r"NaN or infinite in row 40"),
        ("logits", [[0.2, 0.3]], r"has 2 columns and there are 3 classes; make `classes` the label of each"),
        ("logits", [[0.2]], r"has 1 column and there are 3 classes"),
        ("logits", [[[0.2, 0.3, 0.4]]], r"has shape \[1, 1, 3\], not one row of scores for each row"),
        ("logits", [["a", "b", "c"]], r"holds <U1, not numbers"),
        ("value", [[0.2, 0.3]], r"has shape \[1, 2\], not one value per row"),
        ("value", [np.nan], r"NaN or infinite in row 40"),
        ("label", ["a", "z"], r"'z' \(1 of 2 rows\) is in no class \(choices: a, b, c\)"),
        ("label", [["a", "b"]], r"has shape \(1, 2\), not one label per row"),
        ("text", [None], r"has no text in row 40"),
        ("scores", [[1.0]], r"can't be judged \(choices: logits, probabilities, label, value, text"),
    ],
)
def test_outputs_that_are_no_answers(kind: OutputName, array: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mapped(kind, array, first_row=40)


def test_classes_must_be_known() -> None:
    with pytest.raises(InputError, match=r"predicts classes, and neither it nor the spec lists them.*add `classes:`"):
        mapped("logits", [[0.1, 0.2]], None)


def test_a_label_output_is_matched_by_value_to_the_models_own_labels() -> None:
    kinds: Kinds = {"label": "y"}
    got = map_outputs({"y": np.array([2, 0])}, kinds, ("low", "mid", "high"), ("0", "1", "2"))
    assert got.predicted is not None and got.predicted.tolist() == [2, 0]
    turned = mapped("label", ["c", "a"], ("c", "b", "a"))
    assert turned.predicted is not None and turned.predicted.tolist() == [0, 2]


def test_intervals_are_carried() -> None:
    outputs = {"v": np.array([1.0]), "l": np.array([0.5]), "u": np.array([[1.5]])}
    kinds: Kinds = {"value": "v", "lower": "l", "upper": "u"}
    got = map_outputs(outputs, kinds, None, None)
    assert got.lower is not None and got.upper is not None
    assert (got.lower[0], got.upper[0]) == (0.5, 1.5)


@pytest.mark.parametrize(
    ("stated", "sentence"),
    [
        ({"logits": "y", "probabilities": "p"}, r"both logits and probabilities"),
        ({"value": "y", "label": "p"}, r"both value and label"),
        ({"value": "y", "lower": "p"}, r"value, lower and upper together"),
        ({"lower": "y", "upper": "p"}, r"value, lower and upper together"),
        ({"finish_reason": "y"}, r"names finish_reason and no text that it belongs to"),
        ({"tokens": "y", "logits": "p"}, r"names tokens and no text that it belongs to"),
        ({"logits": "Y"}, r"no output 'Y' \(choices: y, p\)"),
        ({"logits": 2}, r"has 2 outputs, so there is no output number 2"),
        ({}, r"the spec does not say what the model's outputs are \(y, p\); add outputs: \{logits: y\}"),
    ],
)
def test_what_outputs_are_is_said_and_not_guessed(stated: dict[Any, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        resolve_outputs(stated, ("y", "p"), {})


BESIDE: Kinds = {"text": "t", "finish_reason": "r", "tokens": "k"}


def beside_texts(reasons: Any, tokens: Any) -> Mapped:
    outputs = {"t": np.array(["a", "b"]), "r": np.asarray(reasons), "k": np.asarray(tokens)}
    return map_outputs(outputs, resolve_outputs(dict(BESIDE), ("t", "r", "k"), {}), None, None, 40)


def test_a_text_may_say_why_it_ends_and_how_long_it_is() -> None:
    got = beside_texts([b"stop", b" length "], [[3.0], [0.0]])
    assert got.finish_reasons is not None and got.finish_reasons.tolist() == ["stop", "length"]
    assert got.tokens is not None and got.tokens.tolist() == [3, 0] and got.tokens.dtype == np.int64


@pytest.mark.parametrize(
    ("reasons", "tokens", "sentence"),
    [
        (np.array(["stop", None], dtype=object), [1, 2], r"'r' holds None in row 41 .*not a text such as 'stop'"),
        (["stop", " "], [1, 2], r"'r' holds ' ' in row 41"),
        (np.array(["stop", 3], dtype=object), [1, 2], r"'r' holds 3 in row 41"),
        ([["stop", "a"], ["stop", "a"]], [1, 2], r"'r' has shape \[2, 2\], not one value per row"),
        (["stop", "stop"], [1, -1], r"'k' is -1 in row 41 .*not a count of 0 or more"),
        (["stop", "stop"], [1, 2.5], r"'k' is 2.5 in row 41"),
        (["stop", "stop"], [1, np.nan], r"'k' is nan in row 41"),
        (["stop", "stop"], [1, 2.0**60], r"'k' is 1.15292e\+18 in row 41"),
        (["stop", "stop"], ["1", "2"], r"'k' holds <U1, not a number of tokens for each text"),
        (["stop", "stop"], [True, False], r"'k' holds bool"),
    ],
)
def test_reasons_and_counts_that_are_none(reasons: Any, tokens: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        beside_texts(reasons, tokens)


def test_what_stands_beside_a_text_is_taken_where_it_is_named() -> None:
    assert resolve_outputs({}, ("text", "tokens", "finish_reason"), {}) == {"text": "text"}


def test_an_embedding_stands_beside_an_answer_or_alone() -> None:
    vectors, logits = np.arange(6.0).reshape(2, 3, 1, 1), np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    kinds: Kinds = {"logits": "y", "embedding": "e"}
    both = map_outputs({"y": logits, "e": vectors}, kinds, ABC, None)
    assert both.embeddings is not None and both.embeddings.dtype == np.float32 and both.predicted is not None
    assert both.embeddings.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] and both.predicted.tolist() == [2, 0]
    alone = map_outputs({"e": vectors}, {"embedding": "e"}, None, None)
    assert alone.n == 2 and alone.predicted is None
    joint = joined([alone, alone], 4, ABC, {})
    assert joint.task == "embedding" and joint.embeddings is not None and joint.embeddings.shape == (4, 3)
    assert joined([both], 2, ABC, {}).task == "classes"


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((2, 5, 3)), r"'y' has shape \[2, 5, 3\], not one vector for each row; name an output after pooling"),
        (np.zeros(2), r"'y' has shape \[2\], not one vector"),
        (np.array([[0.0, np.nan]]), "'y' is NaN or infinite in row 7"),
        (np.array([["a"]]), "'y' holds <U1, not numbers"),
    ],
)
def test_embeddings_that_are_none(array: NDArray[Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        mapped("embedding", array, None, first_row=7)


def test_outputs_named_as_what_they_are_need_no_words() -> None:
    assert resolve_outputs({}, ("label", "probabilities", "extra"), {}) == {
        "probabilities": "probabilities",
        "label": "label",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (3.0, "3"), (np.float32(3), "3"), (2.5, "2.5"), (True, "true"), (np.False_, "false"), (" a ", "a"),
     (b"a", "a"), (np.int8(-1), "-1")],
)  # fmt: skip
def test_a_label_is_its_value(value: Any, text: str) -> None:
    assert label_text(value) == text


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 0, 1]),
        np.array([1.0, 0.0, 1.0]),
        np.array(["1", "0", "1"], dtype=object),
        np.array(["1", "0", "1"]),
        np.array([1, "0", 1.0], dtype=object),
    ],
)
def test_labels_of_any_type_are_matched_by_value(values: NDArray[Any]) -> None:
    assert class_indices(values, ("0", "1"), "labels").tolist() == [1, 0, 1]
    assert class_indices(values, ("1", "0"), "labels").tolist() == [0, 1, 0]


def test_booleans_are_matched_however_they_are_written() -> None:
    values = np.array([True, False])
    assert class_indices(values, ("false", "true"), "labels").tolist() == [1, 0]
    assert class_indices(values, ("True", "False"), "labels").tolist() == [0, 1]
    with pytest.raises(InputError, match=r"'false', 'true' \(2 of 2 rows\) are in no class"):
        class_indices(values, ("0", "1"), "labels")


def test_missing_labels_are_counted() -> None:
    with pytest.raises(InputError, match=r"2 of 3 labels are missing \(NaN or empty\); drop these rows"):
        class_indices(np.array([np.nan, 1.0, np.nan]), ("1",), "labels")
    with pytest.raises(InputError, match=r"1 of 2 labels are missing"):
        class_indices(np.array([None, "a"], dtype=object), ("a",), "labels")


def test_the_truth_of_a_table() -> None:
    table = pa.table({"name": ["a", "c", "b"], "number": [1.5, 2.0, 3.0], "gap": [1.0, None, 2.0]})
    assert truth(table, "name", ABC).tolist() == [0, 2, 1]
    assert truth(table, "number", None).tolist() == [1.5, 2.0, 3.0]
    with pytest.raises(InputError, match=r"the dataset has no column 'nam' \(choices: name.*did you mean 'name'"):
        truth(table, "nam", ABC)
    with pytest.raises(InputError, match=r"the label column 'name': 'b', 'c' \(2 of 3 rows\) are in no class"):
        truth(table, "name", ("a",))
    with pytest.raises(InputError, match=r"'gap': 1 of 3 labels are missing"):
        truth(table, "gap", None)
    with pytest.raises(InputError, match=r"'name' holds text but the model predicts values"):
        truth(table, "name", None)
    with pytest.raises(InputError, match=r"holds list<item: int64>, not one label per row; if a row may have several"):
        truth(pa.table({"l": [[1, 2]]}), "l", None)


def test_classes_from_a_file(tmp_path: Path, access: Access) -> None:
    (tmp_path / "classes.txt").write_text("cat\ndog\r\n\nowl\n", encoding="utf-8-sig")
    assert read_classes("classes.txt", access) == ("cat", "dog", "owl")
    assert read_classes((1, 2.0, True), access) == ("1", "2", "true")
    assert read_classes(None, access) is None
    (tmp_path / "twice.txt").write_text("cat\ncat\n")
    with pytest.raises(InputError, match=r"the file of classes 'twice.txt' names 'cat' twice"):
        read_classes("twice.txt", access)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match=r"'empty.txt' is empty"):
        read_classes("empty.txt", access)
    (tmp_path / "image.txt").write_bytes(b"\xff\xd8\xff\x00")
    with pytest.raises(InputError, match=r"'image.txt' is not text"):
        read_classes("image.txt", access)
    with pytest.raises(InputError, match=r"no file or folder 'none.txt'"):
        read_classes("none.txt", access)


def test_one_logit_tells_both_classes_to_the_last_digit() -> None:
    """One less the probability of the second class would be nothing from 37 on."""
    scores = np.array([[-100.0], [-40.0], [0.0], [40.0], [100.0]])
    found = mapped("logits", scores, ("no", "yes"))
    assert found.probabilities is not None
    odds = np.log(found.probabilities[:, 1]) - np.log(found.probabilities[:, 0])
    assert odds == pytest.approx(scores[:, 0], rel=1e-12)


def test_logits_that_are_probabilities_are_invalid_and_their_logarithms_are_not() -> None:
    shares = np.random.default_rng(0).dirichlet(np.ones(3), 100)
    with pytest.raises(InvalidError, match="softmax would be applied twice"):
        mapped("logits", shares.tolist(), ABC)
    found = mapped("logits", np.log(shares).tolist(), ABC)
    assert found.probabilities == pytest.approx(shares)
