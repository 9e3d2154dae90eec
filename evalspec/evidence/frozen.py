"""Base classes of everything in a record."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

Cell = str | int | float | bool | None
Cells = Mapping[str, Cell]
"""Facts by name."""


class Frozen(BaseModel):
    """Base of everything that a record holds: frozen, nothing unknown, no NaN and no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
