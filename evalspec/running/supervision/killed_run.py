"""A kill in the middle of a run, and what becomes of the run when its command is started again."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evalspec.processes import Guarded
from evalspec.running.supervision.checkpoint_files import CheckpointFile, Files, checkpoint_files
from evalspec.running.supervision.log_watch import LogWatch
from evalspec.trainings.command import OUT, CommandTraining
from evalspec.trainings.reading.run import Evaluation

POLL_S = 0.001
"""Between two looks at a folder in which a checkpoint may be growing."""
CALM_S = 0.005
PLACE = re.compile(r"\{\w+\}")


class KilledRun:
    """A run that is killed once.

    Args:
        training: Says where its checkpoints are.
        out: Folder of the run.
        step: It is killed when its log has come to this step.
        later_s: So much later.
        growing: Then, when something in the folder of checkpoints changes.
    """

    def __init__(self, training: CommandTraining, out: Path, step: int, later_s: float, growing: bool) -> None:
        self._out = out
        self._folder = training.checkpoints_in(out)
        self._log = _log_among_checkpoints(training)
        self._step = step
        self._later_s = later_s
        self._growing = growing
        self._limit_s = training.limit_s
        self._killed_s = 0.0
        self._before: tuple[Evaluation, ...] = ()
        self._newest = ""
        self._seen: Files | None = None
        self._resume_s: float | None = None

    def wait(self, process: Guarded, watch: LogWatch, began: float) -> bool:
        """Kill the process when it is time; False where it has ended before."""
        due_s: float | None = None
        while process.ended is None:
            now_s = time.monotonic() - began
            if now_s > self._limit_s:
                return False
            watch.look(now_s)
            if due_s is None and any((one.step or 0) >= self._step for one in watch.evaluations):
                due_s = now_s + self._later_s
            due = due_s is not None and now_s >= due_s
            if due and self._may_be_killed():
                break
            time.sleep(POLL_S if due else CALM_S)
        else:
            return False
        # The guardian kills what is left; that takes longer, and a checkpoint would be whole by then.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._killed_s = time.monotonic() - began
        process.end()
        watch.look(self._killed_s, last=True)
        self._before = watch.evaluations
        found = self._files()
        self._newest = max(found, key=lambda name: found[name].changed_ns, default="")
        return True

    def _may_be_killed(self) -> bool:
        """At once, or when a file in the folder of checkpoints changes."""
        if not self._growing:
            return True
        before, self._seen = self._seen, self._files()
        return before is not None and before != self._seen

    def _files(self) -> Files:
        """Files in the folder of checkpoints: size, and when each changed."""
        if self._folder is None:
            return {}
        try:
            found = checkpoint_files(self._folder, self._out)
            # A log that lies among them grows without a checkpoint.
            return {name: one for name, one in found.items() if not fnmatchcase(name, self._log)}
        except OSError:
            # What is renamed or removed meanwhile has changed.
            return {"": CheckpointFile(0, time.monotonic_ns(), self._folder)}

    @property
    def step(self) -> int:
        """Last step that it had logged when it was killed."""
        return max((one.step or 0 for one in self._before), default=0)

    def look(self, watch: LogWatch) -> None:
        """Look how far the second process has come."""
        if self._resume_s is not None:
            return
        rows = watch.evaluations
        kept = self._kept(rows)
        if any((one.step or 0) > self.step for one in rows[kept:]):
            self._resume_s = watch.grew_s

    def _kept(self, rows: tuple[Evaluation, ...]) -> int:
        """Evaluations of before the kill with which a log begins."""
        pairs = zip(rows, self._before, strict=False)
        return next((place for place, (now, then) in enumerate(pairs) if not _same(now, then)),
                    min(len(rows), len(self._before)))  # fmt: skip

    def told(self, watch: LogWatch) -> dict[str, Any]:
        """As a `Kill` of a record."""
        return {
            "growing": self._growing, "step": self.step, "killed_s": self._killed_s, "newest": self._newest,
            "kept": self._kept(watch.evaluations), "resume_s": self._resume_s,
        }  # fmt: skip


def _log_among_checkpoints(training: CommandTraining) -> str:
    """Pattern of the log, from the folder of checkpoints on; empty: it lies elsewhere."""
    folder = f"{(training.checkpoint or '').removeprefix(f'{OUT}/').rstrip('/')}/"
    log = training.log_in_out
    return PLACE.sub("*", log.removeprefix(folder)) if log.startswith(folder) else ""


def _same(now: Evaluation, then: Evaluation) -> bool:
    """The same line; NaN is like NaN."""
    return repr(now) == repr(then)
