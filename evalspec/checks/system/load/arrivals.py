"""How the times of queries are drawn, as a spec says it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.language.parts import DatasetName, Part
from evalspec.language.units import Duration

TRACE = "trace"


class Spike(Part):
    """A sudden rise of the rate, after the steady part."""

    factor: float = Field(gt=1, le=1000, description="Times the steady rate.")
    duration_s: Duration = Field(gt=0, alias="duration", description="How long; as long again is watched afterwards.")


class Arrivals(Part):
    """How the times of queries are drawn."""

    kind: Literal["poisson", "constant", "gamma", "trace"] = Field(
        "poisson", description="Gaps between queries: exponential, all alike, gamma (bursts), or as recorded."
    )
    burstiness: float | None = Field(
        None, gt=0, le=100, description="Shape of gamma gaps: 1 is Poisson, below 1 comes in bursts, above is smoother."
    )
    dataset: DatasetName | None = Field(None, description="A trace: one row a query.")
    time: str = Field("time", description="Column of the trace: seconds, or points in time.")
    payload: str | None = Field(None, description="Column of the trace: the row of the check's `dataset` to ask for.")
    size: str | None = Field(
        None, description="Column of the trace: rows of a query, handed to the model in one batch; default: 1."
    )
    speed_up: float = Field(1.0, gt=0, description="A trace is replayed so many times as fast.")
    ramp_s: Duration = Field(0.0, ge=0, alias="ramp", description="Time to rise to the rate; not counted.")
    spike: Spike | None = Field(None, description="For `spike_factor`.")
    beside_poisson: bool = Field(False, description="Each rate once more with Poisson arrivals, shown side by side.")

    @property
    def problem(self) -> str | None:
        """Fault of arrivals that do not fit together, in one sentence with the remedy."""
        recorded = self.kind == TRACE
        if (self.burstiness is not None) != (self.kind == "gamma"):
            return "`burstiness:` goes with `kind: gamma`, such as burstiness: 0.25; give both or neither"
        if recorded != (self.dataset is not None):
            return "`kind: trace` and `dataset:` go together: name the dataset that holds the trace"
        if not recorded and (self.payload is not None or self.size is not None or self.speed_up != 1.0):
            return "`payload:`, `size:` and `speed_up:` are of a trace; set the rate with `rates:`"
        if recorded and (self.ramp_s or self.spike is not None):
            return "a trace is replayed as it was recorded; remove `ramp:` and `spike:`"
        if self.beside_poisson and self.kind in ("poisson", "constant"):
            return "`beside_poisson:` shows bursts against Poisson; it goes with `kind: gamma` or `kind: trace`"
        return None
