"""The log of a run while it grows: when each evaluation was seen, by the clock of the process."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from evalspec.errors import EvalspecError
from evalspec.language.parts import Access
from evalspec.trainings.command import CommandTraining
from evalspec.trainings.reading.files import log_files
from evalspec.trainings.reading.run import Evaluation, TrainingRun
from evalspec.trainings.reading.supervised import read_run

PARSED_SHARE = 0.02
"""Share of the time in which a log that grows may be read."""


class LogWatch:
    """Follows the log of one run.

    The clock of a log starts somewhere in its process: where, is told by when lines are seen. A line can be seen late,
    never early, so that the smallest difference is nearest to the truth.

    Args:
        training: Says where the log is and how it is read.
        out: Folder of the run.
        began: Start of the process, on ``time.monotonic``.
    """

    def __init__(self, training: CommandTraining, out: Path, began: float) -> None:
        self._training = training
        self._access = Access(out)
        self._began = began
        self._seen: tuple[object, ...] = ()
        self._grew_s = 0.0
        self._may_parse_s = 0.0
        self._unread = False
        self._offsets: list[float] = []
        self._run: TrainingRun | None = None
        self._why = ""

    def look(self, now_s: float, *, last: bool = False) -> None:
        """Look whether it grew, and read it if that costs little, or for the last time.

        Args:
            now_s: Since the start of the process.
            last: The process has ended.
        """
        path = self._newest()
        if path is None:
            return
        stat = path.stat()
        seen = (path, stat.st_size, stat.st_mtime_ns)
        if seen != self._seen:
            # At the end it is not known when the last lines came, but for what the file itself says.
            self._grew_s = min(now_s, max(self._grew_s, now_s - max(0.0, time.time() - stat.st_mtime)))
            self._seen, self._unread = seen, True
        if self._unread and (last or now_s >= self._may_parse_s):
            self._parse(path, now_s)

    def _parse(self, path: Path, now_s: float) -> None:
        begun = time.monotonic()
        try:
            self._run, self._why = read_run(self._training.log, path, path.name), ""
        except (EvalspecError, OSError) as error:
            # A file that is being written may be half there; what is wrong at the end is told then.
            self._why = str(error)
        else:
            times = [one.time_s for one in self._run.evaluations if one.time_s is not None]
            if times:
                self._offsets.append(self._grew_s - max(times))
        self._unread = False
        self._may_parse_s = now_s + (time.monotonic() - begun) / PARSED_SHARE

    def _newest(self) -> Path | None:
        try:
            files = log_files(self._access, self._training.log_in_out)
            return max((one.path for one in files), key=lambda path: path.stat().st_mtime_ns)
        except (EvalspecError, OSError):
            return None

    @property
    def before_s(self) -> float | None:
        """From the start of the process to that of the log's clock; None: the log has no times."""
        return max(0.0, min(self._offsets)) if self._offsets else None

    @property
    def lag_s(self) -> float | None:
        """By so much the log's clock fell behind at its end; None: the log has no times."""
        return max(0.0, self._offsets[-1] - min(self._offsets)) if self._offsets else None

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """All that were read so far."""
        return () if self._run is None else self._run.evaluations

    @property
    def grew_s(self) -> float:
        """When it last grew, since the start of the process."""
        return self._grew_s

    @property
    def measures(self) -> set[str]:
        """All that were logged."""
        return set() if self._run is None else {one.metric for one in self._run.evaluations}

    def evaluated(self, measures: Sequence[str]) -> int:
        """Times that each of these measures was logged at least; without any, that some measure was."""
        counts = Counter(() if self._run is None else (one.metric for one in self._run.evaluations))
        return min((counts[name] for name in measures), default=max(counts.values(), default=0))

    def latest(self, measures: Sequence[str]) -> str:
        """The last value of the first of these measures, in words; empty: there is none."""
        if self._run is None or not measures:
            return ""
        values = [one.value for one in self._run.evaluations if one.metric == measures[0]]
        return f", {measures[0]} {values[-1]:.4g}" if values and math.isfinite(values[-1]) else ""

    def file(self) -> tuple[Path | None, str]:
        """The log, or None; and why it can't be read, empty: it can."""
        path = self._newest()
        if path is None:
            return None, f"it left no log {self._training.log.path}"
        return path, self._why
