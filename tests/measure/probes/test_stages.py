"""`stages`: every stage is timed, the same queries go both ways, and overlap shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.checks.system.stages.measure import collect
from evalspec.errors import InputError, NotRunError
from evalspec.language.inputs import Probe
from evalspec.measure.probes import ProbeResult, stages
from evalspec.measure.probes.stages import probe
from evalspec.runtimes.onnx import Onnx
from tests.measure.fakes import FakeClock
from tests.measure.probes.contexts import bare, context

OPTIONS = {"queries": 20, "batch": 1, "warmup": 3, "warmup_s": 0.0}


class InStages:
    """A query that takes so long at each stage.

    Args:
        clock: What serving moves.
        stage_ms: Name and time of each stage.
        whole_ms: Time of the undivided query; default: all stages one after the other.
    """

    def __init__(self, clock: FakeClock, stage_ms: list[tuple[str, float]], whole_ms: float | None = None) -> None:
        self.clock = clock
        self.stage_ms = stage_ms
        self.whole_ms = sum(ms for _, ms in stage_ms) if whole_ms is None else whole_ms
        self.n = 30
        self.served: list[int] = []
        self.divided: list[int] = []
        self.synchronized = 0

    def take(self, rows: NDArray[np.int64]) -> Any:
        self.clock.pass_ms(7.0)
        return rows

    def serve(self, query: Any) -> Any:
        self.served.append(int(query[0]))
        self.clock.pass_ms(self.whole_ms)
        return query

    def synchronize(self) -> None:
        self.synchronized += 1

    def answers(self, outputs: Any) -> Any:
        return outputs

    def steps(self) -> list[tuple[str, Callable[[Any], Any]]]:
        def step(ms: float, first: bool) -> Callable[[Any], Any]:
            def call(value: Any) -> Any:
                if first:
                    self.divided.append(int(value[0]))
                self.clock.pass_ms(ms)
                return value

            return call

        return [(name, step(ms, place == 0)) for place, (name, ms) in enumerate(self.stage_ms)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(stages, "now_ns", fake)
    return fake


def ms(found: ProbeResult, name: str) -> float:
    return float(found.series[name].mean()) / 1e6


def test_each_stage_and_the_whole(clock: FakeClock) -> None:
    rows = InStages(clock, [("resize", 8.0), ("inference", 10.0), ("postprocess", 1.0)])
    found = probe(bare(None, rows, **OPTIONS))
    assert found.texts["stages"] == ("resize", "inference", "postprocess")
    assert ms(found, "stage_ns:resize") == pytest.approx(8.0, abs=1e-4)
    assert ms(found, "stage_ns:inference") == pytest.approx(10.0, abs=1e-4)
    assert ms(found, "end_to_end_ns") == pytest.approx(19.0, abs=1e-4)
    assert found.facts["queries"] == 20 and len(found.series["end_to_end_ns"]) == 20


def test_both_ways_serve_the_same_queries_in_blocks(clock: FakeClock) -> None:
    rows = InStages(clock, [("inference", 1.0)])
    probe(bare(None, rows, **OPTIONS))
    measured, undivided = rows.divided[3:], rows.served[3:]
    assert len(measured) == len(undivided) == 20
    assert measured == undivided
    assert len(set(measured)) == 20


def test_the_device_is_waited_for_after_every_stage(clock: FakeClock) -> None:
    rows = InStages(clock, [("copy_to_device", 1.0), ("inference", 1.0)])
    probe(bare(None, rows, **OPTIONS))
    assert rows.synchronized == 23 * (2 + 1)


def test_stages_that_overlap_take_longer_one_after_the_other(clock: FakeClock) -> None:
    rows = InStages(clock, [("copy_to_device", 4.0), ("inference", 6.0)], whole_ms=7.0)
    found = probe(bare(None, rows, **OPTIONS))
    together = ms(found, "stage_ns:copy_to_device") + ms(found, "stage_ns:inference")
    assert together - ms(found, "end_to_end_ns") == pytest.approx(3.0, abs=1e-3)


def test_two_stages_of_one_name_are_told_apart(clock: FakeClock) -> None:
    rows = InStages(clock, [("inference", 1.0), ("inference", 2.0)])
    assert probe(bare(None, rows, **OPTIONS)).texts["stages"] == ("inference", "inference_2")


def test_a_model_without_stages() -> None:
    with pytest.raises(NotRunError, match="can't be served stage by stage"):
        probe(bare(None, SimpleNamespace(n=3), **OPTIONS))


def test_the_stages_of_a_served_model_are_its_preprocessing_by_name(tmp_path: Path, linear_onnx: Path) -> None:
    model = Onnx(
        path="linear.onnx", inputs={"x": "x"}, outputs={"logits": "y"}, classes=("cat", "dog", "owl"),
        preprocess=({"cast": "float32"}, {"scale": 2.0}, {"scale": 0.5}),
    )  # fmt: skip
    array = np.random.default_rng(0).random((12, 4)).astype(np.float32)
    made = context(model, tmp_path, array, OPTIONS)
    found = probe(made)
    assert found.texts["stages"] == ("cast", "scale", "scale_2", "inference", "postprocess")
    assert all(found.series[f"stage_ns:{name}"].min() > 0 for name in found.texts["stages"])
    # Stage by stage it comes to the same answers.
    query: Any = made.rows.take(np.arange(5))
    whole = made.rows.answers(made.rows.serve(query))
    for _, step in made.rows.steps():  # type: ignore[attr-defined]  # it is a ServedRows
        query = step(query)
    np.testing.assert_array_equal(query, whole)


def test_a_pipeline_that_parsing_dominates_is_found(tmp_path: Path, linear_onnx: Path) -> None:
    (tmp_path / "parsing_of_tests.py").write_text(
        "import json\n"
        "import numpy as np\n"
        "def parse(arrays):\n"
        "    text = json.dumps([row.tolist() for row in arrays['x']] * 300)\n"
        "    return {'x': np.array(json.loads(text)[: len(arrays['x'])], dtype=np.float32)}\n"
    )
    model = Onnx(
        path="linear.onnx", inputs={"x": "x"}, outputs={"logits": "y"}, classes=("cat", "dog", "owl"),
        preprocess=({"python": "parsing_of_tests:parse"},),
    )  # fmt: skip
    array = np.random.default_rng(0).random((40, 4)).astype(np.float32)
    found = probe(context(model, tmp_path, array, OPTIONS))
    divided = collect([Probe("stages", "candidate", 0, found.facts, found.series, found.texts)])
    assert divided.names == ("python", "inference", "postprocess")
    shares = {name: float(divided.stage_ms[name][0] / divided.whole_ms[0]) for name in divided.names}
    assert shares["python"] > 0.5 > shares["inference"]


def test_a_model_that_refuses_says_so(tmp_path: Path, linear_onnx: Path) -> None:
    model = Onnx(path="linear.onnx", inputs={"x": "x"}, outputs={"logits": "y"}, classes=("cat", "dog"))
    with pytest.raises(InputError, match="classes"):
        probe(context(model, tmp_path, np.ones((3, 4), np.float32), OPTIONS))
