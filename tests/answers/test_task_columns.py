"""Answers of every task through every runtime, into a file and back, and as one number to compare."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.answers.file import Answers, compared_exactly, compared_numbers, read_answers, write_answers
from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.language.predictions import Boxes, Task
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.onnx import Onnx
from evalspec.runtimes.predictions import PredictionFiles
from evalspec.runtimes.python import Python
from tests.runtimes.servers import Request, answer, serving

MASKS = np.array([[[0, 1], [1, 2]], [[2, 2], [0, 0]], [[0, 0], [0, 0]]])
BOXES = Boxes(
    row=np.array([0, 2, 2]),
    corners=np.array([[0.0, 0.0, 2.0, 3.0], [1.0, 1.0, 4.0, 4.0], [2.0, 0.5, 3.0, 5.0]]),
    classes=np.array([1, 0, 1]),
    scores=np.array([0.9, 0.8, 0.25]),
)
MEMBERS = np.array([[True, False, True], [False, False, False], [True, True, True]])
TEXTS = np.array(["naïve <b>", "", "日本"], dtype=object)
CLASSES = ("a", "b", "c")


def of(**fields: Any) -> Answers:
    plain = dict.fromkeys(("probabilities", "predicted", "values", "lower", "upper"))
    return Answers(n=3, **{"classes": CLASSES, **plain, **fields})


ANSWERS: dict[Task, Answers] = {
    "classes": of(predicted=np.array([0, 1, 2])),
    "values": of(values=np.array([0.5, 1.5, 2.5]), classes=None),
    "labels": of(members=MEMBERS, probabilities=np.where(MEMBERS, 0.75, 0.25)),
    "text": of(
        texts=TEXTS,
        classes=None,
        finish_reasons=np.array(["stop", "length", "stop"], dtype=object),
        tokens=np.array([3, 0, 2**40]),
    ),
    "boxes": of(boxes=BOXES),
    "mask": of(masks=MASKS),
    "embedding": of(embeddings=np.array([[0.5, -1.0], [2.0, 0.0], [0.0, 3.5]], np.float32), classes=None),
}


def same(one: Any, other: Any) -> None:
    """Every field that either has."""
    for name in (field.name for field in dataclasses.fields(one)):
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, Boxes):
            same(left, right)
        elif isinstance(left, np.ndarray):
            np.testing.assert_array_equal(left, right)
            assert left.dtype.kind == right.dtype.kind, name
        elif name != "details":
            assert left == right, name


@pytest.mark.parametrize("task", ANSWERS)
def test_answers_come_back_from_a_file(tmp_path: Path, task: Task) -> None:
    write_answers(ANSWERS[task], tmp_path / "a.parquet")
    got = read_answers(tmp_path / "a.parquet")
    assert got.task == task
    same(ANSWERS[task], got)


def test_no_boxes_at_all_come_back(tmp_path: Path) -> None:
    none = Boxes(np.empty(0, np.int64), np.empty((0, 4)), np.empty(0, np.int64), np.empty(0))
    write_answers(of(boxes=none), tmp_path / "a.parquet")
    got = read_answers(tmp_path / "a.parquet")
    assert got.boxes is not None and got.boxes.corners.shape == (0, 4)
    assert compared_numbers(got).tolist() == [0.0, 0.0, 0.0]


def test_equal_numbers_are_equal_answers() -> None:
    for task in ("labels", "text"):
        numbers = compared_numbers(ANSWERS[task])
        assert compared_exactly(ANSWERS[task]) and len(set(numbers.tolist())) == 3
    other = compared_numbers(of(texts=np.array(["naïve <b>", " ", "日本 "], dtype=object), classes=None))
    assert (other == compared_numbers(ANSWERS["text"])).tolist() == [True, False, False]


def test_rounding_is_no_other_answer_and_another_box_is() -> None:
    def close(boxes: Boxes) -> list[bool]:
        return list(np.isclose(compared_numbers(of(boxes=boxes)), compared_numbers(ANSWERS["boxes"]), rtol=1e-4))

    rounded = dataclasses.replace(BOXES, corners=BOXES.corners * (1 + 1e-6), scores=BOXES.scores * (1 - 1e-6))  # type: ignore[operator]
    order = np.array([0, 2, 1])
    turned = Boxes(BOXES.row, BOXES.corners[order], BOXES.classes[order], BOXES.scores[order])  # type: ignore[index]
    assert close(rounded) == close(turned) == [True, True, True]
    for name, value in (("corners", 3.0), ("classes", 1), ("scores", 0.05)):
        moved = getattr(BOXES, name).copy()
        moved[0] += value
        assert close(dataclasses.replace(BOXES, **{name: moved})) == [False, True, True], name
    fewer = Boxes(*(getattr(BOXES, name)[:2] for name in ("row", "corners", "classes", "scores")))
    assert close(fewer) == [True, True, False]


def test_a_few_pixels_are_rounding_and_more_are_not() -> None:
    rng = np.random.default_rng(0)
    masks = rng.integers(0, 3, (2, 128, 128))
    few, more = masks.copy(), masks.copy()
    few[0, 3, 4] = (few[0, 3, 4] + 1) % 3
    more[1, :4] = (more[1, :4] + 1) % 3
    like = compared_numbers(of(masks=masks))
    assert np.isclose(compared_numbers(of(masks=few)), like, rtol=1e-4).tolist() == [True, True]
    assert np.isclose(compared_numbers(of(masks=more)), like, rtol=1e-4).tolist() == [True, False]
    blob = np.zeros((1, 64, 64), dtype=np.int64)
    blob[0, 3:20, 5:30] = 1
    numbers = [compared_numbers(of(masks=one))[0] for one in (blob, blob[:, ::-1], np.swapaxes(blob, 1, 2))]
    assert not np.isclose(numbers[0], numbers[1:], rtol=1e-4).any()


TABLE = pa.table({"key": [10, 11, 12], "x": np.array([0.0, 1.0, 2.0], np.float32)})
FACTS = DatasetFacts(name="test", label=None, key="key")
LISTS = {
    "boxes": [[[0, 0, 2, 3]], [], [[1, 1, 4, 4], [2, 0.5, 3, 5]]],
    "scores": [[0.9], [], [0.8, 0.25]],
    "label": [["b"], [], ["a", "b"]],
}


def predicted(access: Access, columns: dict[str, Any], **fields: Any) -> Answers:
    table = pa.table({"key": [12, 10, 11], **{name: [rows[2], rows[0], rows[1]] for name, rows in columns.items()}})
    pq.write_table(table, access.folder / "p.parquet")
    model = PredictionFiles.model_validate({"kind": "predictions", "files": {"test": "p.parquet"}, **fields})
    return Served(model, model.load(access), access, FACTS).predict_all(TABLE, batch=2)


def test_files_of_predictions_hold_every_task(access: Access) -> None:
    outputs = {name: name for name in LISTS}
    same(of(boxes=BOXES), predicted(access, LISTS, outputs=outputs, classes=CLASSES))
    assert predicted(access, {"said": list(TEXTS)}, outputs={"text": "said"}).texts.tolist() == list(TEXTS)  # type: ignore[union-attr]
    tags = {"tags": [["a", "c"], [], ["a", "b", "c"]]}
    got = predicted(access, tags, outputs={"label": "tags"}, classes=CLASSES, multilabel=True)
    assert got.task == "labels" and got.members is not None and got.members.tolist() == MEMBERS.tolist()
    got = predicted(access, {"m": MASKS.tolist()}, outputs={"mask": "m"}, classes=CLASSES)
    assert got.masks is not None and got.masks.tolist() == MASKS.tolist()
    vectors = [[0.5, 1.0], [2.0, 0.0], [0.0, 3.5]]
    got = predicted(access, {"v": vectors}, outputs={"embedding": "v"})
    assert got.task == "embedding" and got.embeddings is not None and got.embeddings.tolist() == vectors


def test_lines_of_json_hold_boxes_too(access: Access) -> None:
    lines = [json.dumps({"key": 10 + row, **{name: rows[row] for name, rows in LISTS.items()}}) for row in range(3)]
    (access.folder / "p.jsonl").write_text("\n".join(lines))
    fields = {"kind": "predictions", "files": {"test": "p.jsonl"}, "outputs": {name: name for name in LISTS}}
    model = PredictionFiles.model_validate({**fields, "classes": CLASSES})
    same(of(boxes=BOXES), Served(model, model.load(access), access, FACTS).predict_all(TABLE))


CODE = """
import numpy as np

