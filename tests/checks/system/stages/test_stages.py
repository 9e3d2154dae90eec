"""`stages`: a pipeline that preprocessing dominates is found; overlap and slow spells are told."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.checks.system.stages.server_time import typical
from evalspec.checks.system.stages.spec import Stages
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Bars, Intervals, Table
from evalspec.evidence.estimate import Measured, Parts
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult, NeedTiming
from evalspec.language.registry import discover
from evalspec.language.requirement import Requirement
from evalspec.running.requirements import SignificanceLevels, write_tests
from tests.checks.deciding import outcome
from tests.checks.system.probed import Maker, stages
from tests.fakes import FakeInputs

MOSTLY_INFERENCE = Requirement("stage_share(inference) >= 50 %", "stage_share", "inference", ">=", 50.0, "%")
WORTH_IT = Requirement("amdahl_ceiling(inference) >= 2x", "amdahl_ceiling", "inference", ">=", 2.0, "x")


def run(folder: Path, maker: Maker, **fields: object) -> CheckResult:
    check = Stages.model_validate({"check": "stages", "dataset": "test", **fields})
    return check.run(FakeInputs(folder, probes=maker))


def part(result: CheckResult, metric: str, name: str) -> float | None:
    found = result.estimates[metric]
    assert isinstance(found, Measured) and isinstance(found.estimate, Parts)
    return found.estimate.parts[name].value


def test_8_ms_of_preprocessing_beside_10_of_inference(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"resize": 8.0, "inference": 10.0}))
    assert part(result, "stage_share", "resize") == pytest.approx(8 / 18, rel=0.05)
    assert part(result, "amdahl_ceiling", "inference") == pytest.approx(2.25, rel=0.05)
    assert outcome(result, MOSTLY_INFERENCE) == "PASS" and outcome(result, WORTH_IT) == "PASS"


def test_a_pipeline_that_preprocessing_dominates_fails_and_is_named(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"python": 30.0, "cast": 1.0, "inference": 5.0, "postprocess": 1.0}))
    assert outcome(result, MOSTLY_INFERENCE) == "FAIL" and outcome(result, WORTH_IT) == "FAIL"
    (said,) = [note for note in result.notes if "beside inference" in note]
    assert "python alone takes 8" in said and "at most 1.1" in said


def test_its_clean_twin_says_nothing(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"python": 1.0, "inference": 30.0, "postprocess": 1.0}))
    assert result.notes == []
    assert outcome(result, MOSTLY_INFERENCE) == "PASS"


def test_the_worked_pipeline_of_50_ms(tmp_path: Path) -> None:
    """A fifth of the time: at most 1.25 times as fast."""
    result = run(tmp_path, stages({"rest": 40.0, "inference": 10.0}))
    assert part(result, "amdahl_ceiling", "inference") == pytest.approx(1.25, rel=0.02)


def test_stages_that_overlap_are_told(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"copy_to_device": 5.0, "inference": 10.0}, whole_ms=10.5))
    assert any("they overlap" in note for note in result.notes)
    assert float(str(result.conditions["stages_sum_share"])) == pytest.approx(15 / 10.5, abs=0.05)


def test_time_between_the_stages_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"inference": 8.0, "postprocess": 1.0}, whole_ms=10.0))
    assert any("lies between the stages" in note for note in result.notes)


def test_a_stage_that_takes_the_whole_has_a_ceiling_without_end(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"inference": 10.0, "postprocess": 0.1}, whole_ms=9.0))
    assert part(result, "amdahl_ceiling", "inference") == math.inf
    low = Requirement("amdahl_ceiling(inference) <= 3x", "amdahl_ceiling", "inference", "<=", 3.0, "x")
    assert outcome(result, WORTH_IT) == "PASS" and outcome(result, low) == "FAIL"
    # It counts among all of them: one whose ceiling is too high is a violation.
    every = Requirement("amdahl_ceiling <= 3x", "amdahl_ceiling", None, "<=", 3.0, "x")
    assert outcome(result, every) == "FAIL"
    (shown,) = [block for block in result.blocks if isinstance(block, Table)]
    assert shown.rows[0][-1] is None
    assert part(result, "amdahl_ceiling", "postprocess") == pytest.approx(1.01, abs=0.01)


def test_a_few_slow_spells_do_not_move_the_shares(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"cast": 1.0, "inference": 9.0}, slow=0.03))
    assert part(result, "stage_share", "cast") == pytest.approx(0.1, rel=0.1)


def test_the_trimmed_mean() -> None:
    values = np.array([0.0, *np.full(8, 2.0), 1e6])
    assert typical(values) == 2.0
    assert typical(np.array([1.0, 2.0, 6.0])) == 3.0


def test_a_stage_shorter_than_the_clock_is_told(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"cast": 1e-4, "inference": 1.0}))
    assert any("over a tenth of cast" in note for note in result.notes)


def test_the_plan_that_was_not_reached_is_invalid(tmp_path: Path) -> None:
    short = run(tmp_path, stages({"inference": 1.0}, queries=19))
    assert outcome(short, MOSTLY_INFERENCE) == "INVALID"
    fewer = run(tmp_path, stages({"inference": 1.0}, processes=4))
    assert outcome(fewer, MOSTLY_INFERENCE) == "INVALID"


def test_without_processes_or_queries_there_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="no process was measured"):
        run(tmp_path, stages({"inference": 1.0}, processes=0))
    with pytest.raises(NotRunError, match="too few for shares"):
        run(tmp_path, stages({"inference": 1.0}, queries=2))


def test_processes_with_other_stages_can_not_be_put_together(tmp_path: Path) -> None:
    one, other = stages({"a": 1.0}), stages({"b": 1.0})

    def make(probe: str, model: str, options: dict[str, object]) -> list[Probe]:
        return one(probe, model, options)[:3] + other(probe, model, options)[:2]  # type: ignore[arg-type]

    with pytest.raises(NotRunError, match="no stages in common"):
        run(tmp_path, make)  # type: ignore[arg-type]  # options of a test


def test_what_is_shown(tmp_path: Path) -> None:
    result = run(tmp_path, stages({"resize": 8.0, "inference": 10.0}), require=["stage_share(inference) >= 50 %"])
    bars, shares, table = result.blocks
    assert isinstance(bars, Bars) and bars.stacked
    assert [bar.label for bar in bars.bars] == ["resize", "inference"]
    assert bars.references[0].value == pytest.approx(18.0, rel=0.05)
    assert isinstance(shares, Intervals) and shares.references[0].value == 50.0
    assert shares.rows[1].note.startswith("2.2")
    assert isinstance(table, Table) and len(table.rows) == 2


def test_what_is_asked_of_the_probe(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, probes=stages({"inference": 1.0}))
    check = Stages.model_validate({"check": "stages", "dataset": "test", "queries": 501, "batch_size": 4})
    check.run(inputs)
    ((name, options),) = inputs.probed
    assert (name, options["queries"], options["batch"]) == ("stages", 102, 4)
    (need,) = check.needs()
    assert isinstance(need, NeedTiming) and need.queries == 2 * 102 * 5


def test_requirements_that_can_not_be_met() -> None:
    check = Stages.model_validate({"check": "stages", "dataset": "test"})
    against = Requirement("stage_share(a) <= baseline", "stage_share", "a", "<=", 0.0, "pp", model="baseline")
    assert "no paired comparison" in (check.check_requirement(against, {}) or "")
    below = Requirement("amdahl_ceiling(a) <= 1x", "amdahl_ceiling", "a", "<=", 1.0, "x")
    assert "never below 1x" in (check.check_requirement(below, {}) or "")
    assert check.check_requirement(MOSTLY_INFERENCE, {}) is None
    with pytest.raises(ValidationError):
        Stages.model_validate({"check": "stages", "dataset": "test", "processes": 4})


def test_a_draft_is_short(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path, probes=stages({"inference": 1.0}, processes=2), draft=True)
    Stages.model_validate({"check": "stages", "dataset": "test"}).run(inputs)
    assert inputs.probed[0][1]["queries"] == 4


def test_a_stage_that_is_not_there_is_not_run_and_the_others_are_named(tmp_path: Path) -> None:
    check = Stages.model_validate(
        {
            "check": "stages",
            "dataset": "test",
            "require": [
                Stages.read_sentence("stage_share(inferense) >= 50 %", blocking=True),
                Stages.read_sentence("amdahl_ceiling(resize) <= 4x", blocking=True),
            ],
        }
    )
    result = check.run(FakeInputs(tmp_path, probes=stages({"resize": 8.0, "inference": 10.0})))
    wrong, right = write_tests(check, result, SignificanceLevels(0.95, 0.01))
    assert wrong.value is None
    assert wrong.missing is not None
    assert "'inferense'" in wrong.missing and "resize, inference" in wrong.missing
    assert "did you mean 'inference'?" in wrong.missing
    assert right.missing is None and right.value is not None


def test_what_the_inference_of_a_pipeline_holds_is_said(tmp_path: Path) -> None:
    told = "its last step only"
    stage_ms = {"frame": 1.0, "standardscaler": 2.0, "inference": 9.0, "postprocess": 1.0}
    assert any(told in note for note in run(tmp_path, stages(stage_ms)).notes)
    plain = run(tmp_path, stages({"cast": 1.0, "inference": 9.0}))
    assert not any(told in note for note in plain.notes)


def test_the_documentation_names_the_stages_of_every_kind_of_model() -> None:
    """As `steps` of each runtime calls them; tests/runtimes hold these to the code."""
    text = " ".join(str(Stages.__doc__).split())
    for name in ("inference", "copy_to_device", "copy_to_host", "frame", "standardscaler", "serialize", "server",
                 "parse", "postprocess", "resize_2", "queue", "compute_input", "compute_output", "server_parse",
                 "server_serialize", "server_other", "transfer"):  # fmt: skip
        assert f"`{name}`" in text, name
    kinds = set(discover(plugins=False).kinds("runtimes")) - {"predictions", "record", "transformers"}
    assert [kind for kind in kinds if f"`{kind}`" not in text] == []
    assert "`inference`, which is the last step only" in text
