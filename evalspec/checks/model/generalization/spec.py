"""`generalization`: does a model hold up away from home: at another site, at another time, on another device?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import ClassOfModel, Listing, Rows
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, NeedRows, SpecNames
from evalspec.language.units import custom_error
from evalspec.scoring.catalogue.metrics import SliceMetric
from evalspec.scoring.sample_size import Sample, kind_of, never_shown

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

_BETWEEN = (
    "Miettinen and Nurminen's score interval of separate rows, corrected for skewness and continuity; MOVER for a "
    "metric that is not a share of independent rows over the two intervals of `quality`"
)
OF_VALUES = {"ood_gap_mae": "mae", "ood_gap_rmse": "rmse"}


class Generalization(Check):
    """Loss of quality on data from elsewhere, against data like those the model was made with.

    ## What it measures
    A metric of `quality` on a dataset from inside (from the same sites, times and devices as the training data) and on
    others from outside. `ood_gap(field)` is how much worse it is on `field`, in points; negative where it is better.
    `metric:` names the metric (default: `accuracy`). For models with values: `ood_gap_mae` and `ood_gap_rmse`, in the
    label's unit. A requirement without a part is about every origin. With `by: site` the origins are the values of that
    column in the outside datasets: `ood_gap(site=north)`.

    ## Why it matters
    A holdout from the same source shows how the model does on more of the same. Published models that score 97 % at
    home and 70 % at the next hospital passed every holdout that they were given.

    ## Method
    On each side the estimate and interval of `quality`, clusters included. The rows of the two sides are separate:
    differences of shares of independent rows are judged by a score test, all others by MOVER. Where and when data were
    collected is stated in the spec under `origin:`; inside and outside must differ in something that both state. Data
    of the same origin show nothing about others, so the spec is then refused. With `by: site` the values of the column
    take the place of the `site` that the outside dataset states: rows with the value that the inside dataset states are
    left out, with a note, and a column with no other value is refused.

    References: Koh et al., WILDS, ICML 2021. Miettinen and Nurminen, Statistics in Medicine 1985. Zou and Donner,
    Statistics in Medicine 2008 (MOVER).

    ## What it cannot show
    Origins that no dataset is from. Why the model is worse there: see `shift` for what differs and `slices` for who is
    hit, and check that labels are given in the same way. Whether `origin:` is true.

    ## Example
    ```yaml
    - check: generalization
      inside: test
      outside: [field]
      require:
        - ood_gap <= 5 pp
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    each_template: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "ood_gap", "pp", "lower", "How much worse `metric:` is outside than inside.", parts="origin",
            interval=_BETWEEN,
            extreme=True, label="loss outside of the training conditions",
        ),
        Metric(
            "ood_gap_mae", "label", "lower", "How much larger the mean absolute error is outside.", parts="origin",
            interval=_BETWEEN,
        ),
        Metric(
            "ood_gap_rmse", "label", "lower", "How much larger the root mean squared error is outside.",
            parts="origin", interval=_BETWEEN,
        ),
    )  # fmt: skip

    check: Literal["generalization"] = "generalization"
    inside: DatasetName
    outside: Annotated[tuple[DatasetName, ...], Rows("judged")] = Field(
        min_length=1, description="Datasets from elsewhere."
    )
    by: Annotated[str | None, Listing()] = Field(
        None, description="Column of the outside datasets whose values are the origins."
    )
    metric_: SliceMetric = Field("accuracy", alias="metric", description="What `ood_gap` is about; a fraction.")
    positive: Annotated[str | None, ClassOfModel()] = Field(
        None, description="Class that precision, recall, f1 and roc_auc are about; default: the second of two."
    )
    decision_threshold: float | None = Field(
        None, gt=0, lt=1, description="Two classes: predict the positive one where its probability is at least this."
    )

    @model_validator(mode="after")
    def _elsewhere(self) -> Self:
        if self.inside in self.outside:
            raise custom_error(Problem(f"{self.inside!r} is both inside and outside", remedy="name another dataset"))
        twice = next((name for name in self.outside if self.outside.count(name) > 1), None)
        if twice is not None:
            raise custom_error(Problem(f"{twice!r} is listed twice in `outside`", remedy="leave one out"))
        return self

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Names of the outside datasets; None where a column's values are the origins."""
        return None if self.by is not None else self.outside

    def sides(self) -> tuple[tuple[str, str], ...]:
        """Pairs of the inside dataset and each of the others."""
        return tuple((self.inside, one) for one in self.outside)

    def check_names(self, names: SpecNames) -> str | None:
        """Reason why inside and outside are not shown to differ in origin, as far as the spec tells; or None."""
        here = names.origins.get(self.inside, {})
        for outside in self.outside:
            there = names.origins.get(outside, {})
            if self.by is None:
                same = alike(self.inside, here, outside, there)
            else:
                same = self._undecided(here, outside, there, self.by)
            if same is not None:
                return same
        return None

    def _undecided(self, here: Mapping[str, str], outside: str, there: Mapping[str, str], by: str) -> str | None:
        """Reason why no value of a column can be told from the origin of the dataset inside; None where one can."""
        if not here:
            return f"the origin of {self.inside} is not given; add `origin: {{{by}: ...}}` to the dataset"
        besides = {key: value for key, value in there.items() if key != by}
        if by in here or alike(self.inside, here, outside, besides) is None:
            return None
        return (
            f"the origin of {self.inside} ({', '.join(here)}) does not say which {by} it is from, so no {by} of "
            f"{outside} is shown to be another; add `{by}:` to its `origin:`"
        )

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: it compares models, `ood_gap` needs a fraction, or there are too few rows."""
        from evalspec.scoring.catalogue.metrics import SLICED

        if requirement.model is not None:
            return f"{requirement.metric} is not compared between models; require it of each"
        unit = next(metric.unit for metric in SLICED if metric.name == self.metric_)
        if requirement.metric == "ood_gap" and unit != "fraction":
            instead = next((name for name, metric in OF_VALUES.items() if metric == self.metric_), None)
            remedy = f"write {instead}" if instead else "take a metric that is a fraction, such as accuracy"
            return f"ood_gap is in points and {self.metric_} is not a fraction; {remedy}"
        kind = kind_of(OF_VALUES.get(requirement.metric, self.metric_))
        if kind in ("share", "f1"):
            return None
        samples = (Sample(dataset, rows.get(dataset), confidence) for dataset in (self.inside, *self.outside))
        reasons = (never_shown(requirement, kind, sample) for sample in samples)
        return next((why for why in reasons if why is not None), None)

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Column of the origins, for each outside dataset."""
        return {} if self.by is None else {outside: (self.by,) for outside in self.outside}

    def needs(self) -> tuple[Need, ...]:
        """Predictions and rows of every dataset."""
        everywhere = (self.inside, *self.outside)
        answers = tuple(NeedPredictions(dataset, self.model) for dataset in everywhere)
        return (*answers, *(NeedRows(dataset, label=True) for dataset in everywhere))


def alike(inside: str, here: Mapping[str, str], outside: str, there: Mapping[str, str]) -> str | None:
    """Reason why a dataset is not shown to be from elsewhere; None where it is.

    Args:
        inside: Name of the dataset from inside.
        here: ``origin:`` of the dataset from inside.
        outside: Name of the other dataset.
        there: ``origin:`` of the other dataset.
    """
    shared = [key for key in here if key in there]
    if any(here[key] != there[key] for key in shared):
        return None
    if shared:
        same = ", ".join(f"{key}: {here[key]}" for key in shared)
        return (
            f"{outside} has the same origin as {inside} ({same}), so it can't show how the model does elsewhere; "
            "name a dataset from another site, time or device"
        )
    bare = next((name for name, origin in ((inside, here), (outside, there)) if not origin), None)
    if bare is not None:
        return f"the origin of {bare} is not given; add `origin: {{site: ..., collected: ...}}` to the dataset"
    return (
        f"the origins of {inside} ({', '.join(here)}) and {outside} ({', '.join(there)}) state nothing that could be "
        "compared; state the same keys for both"
    )
