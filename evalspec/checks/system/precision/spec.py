"""`precision`: what a model really computes in, and where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, DatasetName, ModelName, Need, NeedPredictions, NeedTiming
from evalspec.language.parts import SpecNames as Names
from evalspec.timing.budget import START_S

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

AGAINST_REFERENCE = ("output_difference", "relative_difference", "argmax_disagreement")


class Precision(Check):
    """Precision in which a model really computes and device on which it runs, beside what the spec says of it.

    ## What it measures
    `operator_coverage` [%]: share of the operators that ran on the device asked for (`device:`).
    `precision_coverage` [%]: share of the operations that were computed in the precision asked for (`precision:`).
    With `reference:`, the model's answers beside that model's on the same rows: `output_difference` (largest absolute
    difference of a probability or value), `relative_difference` (the same by the larger of the two, where either is
    over 0.001) and `argmax_disagreement` [%] (rows whose predicted class differs).

    ## Why it matters
    A file called int8 may compute in fp32, a session that got a GPU may hand single operators back to the CPU, a flag
    may put TF32 under fp32: speed, accuracy and energy are then those of another model. One operator that falls back
    can cost more than all others together, for the copies around it.

    ## Method
    One fresh process runs one batch and looks at every operator: onnxruntime's profile of the optimized graph as it
    is served (provider and tensor types of each node), or torch's dispatcher (device and types of each call, TF32 and
    autocast as they stand). All operators are counted, so coverage is an exact fact of this artifact and this
    software. Operations are counted as `roofline` counts them; an operator computes in the type of its kernel (int8
    for QLinear and integer products), and `int4` means int4 weights. Answers for the difference are those that
    quality is computed on; the largest differences are facts of these rows; disagreement has a Clopper-Pearson
    interval.

    ## What it cannot show
    Types inside a kernel: sums of int8 products are kept in int32, those of fp16 products often in fp32. What a
    compiler makes of a torch module (`compile: true`): it is seen before. Models behind a server. Whether the
    difference matters: that is for quality, slices and calibration.

    ## Example
    ```yaml
    - check: precision
      dataset: test
      reference: baseline
      require:
        - operator_coverage == 100 %
        - precision_coverage >= 95 %
        - argmax_disagreement <= 1 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    detects_mismatch: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "operator_coverage", "%", "higher", "Operators that ran on the device asked for.",
            exact=True, shows=("covered operators",), label="operators on the device asked for",
        ),
        Metric(
            "precision_coverage", "%", "higher", "Operations computed in the precision asked for.", exact=True,
            label="operations in the precision asked for",
        ),
        Metric("output_difference", "score", "lower", "Largest absolute difference from the reference.", exact=True),
        Metric(
            "relative_difference", "%", "lower", "Largest relative difference from the reference.", exact=True,
            most=float("inf"),
        ),
        Metric(
            "argmax_disagreement", "%", "lower", "Rows whose predicted class is not the reference's.",
            interval="Clopper-Pearson", label="rows that get another class than the reference's",
        ),
    )  # fmt: skip

    check: Literal["precision"] = "precision"
    dataset: DatasetName
    batch_size: int = Field(1, ge=1, le=65_536, description="Items in the inspected batch.")
    reference: ModelName | None = Field(None, description="A model whose answers this one's are set beside.")

    def needs(self) -> tuple[Need, ...]:
        """One process of the model, and answers of both where there is a reference."""
        needs: list[Need] = [NeedTiming(self.dataset, self.model, 1, START_S)]
        if self.reference is not None:
            needs += [NeedPredictions(self.dataset, one, label=False) for one in (self.model, self.reference)]
        return tuple(needs)

    def check_names(self, names: Names) -> str | None:
        """Fault of a model that is set beside itself."""
        if self.reference is not None and self.reference == self.model:
            return f"{self.model} is its own reference; name another model"
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: no reference, or another model on the right."""
        if requirement.model is not None:
            return f"{requirement.metric} has no comparison with another model; name it as `reference:`"
        if requirement.metric in AGAINST_REFERENCE and self.reference is None:
            return f"{requirement.metric} needs `reference:`, the model that answers are set beside"
        return None