LISTS = {lists}

def detect(inputs):
    return {{name: [rows[int(x)] for x in inputs["x"]] for name, rows in LISTS.items()}}

def write(inputs):
    return {{"text": ["row %d" % x for x in inputs["x"]]}}

def tag(inputs):
    return {{"label": [["a", "c"][: int(x)] for x in inputs["x"]]}}
"""


def test_functions_give_lists(trusted: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(trusted.folder))
    (trusted.folder / "kept_models.py").write_text(CODE.format(lists=LISTS))

    def run(function: str, **fields: Any) -> Answers:
        fields = {"kind": "python", "function": f"kept_models:{function}", "inputs": {"x": "x"}, **fields}
        model = Python.model_validate(fields)
        return Served(model, model.load(trusted), trusted, FACTS).predict_all(TABLE, batch=2)

    same(of(boxes=BOXES), run("detect", classes=CLASSES))
    assert run("write").texts.tolist() == ["row 0", "row 1", "row 2"]  # type: ignore[union-attr]
    got = run("tag", classes=CLASSES, multilabel=True)
    assert got.members is not None
    assert got.members.tolist() == [[False] * 3, [True, False, False], [True, False, True]]
    with pytest.raises(InputError, match=r"not one label per row; if a row may have several labels, set multilabel"):
        run("tag", classes=CLASSES)


def save_onnx(path: Path) -> None:
    """Constant tensors for 3 rows: texts, padded boxes, scores of a mask."""
    import onnx
    from onnx import TensorProto, helper

    def constant(name: str, kind: int, values: np.ndarray) -> tuple[Any, Any]:
        data = [one.encode() for one in values.reshape(-1)] if values.dtype.kind == "U" else values.reshape(-1).tolist()
        tensor = helper.make_tensor(f"{name}_0", kind, values.shape, data)
        return helper.make_node("Constant", [], [name], value=tensor), helper.make_tensor_value_info(
            name, kind, list(values.shape)
        )

    boxes = np.zeros((3, 2, 4), np.float32)
    boxes[BOXES.row, [0, 0, 1]] = BOXES.corners
    scores = np.array([[0.9, 0], [0, 0], [0.8, 0.25]], np.float32)
    label = np.array([[1, -1], [-1, -1], [0, 1]])
    channels = (np.arange(3)[None, :, None, None] == MASKS[:, None]).astype(np.float32)
    made = [
        constant("t", TensorProto.STRING, np.array(list(TEXTS))), constant("b", TensorProto.FLOAT, boxes),
        constant("s", TensorProto.FLOAT, scores), constant("l", TensorProto.INT64, label),
        constant("m", TensorProto.FLOAT, channels),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    nodes = [helper.make_node("Identity", ["x"], ["y"]), *(node for node, _ in made)]
    graph = helper.make_graph(nodes, "tasks", [x], [y, *(value for _, value in made)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def test_onnx_tensors_of_every_task(access: Access) -> None:
    save_onnx(access.folder / "m.onnx")

    def run(**fields: Any) -> Answers:
        model = Onnx.model_validate({"kind": "onnx", "path": "m.onnx", "inputs": {"x": "x"}, **fields})
        return Served(model, model.load(access, threads=1), access, FACTS).predict_all(TABLE)

    assert run(outputs={"text": "t"}).texts.tolist() == list(TEXTS)  # type: ignore[union-attr]
    got = run(outputs={"boxes": "b", "scores": "s", "label": "l"}, classes=CLASSES)
    assert got.boxes is not None and got.boxes.scores is not None
    np.testing.assert_allclose(got.boxes.scores, BOXES.scores, rtol=1e-6)  # type: ignore[arg-type]
    np.testing.assert_array_equal(got.boxes.classes, BOXES.classes)
    np.testing.assert_array_equal(got.boxes.row, BOXES.row)
    masks = run(outputs={"mask": "m"}, classes=CLASSES).masks
    assert masks is not None and masks.tolist() == MASKS.tolist()


def test_a_server_gives_texts_and_lists(access: Access) -> None:
    def handle(request: Request) -> bytes:
        rows = json.loads(request.body)["rows"]
        found = [
            {"text": f"row {x:g}", "why": "length", "n": int(x)}
            | {name: every[int(x)] for name, every in LISTS.items()}
            for x in rows
        ]
        return answer(200, found)

    with serving(handle) as server:

        def run(response: dict[str, str], **fields: Any) -> Answers:
            fields = {"request": {"rows": "{x}"}, "inputs": {"x": "x"}, "response": response, **fields}
            model = Http.model_validate({"kind": "http", "url": server.url, "protocol": "json", **fields})
            loaded = model.load(access)
            try:
                return Served(model, loaded, access, FACTS).predict_all(TABLE)
            finally:
                loaded.close()

        assert run({"text": "$[*].text"}).texts.tolist() == ["row 0", "row 1", "row 2"]  # type: ignore[union-attr]
        beside: dict[str, Any] = {"text": "text", "finish_reason": "why", "tokens": "n"}
        found = run({name: f"$[*].{name}" for name in beside.values()}, outputs=beside, answer={"after": "row"})
        assert found.finish_reasons is not None and found.finish_reasons.tolist() == ["length"] * 3
        assert found.tokens is not None and found.tokens.tolist() == [0, 1, 2]
        assert found.extracted is not None and found.extracted.tolist() == ["0", "1", "2"]
        same(of(boxes=BOXES), run({name: f"$[*].{name}" for name in LISTS}, classes=CLASSES))
        with pytest.raises(InputError, match=r"the output for 'boxes' has no list in row 0"):
            run({"boxes": "$[*].text", "scores": "$[*].scores", "label": "$[*].label"}, classes=CLASSES)
