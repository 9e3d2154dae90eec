"""F9: whatever numbers, texts and lines a spec or a journal holds, what comes of them is a spec or a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.errors import InputError, SpecError
from evalspec.evidence.record import CheckRecord
from evalspec.language.parts import BATCH_ROWS
from evalspec.language.units import LARGEST, SMALLEST, parse_quantity
from evalspec.language.where import mask, parse_where
from evalspec.loading import load
from evalspec.running.journal.lines import read_events


@pytest.mark.parametrize("tolerance", ["1.0e-200", "1e-101", "1e-90", "1e-9", "1e101", "1e308", "1e-400"])
def test_f9_a_tolerance_that_nothing_can_be_computed_with(tolerance: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [float(len(name)), 2.0]}), tmp_path / f"{name}.parquet")
    (tmp_path / "s.yaml").write_text(
        "evalspec: 1\nname: s\ndatasets: {a: {kind: parquet, path: a.parquet}, b: {kind: parquet, path: b.parquet}}\n"
        f"data: [{{check: shift, reference: a, current: b, tolerance: {tolerance}, require: [drifted_columns <= 9 %]}}]"
    )
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "s.yaml")
    assert str(caught.value).count("s.yaml:4:") == 1
    small = f"{tolerance} is too small for a number; write 0, or 1e-100 or more"
    assert small in str(caught.value) or tolerance in ("1e-90", "1e-9", "1e101", "1e308")


@given(st.floats(allow_nan=False), st.sampled_from(["ms", "%", "MiB", "qps", "h"]))
def test_f9_a_quantity_can_be_computed_with(number: float, unit: str) -> None:
    kinds = {"ms": "ms", "%": "fraction", "MiB": "MiB", "qps": "qps", "h": "s"}
    try:
        value = parse_quantity(f"{number!r} {unit}", kinds[unit])
    except SpecError:
        assert number != 0 and not SMALLEST <= abs(number) <= LARGEST
        return
    assert value * value < float("inf") and (value == 0) == (number == 0)


@pytest.mark.parametrize(
    "text",
    ["hour < " + "-" * 1900 + "1", "hour < " + "- + " * 450 + "1", "(" * 190 + "a < 1" + ")" * 190, "not " * 400 + "a",
     "a < " + "[" * 190 + "]" * 190, "a" + ".a" * 900, "a" + "[0]" * 600, "a < 1" + " and a < 1" * 190,
     "a in [" + "1," * 900 + "]", "a < " + "1" + " < a" * 400, "a < '" + "x" * 1900 + "'", "a < " + "9" * 1900,
     "~" * 1900 + "a", "a" + "+a" * 900, "lambda: " * 200 + "a", "a if a else " * 150 + "a"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_f9_no_where_is_too_deep(text: str) -> None:
    table = pa.table({"a": [1, 2], "hour": [1, 2]})
    try:
        mask(table, parse_where(text))
    except (SpecError, InputError) as error:
        assert len(str(error)) < 600


# -- journals ------

RECORD = json.loads(CheckRecord(id="c", check="quality", dimension="model", status="measured").model_dump_json())
CELLS = {"precision": "fp32", "device": "cpu", "threads": 1}
EVENTS: list[dict[str, Any]] = [
    {"event": "start", "spec": "d", "time": "t", "draft": False, "remeasures": "x"},
    {"event": "predictions", "key": "k", "digest": "d", "rows": 3, "observed": CELLS},
    {"event": "check", "key": "k", "id": "c", "record": RECORD, "observed": {"m": CELLS}},
    {"event": "end", "verdict": "READY"},
]


def test_whole_events_are_read(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("".join(json.dumps(one) + "\n" for one in EVENTS))
    assert list(read_events(tmp_path / "j")) == EVENTS


def test_f9_lines_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspec.running.journal.lines.MOST_BYTES", BATCH_ROWS)
    last = json.dumps(EVENTS[0]).encode()
    long = b'{"event": "start", "spec": "' + b"x" * (3 * BATCH_ROWS) + b'"}'
    lines = [b"", b"{", b"[" * 50_000, b"\xff\xfe", b"null", b'{"event": [1]}', b'{"event": {}}', b"9" * 5000, long,
             b'{"event":"check"}', b'{"event":"predictions"}', b'{"event":"predictions","key":[1]}', last]  # fmt: skip
    (tmp_path / "j").write_bytes(b"\n".join(lines) + b"\n")
    assert list(read_events(tmp_path / "j")) == [EVENTS[0]]
