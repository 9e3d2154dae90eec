"""`shift`: how far the rows of today are from the rows a model was judged on."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.evidence.units import from_unit
from evalspec.language.parts import Check, CheckResult, DatasetName, Need, NeedRows, SpecNames

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement

SMALLEST_N = 50


class Shift(Check):
    """How far the rows of one dataset are from those of another, column by column and all together.

    ## What it measures
    `shift(column)`: the distance between the two populations in one column. Numbers: Kolmogorov-Smirnov (0..1), or
    Wasserstein in standard deviations of the reference with `distance: wasserstein`. Categories: total variation
    (0..1). Lists and arrays (`pixels`) are judged by the mean and standard deviation of each row, as `pixels:mean` and
    `pixels:sd`; texts by their length, as `note:length`.
    `drifted_columns`: the share of columns whose distance is over `tolerance:`.
    `missingness_shift(column)`: how much the share of missing cells differs.
    `c2st_auc`: how well a classifier tells the rows of the two datasets apart; 0.5 is not at all, 1 is always.

    ## Why it matters
    A score holds for rows like those it was computed on. Where today's rows are darker, longer or come from another
    site, the accuracy that was measured says little about today.

    ## Method
    Shift is an effect size with bounds against a tolerance, not a p-value: with a million rows a p-value finds a
    difference that nobody would notice.
    Upper bounds use the point where the populations differ most: D + z/2 sqrt(1/n + 1/m) for Kolmogorov-Smirnov and
    total variation, W + z sqrt(s_x^2/n + s_y^2/m) for Wasserstein. Lower bounds: D - sqrt(-ln(a/2)/2) sqrt(1/n + 1/m)
    (1.358 at 5 %), the others minus the permutation quantile at the level. No bound below 50 rows a side.
    `drifted_columns <= 10 %` of K columns says that all but floor(0.1 K) hold: partial conjunction of their p-values.
    By 10,000 permutations no Wasserstein distance is surer than 1 in 10,000, so more than about 25 columns of numbers
    under `distance: wasserstein` come to *looks violated* at most; the other distances have no such limit.
    Missing cells: MOVER over Clopper-Pearson; they are left out of the distances.
    `c2st_auc`: gradient boosting with fixed settings and a seed, trained on one half of the rows of each side, judged
    on the other half by DeLong. PASS also needs that a planted shift of the tolerance's size (rows drawn again, so
    that one column ranks higher) is found by the same classifier on as many rows; else it stays undecided.
    With clusters, variances grow by the design effect.

    References: Massart, Annals of Probability 1990 (the constant). Lopez-Paz and Oquab, ICLR 2017 (C2ST). Benjamini
    and Heller, Biometrics 2008 (partial conjunction). DeLong, DeLong and Clarke-Pearson, Biometrics 1988.

    ## What it cannot show
    Whether a shift does harm: look at `slices` on the shifted rows. Shifts in what was not recorded. Shifts of meaning
    at equal inputs (the label of the same row changes). Inside arrays and texts only their summaries are compared.

    ## Example
    ```yaml
    - check: shift
      reference: test
      current: traffic
      tolerance: 0.1
      require: [drifted_columns <= 10 %]
      warn: [c2st_auc <= 0.60]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "drifted_columns", "%", "lower", "Share of columns that moved further than `tolerance:`.",
            interval="partial conjunction of the columns' p-values",
        ),
        Metric(
            "shift", "score", "lower", "Distance between the two populations in a column.", parts="column",
            interval="point of largest difference (PASS), Kolmogorov's limit or permutations (FAIL)",
        ),
        Metric(
            "missingness_shift", "pp", "lower", "Difference in the share of missing cells of a column.",
            parts="column", interval="MOVER over Clopper-Pearson",
        ),
        Metric(
            "c2st_auc", "fraction", "lower", "Area under the ROC curve of a classifier that tells the two apart.",
            interval="DeLong on the logit, on held-out rows",
        ),
    )  # fmt: skip

    check: Literal["shift"] = "shift"
    reference: DatasetName
    current: DatasetName
    columns: tuple[str, ...] = Field(
        (), description="Columns to compare; default: those that the candidate reads, or all but label, key, cluster."
    )
    tolerance: float = Field(0.1, gt=0, description="Distance beyond which a column counts as drifted.")
    distance: Literal["ks", "wasserstein"] = Field(
        "ks", description="Distance of numbers: Kolmogorov-Smirnov, or Wasserstein in reference standard deviations."
    )

    def check_names(self, names: SpecNames) -> str | None:
        """The two datasets are not the same."""
        if self.reference == self.current:
            return f"reference and current are both {self.current}; name two datasets"
        return None

    def needs(self) -> tuple[Need, ...]:
        """Rows of both datasets."""
        return NeedRows(self.reference, self.columns), NeedRows(self.current, self.columns)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: a tolerance that two equal samples of this size don't show."""
        if requirement.metric == "c2st_auc" and from_unit(requirement.threshold, requirement.unit) <= 0.5:
            return (
                "no classifier is shown to be at chance: its bound stays above 0.5; require a little more, such as 0.6"
            )
        if requirement.metric not in ("drifted_columns", "shift"):
            return None
        tolerance = self.tolerance if requirement.metric == "drifted_columns" else requirement.threshold
        n, m = rows.get(self.reference), rows.get(self.current)
        if n is None or m is None or self.distance != "ks":
            return None
        return too_few(n, m, tolerance, confidence, requirement.sentence)

    def run(self, inputs: Inputs) -> CheckResult:
        """Compare the rows."""
        from evalspec.checks.data._shift import measure

        return measure(self, inputs)


def too_few(n: int, m: int, tolerance: float, confidence: float, sentence: str) -> str | None:
    """Why two samples of these sizes can't show a distance below the tolerance, were they equal; None: they can.

    Args:
        n: Rows of the reference.
        m: Rows of the current data.
        tolerance: What the distance is held against.
        confidence: Of the policy.
        sentence: The requirement.
    """
    from statistics import NormalDist

    if tolerance <= 0:
        return f"no sample shows {sentence}: the bound of a distance stays above 0; allow a little"
    reach = NormalDist().inv_cdf(confidence) / (2.0 * tolerance)
    needed = max(SMALLEST_N, ceil(2.0 * reach**2))
    if min(n, m) >= SMALLEST_N and (n * m) / (n + m) >= reach**2:
        return None
    return (
        f"{n} and {m} rows can't show a distance of {tolerance:g} or less, were they drawn from the same population: "
        f"{needed} rows on each side are needed at least"
    )
