"""Defects that `evalspec selftest` plants in runs that were killed. No numpy: the spec names them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from evalspec.language.defects import TIMES, Defect

if TYPE_CHECKING:
    import pyarrow as pa

ONE_IN = ((10, "one kill in ten"), (5, "one kill in five"), (3, "one kill in three"), (1, "each kill"))
Change = Literal["ends it", "loses its steps", "loses its state"]


@dataclass(frozen=True)
class WorseRecovery(Defect):
    """Kills do more harm.

    Args:
        training: The training.
        change: What they do.
        one_in: Every so many-th kill.
        times: So many times as long until it goes on.
    """

    training: str
    change: Change | None
    one_in: int
    times: float = 1.0

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the training."""
        return ("rows", self.training)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same runs, with other ends of those that were killed."""
        import pyarrow as pa

        if dataset != self.training or "kill" not in rows.column_names or "run" not in rows.column_names:
            return rows
        listed = rows.to_pylist()
        killed = list(dict.fromkeys(row["run"] for row in listed if row["kill"] is not None))
        hit = set(killed[:: self.one_in])
        for row in listed:
            if row["run"] in hit:
                self._change(row)
        return pa.Table.from_pylist(listed, schema=rows.schema)

    def _change(self, row: dict[str, Any]) -> None:
        kill = json.loads(row["kill"])
        if self.change == "ends it" and "status" in row:
            row["status"] = "failed"
        elif self.change == "loses its steps":
            kill["kept"] = 0
        elif self.change == "loses its state" and row.get("value") is not None and row.get("step", 0) > kill["step"]:
            row["value"] += 0.001
        if self.change == "loses its state" and kill.get("resaved") is not None:
            kill["resaved"] |= {"lost": 1, "first": [{"name": "state", "what": "value", "then": "", "now": ""}]}
        if kill["resume_s"] is not None:
            kill["resume_s"] *= self.times
        row["kill"] = json.dumps(kill)


@dataclass(frozen=True)
class CostlyCheckpoints(Defect):
    """Runs without checkpoints end sooner.

    Args:
        training: The training.
        times: So many times as soon.
    """

    training: str
    times: float

    @property
    def place(self) -> tuple[str, ...]:
        """Rows of the training."""
        return ("rows", self.training)

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """The same runs, those without checkpoints shorter."""
        import pyarrow as pa

        if dataset != self.training or not {"part", "end_s", "before_s"} <= set(rows.column_names):
            return rows
        listed = rows.to_pylist()
        for row in listed:
            if row["part"] == "plain" and row["end_s"] is not None:
                row["end_s"] /= self.times
                row["before_s"] = (row["before_s"] or 0.0) / self.times
        return pa.Table.from_pylist(listed, schema=rows.schema)


def recovery_defects(training: str) -> Iterator[Defect]:
    """Defects of a training that is killed, mildest first of each kind."""
    changes: tuple[Change, ...] = ("ends it", "loses its steps", "loses its state")
    for change in changes:
        for one_in, words in ONE_IN:
            yield WorseRecovery(f"{words} of {training} {change}", training, change, one_in)
    for times in TIMES:
        yield WorseRecovery(f"{training} takes {times:g} times as long to go on", training, None, 1, times)
    for times in TIMES:
        yield CostlyCheckpoints(f"{training} is {times:g} times as fast without checkpoints", training, times)
