"""`abstention`: how often a model is too unsure to answer by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.api import Check, CheckResult, DatasetName, Metric, Need, NeedPredictions

if TYPE_CHECKING:
    from evalspec.api import Inputs


class Abstention(Check):
    """How often a model is too unsure to answer by itself.

    ## What it measures
    `abstention_rate`: the share of rows whose highest probability lies below `below`. No labels are needed.

    ## Why it matters
    Rows below the line go to a person. When there are more of them than people can take, the model does not help.

    ## Method
    Clopper-Pearson; with clusters Korn and Graubard.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998.

    ## What it cannot show
    Whether the answers above the line are right: see `quality`. Whether a probability means what it says: see
    `calibration`.

    ## Example
    ```yaml
    - check: abstention
      dataset: test
      below: 0.8
      require: [abstention_rate <= 10 %]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "abstention_rate", "fraction", "lower", "Share of rows whose highest probability is below the line.",
            interval="Clopper-Pearson; Korn and Graubard with clusters",
        ),
    )  # fmt: skip

    check: Literal["abstention"] = "abstention"
    dataset: DatasetName
    below: float = Field(0.8, gt=0, lt=1, description="The line: rows with a highest probability below it.")

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model; no label."""
        return (NeedPredictions(self.dataset, self.model, label=False),)

    def run(self, inputs: Inputs) -> CheckResult:
        """Count the rows below the line."""
        from evalspec.api import proportion

        predictions = inputs.predictions(self.dataset)
        if predictions.probabilities is None:
            return CheckResult(estimates={}, missing={"abstention_rate": "the model gives no probabilities"})
        unsure = predictions.probabilities.max(axis=1) < self.below
        return CheckResult(estimates={"abstention_rate": proportion(unsure, predictions.clusters)})
