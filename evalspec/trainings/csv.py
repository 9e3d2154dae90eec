"""Logs as tables with a header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from evalspec.errors import InputError
from evalspec.trainings.reading.files import LogFile
from evalspec.trainings.reading.rows import RowsLog
from evalspec.trainings.reading.run import TrainingRun


class CsvTraining(RowsLog):
    """Tables with a header, a file for each run or with a column that names the run.

    Measures are all columns with numbers that no field names; an empty cell is no value. A last line that has fewer
    cells than the header is a run that was cut off.
    """

    kind: Literal["csv"] = "csv"
    delimiter: str = Field(",", min_length=1, max_length=1, description="The character between cells.")

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """Runs of one file."""
        try:
            lines = list(csv.reader(io.StringIO(file.text(), newline=""), delimiter=self.delimiter))
        except csv.Error as error:
            raise InputError(f"{file.name} is not a table: {error}") from error
        if not lines:
            return self.runs_of(file, [], cut=True)
        header, rows, cut = [name.strip() for name in lines[0]], [], False
        if len(set(header)) < len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise InputError(f"{file.name} has two columns {twice!r}", remedy="rename one of them")
        for number, cells in enumerate(lines[1:], 2):
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                if number == len(lines) and len(cells) < len(header):
                    cut = True
                    break
                message = f"line {number} of {file.name} has {len(cells)} cells, and its header {len(header)}"
                raise InputError(message, remedy="copy the log again, or give its `delimiter:`")
            rows.append((number, {name: _value(cell.strip()) for name, cell in zip(header, cells, strict=True)}))
        return self.runs_of(file, rows, cut=cut)


def _value(cell: str) -> object:
    """A number where it is one, None where it is empty, else the text."""
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return cell
