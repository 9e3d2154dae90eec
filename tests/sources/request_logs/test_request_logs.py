"""Logs in the formats of load tools: what stands in them, what failed though the tool counts it, and any damage."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.request_log import RequestLog
from evalspec.sources.request_logs.request import COLUMNS

FILES = Path(__file__).parent / "files"
LOGS = {
    "aiperf": "profile_export.jsonl",
    "vllm": "vllm.json",
    "guidellm": "benchmarks.json",
    "inference_perf": "per_request_lifecycle_metrics.json",
}
FORMATS = sorted(LOGS)
LISTS = (
    "input_lens",
    "output_lens",
    "ttfts",
    "itls",
    "latencies",
    "start_times",
    "queue_times",
    "generated_texts",
    "errors",
)


def read(format: str, path: Path | None = None, **fields: Any) -> pa.Table:
    path = path or FILES / LOGS[format]
    log = RequestLog.model_validate({"kind": "request_log", "format": format, "path": path.name, **fields})
    return log.read(Access(path.parent))


def write(folder: Path, value: Any, name: str = "log.json") -> Path:
    (folder / name).write_text(json.dumps(value))
    return folder / name


def result(format: str) -> Any:
    return json.loads((FILES / LOGS[format]).read_text())


@pytest.mark.parametrize(
    ("format", "failed"),
    [
        ("aiperf", {2: "error", 4: "empty", 6: "cancelled"}),
        ("vllm", {3: "error", 5: "empty", 7: "empty"}),
        ("guidellm", {2: "error", 4: "empty", 11: "cut off"}),
        ("inference_perf", {2: "error", 4: "cut off", 8: "error"}),
    ],
)
def test_what_failed_though_the_tool_may_count_it(format: str, failed: dict[int, str]) -> None:
    table = read(format)
    assert len(table) == 12, "the warm-up does not count"
    found = table.column("failed").to_pylist()
    assert {row: one for row, one in enumerate(found) if one is not None} == failed


@pytest.mark.parametrize("format", FORMATS)
def test_times_are_those_of_the_same_twelve_requests(format: str) -> None:
    """The four files hold the same requests: a first word after 200 to 300 ms, then 10 to 12 ms a token."""
    table = read(format)
    assert {field.name: field.type for field in table.schema} == COLUMNS
    rows = [row for row in table.to_pylist() if row["failed"] is None]
    assert len(rows) >= 8
    for row in rows:
        assert 200.0 < row["ttft_ms"] < 300.0
        assert 10.0 < row["tpot_ms"] < 12.0
        end = row["ttft_ms"] + row["tpot_ms"] * (row["output_tokens"] - 1)
        assert end - 0.01 <= row["latency_ms"] <= end + 2.5
    sent = table.column("sent_s").to_pylist()
    assert sent == sorted(sent) and sent[0] == 0.0 and 5.0 < sent[-1] < 6.0
    wait = {"aiperf": 3.0, "vllm": 2.0, "guidellm": 4.0, "inference_perf": None}[format]
    assert all(row["wait_ms"] == (None if wait is None else pytest.approx(wait, abs=0.01)) for row in rows)
    assert (rows[0]["other_tokens"] == rows[0]["output_tokens"] + 1) == (format in ("aiperf", "inference_perf"))


def test_reasons_to_stop_where_a_log_has_the_stream() -> None:
    assert read("inference_perf").column("finish_reason").to_pylist()[5:8] == ["stop", "length", "stop"]
    assert read("vllm").column("finish_reason").null_count == 12


def test_waiting_in_the_client_counts_at_a_finite_rate_alone(tmp_path: Path) -> None:
    assert read("vllm").column("wait_ms").to_pylist()[0] == pytest.approx(2.0)
    for rate in ("inf", None):
        path = write(tmp_path, result("vllm") | {"request_rate": rate})
        assert read("vllm", path).column("wait_ms").null_count == 12
    report = result("guidellm")
    report["benchmarks"][0]["config"]["strategy"]["type_"] = "throughput"
    assert read("guidellm", write(tmp_path, report)).column("wait_ms").null_count == 12


def test_an_older_vllm_has_neither_times_nor_latencies(tmp_path: Path) -> None:
    older = {
        name: value for name, value in result("vllm").items() if name not in ("latencies", "start_times", "queue_times")
    }
    table = read("vllm", write(tmp_path, older))
    assert table.column("sent_s").null_count == 12
    whole = read("vllm")
    assert table.column("latency_ms").to_pylist() == pytest.approx(whole.column("latency_ms").to_pylist())
    assert table.column("failed").to_pylist() == whole.column("failed").to_pylist()


def test_one_benchmark_of_a_report(tmp_path: Path) -> None:
    report = result("guidellm")
    other = json.loads(json.dumps(report["benchmarks"][0]))
    other["config"]["strategy"]["type_"] = "constant"
    report["benchmarks"].append(other)
    path = write(tmp_path, report)
    with pytest.raises(InputError, match=r"has 2 benchmarks, .*choices: 0 \(poisson\), 1 \(constant\)"):
        read("guidellm", path)
    assert len(read("guidellm", path, benchmark=1)) == 12
    with pytest.raises(InputError, match="has no benchmark 2"):
        read("guidellm", path, benchmark=2)
    with pytest.raises(ValidationError, match="`benchmark` belongs to `format: guidellm`"):
        read("vllm", benchmark=0)


def _strip(name: str) -> Callable[[Any], Any]:
    return lambda value: {key: one for key, one in value.items() if key != name}


@pytest.mark.parametrize(
    ("format", "change", "sentence"),
    [
        ("vllm", _strip("itls"), "not a detailed result of vllm bench serve"),
        ("vllm", lambda value: value | {"ttfts": value["ttfts"][:5]}, "lists of 5 and 12 requests"),
        ("vllm", lambda value: value | {"ttfts": [-1.0] * 12}, "is '-1.0', not a number of at least 0"),
        ("vllm", lambda value: value | {"ttfts": ["fast"] * 12}, "is 'fast', not a number"),
        ("vllm", lambda value: value | {name: [] for name in LISTS}, "no requests"),
        ("guidellm", _strip("benchmarks"), "not a report of GuideLLM"),
        ("guidellm", lambda value: value["benchmarks"][0]["requests"]["successful"].pop() and value, "lists 9 of 10"),
        ("inference_perf", lambda value: value[0], "holds no list of requests"),
        ("inference_perf", lambda value: [_strip("end_time")(value[0])], "no start_time with an end_time after it"),
        ("inference_perf", lambda value: [value[0] | {"end_time": 1.0}], "no start_time with an end_time after it"),
    ],
)  # fmt: skip
def test_what_is_no_such_log(tmp_path: Path, format: str, change: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read(format, write(tmp_path, change(result(format))))


def test_units_of_aiperf(tmp_path: Path) -> None:
    text = (FILES / LOGS["aiperf"]).read_text()
    in_ns = [json.loads(line) for line in text.splitlines()]
    for record in in_ns:
        for tag in ("request_latency", "time_to_first_token"):
            if tag in record["metrics"]:
                value = record["metrics"][tag]["value"]
                record["metrics"][tag] = {"value": value * 1e6, "unit": "ns"}
    (tmp_path / "ns.jsonl").write_text("".join(json.dumps(one) + "\n" for one in in_ns))
    same = read("aiperf", tmp_path / "ns.jsonl").column("ttft_ms").to_pylist()
    assert same == pytest.approx(read("aiperf").column("ttft_ms").to_pylist(), nan_ok=True)
    (tmp_path / "odd.jsonl").write_text(text.replace('"unit": "ms"', '"unit": "fortnights"'))
    with pytest.raises(InputError, match=r"'fortnights', which is not a unit of time \(choices: ns, us, ms, sec\)"):
        read("aiperf", tmp_path / "odd.jsonl")


@pytest.mark.parametrize("format", FORMATS)
def test_any_damage_ends_in_a_sentence(tmp_path: Path, format: str) -> None:
    whole, draw, path = (FILES / LOGS[format]).read_bytes(), random.Random(5), tmp_path / LOGS[format]
    damaged = [whole[: draw.randrange(len(whole))] for _ in range(40)]
    for _ in range(120):
        content = bytearray(whole)
        for _ in range(draw.choice((1, 3, 40))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        damaged.append(bytes(content))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            read(format, path)
        except InputError:
            refused += 1
    assert refused > 40


@pytest.mark.proof
@pytest.mark.parametrize("format", FORMATS)
def test_any_value_of_another_type_ends_in_a_sentence(tmp_path: Path, format: str) -> None:
    strange: tuple[Any, ...] = (None, -1, "x", [], {}, [[]], [None], {"a": 1}, float("nan"), True, 1e300, 10**400)
    text, path = (FILES / LOGS[format]).read_text(), tmp_path / LOGS[format]
    if format == "aiperf":
        documents = [json.loads(line) for line in text.splitlines()]
        root: Any = documents[1]
    else:
        documents = [json.loads(text)]
        root = documents[0][0] if format == "inference_perf" else documents[0]
        root = root["benchmarks"][0]["requests"]["successful"][0] if format == "guidellm" else root
    for place in _places(root):
        for value in strange:
            before = _put(root, place, value)
            path.write_text("\n".join(json.dumps(one) for one in documents))
            with contextlib.suppress(InputError):
                read(format, path)
            _put(root, place, before)


def _places(value: Any, depth: int = 3) -> list[tuple[Any, ...]]:
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, below in inside:
        found += [(key,), *((key, *rest) for rest in (_places(below, depth - 1) if depth else []))]
    return found


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    for key in place[:-1]:
        value = value[key]
    before, value[place[-1]] = value[place[-1]], new
    return before
