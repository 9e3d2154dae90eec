"""`referral`: how many rows a model leaves to people, at a line of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.api import Check, CheckResult, DatasetName, Effort, Metric, Need, NeedPredictions, Rows, Table

if TYPE_CHECKING:
    from evalspec.api import Inputs


class Referral(Check):
    """How many rows a model leaves to people.

    ## What it measures
    `referral_rate`: the share of rows whose highest probability lies below `search`. No labels are needed.

    ## Why it matters
    Somebody has to look at these rows.

    ## Method
    Clopper-Pearson; with clusters Korn and Graubard.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998.

    ## What it cannot show
    Whether the answers above the line are right: see `quality`.

    ## Example
    ```yaml
    - check: referral
      holdout: test
      search: 0.8
      require: [referral_rate <= 10 %]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "referral_rate", "fraction", "lower", "Share of rows whose highest probability is below the line.",
            interval="Clopper-Pearson; Korn and Graubard with clusters",
        ),
    )  # fmt: skip

    check: Literal["referral"] = "referral"
    holdout: Annotated[DatasetName, Rows("judged")]
    search: float = Field(0.8, gt=0, lt=1, description="Probability below which people search for the answer.")
    report: Annotated[bool, Effort()] = Field(False, description="Show how many rows of each class are left to people.")

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model; no label."""
        return (NeedPredictions(self.holdout, self.model, label=False),)

    def run(self, inputs: Inputs) -> CheckResult:
        """Count the rows below the line."""
        from evalspec.api import Column, proportion

        predictions = inputs.predictions(self.holdout)
        if predictions.probabilities is None:
            return CheckResult(estimates={}, missing={"referral_rate": "the model gives no probabilities"})
        left = predictions.probabilities.max(axis=1) < self.search
        rows = ((str(number), int(left[predictions.probabilities.argmax(axis=1) == number].sum())) for number in (0, 1))
        table = Table(title="Left to people", columns=(Column(name="class"), Column(name="rows")), rows=tuple(rows))
        return CheckResult(
            estimates={"referral_rate": proportion(left, predictions.clusters)}, blocks=(table,) if self.report else ()
        )
