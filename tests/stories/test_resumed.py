"""Checkpoints without a part of the state, as `training_recovery` tells them, by numbers and by a round trip."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.evidence.record import Record
from evalspec.running.supervision import disturbance
from tests.stories.resumed import PARTS, write_trainings
from tests.stories.telling import command


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else this machine does: times are not what these tests are about."""
    monkeypatch.setattr(disturbance, "disturbance", lambda told: None)


def run(gate: Path) -> tuple[Record, dict[str, str]]:
    """Its record, and the status of each check's requirement."""
    done = command("run", str(gate), "--trust", "--output", str(gate.parent / "run"))
    assert done.exit_code == 1, done.output
    record = Record.model_validate_json((gate.parent / "run" / "record.json").read_text())
    assert record.verdict is not None
    statuses = {one.name.partition("/")[0]: one.status for one in record.verdict.decisions}
    return record, statuses


def notes(record: Record, name: str) -> str:
    return " ".join(next(one for one in record.checks if one.id == name).notes)


@pytest.mark.proof
def test_numbers_show_each_part_that_a_checkpoint_forgets(tmp_path: Path) -> None:
    flaws = {"clean": ""} | {part: f', --forget-load, "{part}"' for part in PARTS}
    _, statuses = run(write_trainings(tmp_path, flaws, round_trip=False))
    assert statuses == {"clean": "PASS"} | dict.fromkeys(PARTS, "FAIL")


@pytest.mark.proof
def test_a_round_trip_shows_it_of_a_training_that_no_seed_repeats(tmp_path: Path) -> None:
    flaws = {"clean": ", --noise"} | {part: f', --noise, --forget-load, "{part}"' for part in PARTS}
    record, statuses = run(write_trainings(tmp_path, flaws, round_trip=True))
    assert statuses == {"clean": "PASS"} | dict.fromkeys(PARTS, "FAIL")
    assert "saved again at once, scaler has another value." in notes(record, "scaler")


@pytest.mark.proof
def test_what_no_checkpoint_ever_held_is_missed_by_name(tmp_path: Path) -> None:
    record, statuses = run(write_trainings(tmp_path, {"ema": ", --noise, --forget-save, ema"}, round_trip=True))
    assert statuses == {"ema": "FAIL"}
    assert "no checkpoint holds ema." in notes(record, "ema")
