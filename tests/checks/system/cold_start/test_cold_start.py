"""`cold_start`: parts of a start over fresh processes, alone and by turns with another model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.cold_start.measure import times
from evalspec.checks.system.cold_start.spec import ColdStart
from evalspec.errors import InvalidError, NotRunError
from evalspec.evidence.blocks import Bars, Table
from evalspec.evidence.estimate import ComparisonParts
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult, NeedTiming
from evalspec.timing.interleaved import by_turns
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

SENTENCES = ["load_time <= 1.2 s", "first_inference <= 60 ms", "ready_time <= 2.5 s"]


def started(model: str, process: int, load_s: float, first_ms: float, later_ms: float = 2.0) -> Probe:
    return Probe(
        probe="first_inference", model=model, process=process,
        facts={"start_s": 0.2, "import_s": 0.5, "load_s": load_s, "first_inference_ms": first_ms},
        series={"inference_ms": np.array([first_ms, *[later_ms] * 20])},
    )  # fmt: skip


class Starts:
    """Processes of models that load in their own time."""

    def __init__(self, load_s: Mapping[str, float], first_ms: float = 40.0) -> None:
        self.load_s, self.first_ms = load_s, first_ms
        self.asked: list[str] = []
        self._rng = np.random.default_rng(3)

    def __call__(self, probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        assert probe == "first_inference"
        self.asked.append(model)
        # The first call is for all processes alone; the ones after it are by turns.
        count = 10 if len(self.asked) == 1 else 1
        noise = np.exp(0.05 * self._rng.standard_normal((count, 2)))
        return [started(model, i, self.load_s[model] * noise[i, 0], self.first_ms * noise[i, 1]) for i in range(count)]


def run(folder: Path, starts: Starts, require: list[str] = SENTENCES) -> tuple[CheckResult, ColdStart]:
    check = ColdStart.model_validate({"check": "cold_start", "dataset": "test", "require": require})
    return check.run(FakeInputs(folder, probes=starts)), check


def test_quick_passes_and_slow_fails(tmp_path: Path) -> None:
    result, check = run(tmp_path, Starts({"candidate": 1.0}))
    assert [outcome(result, the(check, one)) for one in SENTENCES] == ["PASS", "PASS", "PASS"]
    result, check = run(tmp_path, Starts({"candidate": 2.0}, first_ms=90.0))
    assert [outcome(result, the(check, one)) for one in SENTENCES] == ["FAIL", "FAIL", "FAIL"]


def test_ready_is_the_sum_of_its_parts() -> None:
    found = times(started("candidate", 0, 1.3, 40.0))
    assert found == pytest.approx(
        {"start_time": 0.2, "import_time": 0.5, "load_time": 1.3, "first_inference": 40.0, "ready_time": 2.04}
    )


def test_what_comes_after_the_first_item_is_set_beside_it(tmp_path: Path) -> None:
    result, _ = run(tmp_path, Starts({"candidate": 1.0}))
    assert result.conditions["page_cache"] == "warm" and result.conditions["processes"] == 10
    assert any("times as long as the ones after it" in note for note in result.notes)
    bars, summary, each = result.blocks
    assert isinstance(bars, Bars) and [bar.label for bar in bars.bars] == ["start", "import", "load", "first item"]
    assert bars.bars[3].value == pytest.approx(0.04, rel=0.1), "drawn in seconds like the others"
    assert isinstance(summary, Table) and summary.rows[3][1] == pytest.approx(40.0, rel=0.1)
    assert summary.rows[2][1] == pytest.approx(1000.0, rel=0.1), "one unit down the column"
    assert isinstance(each, Table) and len(each.rows) == 10 and each.rows[0][-1] == 2.0


def test_a_process_that_took_much_longer_is_named(tmp_path: Path) -> None:
    probes = [started("candidate", i, 9.0 if i == 0 else 1.0, 40.0) for i in range(10)]
    check = ColdStart(dataset="test")
    result = check.run(FakeInputs(tmp_path, probes={"first_inference": probes}))
    assert any(note.startswith("Process 1 took over 2 times") for note in result.notes)


def test_against_a_baseline_by_turns(tmp_path: Path) -> None:
    sentence = "load_time <= 0.8x baseline"
    starts = Starts({"candidate": 1.0, "baseline": 2.0})
    result, check = run(tmp_path, starts, [sentence])
    assert outcome(result, the(check, sentence)) == "PASS"
    assert starts.asked[1:5] == ["candidate", "baseline", "baseline", "candidate"] and len(starts.asked) == 21
    result, check = run(tmp_path, Starts({"candidate": 2.0, "baseline": 2.0}), [sentence])
    assert outcome(result, the(check, sentence)) == "FAIL"


def test_fewer_processes_than_planned_are_void_and_none_are_not_run(tmp_path: Path) -> None:
    check = ColdStart(dataset="test")
    few = [started("candidate", i, 1.0, 40.0) for i in range(4)]
    assert check.run(FakeInputs(tmp_path, probes={"first_inference": few})).invalid == (
        "4 of 10 planned processes were started"
    )
    with pytest.raises(NotRunError, match="no process"):
        check.run(FakeInputs(tmp_path, probes={"first_inference": []}))


def test_a_round_that_brought_nothing_is_left_out_of_both() -> None:
    brought = {("a", 0): [1], ("b", 0): [2], ("a", 1): [], ("b", 1): [4], ("a", 2): [5], ("b", 2): [6]}
    assert by_turns(lambda model, turn: brought[model, turn], ("a", "b"), 3) == ([1, 5], [2, 6])


def test_a_pair_that_was_lost_voids_the_comparison(tmp_path: Path) -> None:
    sentence = "load_time <= 0.9x baseline"
    starts = Starts({"candidate": 1.0, "baseline": 2.0})

    def lost(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        found = starts(probe, model, options)
        return [] if model == "baseline" and starts.asked.count("baseline") == 4 else found

    check = ColdStart.model_validate({"check": "cold_start", "dataset": "test", "require": [sentence]})
    result = check.run(FakeInputs(tmp_path, probes=lost))
    assert outcome(result, the(check, sentence)) == "INVALID"
    (found,) = [pair for (name, _), pair in result.comparisons.items() if name == "load_time"]
    assert isinstance(found, ComparisonParts) and "9 of 10 planned pairs with baseline" in (found.invalid or "")


@pytest.mark.parametrize("name", ["start_s", "import_s", "load_s", "first_inference_ms"])
def test_what_a_process_did_not_tell_is_no_zero(name: str) -> None:
    probe = started("candidate", 2, 1.0, 40.0)
    with pytest.raises(InvalidError, match=f"process 3 of candidate did not tell {name}"):
        times(replace(probe, facts={**probe.facts, name: None}))


def test_needs() -> None:
    check = ColdStart.model_validate(
        {"check": "cold_start", "dataset": "test", "processes": 5, "require": ["load_time <= 1x baseline"]}
    )
    alone, pairs = check.needs()
    assert isinstance(alone, NeedTiming) and isinstance(pairs, NeedTiming)
    assert (alone.queries, pairs.model, pairs.seconds) == (5, "baseline", 2 * alone.seconds)
    with pytest.raises(ValidationError):
        ColdStart.model_validate({"check": "cold_start", "dataset": "test", "processes": 4})


def test_a_draft_is_short(tmp_path: Path) -> None:
    two = [started("candidate", i, 1.0, 40.0) for i in range(2)]
    result = ColdStart(dataset="test").run(FakeInputs(tmp_path, probes={"first_inference": two}, draft=True))
    assert result.invalid is None and result.counts.attempted == 2
