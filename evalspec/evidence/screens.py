"""Suspicions of the screens of a run: defects that no requirement asked about."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen

LEVEL = 0.01
"""Share of sound runs in which a screen of any kind may speak."""


class Suspicion(Frozen):
    """Something that looks wrong and that nobody asked about."""

    screen: str = Field(description="The screen that saw it.")
    dimension: Literal["system", "model", "data"]
    subject: str = Field(description="What it is about: a column, a class, a group, two datasets.")
    sentence: str = Field(description="One sentence for people, with numbers.")
    suggestion: str = Field(description="YAML of the requirement that would decide it; empty: none can.")
    p_value: float | None = Field(None, description="None: an exact fact, which needs no level.")
    weakens: bool = Field(False, description="Certain enough to make the verdict weaker than it reads.")


class RowTrial(Frozen):
    """Rows that a model was tried on for the screens alone."""

    model: str
    dataset: str
    rows: int
    failed: int = Field(0, description="Rows that it could not answer.")
    reason: str = Field("", description="Why not, of the first of them.")
    unlike: int | None = Field(None, description="Rows that the artifact answers unlike the file; None: not asked.")


class Screening(Frozen):
    """Screens of a run: which of them looked, and what they suspect."""

    level: float = Field(LEVEL, description="Family-wise, by Holm, over all requirements on samples.")
    questions: int = Field(0, description="p-values that were computed, the large ones too.")
    looked: tuple[str, ...] = Field((), description="Screens that looked.")
    blind: dict[str, str] = Field(default_factory=dict, description="Screen that could not look: why.")
    suspicions: tuple[Suspicion, ...] = ()
    trials: tuple[RowTrial, ...] = Field((), description="Models that were asked a few rows for the screens.")
