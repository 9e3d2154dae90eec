"""Defects that `evalspec selftest` plants in a log. No numpy: the spec names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.language.defects import TIMES, Defect

if TYPE_CHECKING:
    import pyarrow as pa

FIRST, EACH, WHOLE = "ttft_ms", "tpot_ms", "latency_ms"
PARTS = (
    ((FIRST,), "the first token of each request of {dataset} took {times:g} times as long"),
    ((EACH,), "each token after the first of each request of {dataset} took {times:g} times as long"),
    ((WHOLE,), "the last token of each request of {dataset} took {times:g} times as long"),
    ((FIRST, EACH, WHOLE), "each request of {dataset} took {times:g} times as long"),
)
ONE_IN = ((100, "1 %"), (50, "2 %"), (20, "5 %"), (10, "a tenth"), (5, "a fifth"), (2, "half"), (1, "all"))


@dataclass(frozen=True)
class SlowerLog(Defect):
    """Every request of a log took longer.

    Args:
        dataset: The log.
        times: So many times as long.
        columns: Times that are longer; others stay.
    """

    dataset: str
    times: float
    columns: tuple[str, ...] = (FIRST, EACH, WHOLE)

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the log."""
        return ("rows", self.dataset)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same requests, slower."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in self.columns if dataset == self.dataset else ():
            place = rows.column_names.index(name)
            kind = rows.schema.field(name).type
            slower = pc.multiply(rows.column(name).cast(pa.float64()), pa.scalar(self.times))
            rows = rows.set_column(place, name, slower.cast(kind, safe=False))
        return rows


@dataclass(frozen=True)
class FailedLog(Defect):
    """Requests of a log failed, one in so many.

    Args:
        dataset: The log.
        one_in: Every so many-th request.
    """

    dataset: str
    one_in: int

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the log."""
        return ("rows", self.dataset)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same requests, some of which failed."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if dataset != self.dataset:
            return rows
        place, kind = rows.column_names.index("failed"), rows.schema.field("failed").type
        if pa.types.is_null(kind):
            kind = pa.string()
        hit = pa.array([row % self.one_in == 0 for row in range(len(rows))])
        failed = pc.if_else(hit, pa.scalar("error", kind), rows.column("failed").cast(kind))
        return rows.set_column(place, "failed", failed)


def log_defects(dataset: str) -> Iterator[Defect]:
    """Defects of a log, mildest first of each kind."""
    for columns, words in PARTS:
        for times in TIMES:
            yield SlowerLog(words.format(dataset=dataset, times=times), dataset, times, columns)
    for one_in, words in ONE_IN:
        yield FailedLog(f"{words} of the requests of {dataset} failed", dataset, one_in)
