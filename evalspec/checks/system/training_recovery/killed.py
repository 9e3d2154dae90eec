"""A run that was killed and started again, as its log tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
"""A row of a training."""


@dataclass(frozen=True)
class KilledTraining:
    """A run that was killed and started again.

    Args:
        name, seed, workers: Of the run.
        kill: Facts of the kill.
        status: How the second process ended.
        rows: Evaluations of its log.
        spoiled: What the surroundings did to it.
        fault: Why it has not recovered; None: it has.
        lost: Steps that were logged and had to be made again.
        other: First number after the kill that differs from the run that was let run; None: none does, or no number
            can be compared.
        resaved: What its newest checkpoint lost when it was saved again at once; None: nothing, or it is not known.
        unknown: Why that is not known; None: it is, or no round trip was made.
        early: It is not known since the kill came before the first whole checkpoint, which is nobody's fault.
        compared: A number in which a kill can be seen was logged after it.
    """

    name: str
    seed: int
    workers: int | None
    kill: Mapping[str, Any]
    status: str
    rows: tuple[Row, ...]
    spoiled: str | None
    fault: str | None
    lost: int
    other: str | None
    resaved: str | None
    unknown: str | None
    early: bool
    compared: bool

    @property
    def round_trip(self) -> bool:
        """True if it is known what a round trip does to its checkpoint."""
        return self.kill.get("resaved") is not None and self.unknown is None

    @property
    def changed(self) -> str | None:
        """Something of its state that the kill has changed; None: nothing that is known."""
        return "; ".join(one for one in (self.resaved, self.other) if one is not None) or None
