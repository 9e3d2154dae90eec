"""`recorded_load`: requests of a log are decided by the rules of a measurement, and it says what a log cannot show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import evalspec
from evalspec.checks.system.recorded_load.measure import measure
from evalspec.checks.system.recorded_load.spec import RecordedLoad
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Measured
from evalspec.language.parts import CheckResult
from tests.checks.deciding import outcome, the
from tests.checks.system.recorded_load.planted import LIMITS, case, log
from tests.fakes import FakeInputs


def result(folder: Path, table: pa.Table, **fields: Any) -> CheckResult:
    check = RecordedLoad.model_validate({"check": "recorded_load", "dataset": "log", **fields})
    return measure(check, FakeInputs(evidence=folder, tables={"log": table}))


def decided(folder: Path, metric: str, table: pa.Table) -> str:
    inputs, check = case(folder, metric, table)
    assert isinstance(check, RecordedLoad)
    return outcome(measure(check, inputs), the(check, LIMITS[metric]))


def estimate(found: CheckResult, metric: str) -> Estimate:
    one = Measured.of(found.estimates[metric]).estimate
    assert isinstance(one, Estimate)
    return one


def test_values_are_those_of_the_requests(tmp_path: Path) -> None:
    table = log(1000, lost=0.03)
    found = result(tmp_path, table)
    lost = np.array([one is not None for one in table.column("failed").to_pylist()])
    for name in ("ttft", "latency"):
        times = table.column(f"{name}_ms").to_numpy() + table.column("wait_ms").to_numpy()
        expected = np.sort(np.where(lost, np.inf, times))[949]
        assert estimate(found, f"{name}_p95").value == pytest.approx(expected)
    tpot = np.sort(np.where(lost, np.inf, table.column("tpot_ms").to_numpy()))[949]
    assert estimate(found, "tpot_p95").value == pytest.approx(tpot)
    assert estimate(found, "error_rate").value == pytest.approx(lost.mean())
    # 50 tokens each half second, of which the last requests are not through when the last is sent.
    assert estimate(found, "output_rate").value == pytest.approx(100.0 * (1.0 - lost.mean()), rel=0.01)
    assert found.counts.attempted == 1000 and found.counts.errored == int(lost.sum())
    assert found.conditions["counted from"] == "due" and found.conditions["finish reasons"] == int((~lost).sum())


def test_a_tools_own_percentile_would_pass_what_fails_here(tmp_path: Path) -> None:
    """A stream that dies after three tokens is a fast answer; counted as failed it is slower than any threshold."""
    broken = log(lost=0.1)
    answered = log(lost=0.1, cut=False)
    assert np.percentile(answered.column("latency_ms").to_numpy(), 95) < 4000.0
    assert decided(tmp_path, "latency_p95", answered) == "PASS"
    assert decided(tmp_path, "latency_p95", broken) == "FAIL"


def test_what_a_log_does_not_say_is_said(tmp_path: Path) -> None:
    whole = result(tmp_path, log(200)).weakens
    assert len(whole) == 1 and "no log can show" in whole[0]
    lines = result(tmp_path, log(200, finish=None, wait_ms=None, sent=False)).weakens
    words = ("no log can show", "cut off", "waited", "50 of them")
    assert [word for line in lines for word in words if word in line] == list(words)


def test_without_times_of_sending_a_design_effect_is_taken(tmp_path: Path) -> None:
    assert decided(tmp_path, "ttft_p95", log(2000)) == "PASS"
    assert decided(tmp_path, "ttft_p95", log(2000, sent=False)) == "INCONCLUSIVE", "2,000 say as much as 40"
    assert decided(tmp_path, "ttft_p95", log(4000, sent=False)) == "PASS"
    assert decided(tmp_path, "ttft_p95", log(2000, sent=False, ttft_ms=800.0)) == "FAIL"
    found = result(tmp_path, log(2000, sent=False))
    assert "no" not in found.estimates.keys() & {"output_rate"} and "output_rate" in found.missing
    loose = result(tmp_path, log(2000, sent=False), design_effect=2, require=["ttft_p95 <= 500 ms"])
    assert estimate(loose, "ttft_p95").bound(0.95, "upper") is not None


def test_requests_that_depend_on_each_other_say_less(tmp_path: Path) -> None:
    """Slow spells of 200 requests: two of them in 2,000 are not 400 independent slow requests."""
    table = log(2000)
    times = table.column("ttft_ms").to_numpy().copy()
    times[300:350] = 900.0
    slow = table.set_column(table.column_names.index("ttft_ms"), "ttft_ms", pa.array(times))
    assert decided(tmp_path, "ttft_p95", slow) == "INCONCLUSIVE"
    mixed = times.copy()
    np.random.default_rng(1).shuffle(mixed)
    apart = table.set_column(table.column_names.index("ttft_ms"), "ttft_ms", pa.array(mixed))
    assert decided(tmp_path, "ttft_p95", apart) == "PASS"


def test_a_log_in_which_times_rise_does_not_pass(tmp_path: Path) -> None:
    table = log(2000)
    times = table.column("ttft_ms").to_numpy() * np.linspace(1.0, 1.5, 2000)
    risen = table.set_column(table.column_names.index("ttft_ms"), "ttft_ms", pa.array(times))
    found = Measured.of(result(tmp_path, risen).estimates["ttft_p95"])
    assert found.withhold is not None and "no steady state" in found.withhold
    assert decided(tmp_path, "ttft_p95", risen) == "INCONCLUSIVE"


def test_two_counts_of_tokens_that_differ_void_what_needs_them(tmp_path: Path) -> None:
    found = result(tmp_path, log(500, said=3.0))
    assert "two counts of tokens differ in 500 of 500 answers" in str(Measured.of(found.estimates["tpot_p95"]).invalid)
    assert Measured.of(found.estimates["output_rate"]).invalid is not None
    assert Measured.of(found.estimates["ttft_p95"]).invalid is None
    # One more for the end token is no difference.
    assert Measured.of(result(tmp_path, log(500, said=1.02)).estimates["tpot_p95"]).invalid is None
    assert decided(tmp_path, "tpot_p95", log(said=3.0)) == "INVALID"


def test_answers_without_a_time(tmp_path: Path) -> None:
    table = log(400)
    times = table.column("ttft_ms").to_pylist()
    place = table.column_names.index("ttft_ms")
    few = table.set_column(place, "ttft_ms", pa.array([None] * 10 + times[10:]))
    many = table.set_column(place, "ttft_ms", pa.array([None] * 40 + times[40:]))
    none = table.set_column(place, "ttft_ms", pa.nulls(400, pa.float64()))
    assert Measured.of(result(tmp_path, few).estimates["ttft_p95"]).invalid is None
    assert estimate(result(tmp_path, few), "ttft_p95").n == 390
    assert "40 of 400 requests were answered and have no ttft" in str(
        Measured.of(result(tmp_path, many).estimates["ttft_p95"]).invalid
    )
    assert result(tmp_path, none).missing["ttft_p95"] == "no request of the log has a time for ttft"


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    table = log(400).select(["ttft_ms", "tpot_ms", "latency_ms", "output_tokens", "failed"])
    found = result(tmp_path, table)
    assert found.conditions["order"] == "not known" and found.conditions["counted from"] == "sent"
    negative = table.set_column(0, "ttft_ms", pa.array([-1.0] * 400))
    with pytest.raises(InputError, match="'ttft_ms' of 'log' holds numbers below 0"):
        result(tmp_path, negative)
    with pytest.raises(InputError, match="'ttft_ms' of 'log' holds no numbers"):
        result(tmp_path, table.set_column(0, "ttft_ms", pa.array(["soon"] * 400)))


@pytest.mark.parametrize("sent", [True, False])
def test_a_log_in_which_nothing_was_answered(tmp_path: Path, sent: bool) -> None:
    nothing = log(3000, lost=1.0, sent=sent)
    assert {metric: decided(tmp_path, metric, nothing) for metric in LIMITS} == {
        "ttft_p95": "FAIL", "tpot_p95": "FAIL", "latency_p95": "FAIL", "error_rate": "FAIL", "output_rate": "MISSING",
    }  # fmt: skip


def test_a_short_run_has_no_rate(tmp_path: Path) -> None:
    found = result(tmp_path, log(20, every_s=0.1))
    assert "ten blocks of time are too short" in found.missing["output_rate"]


SPEC = """
evalspec: 1
name: recorded
models:
  candidate:
    kind: predictions
    files: {{test: said.csv}}
    outputs: {{text: said}}
    artifact: sha256:{digest}
