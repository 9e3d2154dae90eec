"""`roofline`: how much of what the device can do a model uses, and what keeps it from more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedTiming
from evalspec.language.units import Duration
from evalspec.timing.budget import START_S

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

CEILINGS_S = 4.0
"""A guess at how long the ceilings of one process take, for the plan."""


class Roofline(Check):
    """How much of what this device can do a model uses, and what keeps it from more.

    ## What it measures
    `arithmetic_intensity` [FLOP/B]: operations of one batch by the bytes that it moves. `achieved_flops` [GFLOP/s]:
    operations by the time of the model alone, inputs on the device, no preprocessing. `roof_fraction` [%]: the
    shortest time that the measured ceilings allow by the time it took. In the table: what bounds it. `compute` (at or
    right of the ridge), `memory` (left of it) or `overhead` (time that neither grows with the batch nor reads the
    weights: launches, dispatch).

    ## Why it matters
    A faster processor does nothing for a model that waits for memory, nor wider memory for one that computes, and
    neither helps where most of the time goes into starting small operators. The place under the roof says which remedy
    can work before it is paid for. A low fraction is a diagnosis: 30 % to 50 % are usual for well-tuned models, and
    small models have far less.

    ## Method
    Operations: torch's FlopCounterMode or the shapes in onnxruntime's profile, 2 m n k for products and convolutions
    (a multiplication and an addition each), one for each element of everything else that computes. Bytes: weights,
    inputs, outputs and activations, each operator reading what it takes and writing what it gives; caches may spare
    some of that, fusion more. Both are counted, so the intensity is a fact.
    Ceilings, in each process and on the same threads: the best of square products of several sizes, in the precision
    that most operations are in (a wider type's where that is faster), and a copy of as many bytes as the batch moves,
    which stays in caches where the batch does. A copy from memory is drawn beside it, and the model's time after the
    caches were flushed. The ceiling is the best repetition; its spread is shown. Times: median of at least `calls:`
    calls and `duration:`, different rows in turn; on a GPU by CUDA events beside the wall clock, clocks recorded.
    One number from each of at least 5 fresh processes, Student's t over them. A fraction over 105 % keeps it from
    PASS: then the ceiling is none for this model.

    References: Williams, Waterman, Patterson, CACM 2009. The Empirical Roofline Tool (measured ceilings).

    ## What it cannot show
    Which operator is slow. Operations that a runtime removes or adds when it optimizes: those of the model as it is
    written count. Models behind a server, and kinds that show no operators. Causal masks in attention are not taken
    off.

    ## Example
    ```yaml
    - check: roofline
      dataset: test
      batch_size: 32
      warn:
        - roof_fraction >= 20 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("arithmetic_intensity", "FLOP/B", "neither", "Operations by bytes moved, of one batch.", exact=True),
        Metric("achieved_flops", "GFLOP/s", "higher", "Operations a second.", interval="t over processes"),
        Metric(
            "roof_fraction", "%", "higher", "Shortest time under the ceilings by the time it took.",
            interval="t over processes",
            shows=("share of the roof",), label="share of the attainable speed",
        ),
    )  # fmt: skip

    check: Literal["roofline"] = "roofline"
    dataset: DatasetName
    batch_size: int = Field(1, ge=1, le=65_536, description="Items in a batch; a fixed batch in the file wins.")
    processes: Annotated[int, Effort()] = Field(5, ge=5, le=100, description="Fresh processes.")
    calls: Annotated[int, Effort()] = Field(20, ge=20, description="Calls of the model in each process, at least.")
    duration_s: Duration = Field(0.5, gt=0, alias="duration", description="Timed in each process, at least.")

    def needs(self) -> tuple[Need, ...]:
        """Timings of the model."""
        seconds = self.processes * (START_S + CEILINGS_S + 3 * self.duration_s)
        return (NeedTiming(self.dataset, self.model, self.processes * self.calls, seconds),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: it is compared with another model."""
        if requirement.model is not None:
            return f"{requirement.metric} has no paired comparison with another model; compare it with a number"
        return None
