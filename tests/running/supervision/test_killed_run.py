"""When a run is killed: at a step, or while a checkpoint is written."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest

from evalspec.processes import Guarded
from evalspec.running.supervision.killed_run import KilledRun
from evalspec.running.supervision.log_watch import LogWatch
from evalspec.trainings.command import CommandTraining

pytestmark = pytest.mark.processes

TRAIN = """
import json, sys, time
from pathlib import Path
out = Path(sys.argv[1])
out.mkdir()
with open(out / "log.jsonl", "w", buffering=1) as log:
    for step in range(200):
        print(json.dumps({"t": 0.01 * step, "step": step, "loss": 1.0}), file=log)
        if step == 40:
            (out / "step40.txt").write_text("40")
        time.sleep(0.01)
"""


class Started:
    """A process as `KilledRun` knows it."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", TRAIN, str(folder)], start_new_session=True)
        self.pid = self._process.pid

    @property
    def ended(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize(("growing", "least"), [(False, 3), (True, 40)])
def test_a_log_beside_checkpoints_is_none_of_them(tmp_path: Path, growing: bool, least: int) -> None:
    fields: dict[str, Any] = {
        "run": ["python", "{seed}", "{out}"], "seeds": 1, "limit": "30 s", "checkpoint": "{out}/run",
        "log": {"kind": "jsonl", "path": "{out}/run/log.jsonl", "time": "t"},
    }  # fmt: skip
    training = CommandTraining.model_validate(fields)
    process, began = Started(tmp_path / "run"), time.monotonic()
    kill = KilledRun(training, tmp_path, 3, 0.0, growing)
    assert kill.wait(cast(Guarded, process), LogWatch(training, tmp_path, began), began)
    assert kill.step >= least and (kill.step < 40) is not growing
