"""Base of the kinds that are logs in files, a run or several in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Training
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

    def logs(self, access: Access) -> tuple[LogFile, ...]:
        """The logs.

        Raises:
            InputError: There is none.
        """
        return log_files(access, self.path)

    def files(self, access: Access) -> tuple[Path, ...]:
        """Their files.

        Raises:
            InputError: As `logs`.
        """
        return tuple(one.path for one in self.logs(access))

    def header(self, access: Access) -> Header:
        """Columns; how many evaluations there are is not known before logs are read.

        Raises:
            InputError: There is no log, or one can't be opened.
        """
        for one in self.logs(access):
            one.check()
        return Header(rows=None, columns=dict(COLUMNS))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All evaluations of all runs, these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        runs = [run for file in self.logs(access) for run in self.runs(file)]
        return table_of(runs, self, choose(columns, tuple(COLUMNS), repr(self.path)))
