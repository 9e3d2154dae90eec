"""Stories that a machine without any accelerator can show: real models, real processes, a real clock.

What is planted is ten times as large as what is allowed, so that a busy machine changes nothing of it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, ends, told

pytestmark = pytest.mark.proof

CLASSES = ["no", "yes"]
ROWS = 400

MODELS = '''
"""Models that take their time."""

import json
import time

import numpy as np


def parse(arrays):
    """Requests come as text."""
    time.sleep({parse_s})
    return {{"x": np.array([json.loads(one)["x"] for one in arrays["request"]])}}


def infer(arrays):
    time.sleep(0.002)
    return {{"value": arrays["x"]}}


class Slow:
    """Loads for a while, and warms up with the first query."""

    def __init__(self):
        time.sleep({load_s})
        self.wait_s = {first_s}

    def __call__(self, arrays):
        time.sleep(self.wait_s)
        self.wait_s = 0.0
        return {{"value": arrays["x"]}}
'''


def requests_as_text(tale: Tale) -> None:
    """The model waits while the processor reads JSON."""
    tale.models["f5_model"] = {
        "kind": "python", "function": "clocked:infer", "inputs": {"request": "request"}, "outputs": {"value": "value"},
        "preprocess": [{"python": "clocked:parse"}],
    }  # fmt: skip
    tale.ask("system", "stages", "f5_stages", "stage_share(python) <= 50 %", "amdahl_ceiling(inference) >= 2x",
             model="f5_model", dataset="requests", queries=100, warmup=3)  # fmt: skip


def started_anew(tale: Tale) -> None:
    """An instance that comes and goes with the load."""
    tale.models["f34_model"] = {
        "kind": "python", "function": "clocked:Slow", "inputs": {"x": "x"}, "outputs": {"value": "value"},
    }  # fmt: skip
    tale.ask("system", "cold_start", "f34_start", "load_time <= 200 ms", "first_inference <= 150 ms",
             model="f34_model", dataset="requests", processes=5)  # fmt: skip


def layer_removed(tale: Tale, bad: bool) -> None:
    """The last layer is optimised away: the largest output stays the largest."""
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(4)
    weights = draw.normal(0.0, 1.0, (8, 2))
    rounded = weights + draw.normal(0.0, 1e-4, (8, 2))
    for name, first, layers in (("candidate", rounded, 0 if bad else 1), ("baseline", weights, 1)):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["scores" if layers else "y"], name="product")]
        if layers:
            nodes.append(helper.make_node("MatMul", ["scores", "cooled"], ["y"], name="cooled"))
        initial = [numpy_helper.from_array(first.astype(np.float32), "w")]
        initial += [numpy_helper.from_array(0.2 * np.eye(2, dtype=np.float32), "cooled")] * layers
        graph = helper.make_graph(
            nodes, name, [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])], initial,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(model, tale.folder / f"{name}.onnx")
        tale.models[name] = {
            "kind": "onnx", "path": f"{name}.onnx", "inputs": {"x": "signal"}, "outputs": {"logits": "y"},
            "classes": CLASSES, "preprocess": [{"cast": "float32"}],
        }  # fmt: skip
    signal = draw.normal(0.0, 1.0, (ROWS, 8))
    # One in fifty labels is not what the model says.
    label = (signal @ weights).argmax(axis=1) ^ (np.arange(ROWS) % 50 == 0)
    columns = {"signal": pa.FixedSizeListArray.from_arrays(signal.ravel(), 8), "night": np.arange(ROWS) % 2 == 0}
    tale.rows("signals", {**columns, "label": np.array(CLASSES)[label]}, label="label")
    tale.slices.append({"name": "night", "where": "night == True"})
    tale.ask("model", "quality", "f16_quality", "accuracy >= 94 %", "accuracy >= baseline - 1 pp", dataset="signals",
             show_examples=False)  # fmt: skip
    tale.ask("model", "compression", "f16_layers", "flip_rate <= 1 %", "worst_slice_drop <= 2 pp",
             "operators_lost == 0", "logit_distance <= 0.2", dataset="signals", method="pruning", speed=False,
             by=["night"], show_examples=False)  # fmt: skip


def tell(folder: Path, bad: bool) -> Tale:
    """All of them in one spec."""
    tale = Tale(folder, "clock")
    times = {"parse_s": 0.02 if bad else 0.0002, "load_s": 0.6 if bad else 0.0, "first_s": 0.4 if bad else 0.0}
    (folder / "clocked.py").write_text(MODELS.format(**times))
    x = np.arange(200.0)
    tale.rows("requests", {"x": x, "request": [f'{{"x": {one}}}' for one in x.tolist()]})
    requests_as_text(tale)
    started_anew(tale)
    layer_removed(tale, bad)
    return tale


STORIES = (
    Story(
        "F5: the model waits while JSON is read",
        red={"f5_stages/stage_share(python)": "FAIL", "f5_stages/amdahl_ceiling(inference)": "FAIL"},
        page=("preprocessing is slow", "only that code shows whether it parses"),
    ),
    Story(
        "F16: a layer is optimised away",
        red={"f16_layers/operators_lost": "FAIL", "f16_layers/logit_distance": "FAIL"},
        shows={"f16_layers": ("MatMul", "Distance before softmax")},
    ),
    Story("F34: every instance starts anew",
          red={"f34_start/load_time": "FAIL", "f34_start/first_inference": "FAIL"}),
)  # fmt: skip


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "clock", colour, tell)


@pytest.mark.slow
@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)
