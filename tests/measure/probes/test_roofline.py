"""`roofline`: a model that computes, one that moves bytes and one that mostly starts operators are told apart."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.roofline.measure import place
from evalspec.errors import NotRunError
from evalspec.language.abilities import Operator, OperatorTrace
from evalspec.language.inputs import Probe
from evalspec.measure import ceilings, engines
from evalspec.measure.probes import ProbeResult, roofline
from evalspec.measure.probes.roofline import precision, probe, traffic
from evalspec.runtimes.torch import Torch
from tests.measure.probes.contexts import bare, context, export

OPTIONS = {"batch": 64, "calls": 20, "min_s": 0.05}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ceilings that take a tenth of the time, and a cache of 16 MiB: with 480 MiB each buffer takes GiBs."""
    monkeypatch.setattr(engines, "last_cache_bytes", lambda: 16 * 2**20)
    monkeypatch.setattr(ceilings, "GEMM_S", 0.02)
    monkeypatch.setattr(ceilings, "COPY_S", 0.02)


def found(tmp_path: Path, module: Any, width: int, batch: int) -> ProbeResult:
    export(module, tmp_path / "model.pt2", width)
    rows = np.random.default_rng(0).random((2 * batch, width)).astype(np.float32)
    model = Torch(path="model.pt2", outputs={"value": "output"})
    return probe(context(model, tmp_path, rows, OPTIONS | {"batch": batch}))


def placed(one: ProbeResult) -> Any:
    return place([Probe("roofline", "candidate", 0, one.facts, one.series, one.texts)])


def test_a_large_product_is_bound_by_compute(tmp_path: Path) -> None:
    import torch

    one = found(tmp_path, torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Linear(1024, 1)), 512, 512)
    here = placed(one)
    assert here.operations == 2 * 512 * (512 * 1024 + 1024)
    assert here.weight_bytes == 4 * (512 * 1024 + 1024 + 1024 + 1)
    assert here.intensity > 50 and here.bound == "compute"
    assert one.facts["compute_precision"] == "fp32" and one.facts["clock"] == "wall clock"


@pytest.mark.proof
def test_large_elementwise_work_is_bound_by_memory(tmp_path: Path) -> None:
    import torch

    class Elementwise(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(x * 2.0 + 1.0).sum(-1, keepdim=True)

    here = placed(found(tmp_path, Elementwise(), 50_000, 64))
    assert here.weight_bytes == 0 and here.intensity < 0.5
    assert here.bound == "memory"


def test_a_tiny_model_is_bound_by_overhead(tmp_path: Path) -> None:
    import torch

    here = placed(found(tmp_path, torch.nn.Linear(8, 1), 8, 1))
    assert here.on_calls > 0.5 and here.bound == "overhead"


def test_what_is_timed_has_no_preprocessing_and_different_rows_in_turn() -> None:
    seen: list[float] = []

    class Loaded:
        def __init__(self) -> None:
            self.observed = {"device": "cpu", "threads": 1}
            self.fixed_batch = 4

        def inspect(self, inputs: Any) -> OperatorTrace:
            one = Operator("0", "mm", "cpu", computes="float32", operations=100.0, read_bytes=10.0, written_bytes=5.0)
            return OperatorTrace((one,), 100.0, 8.0, 4.0)

        def runner(self, batches: Any) -> Any:
            assert len(batches) == 8
            return seen.append

    one = probe(bare(Loaded(), SimpleNamespace(n=40), batch=1, calls=20, min_s=0.0))
    assert one.facts["batch"] == 4 and one.facts["calls"] == 20
    assert one.facts["larger_batch_s"] is None and "larger_s" not in one.series
    assert set(seen) == set(range(20))
    assert len(one.series["cold_s"]) == 10 and len(one.series["warm_s"]) == 20


def test_large_batches_are_not_held_eight_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []

    class Loaded:
        def __init__(self) -> None:
            self.observed = {"device": "cpu"}
            self.fixed_batch = None

        def inspect(self, inputs: Any) -> OperatorTrace:
            return OperatorTrace((Operator("0", "mm", "cpu", computes="float32", operations=1.0),), 1.0, 8.0, 4.0)

        def runner(self, batches: Any) -> Any:
            held.append(len(batches))
            return lambda index: None

    monkeypatch.setattr(roofline, "HELD_BYTES", 3 * 64 * 16)
    probe(bare(Loaded(), SimpleNamespace(n=500), batch=64, calls=20, min_s=0.0))
    # 64 rows of 16 bytes: three batches fit; of four times the rows not one does, and one is served.
    assert held == [3, 1]


def test_a_model_that_shows_no_operators() -> None:
    with pytest.raises(NotRunError, match="kind 'python' can't be counted"):
        probe(bare(SimpleNamespace(observed={}), batch=1, calls=20, min_s=0.0))


def test_bytes_by_what_they_are() -> None:
    inside = OperatorTrace(
        (
            Operator("0", "mm", "cpu", read_bytes=140.0, weight_bytes=100.0, written_bytes=20.0),
            Operator("1", "relu", "cpu", read_bytes=20.0, written_bytes=20.0),
        ),
        operations=1.0, input_bytes=40.0, output_bytes=20.0,
    )  # fmt: skip
    moved = traffic(inside)
    assert (moved.weights, moved.inputs, moved.outputs, moved.activations) == (100.0, 40.0, 20.0, 40.0)
    assert moved.total == 200.0


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ((("float32", 10.0), ("int8", 90.0)), "int8"),
        ((("bfloat16", 60.0), ("float32", 40.0)), "bf16"),
        ((("float8_e4m3fn", 60.0), ("float32", 40.0)), "fp8"),
        ((("", 0.0), ("int64", 5.0)), "fp32"),
    ],
)
def test_the_precision_of_the_ceiling_is_that_of_most_operations(
    types: tuple[tuple[str, float], ...], expected: str
) -> None:
    operators = tuple(Operator(str(i), "x", "cpu", computes=t, operations=o) for i, (t, o) in enumerate(types))
    assert precision(OperatorTrace(operators, 1.0, 1.0, 1.0)) == expected
