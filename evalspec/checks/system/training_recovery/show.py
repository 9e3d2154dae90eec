"""Blocks of `training_recovery`: a line of time for each kill, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evalspec.evidence.blocks import AnyBlock, Column, Points, Series, Table

if TYPE_CHECKING:
    from evalspec.checks.system.training_recovery.killed import KilledTraining


def blocks(killed: Sequence[KilledTraining]) -> list[AnyBlock]:
    """When each run was killed and went on, and what became of it.

    Args:
        killed: All of them.
    """
    return [_timeline(killed), _table(killed)]


def _timeline(killed: Sequence[KilledTraining]) -> Points:
    """Steps at which runs were killed, and from which they went on."""
    order = sorted(range(len(killed)), key=lambda place: int(killed[place].kill["step"]))
    groups = (
        ("killed", [(killed[place].kill["step"], row) for row, place in enumerate(order, 1)]),
        ("went on from", [(killed[place].kill["step"] - killed[place].lost, row) for row, place in enumerate(order, 1)
                          if killed[place].kill["resume_s"] is not None]),
    )  # fmt: skip
    return Points(
        title="Kills",
        caption="A row for each run that was killed: the step at which it was, and the step from which it went on.",
        x_label="step",
        y_label="run",
        series=tuple(
            Series(name=name, x=tuple(float(x) for x, _ in some), y=tuple(float(y) for _, y in some))
            for name, some in groups
            if some
        ),
    )


def _table(killed: Sequence[KilledTraining]) -> Table:
    columns = (
        Column(name="run"), Column(name="seed"), Column(name="killed"), Column(name="at step"),
        Column(name="steps lost"), Column(name="went on after", unit="s"), Column(name="recovered"),
        Column(name="other state"),
    )  # fmt: skip
    rows = tuple(
        (one.name, one.seed, "in a checkpoint" if one.kill["growing"] else "between", one.kill["step"], one.lost,
         one.kill["resume_s"], "yes" if one.fault is None else one.fault, one.changed or "")
        for one in killed
    )  # fmt: skip
    return Table(title="Runs that were killed", caption="Each once, then started again.", columns=columns, rows=rows)
