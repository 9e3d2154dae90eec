"""Logs with a JSON object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal

from evalspec.errors import InputError
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.rows import RowsLog
from evalspec.trainings.reading.run import TrainingRun


class JsonlTraining(RowsLog):
    """Logs with a JSON object a line, a file for each run or with a column that names the run.

    Measures are all keys with a number that no field names. A last line that is not whole is a run that was cut off.
    """

    kind: Literal["jsonl"] = "jsonl"

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """Runs of one file."""
        lines = [(number, line) for number, line in enumerate(file.text().splitlines(), 1) if line.strip()]
        rows, cut = [], not lines
        for place, (number, line) in enumerate(lines):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                if place == len(lines) - 1:
                    cut = True
                    break
                message = f"line {number} of {file.name} is not JSON: {line.strip()[:40]!r}"
                raise InputError(message, remedy="copy the log again, as it was written") from error
            if not isinstance(row, dict):
                raise InputError(f"line {number} of {file.name} is not an object with names, but {type(row).__name__}")
            rows.append((number, row))
        return self.runs_of(file, rows, cut=cut)
