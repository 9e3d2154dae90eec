"""`agreement`: whether people who label the same rows say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.evidence.words import plural, verb
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedRows
from evalspec.language.requirement import Requirement
from evalspec.language.units import custom_error

_INTERVAL = (
    "BCa over units if there are at least 50; where few disagree Clopper-Pearson and Hoeffding's bounds, which need "
    "no variance"
)
FEWEST_UNITS = 20
"""Below, neither method has a bound."""

Column = Annotated[str, StringConstraints(min_length=1)]


class Agreement(Check):
    """Agreement of people who label the same rows, beyond what chance would make equal.

    ## What it measures
    Each column in `raters:` holds what one rater said of the rows (an empty cell: nothing).

    - `kappa`: 1 - observed / expected disagreement, over the rows that all raters judged. Two raters: Cohen's, which
      expects each rater's own shares of categories. More: Fleiss', which expects the shares of all together.
      `weights: linear` or `quadratic` counts a disagreement by how far apart the two categories stand.
    - `alpha`: Krippendorff's, over all rows that two raters judged, gaps or not. `level:` says which differences count
      for how much: `nominal` (equal or not), `ordinal` (ranks), `interval` (squared differences), `ratio` (squared
      relative differences).

    1 is full agreement, 0 what chance gives, less than 0 is worse than chance.

    ## Why it matters
    Labels are what a model is trained and judged on. Where two experts disagree on one row in five, no accuracy above
    80 % means anything, and the guideline for labels, not the model, is what must become better.

    ## Method
    Values are matched by what they say (3, 3.0 and "3" are one). Categories are in the order of their numbers; texts
    need `order:` where the order counts. Bounds resample units (BCa), whole clusters where the dataset has a
    `cluster:` with at least 50 units. Where few units disagree a bootstrap says too little: then the disagreement
    inside units is bounded by Clopper-Pearson (Hoeffding, where it is not a plain share) and that between units by
    Hoeffding's inequality, at half the level each. These hold for every n, are wide, and are there with at least 20
    units for
    `kappa` and for nominal `alpha` with as many ratings in each unit. Where fewer than ten units agree on another
    category than the most frequent one, the upper bound is made so too, or is not there: resamples can't agree more
    than the sample.
    Landis and Koch's words for sizes are shown as a guide and decide nothing.

    References: Cohen 1960 and 1968. Fleiss 1971. Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011.
    Hayes and Krippendorff 2007. Efron, JASA 1987 (BCa). Hoeffding, JASA 1963. Landis and Koch, Biometrics 1977.

    ## What it cannot show
    That raters who agree are right: for that see `labels`. Raters who talked to each other agree too well. Where nearly
    all rows are of one category both figures are small although most rows agree; the table shows the plain share.

    ## Example
    ```yaml
    - check: agreement
      dataset: test
      raters: [anna, ben, chidi]
      level: nominal
      require:
        - alpha >= 0.8
        - kappa >= 0.75
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "kappa", "score", "higher", "Cohen's kappa of two raters, Fleiss' of more.", interval=_INTERVAL,
            least=-1.0, most=1.0, label="agreement of raters (kappa)",
        ),
        Metric(
            "alpha", "score", "higher", "Krippendorff's alpha; ratings may be missing.", interval=_INTERVAL,
            least=-1.0, most=1.0, label="agreement of raters (alpha)",
        ),
    )  # fmt: skip

    check: Literal["agreement"] = "agreement"
    dataset: DatasetName
    raters: tuple[Column, ...] = Field(min_length=2, max_length=50, description="Columns, one for each rater.")
    weights: Literal["none", "linear", "quadratic"] = Field(
        "none", description="How much a disagreement counts for `kappa`, by how far apart the categories stand."
    )
    level: Literal["nominal", "ordinal", "interval", "ratio"] = Field(
        "nominal", description="Which differences count for `alpha`, and for how much."
    )
    order: tuple[str | bool | int | float, ...] = Field(
        (), description="Categories from first to last, where they are texts."
    )
    show_examples: Annotated[bool, Effort()] = Field(True, description="Show rows on which raters disagree most.")

    @model_validator(mode="after")
    def _sensible(self) -> Self:
        problem = self._twice() or self._order_unused()
        if problem is not None:
            raise custom_error(problem)
        return self

    def _twice(self) -> Problem | None:
        rater = next((name for name in self.raters if self.raters.count(name) > 1), None)
        if rater is not None:
            return Problem(f"rater {rater!r} is listed twice, and would agree with itself", remedy="leave one out")
        category = next((name for name in self.order if self.order.count(name) > 1), None)
        return None if category is None else Problem(f"{category!r} is listed twice in `order`", remedy="leave one out")

    def _order_unused(self) -> Problem | None:
        if not self.order:
            return None
        if self.level in ("interval", "ratio"):
            return Problem(
                f"`level: {self.level}` takes numbers as they are, so `order:` says nothing", remedy="remove it"
            )
        if self.level == "nominal" and self.weights == "none":
            return Problem(
                "`order:` says nothing where categories are only equal or not",
                remedy="add `level: ordinal` or `weights: linear`, or remove it",
            )
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: it names a model, asks for more than there is, or there are too few rows for a bound."""
        if requirement.model is not None:
            return f"{requirement.metric} is about people, not about a model; write a number"
        there = rows.get(self.dataset)
        if there is not None and there < FEWEST_UNITS:
            few = f"{plural(there, 'row')} {verb(there, 'is', 'are')} too few"
            return f"{few} for a bound of {requirement.metric}: {FEWEST_UNITS} are needed"
        return None

    def needs(self) -> tuple[Need, ...]:
        """Rows with the raters' columns."""
        return (NeedRows(self.dataset, self.raters),)
