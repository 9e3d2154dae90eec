"""`saturation`: whether a test set can still tell a better model from a worse one, and how old it is."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import ClassOfModel
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedPredictions,
    NeedRows,
    SpecNames,
)
from evalspec.language.units import Share, custom_error
from evalspec.scoring.catalogue.metrics import SLICED, SliceMetric

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

OF_SCORES = ("headroom", "interval_width")
OF_AGE = "data_age"
AFTER = "after_cutoff"
COLLECTED = "collected"


class Saturation(Check):
    """Saturation of a test set: its power to tell a better model from a worse one, and its age.

    ## What it measures
    - `headroom`: what is left between the score of a model (`predictions:`, `metric:`) and the best that it could be
      (`ceiling:`, 100 % by default, or what people reach), in points.
    - `interval_width`: from the lower to the upper bound of that score, in points. A gain smaller than this is not seen
      on this test set.
    - `data_age`: days from the day on which the data were collected (`origin: {collected: 2026-05-01}` of the dataset)
      to the day of the run.
    - `after_cutoff`: share of rows that are of a later day than the last of which the model (`predictions:`) learned
      (`trained_until: 2026-01-31` of the model). The day of a row is in the column `day:`; without it all rows are
      of the day of collection.

    ## Why it matters
    On a test set that good models solve to 99.8 % the next model can only win by noise, and by errors in the labels. A
    gain is not progress where the interval around the score is wider than the gain. And a test set of years ago says
    how the model does on the data of years ago. What was published before a language model learned may be in what it
    learned, whatever nobody can search; what came later can't.

    ## Method
    Score and bounds are those of `quality` on the same rows, clusters included; the headroom is the ceiling minus the
    score, with its bounds turned around. The ceiling is a known number, and one other than 100 % says where it comes
    from. Set `headroom` against the smallest difference that matters, and `interval_width` against the gain that is
    claimed: `interval_width <= 1 pp` where the new model is said to be a point better. The width is at the policy's
    confidence on either side, and a fact of this run: it is about this test set and not about others.

    A row without a day counts as one of before. The age is counted from the spec's own statement to the day on which
    the run began (UTC); `verify` counts to the same day. There is no age without a statement.

    References: Clopper and Pearson, Biometrika 1934. Ott et al., Mapping global dynamics of benchmark creation and
    saturation, Nature Communications 2022.

    ## What it cannot show
    Whether `trained_until:` is true, or a row's text is older than its day. Whether what is left are hard rows or wrong
    labels (see `labels`). Whether a difference between two models is real: compare them row by row, `accuracy >=
    baseline + 1 pp`, which is finer than two intervals. Whether the day in `origin:` is true, and whether the world
    has changed since (see `shift`).

    ## Example
    ```yaml
    data:
      - check: saturation
        dataset: test
        predictions: candidate
        metric: accuracy
        ceiling: 97 %
        ceiling_source: two radiologists, study of 2025
        require:
          - headroom >= 2 pp
          - interval_width <= 1 pp
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    dated: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "headroom", "pp", "higher", "What is left between the score and the ceiling.",
            interval="that of the score, as `quality` makes it", label="room below the ceiling",
        ),
        Metric(
            "interval_width", "pp", "lower", "From the lower to the upper bound of the score.", exact=True,
            label="width of the interval",
        ),
        Metric(
            "data_age", "days", "lower", "From the day of collection to the day of the run.", exact=True,
            label="age of the data",
        ),
        Metric(
            "after_cutoff", "%", "higher", "Share of rows of later days than the model learned from.", exact=True,
            label="rows later than the cutoff",
        ),
    )  # fmt: skip

    check: Literal["saturation"] = "saturation"
    dataset: DatasetName
    predictions: ModelName | None = Field(None, description="The model whose score is checked.")
    day: str | None = Field(
        None, min_length=1, description="Column with the day of each row, for after_cutoff; default: the origin's."
    )
    metric_: SliceMetric = Field("accuracy", alias="metric", description="Which score: a metric of `quality`.")
    positive: Annotated[str | None, ClassOfModel()] = Field(
        None, description="Class that precision, recall, f1 and roc_auc are about; default: the second of two."
    )
    ceiling: Share = Field(1.0, gt=0, le=1, description="The best that the score could be, such as what people reach.")
    ceiling_source: str | None = Field(None, min_length=1, description="Where a ceiling other than 100 % comes from.")

    @model_validator(mode="after")
    def _sourced(self) -> Self:
        if self.ceiling < 1.0 and self.ceiling_source is None:
            raise custom_error(
                Problem(f"a ceiling of {100 * self.ceiling:g} % needs its source", remedy="say it in `ceiling_source:`")
            )
        unit, better = next((metric.unit, metric.better) for metric in SLICED if metric.name == self.metric_)
        if unit != "fraction" or better != "higher":
            raise custom_error(
                Problem(
                    f"{self.metric_} is not a share that is better where it is higher, so it has no ceiling",
                    remedy="take one such as accuracy",
                )
            )
        return self

    @property
    def scored(self) -> str | None:
        """The model whose score is looked at; None: nothing is asked about scores."""
        days_alone = self.requirements and all(one.metric in (AFTER, OF_AGE) for one in self.requirements)
        return None if days_alone else self.predictions

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of a dataset without a day of collection, where its age is asked for."""
        asked = {requirement.metric for requirement in self.requirements}
        if OF_AGE not in asked and (AFTER not in asked or self.day is not None):
            return None
        found = collected(names.origins.get(self.dataset, {}), self.dataset)
        return found if isinstance(found, str) else None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: there is no model, or more is asked for than the ceiling leaves."""
        if requirement.model is not None:
            return f"{requirement.metric} is about data and is not compared between models"
        if requirement.metric == AFTER and self.predictions is None:
            return f"{AFTER} needs `predictions:`, the model whose last day of learning counts"
        if requirement.metric in OF_SCORES and self.predictions is None:
            return f"{requirement.metric} needs `predictions:`, the model whose score is checked"
        if requirement.metric == "headroom" and requirement.threshold >= 100.0 * self.ceiling:
            return f"a score of 0 would leave {100.0 * self.ceiling:g} pp and no more"
        return None

    def needs(self) -> tuple[Need, ...]:
        """Rows with their truth, and what the model says of them."""
        columns = () if self.day is None else (self.day,)
        if self.scored is None:
            return (NeedRows(self.dataset, columns),)
        return NeedPredictions(self.dataset, self.scored), NeedRows(self.dataset, columns, label=True)


def collected(origin: Mapping[str, str], dataset: str) -> datetime.date | str:
    """The day on which a dataset was collected; or why it is not known.

    Args:
        origin: The dataset's ``origin:``.
        dataset: Its name.
    """
    text = origin.get(COLLECTED)
    if text is None:
        return f"{dataset} does not say when it was collected; add `origin: {{{COLLECTED}: 2026-05-01}}` to it"
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return f"`{COLLECTED}: {text}` in the origin of {dataset} is not a day; write such as 2026-05-01"
