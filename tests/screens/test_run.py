"""Screens in a whole run: policy, record, journal, verdict and pages, and one that crashes harms nobody."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import WorkerError
from evalspec.evidence.record import Record
from evalspec.evidence.screens import Screening
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.records.outputs import say, write_reports
from evalspec.records.verify import verify
from evalspec.running.options import Options, default_limits
from evalspec.running.runner import run
from evalspec.running.screens import screens_of
from evalspec.screens.level import screen_names
from evalspec.verdict import decide
from tests.commands import trains_classifiers
from tests.running.small import Steps
from tests.shared import forge

pytestmark = [pytest.mark.proof, trains_classifiers]

SPEC = """evalspec: 1
name: screened
policy: {{screens: {policy}}}
datasets:
  test: {{kind: parquet, path: test.parquet, key: id}}
  traffic: {{kind: parquet, path: traffic.parquet, key: id}}
data:
  - {{check: shift, reference: test, current: traffic, tolerance: 0.3, require: [drifted_columns <= 20 %]}}
"""
ROWS = 500


def made(folder: Path, policy: str, factor: float) -> tuple[Record, Path]:
    """A run on ten columns, one of which is multiplied in today's rows."""
    rng = np.random.default_rng(0)
    for name in ("test", "traffic"):
        columns: dict[str, Any] = {f"x{index}": rng.normal(3.0, 1.0, ROWS) for index in range(10)}
        if name == "traffic":
            columns["x4"] *= factor
        pq.write_table(pa.table({"id": np.arange(ROWS), **columns}), folder / f"{name}.parquet")
    (folder / "evalspec.yaml").write_text(SPEC.format(policy=policy))
    planned = plan(load(folder / "evalspec.yaml"))
    options = Options(access=planned.spec.access(), root=folder, limits=default_limits(None, None))
    record, written = run(planned, options, Steps())
    write_reports(record, written)
    return record, written


def test_it_is_told_everywhere_and_can_be_made_again(tmp_path: Path) -> None:
    record, folder = made(tmp_path, "tell", 2.54)
    assert record.verdict is not None
    assert (record.verdict.word, record.verdict.exit_code) == ("READY", 0)
    assert record.screens is not None
    (one,) = record.screens.suspicions
    assert (one.screen, one.subject) == ("columns", "x4")
    assert "a factor of 2." in one.sentence
    assert set(record.screens.looked) == set(screen_names())
    lines = say(record, folder)
    assert lines[2].text == f"  Also found: {one.sentence}"
    assert any("shift(x4) <= 0.1" in line.text for line in lines[3:12])
    for page in ("report.html", "summary.md"):
        text = (folder / page).read_text()
        assert text.index("Also found") < text.index("shift(x4) &lt;= 0.1" if page[0] == "r" else "shift(x4)")
    assert "not asked for: columns(x4)" in (folder / "junit.xml").read_text()
    found = verify(folder)
    assert "screens" in found.same
    assert found.differs == ()
    # Whoever takes a suspicion out of the record is found out.
    forge(folder, lambda said: said["screens"].update(suspicions=[]))
    assert any("screens" in line for line in verify(folder).differs)


def test_it_blocks_where_the_policy_says_so(tmp_path: Path) -> None:
    record, folder = made(tmp_path, "block", 2.54)
    assert record.verdict is not None
    assert (record.verdict.word, record.verdict.exit_code) == ("NOT READY", 1)
    assert record.verdict.reason.startswith("screens/columns(x4): the median of x4 is ")
    assert "screens/columns(x4)" in (folder / "junit.xml").read_text()
    assert verify(folder).differs == ()
    assert record.screens is not None
    blind = Screening(blind={"data/columns": "it crashed"})
    undecided = decide(record.model_copy(update={"screens": blind}))
    assert (undecided.word, undecided.exit_code) == ("UNDECIDED", 3)


def test_off_stands_in_the_report(tmp_path: Path) -> None:
    record, folder = made(tmp_path, "off", 2.54)
    assert record.screens is None
    assert record.verdict is not None
    assert record.verdict.word == "READY"
    assert "no screens were run" in " ".join(record.verdict.weakened)
    assert "o screens were run" in (folder / "report.html").read_text()
    assert "Nobody asked" not in (folder / "report.html").read_text()


def test_nothing_is_said_of_sound_rows(tmp_path: Path) -> None:
    record, folder = made(tmp_path, "block", 1.0)
    assert record.screens is not None
    assert record.screens.suspicions == ()
    assert record.screens.questions == 30
    assert record.verdict is not None
    assert record.verdict.word == "READY"
    assert "Nobody asked" not in (folder / "report.html").read_text()


class Crashing:
    """A child in which one screen dies."""

    def screen(self, packed: str, name: str, *, progress: Any, time_s: float) -> dict[str, Any]:
        if name == "data/copies":
            raise WorkerError("it ate all memory")
        return {"suspicions": [], "questions": 2}


def test_one_that_crashes_harms_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspec.running.screens.packed_job", lambda job: "")
    job: Any = SimpleNamespace(trials=())
    found = screens_of(job, Crashing(), lambda *_: None, 1.0)  # type: ignore[arg-type]  # of a child it asks one thing
    assert found.blind == {"data/copies": "it ate all memory"}
    assert set(found.looked) == set(screen_names()) - {"data/copies"}
    record, _ = made(tmp_path, "tell", 1.0)
    lines = decide(record.model_copy(update={"screens": found})).weakened
    assert "the screen data/copies could not run: it ate all memory" in lines
    assert json.loads(found.model_dump_json())["questions"] == 2 * (len(screen_names()) - 1)
