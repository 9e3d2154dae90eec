"""Base of the kinds that are logs in files, a run or several in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from evalspec.language.header import Header
from evalspec.language.parts import Access, Training
from evalspec.sources.reading.table import choose
from evalspec.trainings.reading.files import PATH, LogFile, log_files
from evalspec.trainings.reading.run import COLUMNS, TrainingRun, table_of

if TYPE_CHECKING:
    import pyarrow as pa


class TrainingLog(Training):
    """Runs in files; a kind says how one file is read."""

    path: str = Field(description=PATH)

    def runs(self, file: LogFile) -> Iterable[TrainingRun]:
        """Runs of one file.

        Raises:
            InputError: It is no such log.
        """
        raise NotImplementedError

    def files(self, access: Access) -> tuple[Path, ...]:
        """The logs.

        Raises:
            InputError: There is none.
        """
        return tuple(one.path for one in log_files(access, self.path))

    def header(self, access: Access) -> Header:
        """Columns and rows; logs are read for it.

        Raises:
            InputError: There is no log, or one can't be read.
        """
        return Header(rows=self.read(access, ("run",)).num_rows, columns=dict(COLUMNS))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All evaluations of all runs, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        runs = [run for file in log_files(access, self.path) for run in self.runs(file)]
        return table_of(runs, self, choose(columns, tuple(COLUMNS), repr(self.path)))