datasets:
  test: {{kind: csv, path: test.csv, label: answer, key: id}}
  load: {{kind: request_log, format: inference_perf, path: log.json}}
system:
  - check: recorded_load
    dataset: load
    require: [ttft_p90 <= 500 ms, error_rate <= {errors} %]
model:
  - {{check: quality, dataset: test, require: [exact_match >= 60 %]}}
"""


def spec(folder: Path, errors: int, n: int = 600) -> Path:
    """A spec with a log of inference-perf: one stream in 20 ended without a reason, though it counts it as answered."""
    rows = []
    for at in range(n):
        start, cut = 100.0 + at * 0.5, at % 20 == 3
        end = "" if cut else 'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        first = start + 0.2 + 0.001 * (at * 7 % 13)
        times = [first + 0.02 * token for token in range(3 if cut else 20)]
        stream = "".join('data: {"choices":[{"delta":{"content":"w"},"finish_reason":null}]}\n\n' for _ in times)
        metrics = {"output_tokens": len(times), "server_usage": None, "output_token_times": times}
        rows.append({"start_time": start, "end_time": times[-1], "request": "{}", "response": stream + end,
                     "info": {"response_metrics": metrics}, "error": None})  # fmt: skip
    (folder / "log.json").write_text(json.dumps(rows))
    (folder / "test.csv").write_text("id,answer\n" + "".join(f"q{at},a{at}\n" for at in range(200)))
    (folder / "said.csv").write_text(
        "id,said\n" + "".join(f"q{at},{'a' if at % 5 else 'b'}{at}\n" for at in range(200))
    )
    (folder / "evalspec.yaml").write_text(SPEC.format(digest="2" * 64, errors=errors))
    return folder / "evalspec.yaml"


@pytest.mark.proof
@pytest.mark.parametrize(("errors", "word"), [(10, "READY"), (2, "NOT READY")])
def test_a_log_in_a_spec(tmp_path: Path, errors: int, word: str) -> None:
    record = evalspec.run(spec(tmp_path, errors), output=tmp_path / "run").record
    assert record.verdict is not None
    decisions = {one.name: one.status for one in record.verdict.decisions}
    assert decisions["recorded_load/ttft_p90"] == "PASS"
    assert record.verdict.word == word, decisions
    assert any("no log can show" in line for line in record.verdict.weakened), record.verdict.weakened


@pytest.mark.proof
def test_a_log_alone_says_nothing_of_the_candidate(tmp_path: Path) -> None:
    path = spec(tmp_path, 10)
    path.write_text(path.read_text().partition("model:\n  - ")[0])
    record = evalspec.run(path, output=tmp_path / "run").record
    assert record.verdict is not None and record.subject is not None
    assert "2" * 64 not in record.subject, "the subject is the log, not the artifact that the candidate states"
    assert any("no blocking requirement is about candidate" in line for line in record.verdict.weakened)
    assert any("no log can show" in line for line in record.verdict.weakened)


def test_defects_of_its_own_turn_each_requirement_red(tmp_path: Path) -> None:
    check = RecordedLoad.model_validate({"check": "recorded_load", "dataset": "log", "require": list(LIMITS.values())})
    table, red = log(), set()
    for defect in check.defects():
        assert defect.place == ("rows", "log")
        worse = defect.rows("log", table, lambda name: table)
        assert worse.schema == table.schema and len(worse) == len(table)
        assert defect.rows("other", table, lambda name: table) is table
        found = measure(check, FakeInputs(evidence=tmp_path, tables={"log": worse}))
        red |= {one.metric for one in check.requirements if outcome(found, one) == "FAIL"}
    assert red == set(LIMITS)
