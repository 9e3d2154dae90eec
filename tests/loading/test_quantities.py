"""Quantities out of bounds, parts that are not there, and rows that are looked at when a spec is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.system.load.plan import Recorded
from evalspec.errors import SpecError
from evalspec.loading import LoadOptions, Spec, inspect_rows, load
from evalspec.planning import plan
from evalspec.planning.explain import explain
from evalspec.running.preflight import Start, refuse

SPEC = """
evalspec: 1
name: bounds
models:
  candidate: {kind: python, function: "own:f", artifact: own.py, inputs: {x: x}}
datasets:
  test: {kind: parquet, path: test.parquet, label: y%s}
  calls: {kind: csv, path: calls.csv}
system:
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}), tmp_path / "test.parquet")
    (tmp_path / "own.py").write_text("raise SystemExit(77)")
    trace(tmp_path, range(1200))
    return tmp_path


def trace(folder: Path, times: Any, rows: Any = None) -> None:
    lines = [f"{time},{0 if rows is None else rows[index]}" for index, time in enumerate(times)]
    (folder / "calls.csv").write_text("\n".join(["time,row", *lines]) + "\n")


def read(folder: Path, *checks: str, where: str = "", files: bool = True) -> Spec:
    (folder / "spec.yaml").write_text(SPEC % where + "".join(f"  - {check}\n" for check in checks))
    return load(folder / "spec.yaml", options=LoadOptions(files=files))


def said(folder: Path, *checks: str, where: str = "") -> list[str]:
    with pytest.raises(SpecError) as caught:
        read(folder, *checks, where=where)
    return [str(problem).partition("spec.yaml:")[2] for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("check", "told"),
    [
        (
            "{check: sustained, dataset: test, duration: 3 s, require: [sustained_ratio >= 0.9x]}",
            "system[0].duration: '3 s' should be at least 30 s",
        ),
        (
            "{check: load, dataset: test, rates: [0 qps], require: [error_rate <= 1 %]}",
            "system[0].rates[0]: '0 qps' should be more than 0 qps",
        ),
        (
            "{check: load, dataset: test, rates: [5 qps], queue_delay: 2 min, require: [error_rate <= 1 %]}",
            "system[0].queue_delay: '2 min' should be at most 60 s",
        ),
        (
            "{check: load, dataset: test, rates: [5 qps], queries: 100, processes: 2, require: [error_rate <= 50 %]}",
            "system[0].processes: 2 should be greater than or equal to 5",
        ),
        (
            "{check: load, dataset: test, rates: [5 qps], require: [latency_p99(7 qps) <= 5 ms]}",
            "system[0].require[0]: unknown rate '7 qps' of latency_p99 (choices: 5 qps); did you mean '5 qps'?",
        ),
        (
            "{check: throughput, dataset: test, batch_sizes: [1, 8], require: [throughput(batch 7) >= 5 samples/s]}",
            "system[0].require[0]: unknown batch 'batch 7' of throughput (choices: batch 1, batch 8); did you "
            "mean 'batch 8'?",
        ),
    ],
)
def test_a_mistake_is_one_sentence_with_its_bound_in_its_unit(folder: Path, check: str, told: str) -> None:
    (one,) = said(folder, check)
    assert one.startswith("10:") and one.endswith(f": {told}")


TRACED = (
    "{check: load, dataset: test, arrivals: {kind: trace, dataset: calls, payload: row}, "
    "require: [latency_p99(trace) <= 1 s]}"
)


@pytest.mark.parametrize(
    ("times", "rows", "told"),
    [
        ([0, 1, 5, 4], None, "row 3 (counted from 0) has the time 4, before 5 of the row above it; sort the trace by"),
        ([0, -1, 5], None, "row 1 (counted from 0) has the time -1; count seconds from 0"),
        (
            [0, "soon", 5],
            None,
            ("column 'time' has 'soon' in row 1 (counted from 0), which is not a number; give seconds"),
        ),
        ([0, 1, 2], [0, 1, 3], "row 2 (counted from 0) asks for the row 3; write a whole number from 0 to 2"),
    ],
)
def test_a_trace_is_looked_at_when_the_spec_is_read(folder: Path, times: Any, rows: Any, told: str) -> None:
    trace(folder, times, rows)
    found = next(one for one in said(folder, TRACED) if "calls.csv" in one)
    assert found.startswith("10:67: system[0].arrivals.dataset: calls.csv: the trace calls: ") and told in found


def test_what_a_trace_holds_is_in_the_plan(folder: Path) -> None:
    spec = read(folder, TRACED)
    assert spec.seen == {"load": Recorded(1200, 1199.0)}
    assert not [line for line in spec.unverified if "depends on: they are read when the run starts" in line]
    lines = explain(plan(spec), None)
    # 1,200 in five pieces, four of them led in by 24 more, and 800 of the audit.
    assert "  system: load on calls, test, 2,096 timed queries" in lines


@pytest.mark.proof
def test_a_trace_that_can_not_be_looked_at_yet_is_looked_at_before_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(folder, range(1200), [0] * 1199 + [3])
    # How many rows `where` leaves is not known from a header.
    spec = read(folder, TRACED, where=', where: "x < 10"')
    assert spec.seen == {}
    assert "the rows of calls that load depends on: they are read when the run starts" in spec.unverified
    planned = plan(spec)
    assert "  system: load on calls, test, 800 timed queries and the queries of the trace, which is read" in "\n".join(
        explain(planned, None)
    )
    with pytest.raises(SpecError) as caught:
        refuse([Start(planned, spec.access(trust=True))])
    assert (
        "system: load: calls.csv: the trace calls: row 1,199 (counted from 0) asks for the row 3; write a whole"
        in str(caught.value)
    )
    # A large file is not read by `validate`.
    monkeypatch.setattr(inspect_rows, "SMALL_BYTES", 100)
    large = read(folder, TRACED)
    assert large.seen == {}
    with pytest.raises(SpecError, match="asks for the row 3"):
        refuse([Start(plan(large), large.access(trust=True))])
    trace(folder, range(1200))
    refuse([Start(plan(large), large.access(trust=True))])


def test_without_files_nothing_is_looked_at(folder: Path) -> None:
    trace(folder, [3, 2, 1])
    assert read(folder, TRACED, files=False).seen == {}
