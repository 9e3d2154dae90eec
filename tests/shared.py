"""What all test processes of one session share: made once, by the first that asks."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from evalspec.evidence.record import Record
from evalspec.records.outputs import write_reports
from evalspec.running.files import Journal
from evalspec.running.journal.closing import write_record
from evalspec.verdict import decide
from tests.commands import evalspec

ROOT = Path(__file__).parents[1]


def shared_folder(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that is made once a session; who changes what is in it works on a copy.

    Args:
        tmp_path_factory: Of the session.
        name: Of the folder.
        make: Fills it, still empty.
    """
    base = tmp_path_factory.getbasetemp()
    # Each worker of xdist has a folder of its own in that of the session.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"shared-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = folder.with_suffix(".making")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            make(making)
            making.rename(folder)
    return folder


def shared_array(
    tmp_path_factory: pytest.TempPathFactory, name: str, compute: Callable[[], npt.ArrayLike]
) -> npt.NDArray[np.float64]:
    """An array that is computed once a session, however many workers and tests read it.

    Args:
        tmp_path_factory: Of the session.
        name: Of the array, and of nothing else that is shared.
        compute: It.
    """
    folder = re.sub(r"\W+", "-", name)
    made = shared_folder(tmp_path_factory, folder, lambda folder: np.save(folder / "array.npy", compute()))
    return np.asarray(np.load(made / "array.npy"), dtype=np.float64)


def predictions_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite of predictions as ``suite``, a run of it as ``run`` beside it, and what it printed as ``said.json``."""
    return shared_folder(tmp_path_factory, "predictions", _run_predictions)


def _run_predictions(folder: Path) -> None:
    shutil.copytree(ROOT / "suites" / "predictions", folder / "suite")
    done = evalspec("run", "suite/evalspec.yaml", "--output", "run", "--json", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "said.json").write_text(json.dumps(json.loads(done.stdout)))


def forge(run: Path, change: Callable[[dict[str, Any]], None], *, decided: bool = True) -> None:
    """Change a record, and its journal and its pages so that they agree with it.

    Args:
        run: Folder of the run.
        change: Of the record, as JSON.
        decided: The verdict is the one that follows.
    """
    said = json.loads((run / "record.json").read_text(encoding="utf-8"))
    change(said)
    record = Record.model_validate(said)
    if decided:
        record = record.model_copy(update={"verdict": decide(record)})
    journal = Journal(run / "journal.jsonl")
    events = journal.read()
    journal.path.unlink()
    checks = {one["id"]: one for one in said["checks"]}
    for event in events:
        if event["event"] in ("end", "interrupted", "pages"):
            continue
        told = {name: value for name, value in event.items() if name not in ("event", "previous")}
        if event["event"] == "start":
            told |= {"evalspec": record.evalspec, "time": record.started}
        if event["event"] in ("check", "final") and event["id"] in checks:
            told["record"] = checks[event["id"]]
        journal.write(event["event"], **told)
    write_record(record, run, journal)
    write_reports(record, run)
