"""Groups of rows by one column, or by several that are crossed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StringConstraints

from evalspec.language.parts import Part


class Cross(Part):
    """Every combination of the values of columns and slices: ``{cross: [site, dark]}``."""

    cross: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = Field(
        min_length=2, max_length=4, description="Columns and names of slices; `class` stands for the label."
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are crossed."""
        return self.cross


def entries_of(by: Sequence[Cross | str]) -> tuple[tuple[str, ...], ...]:
    """Each entry of ``by`` as the names that are crossed.

    Args:
        by: The field.
    """
    return tuple(entry.names if isinstance(entry, Cross) else (entry,) for entry in by)
