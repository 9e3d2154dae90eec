"""`training_recovery`: what counts as recovered, what is lost, and what can't be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalspec.checks.system.training_recovery.spec import TrainingRecovery
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.language.parts import CheckResult, TrialRuns
from tests.checks.system.training_recovery.killed import case, killed_table
from tests.trainings.runs import recipe, recipe_table


def measured(folder: Path, **how: Any) -> CheckResult:
    inputs, check = case(folder, killed_table(**how), "recovered >= 75 %")
    return check.run(inputs)


def fact(result: CheckResult, metric: str) -> Fact:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found


def test_fourteen_of_fourteen_show_81_percent(tmp_path: Path) -> None:
    result = measured(tmp_path)
    recovered = result.estimates["recovered"]
    assert not isinstance(recovered, Fact | Measured)
    assert recovered.bound(0.95, "lower") == pytest.approx(0.807, abs=0.0005)  # type: ignore[union-attr]
    assert fact(result, "steps_lost").value == 100.0
    assert fact(result, "state_lost").value == 0.0
    assert not result.notes and not result.weakens
    assert result.conditions == {"kills": 14, "in_a_checkpoint": 7}


def test_the_file_and_the_step_are_named(tmp_path: Path) -> None:
    torn = measured(tmp_path, torn=2)
    assert torn.notes[0] == (
        "2 of 14 kills ended the training: kill0-seed0, started again it failed (the file of checkpoints that changed "
        "last: step400.npz)."
    )
    twice = measured(tmp_path, twice=True)
    assert "its log has loss of step 500 twice" in twice.notes[0]
    other = measured(tmp_path, more=0.001)
    assert fact(other, "state_lost").value == 14.0
    assert fact(other, "state_lost").first.startswith("kill0-seed0: loss 0.003 at step 500, and 0.002 without")


def test_numbers_that_no_seed_repeats_tell_nothing_of_a_kill(tmp_path: Path) -> None:
    assert fact(measured(tmp_path), "state_lost").value == 0.0, "the rate differs in each run of a seed"
    assert "no run repeats a seed" in measured(tmp_path, twins=False).missing["state_lost"]


def test_other_work_voids_times_and_no_fault(tmp_path: Path) -> None:
    result = measured(tmp_path, spoiled="other work", torn=14)
    assert not isinstance(result.estimates["recovered"], Measured) or result.estimates["recovered"].invalid is None
    waits = measured(tmp_path, spoiled="other work").estimates["time_to_resume"]
    assert isinstance(waits, Measured) and waits.invalid == "in kill0-seed0 other work"


def test_logs_can_t_be_killed(tmp_path: Path) -> None:
    inputs, check = case(tmp_path, recipe_table(recipe()), "recovered >= 75 %")
    with pytest.raises(InputError, match="read from logs, so that it can't be killed"):
        check.inspect_rows({"recipe": inputs.table("recipe")}, {})
    with pytest.raises(NotRunError, match="nothing of recipe was killed: no run of it came to its end"):
        check.run(inputs)


def test_too_few_kills_can_never_show_a_share(tmp_path: Path) -> None:
    def why(kills: int) -> str | None:
        _, check = case(tmp_path, killed_table(2), "recovered >= 80 %", kills=kills)
        return check.check_requirement(check.requirements[0], {})

    assert why(14) is None
    assert why(13) == "13 kills show 79.4 % at most, and 14 are needed"


def test_a_run_more_is_made_only_for_what_is_asked() -> None:
    def trials(*sentences: str) -> TrialRuns:
        return TrainingRecovery.model_validate(
            {"check": "training_recovery", "training": "recipe", "kills": 3, "require": list(sentences)}
        ).trials_of("recipe")

    assert trials("steps_lost <= 5 steps") == TrialRuns(kills=3)
    assert trials("state_lost == 0", "checkpoint_overhead <= 10 %") == TrialRuns(kills=3, twins=1, plain=5)
    other = TrainingRecovery.model_validate(
        {"check": "training_recovery", "training": "recipe", "require": ["state_lost == 0"]}
    )
    assert other.trials_of("another") == TrialRuns()
