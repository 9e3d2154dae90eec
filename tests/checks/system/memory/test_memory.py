"""`memory`: facts of processes, who said so, and models beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.memory.measure import host_peak, on_device
from evalspec.checks.system.memory.spec import Memory
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Fact, Parts
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult, SpecNames
from evalspec.language.timings import Telemetry
from evalspec.loading.crosscheck import unknown_part
from evalspec.running.requirements import SignificanceLevels, write_tests
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

SENTENCES = [
    "peak_host_memory <= 512 MiB", "peak_host_memory(batch 32) <= 512 MiB", "model_size <= 64 MiB",
    "parameters <= 1000",
]  # fmt: skip


def told(**series: list[float]) -> Telemetry:
    length = max((len(values) for values in series.values()), default=0)
    return Telemetry(
        np.arange(length) * 100_000_000, {name: np.array(values) for name, values in series.items()},
        missing={"gpu_memory_mib": "NVML does not start"},
    )  # fmt: skip


def served(
    model: str, batch: int, each: float, *, framework: float | None = None, telemetry: Telemetry | None = None,
    parameters: int | None = 800, process: int = 0,
) -> Probe:  # fmt: skip
    """100 MiB, and so many more for each item of a batch."""
    facts: dict[str, Cell] = {
        "start_s": 0.1, "import_s": 0.1, "load_s": 0.1, "resident_before_mib": 100.0, "peak_before_mib": 150.0,
        "peak_serving_mib": 100.0 + each * batch, "peak_host_mib": max(150.0, 100.0 + each * batch),
        "peak_framework_mib": framework, "parameters": parameters,
    }  # fmt: skip
    seen = telemetry if telemetry is not None else told(resident_mib=[60.0, 100.0], resident_peak_mib=[90.0, 150.0])
    return Probe(probe="memory", model=model, process=process, facts=facts, telemetry=seen)


def maker(each: Mapping[str, float], **fields: object) -> Callable[[str, str, Mapping[str, Cell]], list[Probe]]:
    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        assert probe == "memory" and isinstance(options["batch"], int)
        return [served(model, options["batch"], each[model], **fields)]  # type: ignore[arg-type]  # fields of served

    return make


def run(folder: Path, each: Mapping[str, float], require: list[str] = SENTENCES, **fields: object) -> CheckResult:
    check = Memory.model_validate({"check": "memory", "dataset": "test", "require": require})
    facts: dict[str, dict[str, Cell]] = {name: {"device": "cpu", "size_bytes": 32 * 2**20} for name in each}
    facts["baseline"] = {"device": "cpu", "size_bytes": 128 * 2**20}
    return check.run(FakeInputs(folder, probes=maker(each, **fields), facts=facts))


def decided(result: CheckResult, require: list[str] = SENTENCES) -> list[str]:
    check = Memory.model_validate({"check": "memory", "dataset": "test", "require": require})
    return [outcome(result, the(check, one)) for one in require]


def test_little_passes_and_much_fails(tmp_path: Path) -> None:
    assert decided(run(tmp_path, {"candidate": 10.0})) == ["PASS"] * 4
    assert decided(run(tmp_path, {"candidate": 20.0})) == ["FAIL", "FAIL", "PASS", "PASS"]
    assert decided(run(tmp_path, {"candidate": 10.0}, parameters=1001))[3] == "FAIL"


def test_the_largest_batch_counts_and_each_has_its_own(tmp_path: Path) -> None:
    found = run(tmp_path, {"candidate": 10.0}).estimates["peak_host_memory"]
    assert isinstance(found, Parts) and isinstance(found.whole, Fact) and found.whole.value == 420.0
    assert {name: part.value for name, part in found.parts.items() if isinstance(part, Fact)} == {
        "batch 1": 110.0, "batch 32": 420.0,
    }  # fmt: skip
    assert found.whole.in_this_run


def test_reading_the_dataset_is_not_the_models_peak() -> None:
    assert host_peak(served("candidate", 1, 10.0)) == 110.0, "150 while rows were read, 90 while loading"
    loading = told(resident_mib=[60.0], resident_peak_mib=[300.0])
    assert host_peak(served("candidate", 1, 10.0, telemetry=loading)) == 300.0
    nobody = told()
    assert host_peak(served("candidate", 1, 10.0, telemetry=nobody)) == 150.0, "the whole life, where no more is known"


def test_the_gpu_is_seen_by_nvml_or_by_the_framework() -> None:
    nvml = served("candidate", 1, 1.0, framework=700.0, telemetry=told(gpu_memory_mib=[100.0, 900.0, float("nan")]))
    assert on_device(nvml, False)[:2] == (900.0, "NVML, this process, read every 0.1 s")
    missed = served("candidate", 1, 1.0, framework=1200.0, telemetry=told(gpu_memory_mib=[100.0, 900.0]))
    assert on_device(missed, False)[0] == 1200.0
    board = served("candidate", 1, 1.0, telemetry=told(gpu_memory_mib=[float("nan")], gpu_board_memory_mib=[2000.0]))
    assert on_device(board, False)[0] == 2000.0 and "upper bound" in on_device(board, False)[1]
    alone = served("candidate", 1, 1.0, framework=700.0, telemetry=told())
    assert on_device(alone, False)[0] == 700.0 and "framework" in on_device(alone, False)[1]
    nobody = served("candidate", 1, 1.0, telemetry=told())
    assert on_device(nobody, False) == (None, "", "NVML does not start")
    assert "runs on the cpu" in (on_device(nvml, True)[2] or "")


def test_on_the_cpu_there_is_no_device_memory_and_no_zero(tmp_path: Path) -> None:
    result = run(tmp_path, {"candidate": 10.0})
    assert "runs on the cpu" in result.missing["peak_device_memory"]
    assert "peak_device_memory" not in result.estimates


def test_a_model_that_does_not_count_its_parameters(tmp_path: Path) -> None:
    result = run(tmp_path, {"candidate": 10.0}, parameters=None)
    assert (
        "loaded, does not report its number of parameters" in result.missing["parameters"]
        and decided(result)[3] == "MISSING"
    )


def test_models_beside_each_other(tmp_path: Path) -> None:
    sentences = [
        "peak_host_memory <= 0.5x baseline", "peak_host_memory(batch 1) <= 0.95x baseline",
        "peak_host_memory <= baseline - 300 MiB", "model_size <= 0.25x baseline", "peak_device_memory <= 1x baseline",
    ]  # fmt: skip
    result = run(tmp_path, {"candidate": 10.0, "baseline": 30.0}, sentences)
    # 420 and 1,060 MiB; with one item 110 and 130.
    assert decided(result, sentences) == ["PASS", "PASS", "PASS", "PASS", "MISSING"]
    assert "runs on the cpu" in result.missing["peak_device_memory vs baseline"]
    heavier = run(tmp_path, {"candidate": 30.0, "baseline": 30.0}, sentences)
    assert decided(heavier, sentences)[:3] == ["FAIL", "FAIL", "FAIL"]


def test_two_facts_beside_each_other_are_written_down_as_a_fact(tmp_path: Path) -> None:
    sentence = "peak_host_memory <= 0.5x baseline"
    check = Memory.model_validate({"check": "memory", "dataset": "test", "require": [sentence]})
    result = run(tmp_path, {"candidate": 10.0, "baseline": 30.0}, [sentence])
    (test,) = write_tests(check, result, SignificanceLevels(confidence=0.95, alpha_fail=0.01))
    assert test.exact and test.in_this_run and test.missing is None
    assert test.value == pytest.approx(420 / 1060) and (test.candidate, test.baseline) == (420.0, 1060.0)


def test_blocks(tmp_path: Path) -> None:
    curve, table, sizes = run(tmp_path, {"candidate": 10.0}).blocks
    assert isinstance(curve, Curve) and curve.series[0].y == (110.0, 420.0) and len(curve.references) == 2
    assert isinstance(table, Table) and table.rows[1][:4] == (32, 1, 60.0, 40.0)
    assert isinstance(sizes, Table) and {row[0] for row in sizes.rows} == {"model_size", "parameters"}


def test_nobody_told_is_not_run(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="told how much"):
        Memory(dataset="test").run(FakeInputs(tmp_path, probes={"memory": []}))


def test_parts_needs_and_refusals() -> None:
    check = Memory.model_validate(
        {"check": "memory", "dataset": "test", "batch_sizes": [8, 1, 8], "processes": 2,
         "require": ["peak_host_memory(batch 4) <= 1 GiB", "model_size <= 1x baseline"]}
    )  # fmt: skip
    names = SpecNames(models=("candidate", "baseline"), datasets=("test",), slices=())
    assert check.part_names(check.metrics[0], names) == ("batch 1", "batch 8")
    assert check.part_names(check.metrics[2], names) is None
    assert "batch 1, batch 8" in str(unknown_part(check, check.requirements[0], names))
    assert unknown_part(check, check.requirements[1], names) is None
    assert [need.model for need in check.needs()] == ["candidate", "baseline"]  # type: ignore[union-attr]  # timings
    with pytest.raises(ValidationError):
        Memory.model_validate({"check": "memory", "dataset": "test", "batch_sizes": [0]})
