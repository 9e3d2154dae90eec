"""Rows whose contents say what will be measured, such as a trace: looked at when a spec is read, if they are small."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.errors import InputError, Problem
from evalspec.language.header import Header
from evalspec.language.parts import Access, Check, Dataset, Training
from evalspec.language.where import column_family
from evalspec.loading.entries import Entry
from evalspec.loading.files import find_text
from evalspec.loading.problems import Problems

if TYPE_CHECKING:
    import pyarrow as pa

SMALL_BYTES = 8 * 2**20
"""Of all files of a dataset: below this, reading its columns takes some 50 ms."""
MOST_ROWS = 2**20
"""Of a dataset in a packed format. What has more is looked at when a run starts, by a process with limits."""
TEXT_KINDS = ("csv", "jsonl")
"""Kinds of which a header that knows their rows has seen all of them."""


@dataclass(frozen=True, slots=True)
class Readable:
    """Datasets whose headers were read.

    Args:
        datasets: By name; others can't be read here.
        headers: By name.
        access: Where they may be read from.
    """

    datasets: Mapping[str, Dataset]
    headers: Mapping[str, Header]
    access: Access

    def small(self, name: str) -> bool:
        """True if it can be read at little cost."""
        if name not in self.headers or name not in self.datasets:
            return False
        try:
            return sum(path.stat().st_size for path in self.datasets[name].files(self.access)) <= SMALL_BYTES
        except (InputError, OSError):
            return False

    def bounded(self, name: str, columns: Sequence[str]) -> bool:
        """These columns hold so much at most as the file's size or its header says: a packed file may hold any text."""
        header = self.headers[name]
        if isinstance(self.datasets[name], Training):
            # Its rows are lines of its files, which are small.
            return True
        if self.datasets[name].kind in TEXT_KINDS:
            # Of what unpacks to more than is small the rows are not known.
            return header.rows is not None
        plain = all(column_family(header.columns[column]) in ("number", "date", "truth value") for column in columns)
        return plain and header.rows is not None and header.rows <= MOST_ROWS

    def rows(self, name: str) -> int | None:
        """Rows for which `where` holds, as far as the header tells."""
        return self.headers[name].rows if name in self.headers and self.datasets[name].where is None else None


def inspect_small(problems: Problems, entries: Sequence[Entry], there: Readable) -> dict[str, object]:
    """Have every check look at the rows that it wants to, where all of them are small and their number is known.

    Args:
        problems: Takes what is wrong with them.
        entries: The checks.
        there: What can be read.

    Returns:
        Check: what it saw.
    """
    seen: dict[str, object] = {}
    once = LogRows(there.datasets, there.access)
    for entry in entries:
        needs = entry.check.inspects()
        read = [need for need in needs if need.columns]
        columns_there = all(
            need.dataset in there.headers and set(need.columns) <= set(there.headers[need.dataset].columns)
            for need in read
        )
        if not read or not columns_there:
            continue
        if not all(there.small(need.dataset) and there.bounded(need.dataset, need.columns) for need in read):
            continue
        rows = {need.dataset: there.rows(need.dataset) for need in needs}
        try:
            found = looked_at(entry.check, rows, once)
        except InputError as error:
            path = find_text(problems, entry.path, read[0].dataset)
            problems.add(path, _with_file(error.problem, there.datasets[read[0].dataset]))
            continue
        if all(rows[need.dataset] is not None for need in needs if not need.columns):
            seen[entry.check.name] = found
    return seen


class LogRows:
    """Rows of datasets as checks look at them; logs of a training are read once, whoever looks.

    Args:
        datasets: By name.
        access: Where they may be read from.
    """

    def __init__(self, datasets: Mapping[str, Dataset], access: Access) -> None:
        self._datasets, self._access = datasets, access
        self._read: dict[str, pa.Table] = {}

    def of(self, name: str, columns: Sequence[str]) -> pa.Table:
        """These columns of a dataset.

        Raises:
            InputError: They can't be read.
        """
        from evalspec.sources.reading.open import open_dataset

        if not isinstance(self._datasets[name], Training):
            return open_dataset(self._datasets[name], self._access, columns)
        if name not in self._read:
            self._read[name] = open_dataset(self._datasets[name], self._access)
        return self._read[name].select(list(columns))


def looked_at(check: Check, rows: Mapping[str, int | None], once: LogRows) -> object:
    """Facts that a check tells from the rows that it looks at.

    Args:
        check: The check.
        rows: Of those that are only counted; None: not known.
        once: Reads them.

    Raises:
        InputError: They can't be read, or a value of them can't be used.
    """
    tables = {need.dataset: once.of(need.dataset, need.columns) for need in check.inspects() if need.columns}
    return check.inspect_rows(tables, rows)


def refused(check: Check, datasets: Mapping[str, Dataset], error: InputError, file: str) -> Problem:
    """Problem of a spec that `looked_at` raised."""
    read = next(need.dataset for need in check.inspects() if need.columns)
    problem = _with_file(error.problem, datasets[read])
    return problem.at(file=file, line=None, column=None, path=f"{check.dimension}: {check.name}")


def not_inspected(entries: Sequence[Entry], seen: Mapping[str, object]) -> list[str]:
    """Sentences: what of them is looked at only when a run starts."""
    return [
        f"the rows of {need.dataset} that {entry.check.name} depends on: they are read when the run starts"
        for entry in entries
        if entry.check.name not in seen
        for need in entry.check.inspects()
        if need.columns
    ]


def _with_file(problem: Problem, dataset: Dataset) -> Problem:
    path = getattr(dataset, "path", None)
    message = problem.message if path is None else f"{path}: {problem.message}"
    return Problem(message, choices=problem.choices, remedy=problem.remedy)
