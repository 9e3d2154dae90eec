"""Defects that a selftest plants in verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.checks.model.judged.spec import JudgedAnswers


@dataclass(frozen=True)
class FailedAnswers(Defect):
    """A share of what judge and people passed are fails: the same rows in both, as far as keys tell.

    Args:
        judgements: Dataset, and its columns with verdicts.
        human: Dataset with people's verdicts; None: there is none.
        key: Column that names rows.
        parts: One row of so many fails.
    """

    judgements: tuple[str, tuple[str, ...]]
    human: str | None
    key: str
    parts: int

    @property
    def place(self) -> tuple[str, ...]:
        """The judge's verdicts."""
        return ("rows", self.judgements[0])

    def rows(self, dataset: str, rows: pa.Table, read: Callable[[str], pa.Table]) -> pa.Table:
        """Verdicts with fails among them."""
        import zlib

        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if dataset not in (self.judgements[0], self.human) or not rows.num_rows:
            return rows
        keys = rows.column(self.key).cast(pa.string()).to_pylist()
        lost = pa.array(np.array([zlib.crc32(str(key).encode()) % self.parts == 0 for key in keys]))
        names = self.judgements[1] if dataset == self.judgements[0] else rows.column_names
        for name in names:
            column = rows.column(name).combine_chunks()
            kind = column.type
            if name == self.key or not (pa.types.is_boolean(kind) or pa.types.is_integer(kind)
                                        or pa.types.is_floating(kind)):  # fmt: skip
                continue
            fail = pa.scalar(False if pa.types.is_boolean(kind) else 0, kind)
            index = rows.column_names.index(name)
            rows = rows.set_column(index, rows.field(index), pc.if_else(lost, fail, column))
        return rows


def defects(check: JudgedAnswers) -> tuple[Defect, ...]:
    """A quarter, half and all but few of the answers fail, for judge and people alike."""
    return tuple(
        FailedAnswers(what, (check.judgements, check.verdicts), check.human, check.key, parts)
        for what, parts in (("a quarter of the answers fails", 4), ("half of the answers fail", 2),
                            ("all answers fail", 1))
    )  # fmt: skip
