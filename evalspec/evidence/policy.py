"""Policy of a spec for deciding, as a record repeats it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Cell, Frozen


class Waiver(Frozen):
    """A requirement set aside on purpose."""

    of: str
    why: str
    owner: str
    expires: str

    @property
    def caution(self) -> str:
        """The line for the top of the report while it holds."""
        return f"waived: {self.of}: {self.why} (owner {self.owner}, until {self.expires})"


class Claim(Frozen):
    """Claim that somebody makes about the model; shown beside what was measured, never used as evidence."""

    metric: str
    value: str
    by: str
    source: str = ""
    conditions: dict[str, Cell] = Field(default_factory=dict, description="What it is said to hold for.")
    excludes: tuple[str, ...] = Field((), description="Costs that it leaves out by its own word: transfer, load.")


class Rollback(Frozen):
    """When production is to go back to what ran before; handed over, never decided here."""

    when: str
    for_s: float = Field(0.0, description="So long without a break, in seconds; 0: at once.")
    metric: str = ""
    part: str | None = None
    op: str = ""
    threshold: float = 0.0
    unit: str = ""


class Policy(Frozen):
    """How requirements are decided."""

    confidence: float = 0.95
    inconclusive: Literal["block", "allow"] = "block"
    screens: Literal["tell", "block", "off"] = "tell"
    stop: Literal["early", "full"] = "early"
