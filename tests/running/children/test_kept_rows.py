from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.running.children import kept_rows
from evalspec.running.children.kept_rows import RowsWriter, open_rows, unnamed_file
from evalspec.running.subjects import CheckEnd
from tests.running.small import ROWS, Steps, go, write

MODEL = (
    "  candidate: {kind: python, function: 'own:sign', inputs: {x: x}, outputs: {probabilities: p}, classes: [a, b]}\n"
)
SIGN = """
import numpy as np

def sign(inputs):
    x = np.asarray(inputs["x"]).reshape(-1)
    return {"p": np.stack([np.where(x > 0, 0.1, 0.9), np.where(x > 0, 0.9, 0.1)], axis=1)}
"""


def batch(values: list[object], kind: pa.DataType | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"x": pa.array(values, kind)})


def test_rows_come_back_as_they_were_with_the_same_batches(tmp_path: Path) -> None:
    made = unnamed_file(tmp_path)
    assert made is not None
    file, path = made
    assert list(tmp_path.iterdir()) == []
    writer = RowsWriter(path)
    for one in ([1, None], [3]):
        writer.update(batch(one, pa.int64()))
    assert writer.end()
    table = open_rows(path)
    assert table.to_pydict() == {"x": [1, None, 3]}
    assert [len(one) for one in table.to_batches()] == [2, 1]
    file.close()
    assert table.to_pydict() == {"x": [1, None, 3]}


@pytest.mark.parametrize("second", [batch(["a"]), batch([1.5])])
def test_rows_whose_types_change_are_not_kept(tmp_path: Path, second: pa.RecordBatch) -> None:
    writer = RowsWriter(tmp_path / "rows")
    writer.update(batch([1]))
    writer.update(second)
    writer.update(batch([2]))
    assert not writer.end()
    assert (tmp_path / "rows").stat().st_size == 0


def test_large_tables_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "MOST_BYTES", 100)
    writer = RowsWriter(tmp_path / "rows")
    writer.update(batch([1]))
    writer.update(batch(list(range(100))))
    assert not writer.end()


def test_no_rows_and_no_place_are_not_kept(tmp_path: Path) -> None:
    assert not RowsWriter(tmp_path / "rows").end()
    nowhere = RowsWriter(None)
    nowhere.update(batch([1]))
    assert not nowhere.end()
    missing = RowsWriter(tmp_path / "none" / "rows")
    missing.update(batch([1]))
    assert not missing.end()


class _OtherRowsMeanwhile(Steps):
    """Puts other rows in the place of a file as soon as it was read, and the first ones back once all checks ended."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path, self.first, self.reads = path, path.read_bytes(), 0

    def progress(self, done: float, total: float, what: str) -> None:
        self.reads += what == "reading test"

    def ended(self, end: CheckEnd) -> None:
        if end.place == end.of:
            self.path.write_bytes(self.first)

    def step(self, text: str) -> None:
        super().step(text)
        if text == "model: one":
            wrong = pa.table({"id": np.arange(ROWS), "x": np.zeros(ROWS), "y": ["b"] * ROWS})
            pq.write_table(wrong, self.path)


@pytest.mark.proof
def test_a_run_reads_a_dataset_at_its_start_and_at_its_end_alone(tmp_path: Path) -> None:
    """From YAML to page values are looked at twice: to be measured, and to see that they are still the same."""
    (tmp_path / "own.py").write_text(SIGN)
    spec = write(tmp_path, MODEL)
    steps = _OtherRowsMeanwhile(tmp_path / "test.parquet")
    record, _ = go(spec, tmp_path / "run", steps=steps)
    assert record.verdict is not None and record.verdict.word == "READY", record.verdict
    assert [test.value for check in record.checks for test in check.tests] == [1.0, 1.0]
    assert steps.reads == 2
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".")) == []


@pytest.mark.proof
def test_where_nothing_can_be_kept_the_source_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_rows, "DESCRIPTORS", tmp_path / "none")
    (tmp_path / "own.py").write_text(SIGN)
    spec = write(tmp_path, MODEL)
    record, _ = go(spec, tmp_path / "sound")
    assert record.verdict is not None and record.verdict.word == "READY"
    record, _ = go(spec, tmp_path / "run", steps=_OtherRowsMeanwhile(tmp_path / "test.parquet"))
    assert record.verdict is not None and record.verdict.word == "NOT READY"
