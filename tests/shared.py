"""What all test processes of one session share: made once, by the first that asks."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

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


def predictions_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite of predictions as ``suite``, a run of it as ``run`` beside it, and what it printed as ``said.json``."""
    return shared_folder(tmp_path_factory, "predictions", _run_predictions)


def _run_predictions(folder: Path) -> None:
    shutil.copytree(ROOT / "suites" / "predictions", folder / "suite")
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", "run", "suite/evalspec.yaml", "--output", "run", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "said.json").write_text(json.dumps(json.loads(done.stdout)))
