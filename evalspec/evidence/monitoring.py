"""Expectations that are handed over to those who watch production."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen
from evalspec.evidence.policy import Rollback

DriftRole = Literal["reference", "current"]


class MadeFrom(Frozen):
    """The run."""

    spec: str
    spec_digest: str
    started: str
    subject: str | None = Field(description="Digest of the model; None: not shown.")
    verdict: str
    evalspec: str


class Expected(Frozen):
    """One requirement: what was measured, and within what the truth lies."""

    name: str
    metric: str
    unit: str
    value: float
    lower: float | None = Field(description="One-sided lower bound at `confidence`; None: there is none.")
    upper: float | None
    confidence: float | None = Field(description="Of each bound; None: counted, without an interval.")
    n: int
    needs: str = Field(description="The requirement as written in the spec.")
    op: str
    threshold: float
    status: str
    waived: bool = Field(False, description="Set aside on purpose: what was measured is not what was asked.")
    datasets: tuple[str, ...]
    why: str | None
    owner: str | None


class LeftOut(Frozen):
    """A requirement without a number that production could be held against."""

    name: str
    why: str


class LatencyPercentile(Frozen):
    """A latency of the distribution that was measured; where one is required, its bounds stand in `expected`."""

    check: str
    metric: str
    value: float
    unit: str
    queries: int = Field(description="Queries that the check timed, at all of its rates together.")


class DriftReference(Frozen):
    """Rows that production is compared with."""

    check: str
    role: DriftRole
    dataset: str
    path: str | None
    digest: str
    rows: int
    tolerance: float | None
    distance: str | None


class Monitoring(Frozen):
    """Expected ranges, rows that drift is measured from, and criteria to go back."""

    version: Literal[1] = 1
    made_from: MadeFrom
    expected: tuple[Expected, ...]
    left_out: tuple[LeftOut, ...]
    latency_percentiles: tuple[LatencyPercentile, ...]
    drift_references: tuple[DriftReference, ...]
    rollback: tuple[Rollback, ...]
