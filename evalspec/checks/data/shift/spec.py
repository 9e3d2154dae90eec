"""`shift`: how far the rows of today are from the rows a model was judged on."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric, Shows
from evalspec.evidence.units import from_unit
from evalspec.language.declarations import Effort, Listing, Rows
from evalspec.language.header import Matched
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedPredictions,
    NeedRows,
    SpecNames,
)
from evalspec.language.reach import never_fails
from evalspec.scoring.catalogue.metrics import SliceMetric

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement
    from evalspec.language.scans import Scan

SMALLEST_N = 50
LARGEST_N = 10**12
"""Rows that anybody could have."""
MODEL_OF = {
    "prediction_shift": "predictions", "reweighted_score_change": "predictions", "embedding_shift": "embedding",
}  # fmt: skip
"""Metric: field that names the model it is of."""


class Shift(Check):
    """How far the rows of one dataset are from those of another, column by column and all together.

    ## What it measures
    `shift(column)`: the distance between the two populations in one column. Numbers: Kolmogorov-Smirnov (0..1), or
    Wasserstein in standard deviations of the reference rows with `distance: wasserstein`. Categories: total variation
    (0..1). Lists and arrays (`pixels`) are judged by the mean and standard deviation of each row, as `pixels:mean` and
    `pixels:sd`, and by their `size`; pictures by `photo:brightness`, `:contrast`, `:sharpness`, `:size`; texts by
    `note:length`, `note:characters` and `note:words`; dates of two weeks and more also by `day:weekday`.
    `drifted_columns`: the share of columns whose distance is over `tolerance:`. Alone it lets one column be anything:
    `shift <= 0.1` without a column is about the worst of all.
    `missingness_shift(column)`: how much the share of missing cells differs.
    `unseen_categories(column)`: the share of current rows whose category the reference does not have.
    `c2st_auc`: how well a classifier tells the rows of the two datasets apart; 0.5 is not at all, 1 is always.
    With `predictions: MODEL`, `prediction_shift(output)`: how far its answers moved: `predicted` (total variation of
    the predicted classes), `confidence` and `probability:CLASS` (Kolmogorov-Smirnov); `value` of a model with values.
    `reweighted_score_change`: how many points worse `metric:` gets when the labelled reference is reweighted to the
    current rows.
    With `embedding: MODEL`, `embedding_shift`: as `c2st_auc`, from its embeddings.

    ## Why it matters
    A score holds for rows like those it was computed on. Where today's rows are darker, longer or come from another
    site, the accuracy that was measured says little about today.

    ## Method
    Shift is an effect size with bounds against a tolerance, not a p-value: with a million rows a p-value finds a
    difference that nobody would notice.
    Upper bounds use the point where the populations differ most: D + z/2 sqrt(1/n + 1/m) for Kolmogorov-Smirnov and
    total variation, W + z sqrt(s_x^2/n + s_y^2/m) for Wasserstein. Lower bounds: D - sqrt(-ln(a/2)/2) sqrt(1/n + 1/m)
    (1.358 at 5 %), the others minus the permutation quantile at the level. No bound below 50 rows a side.
    `drifted_columns <= 10 %` of K columns says that all but floor(0.1 K) hold, `<= 0 %` that all do: partial
    conjunction of their p-values.
    The unit of a Wasserstein distance is the standard deviation of the reference rows themselves, a fact of these rows:
    other reference rows are another unit, and with far outliers a very different one.
    By 10,000 permutations no Wasserstein distance is surer than 1 in 10,000, so more than about 25 columns of numbers
    under `distance: wasserstein` come to *looks violated* at most; the other distances have no such limit.
    Missing cells: MOVER over Clopper-Pearson; they are left out of the distances.
    A column of a counter's whole numbers (within twice as many as there are rows) or of short strings without white
    space that has another value in each row of both (50 and more; of large data in the 20,000 drawn) is taken for a
    name of the row and left out with a note, unless the candidate is said to read it or `columns:` names it.
    Columns are those of the reference. One that the current data lacks, or holds values of another kind in (text for
    numbers), is an error of `validate`; a label may be missing there, and columns of the current data alone are not
    part of the question.
    Strings are categories or texts as they are in the reference. A column that can't be compared (bytes, records) is an
    error where `columns:` names it; else it counts in K as one not shown to be alike, and no sentence over all columns
    passes. So does one that is constant in the reference and not in the current data, by Wasserstein.
    Categories never seen: Clopper-Pearson of the current rows, for the reference's categories as they are.
    `c2st_auc`: gradient boosting with fixed settings and a seed, trained on one half of at most 5,000 rows of each
    side, judged on the other half by DeLong. PASS also needs that a planted shift of the tolerance's size (rows drawn
    again, so that one column ranks higher) is found by the same classifier on as many rows, and separated better than
    the rows themselves are: few rows teach a classifier a part of what there is, of both alike. Else it stays
    undecided.
    With clusters, variances grow by the design effect.
    Tables of any size: one pass over each dataset, shared with other checks of the spec that look at it, keeps, of each
    column, counts of categories (up to 10,000 different
    ones) and the ranks of up to 16,384 of its numbers; with as many different ones or fewer all is exact. Else the
    distance is known to about 1 in 10,000, and what is open is added to the bounds. The classifier has 20,000 rows
    drawn evenly. Only clusters need all rows in memory.
    Texts: the most frequent words and characters as shares of each text, averaged over texts (at most 20,000 a side);
    their total variation has the bounds of a total variation of as many rows.
    `embedding_shift`: the same classifier and rule on at most 64 principal components of both sides together.
    `reweighted_score_change`: the classifier, fitted in five folds, says of each held-out row how much more frequent
    it is in the current data; weights are cut off at 20, then moved by as little as gives the means, spreads and shares
    that moved most their current values. What a second model expects of the current rows' scores, corrected by the
    weighted errors of that model on the reference: right where either the weights or the expectations are. Both parts
    are means of separate rows (BCa), joined by MOVER. Current rows that the reference has next to nothing like (a new
    category, odds of 20) may score anything: to each bound the upper bound of their share times the worst that they may
    add is added. No bound where they are over 5 %, or the reference is worth fewer than 200 rows of the current kind.
    Shown on demand, deciding nothing: `report: [psi]`, the population stability index over reference deciles less what
    chance adds, (B - 1)(1/n + 1/m), a convention without an error rate; `report: [mmd]`, a permutation test by
    maximum mean discrepancy (2,000 rows a side at most, 999 permutations), whose p-value falls with n and whose size
    hangs on the kernel's width, so that no tolerance could be stated.

    References: Massart, Annals of Probability 1990 (the constant). Lopez-Paz and Oquab, ICLR 2017 (C2ST). Benjamini
    and Heller, Biometrics 2008 (partial conjunction). DeLong, DeLong and Clarke-Pearson, Biometrics 1988. Rabanser,
    Guennemann and Lipton, Failing Loudly, NeurIPS 2019 (answers of a model). Shimodaira, JSPI 2000; Chernozhukov et
    al., Econometrics Journal 2018 (reweighting). Gretton et al., JMLR 2012 (MMD). Bergsma, J. Korean Stat. Soc. 2013
    (Cramer's V). Yurdakul and Naranjo, Journal of Risk Model Validation 2020 (PSI by chance).

    ## What it cannot show
    Shifts in what was not recorded. Shifts of meaning at equal inputs (the label of the same row changes): the score is
    reweighted as if there were none, by the columns that are there, so `slices` and labelled current rows say more.
    Inside arrays, pictures and texts only their summaries are compared. Whether an embedding keeps what matters.

    ## Example
    ```yaml
    - check: shift
      reference: test
      current: traffic
      require: [shift <= 0.1, missingness_shift <= 2 pp, unseen_categories <= 1 %]
      warn: [c2st_auc <= 0.60]
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    shows: ClassVar[tuple[Shows, ...]] = ("population shift",)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "drifted_columns", "%", "lower", "Share of columns that moved further than `tolerance:`.",
            interval="partial conjunction of the columns' p-values", edge_shown=True,
            shows=("share of moved columns",), label="columns that drifted",
        ),
        Metric(
            "shift", "score", "lower", "Distance between the two populations in a column.", parts="column",
            interval="point of largest difference (PASS), Kolmogorov's limit or permutations (FAIL)",
            shows=("moved column",), label="drift of a column",
        ),
        Metric(
            "missingness_shift", "pp", "lower", "Difference in the share of missing cells of a column.",
            parts="column", interval="MOVER over Clopper-Pearson",
            shows=("moved column",), label="change in missing cells",
        ),
        Metric(
            "c2st_auc", "fraction", "lower", "Area under the ROC curve of a classifier that tells the two apart.",
            interval="DeLong on the logit, on held-out rows",
            scales="area", label="difference between the datasets (classifier AUC)",
        ),
        Metric(
            "unseen_categories", "%", "lower", "Share of current rows whose category the reference does not have.",
            parts="column", interval="Clopper-Pearson of the current rows, the reference as it is",
            label="categories that the reference lacks",
        ),
        Metric(
            "prediction_shift", "score", "lower", "Distance between a model's answers on the two datasets.",
            parts="output", interval="as of `shift`", most=1.0, label="drift of the answers",
        ),
        Metric(
            "embedding_shift", "fraction", "lower",
            "Area under the ROC curve of a classifier that tells the two apart by a model's embeddings.",
            interval="DeLong on the logit, on held-out rows", label="drift of the embeddings",
        ),
        Metric(
            "reweighted_score_change", "pp", "lower",
            "How much worse `metric:` gets on the reference when it is reweighted to the current rows.",
            interval="MOVER over BCa of two means, cross-fitted; rows unlike the reference's at their worst",
            label="loss of score on the current mix of rows",
        ),
    )  # fmt: skip

    check: Literal["shift"] = "shift"
    reference: Annotated[DatasetName, Rows("beside")]
    current: Annotated[DatasetName, Rows("beside")]
    columns: Annotated[tuple[str, ...], Listing()] = Field(
        (), description="Columns to compare; default: those that the candidate reads, or all but label, key, cluster."
    )
    tolerance: float = Field(0.1, gt=0, description="Distance beyond which a column counts as drifted.")
    distance: Literal["ks", "wasserstein"] = Field(
        "ks", description="Distance of numbers: Kolmogorov-Smirnov, or Wasserstein in reference standard deviations."
    )

    predictions: ModelName | None = Field(
        None, description="Model whose answers on both datasets are compared, and whose score is reweighted."
    )
    metric_: SliceMetric = Field(
        "accuracy", alias="metric", description="Score that is reweighted: a fraction that is a mean over rows."
    )
    embedding: ModelName | None = Field(None, description="Model whose embeddings are compared.")
    report: Annotated[tuple[Literal["psi", "mmd"], ...], Effort()] = Field(
        (), description="Shown as well, deciding nothing: population stability index, maximum mean discrepancy."
    )

    def check_names(self, names: SpecNames) -> str | None:
        """The two datasets are not the same."""
        if self.reference == self.current:
            return f"reference and current are both {self.current}; name two datasets"
        if self.distance == "ks" and self.tolerance >= 1.0:
            return (
                f"tolerance: {self.tolerance:g} holds whatever the rows are, for a distance is within 0..1; "
                f"write {min(self.tolerance / 100.0, 0.99):g} for {self.tolerance:g} %"
            )
        return None

    def sides(self) -> tuple[tuple[str, str], ...]:
        """The two datasets."""
        return ((self.reference, self.current),)

    def matched(self, labels: Mapping[str, str]) -> tuple[Matched, ...]:
        """Every column that is compared must be in both; truth values and text are both categories."""
        alike = frozenset({"text", "truth value"})
        return (Matched(self.reference, (self.current,), self.columns, every=True, alike=alike),)

    def needs(self) -> tuple[Need, ...]:
        """Rows of both datasets, and answers where a model is named."""
        both = (self.reference, self.current)
        rows = tuple(NeedRows(name, self.columns) for name in both)
        models = dict.fromkeys(model for model in (self.predictions, self.embedding) if model is not None)
        reweighted = any(requirement.metric == "reweighted_score_change" for requirement in self.requirements)
        answers = tuple(
            NeedPredictions(name, model, label=reweighted and model == self.predictions and name == self.reference)
            for model in models
            for name in both
        )
        return (*rows, *answers)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: a tolerance that two equal samples of this size don't show, or no model is named."""
        field = MODEL_OF.get(requirement.metric)
        if field is not None and getattr(self, field) is None:
            return f"{requirement.metric} needs a model; name one: `{field}: candidate`"
        threshold = from_unit(requirement.threshold, requirement.unit)
        column, metric = (requirement.part or "").partition(":")[0], self.metric(requirement.metric)
        if column and self.columns and metric is not None and metric.parts == "column" and column not in self.columns:
            return f"{column!r} is not among the columns that are compared; add it to `columns:`"
        if requirement.metric == "shift" and self.distance == "ks" and threshold >= 1.0:
            raise never_fails(requirement.sentence, "a distance is never above 1", "less")
        if requirement.metric in ("c2st_auc", "embedding_shift") and threshold <= 0.5:
            return (
                "no classifier is shown to be at chance: its bound stays above 0.5; require a little more, such as 0.6"
            )
        if requirement.metric not in ("drifted_columns", "shift", "prediction_shift"):
            return None
        tolerance = self.tolerance if requirement.metric == "drifted_columns" else requirement.threshold
        n, m = rows.get(self.reference), rows.get(self.current)
        if n is None or m is None or (self.distance != "ks" and requirement.metric != "prediction_shift"):
            return None
        return too_few(n, m, tolerance, confidence, requirement.sentence)

    def scans(self, inputs: Inputs) -> tuple[Scan, ...]:
        """Columns of both datasets, and a sample of their rows."""
        scans: tuple[Scan, ...] = self.room("measure").scans_of(self, inputs)
        return scans


def too_few(n: int, m: int, tolerance: float, confidence: float, sentence: str) -> str | None:
    """Why two samples of these sizes can't show a distance below the tolerance, were they equal; None: they can.

    Args:
        n: Rows of the reference.
        m: Rows of the current data.
        tolerance: What the distance is compared with.
        confidence: Of the policy.
        sentence: The requirement.
    """
    from statistics import NormalDist

    if tolerance <= 0:
        return f"no sample shows {sentence}: the bound of a distance stays above 0; allow a little"
    reach = NormalDist().inv_cdf(confidence) / (2.0 * tolerance)
    needed = max(SMALLEST_N, ceil(2.0 * reach**2))
    if needed > LARGEST_N:
        return f"no data set has the rows that would show a distance of {tolerance:g} or less; allow more"
    if min(n, m) >= SMALLEST_N and (n * m) / (n + m) >= reach**2:
        return None
    return (
        f"{n} and {m} rows can't show a distance of {tolerance:g} or less, were they drawn from the same population: "
        f"{needed} rows on each side are needed at least"
    )
