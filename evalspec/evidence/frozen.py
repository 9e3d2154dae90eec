"""Base of everything in a record, and what stands in its cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

from pydantic import BaseModel, ConfigDict

Cell = str | int | float | bool | None
Cells = Mapping[str, Cell]
"""Facts by name."""


def is_number(value: object) -> TypeGuard[int | float]:
    """True of a number; true and false, which Python counts among its integers, are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


class Frozen(BaseModel):
    """Base of everything that a record holds: frozen, nothing unknown, no NaN and no infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)
