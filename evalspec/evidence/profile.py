"""Items that a profile asks of a spec, as a record repeats them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen

PROFILE = "profile"
"""How the name of what a profile asks for begins: ``profile/energy``."""


class Without(Frozen):
    """A mandatory item of a profile, set aside on purpose."""

    of: str
    why: str
    owner: str
    expires: str | None = None

    @property
    def caution(self) -> str:
        """The line for the top of the report while it holds."""
        until = f", until {self.expires}" if self.expires is not None else ""
        return f"set aside: profile/{self.of}: {self.why} (owner {self.owner}{until})"

    @property
    def ended(self) -> str:
        """The line for the top of the report once it no longer holds."""
        return f"the setting aside of profile/{self.of} ended on {self.expires} and no longer applies"


class RequestedItem(Frozen):
    """One item of a profile, and what of the spec answers it."""

    name: str
    asks: str = Field(description="In words: `latency` with a blocking requirement on latency_p95.")
    kinds: tuple[str, ...] = Field((), description="Kinds of check that can answer it.")
    why: str
    source: str = ""
    states: str = Field(
        "", description="What it asks to be stated: rollback, baseline, quantization; empty: it asks for a check."
    )
    mandatory: bool = Field(True, description="It blocks where it is missing; else it is recommended.")
    found: tuple[str, ...] = Field((), description="What of the spec answers it; nothing: it is missing.")
    near: tuple[str, ...] = Field((), description="Where it is missing: what comes near, and why it does not count.")

    @property
    def wanted(self) -> str:
        """Item in words, and where it is missing why what comes near does not count."""
        return f"{self.asks} ({'; '.join(self.near)})" if self.near else self.asks

    @property
    def full_name(self) -> str:
        """Name in the list of requirements where it is missing."""
        return f"{PROFILE}/{self.name}"


class Profile(Frozen):
    """A deployment context: the order of the report, and the checks that must be there."""

    name: str
    digest: str = Field(description="sha256 of its content; comments and layout don't count.")
    about: str
    order: tuple[str, ...] = Field((), description="Kinds of check, most important first.")
    dimensions: tuple[Literal["system", "model", "data"], ...] = Field(description="Order of the report's sections.")
    asked: tuple[RequestedItem, ...]

    @property
    def missing(self) -> tuple[RequestedItem, ...]:
        """Items that nothing of the spec answers, the mandatory ones first."""
        left = [one for one in self.asked if not one.found]
        return tuple(sorted(left, key=lambda one: not one.mandatory))
