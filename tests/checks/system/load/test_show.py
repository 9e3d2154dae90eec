"""What `load` shows: which percentiles are void at which rate, each rate's course, lines only where they hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.evidence.blocks import Curve
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from tests.checks.system.load.test_load import by, late, load, run, said, slo, status, table, written
from tests.checks.system.queueing import exponential, served

BOTH = ["latency_p90(20 qps) <= 10 ms", "latency_p99_9(20 qps) <= 10 ms"]
LATE = "the load generator was the bottleneck: 0.1 % of queries were sent more than"


def remarks(result: CheckResult) -> dict[str, object]:
    return {str(row[0]): row[-1] for row in table(result, "Rates").rows}


def titled(result: CheckResult, start: str) -> list[Curve]:
    return [block for block in result.blocks if isinstance(block, Curve) and block.title.startswith(start)]


def test_only_the_percentiles_that_are_void_are_called_so(tmp_path: Path) -> None:
    """0.5 % of queries are sent 15 ms late: nothing at the p99, everything at the p99.9."""
    check = load(rates=["20 qps"], queries=50_000, require=BOTH)
    result = run(tmp_path, late(0.005, 15.0, 0.2), check)
    assert remarks(result) == {"20 qps": "p99_9 void"}
    assert f"At 20 qps: p99_9 is not judged: {LATE} 15 ms late" in said(result)
    assert "nothing is required of it" not in said(result)
    assert status(result, check, "load/latency_p90(20 qps)") == "PASS"


def test_void_percentiles_on_which_nothing_hangs_are_no_reason_to_doubt_a_ready(tmp_path: Path) -> None:
    check = load(rates=["20 qps"], queries=50_000, require=BOTH[:1])
    result = run(tmp_path, late(0.02, 15.0, 0.2), check)
    assert status(result, check, "load/latency_p90(20 qps)") == "PASS"
    assert remarks(result) == {"20 qps": "p99, p99_9 void"}
    assert "At 20 qps: p99 and p99_9 are not judged" in said(result)
    assert "; nothing is required of them." in said(result)


def test_a_rate_without_lag_has_no_remark(tmp_path: Path) -> None:
    result = run(tmp_path, by(exponential(0.2)), load(rates=["20 qps"], require=BOTH[:1]))
    assert remarks(result) == {"20 qps": ""}
    assert "not judged" not in said(result)


def test_a_rate_that_is_void_as_a_whole_says_so(tmp_path: Path) -> None:
    def fewer(schedule: Schedule, rng: np.random.Generator) -> Samples:
        assert schedule.arrivals_ns is not None
        return served(replace(schedule, arrivals_ns=schedule.arrivals_ns[:1000]), exponential(0.2), rng)

    check = load(rates=["500 qps"], require=["latency_p99(500 qps) <= 20 ms"])
    result = run(tmp_path, fewer, check)
    assert remarks(result) == {"500 qps": "void"}
    assert "At 500 qps: void: " in said(result)


def test_a_violation_that_is_there_without_the_lag_is_not_void(tmp_path: Path) -> None:
    check = load(rates=["500 qps"], require=["latency_p99(500 qps) <= 20 ms"])
    result = run(tmp_path, late(0.05, 4.0, 1.7), check)
    assert status(result, check, "load/latency_p99(500 qps)") == "FAIL"
    assert "p99" not in str(remarks(result)["500 qps"]).removesuffix(" void").split(", ")


def test_the_chart_over_rates_says_what_of_it_is_void(tmp_path: Path) -> None:
    check = load(rates=["20 qps", "40 qps"], queries=50_000, require=["latency_p90 <= 10 ms"])
    result = run(tmp_path, late(0.005, 15.0, 0.2), check)
    (curve,) = titled(result, "Latency against load")
    assert curve.caption.endswith("Not to be trusted: p99_9 at 20 qps; p99_9 at 40 qps.")


def test_a_max_rate_that_is_void_still_tells_what_was_measured(tmp_path: Path) -> None:
    check = load(rates=["20 qps"], queries=50_000, slo=slo("latency_p99_9 <= 10 ms"), require=["max_rate >= 20 qps"])
    result = run(tmp_path, late(0.005, 15.0, 0.2), check)
    test = written(result, check)["load/max_rate"]
    assert test.invalid is not None and test.value is None
    assert [note.split(" ms ")[1] for note in test.notes] == ["at 20 qps."]
    assert test.notes[0].startswith("Measured, and not judged: latency_p99_9 15")


def test_each_rate_has_its_course_with_the_lines_that_hold_there(tmp_path: Path) -> None:
    check = load(
        rates=["100 qps", "400 qps"], queries=2_000,
        require=["latency_p99 <= 50 ms", "latency_p50(100 qps) <= 20 ms"],
    )  # fmt: skip
    result = run(tmp_path, by(exponential(0.5)), check)
    low, high = titled(result, "Latency over time")
    assert (low.title, high.title) == ("Latency over time at 100 qps", "Latency over time at 400 qps")
    assert [line.label for line in low.references] == ["latency_p99 <= 50 ms", "latency_p50(100 qps) <= 20 ms"]
    assert [line.label for line in high.references] == ["latency_p99 <= 50 ms"]
    # What holds at one rate only is no line across all of them.
    (against,) = titled(result, "Latency against load")
    assert [line.label for line in against.references] == ["latency_p99 <= 50 ms"]
    assert low.series[0].x[-1] == pytest.approx(2_000 / 100, rel=0.15)


def test_of_many_rates_four_courses_are_drawn(tmp_path: Path) -> None:
    rates = [f"{rate} qps" for rate in (50, 100, 150, 200, 250, 300)]
    result = run(tmp_path, by(exponential(0.2)), load(rates=rates, queries=1_000, require=["latency_p50 <= 50 ms"]))
    drawn = titled(result, "Latency over time")
    assert [curve.title.rpartition(" at ")[2] for curve in drawn] == ["50 qps", "150 qps", "200 qps", "300 qps"]
    assert all(curve.caption.endswith("4 of 6 rates are drawn.") for curve in drawn)


def test_the_words_of_a_void_percentile_are_those_of_its_requirement(tmp_path: Path) -> None:
    check = load(rates=["20 qps"], queries=50_000, require=BOTH)
    result = run(tmp_path, late(0.005, 15.0, 0.2), check)
    invalid = written(result, check)["load/latency_p99_9(20 qps)"].invalid
    assert invalid is not None and invalid in said(result)


def test_queries_under_way_are_counted_and_seconds_over_the_limit(tmp_path: Path) -> None:
    """A server that stops for 3 s: what comes meanwhile waits, all of it late, and 10 queries a second pile up."""

    def stopped(due: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
        spent = np.full(len(due), 5.0)
        spent[np.searchsorted(due, 30.0)] = 3_000.0
        return spent

    check = load(rates=["10 qps"], queries=2_000, arrivals={"kind": "constant"}, require=["latency_p50 <= 1 s"])
    result = run(tmp_path, by(stopped), check)
    rows = {str(row[1]): row[2:] for row in table(result, "Queue and seconds over the limit").rows}
    queries, median, most, watched, over = rows["steady"]
    assert (queries, median, watched) == (2_000, 1.0, 200)
    # Each of 5 processes: the query that stops it, and those that come in the 3 s.
    assert most in (30, 31)
    # Half of a second's queries waited over 1 s: those that were due in the first 2 of the 3 s.
    assert over in (10, 15)
    (curve,) = titled(result, "Queries under way")
    assert max(curve.series[0].upper or ()) == most and curve.references == ()


def test_ramp_and_spike_are_marked_and_have_rows(tmp_path: Path) -> None:
    """A spike over what the server can do: its seconds are over the limit, the steady ones are not."""
    arrivals = {"kind": "poisson", "ramp": "2 s", "spike": {"factor": 5, "duration": "4 s"}}
    check = load(rates=["200 qps"], arrivals=arrivals, slo=slo("latency_p99 <= 50 ms"), require=[])
    result = run(tmp_path, by(exponential(1.6)), check)
    rows = {str(row[1]): row[2:] for row in table(result, "Queue and seconds over the limit").rows}
    assert list(rows) == ["ramp and lead-in", "steady", "spike", "after the spike"]
    assert rows["steady"][-1] == 0 and rows["spike"][-1] >= 15 and rows["spike"][-2] in range(20, 26)
    assert rows["spike"][2] > 20 * rows["steady"][2]
    (curve,) = titled(result, "Queries under way")
    assert [line.label for line in curve.references] == ["the ramp ends", "the spike begins", "the spike ends"]
    begins, ends = (line.value or 0.0 for line in curve.references[1:])
    assert ends - begins == pytest.approx(4.0, rel=0.05)


def test_without_a_limit_no_second_is_called_over_it(tmp_path: Path) -> None:
    result = run(tmp_path, by(exponential(0.5)), load(rates=["50 qps"], queries=1_000, require=["error_rate <= 10 %"]))
    assert {row[-1] for row in table(result, "Queue and seconds over the limit").rows} == {None}
