"""Defects that `evalspec selftest` plants in the logs of a training. No numpy: the spec names them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.language.defects import TIMES, Defect

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.timing.targets import Target

CLOCK = ("time_s", "before_s", "end_s")
PARTS = (
    (("samples",), "every run of {training} needs {times:g} times the samples"),
    ((*CLOCK, "energy_j"), "every run of {training} takes {times:g} times as long"),
)
BY_WORKERS = (
    (("samples",), "every run of {training} on more than {fewest} workers needs {times:g} times the samples"),
    (CLOCK, "every run of {training} on more than {fewest} workers takes {times:g} times as long"),
    ((*CLOCK, "samples"), "every run of {training} on more than {fewest} workers takes {times:g} times all"),
)
ONE_IN = (
    (10, "one run in ten"),
    (5, "one run in five"),
    (3, "one run in three"),
    (2, "every other run"),
    (1, "each run"),
)


@dataclass(frozen=True)
class SlowerTraining(Defect):
    """Every run took longer, or more samples.

    Args:
        training: The training.
        times: So many times as much.
        columns: What is more; others stay.
        beyond: Runs on more workers than this alone; 0: all.
    """

    training: str
    times: float
    columns: tuple[str, ...]
    beyond: int = 0

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the training."""
        return ("rows", self.training)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same evaluations, later."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if dataset != self.training or "workers" not in rows.column_names:
            return rows
        own = pc.greater(pc.fill_null(rows.column("workers"), 1), pa.scalar(self.beyond))
        times = pc.if_else(own, pa.scalar(self.times), pa.scalar(1.0))
        for name in self.columns:
            if name in rows.column_names:
                more = pc.multiply(rows.column(name).cast(pa.float64()), times)
                rows = rows.set_column(rows.column_names.index(name), rows.schema.field(name), more)
        return rows


@dataclass(frozen=True)
class LostRuns(Defect):
    """Runs diverged, one in so many: no value of theirs is a number.

    Args:
        training: The training.
        one_in: Every so many-th run.
        metric: The measure of the target.
    """

    training: str
    one_in: int
    metric: str

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the training."""
        return ("rows", self.training)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same runs, some of which diverged."""
        import pyarrow as pa

        if dataset != self.training or "value" not in rows.column_names or "run" not in rows.column_names:
            return rows
        names = rows.column("run").to_pylist()
        lost = set(list(dict.fromkeys(names))[:: self.one_in])
        values = [
            float("nan") if name in lost and value is not None else value
            for name, value in zip(names, rows.column("value").to_pylist(), strict=True)
        ]
        place = rows.column_names.index("value")
        return rows.set_column(place, rows.schema.field("value"), pa.array(values, pa.float64()))


def training_defects(training: str, target: Target) -> Iterator[Defect]:
    """Defects of a training, mildest first of each kind."""
    for columns, words in PARTS:
        for times in TIMES:
            yield SlowerTraining(words.format(training=training, times=times), training, times, columns)
    for one_in, words in ONE_IN:
        yield LostRuns(f"{words} of {training} diverged", training, one_in, target.metric)


def worker_defects(training: str, fewest: int) -> Iterator[Defect]:
    """Defects of the runs on more than the fewest workers, mildest first of each kind."""
    for columns, words in BY_WORKERS:
        for times in TIMES:
            what = words.format(training=training, times=times, fewest=fewest)
            yield SlowerTraining(what, training, times, columns, fewest)
