"""`slices`: groups for which the model is bad, and which a good average hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from evalspec.errors import Problem, did_you_mean
from evalspec.evidence.metric import Metric, Shows
from evalspec.evidence.words import in_percent
from evalspec.language.declarations import ClassOfModel, Effort, Listing
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, NeedRows, Part, SpecNames
from evalspec.language.requirement import Requirement
from evalspec.language.units import PercentagePoints, Share, custom_error
from evalspec.scoring.catalogue.metrics import LABEL_WORD, SliceMetric
from evalspec.scoring.cross import Cross, entries_of
from evalspec.scoring.sample_size import Sample, fewest_in_groups, kind_of, never_shown
from evalspec.scoring.sliced_metrics import BY_FORMS, DECLARED, TOO_SMALL, Form, asked_of

DiscoverMetric = Literal[
    "accuracy", "precision", "recall", "subset_accuracy", "exact_match", "mae", "log_loss", "brier"
]
LOSSES = ("mae", "log_loss", "brier")
"""Metrics of `DiscoverMetric` that are means of losses; the others are shares of rows."""

NEEDS: dict[Form, tuple[str, str]] = {
    "each": ("by", "names of slices, columns, or crosses"),
    "worst": ("by", "names of slices, columns, or crosses"),
    "gap": ("by", "names of slices, columns, or crosses"),
    "disparity": ("reference", "the slice that others are compared with"),
    "percentile": ("groups", "the column whose values are the groups"),
    "too small": ("by", "names of slices, columns, or crosses"),
    "weak": ("discover", "the columns to search"),
}
"""Form of a metric: the field that it needs, and what to write there."""


class Discover(Part):
    """Columns to search for slices that nobody named: ``{columns: [site, lux]}``."""

    columns: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = Field(
        min_length=1, max_length=50, description="Columns to search; `class` stands for the label."
    )
    crosses: bool = Field(True, description="Search crosses of two columns too.")
    share: Share = Field(
        0.05, ge=0.005, le=0.5, description="Share of the rows of the smallest weak slice that must not be missed."
    )
    gap_pp: PercentagePoints = Field(
        10.0, alias="gap", gt=0, le=90,
        description="How much worse than the rest it is, where the metric is a share of rows.",
    )  # fmt: skip
    factor: float = Field(
        1.5,
        gt=1,
        le=1000,
        description="Where the metric is a mean loss (mae, log_loss, brier): its mean, times that of all rows.",
    )
    metric: DiscoverMetric | None = Field(
        None, description="What is worse there; default: accuracy, mae, or what fits the model."
    )

    @model_validator(mode="after")
    def _once(self) -> Self:
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise custom_error(Problem(f"column {twice!r} is listed twice in `discover`", remedy="leave one out"))
        unused = "gap" if self.metric in LOSSES else "factor"
        if self.metric is not None and {"gap": "gap_pp"}.get(unused, unused) in self.model_fields_set:
            other = "factor" if unused == "gap" else "gap"
            raise custom_error(Problem(f"`{unused}` does not fit {self.metric}", remedy=f"write `{other}:`"))
        return self


class Slices(Check):
    """Groups of rows for which the model is bad, and which a good average hides.

    ## What it measures
    Quality metrics in each slice: `accuracy(dark)`, `recall(site=north)`, `mae(night)`; the worst slice:
    `worst_accuracy`, `worst_mae`; the largest difference between two slices: `accuracy_gap`. Slices are the named
    predicates of the spec's `slices:`, the values of columns (`digit` gives `digit=0`, `digit=1`, ...), and crosses of
    both (`{cross: [digit, dark]}` gives `digit=0 & dark`, ...; `class` stands for the label). `slices_too_small` counts
    the enumerated cells that have too few rows. `precision`, `recall` and `f1` are about the positive class.

    - `reference: site=north` names a slice that others are compared with: `accuracy_disparity(site=south) <= 5 pp`
      limits how far that slice lies from it, either way. Slices of the same entry of `by:` are compared; if the
      reference is named in `slices:`, also the other slices named there.
    - `groups: user` names a column of many values. `accuracy_p10 >= 70 %` requires that nine in ten users get an
      accuracy of 70 % or more; where lower is better it is the other end, `mae_p90`.
    - `discover: {columns: [site, lux]}` searches for weak slices that nobody named: categories, ranges, missing values,
      and crosses of two columns. `weak_slices <= 0` requires that there are none; each is shown as a `where` that can
      be put into `slices:`.

    ## Why it matters
    An average of 95 % may be 95 % for everybody, or 60 % for one group in twenty where the other rows make up for it.
    People in that group meet a system that fails two times in five.

    ## Method
    In each slice the estimate and the interval of `quality`. A requirement without a slice, or on `worst_`, holds when
    it holds in every slice: for PASS the largest p-value counts, for FAIL the smallest times the number of slices
    (Bonferroni). A gap holds when every pair of slices holds, and covers up to 100 slices. Against another model
    the same rows are paired, slice by slice, and `worst_accuracy >= baseline - 2 pp` requires that no slice has lost
    more than 2 points. Slices named in `slices:` always count. Cells enumerated from columns count from `min_n` rows
    on; smaller ones, which include empty combinations of a cross and columns without a value, are listed and bounded by
    a requirement on `slices_too_small`. Rows with no value in a column belong to none of its slices and are counted.

    A disparity of shares is decided by a score test of two independent groups, in each direction; for FAIL each has
    half the level. A percentile over groups gives each group a bound of its own and counts groups. PASS: the groups
    that an 80 % bound does not show to be good enough are fewer than chance would leave if more than a tenth of all
    groups were too bad. FAIL: the groups that a 95 % bound shows to be too bad are more than chance would make if no
    more than a tenth were. The percentile is about the population that the groups come from, so it takes 36 groups at
    95 %. Every group that has a value counts, and a group of few rows counts as not shown to be good enough. A note
    says how many groups have no value, such as users without a row of the class whose recall is required.

    The search sees one half of the rows (of the clusters, where there are any), at random. It takes the slice whose
    mean loss stands out most for its size, sets its rows aside, and goes on, up to ten times; a cross must be worse
    than what is left of either of its parts. On the other half each slice is tested against all other rows: it is weak
    where it is shown to be worse by more than a tenth of `gap`, after Holm. An empty search means something only
    where it would have found a weak slice: the p-value of `weak_slices <= 0` is the chance to miss a slice that
    has `share` of the rows and is `gap` worse, so PASS takes a chance of 95 % to find it. The report says how many rows
    that takes. A column that can't be searched (lists, or values that are all rare) keeps the requirement from PASS.

    References: Benjamini and Heller, Biometrics 2008 (at least u of K). Buolamwini and Gebru, Gender Shades, FAT* 2018.
    Koh et al., WILDS, ICML 2021. Miettinen and Nurminen, Statistics in Medicine 1985. Cox, Biometrika 1975 (one half
    finds, the other tests). Holm, Scandinavian Journal of Statistics 1979.

    ## What it cannot show
    Groups that no column tells apart. The reason why two slices differ. A share of 90 % to better than 5 points, in a
    slice of 100 rows. A search sees slices of one column or of two; columns of numbers are cut at 80 quantiles (by the
    default `share`), and crosses are first searched among 8 ranges of each column, so a narrow or ragged slice is found
    late or cut askew. With another seed the halves differ, and a slice that was only just confirmed may not be.

    ## Example
    ```yaml
    - check: slices
      dataset: test
      by: [dark, occluded, digit]
      min_n: 60
      reference: digit=1
      groups: camera
      discover: {columns: [lux, occlusion, camera, digit], share: 5 %, gap: 10 pp}
      require:
        - worst_accuracy >= 85 %
        - accuracy(dark) >= 88 %
        - accuracy_disparity <= 8 pp
        - accuracy_p10 >= 80 %
        - slices_too_small == 0
        - weak_slices <= 0
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    each_template: ClassVar[bool] = True
    shows: ClassVar[tuple[Shows, ...]] = ("answers in slices",)
    metrics: ClassVar[tuple[Metric, ...]] = DECLARED

    check: Literal["slices"] = "slices"
    dataset: DatasetName
    by: Annotated[tuple[Cross | str, ...], Listing()] = Field(
        (), description="Names of slices, columns, or {cross: [a, b]}."
    )
    min_n: Annotated[int, Listing()] = Field(
        100, ge=1, description="Rows from which on a cell enumerated from columns counts."
    )
    reference: str | None = Field(
        None, min_length=1, description="A slice of `by:` that others are compared with: `light`, or `site=north`."
    )
    groups: str | None = Field(
        None, min_length=1, description="Column whose values are groups, such as users: the percentiles are over these."
    )
    discover: Discover | None = Field(None, description="Columns to search for weak slices that nobody named.")
    listed: Annotated[tuple[SliceMetric, ...], Effort()] = Field(
        (), alias="metrics", description="Metrics to show besides the required ones; default: accuracy, or mae."
    )
    positive: Annotated[str | None, ClassOfModel()] = Field(
        None, description="Class that precision, recall, f1 and roc_auc are about; default: the second of two."
    )
    decision_threshold: float | None = Field(
        None, gt=0, lt=1, description="Two classes: predict the positive one where its probability is at least this."
    )

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Entries of ``by``, each as the names that are crossed."""
        return entries_of(self.by)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problem = self._named_twice() or self._nothing_to_do()
        if problem is not None:
            raise custom_error(problem)
        return self

    def _named_twice(self) -> Problem | None:
        seen: dict[tuple[str, ...], str] = {}
        for names in self.entries:
            name, key = " & ".join(names), tuple(sorted(names))
            if len(set(names)) < len(names):
                return Problem(f"{name!r} crosses something with itself", remedy="leave one out")
            if key in seen:
                return Problem(f"{name!r} is listed twice in `by`", remedy="leave one out")
            seen[key] = name
        return None

    def _nothing_to_do(self) -> Problem | None:
        if not self.by and self.groups is None and self.discover is None:
            return Problem("there are no slices", remedy="say which: `by:`, `groups:` or `discover:`")
        if self.reference is not None and not self.by:
            return Problem("`reference:` is one of the slices in `by:`, and there are none", remedy="add `by:`")
        return None

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Names of the slices, where all of them are named; None where columns are enumerated."""
        if metric.parts is None or self.enumerates(names.slices):
            return None
        entry_names = (" & ".join(entry) for entry in self.entries)
        left_out = self.reference if asked_of(metric.name).form == "disparity" else None
        return tuple(name for name in entry_names if name != left_out)

    def enumerates(self, slices: Sequence[str]) -> bool:
        """True if some entry takes its slices from the values of a column.

        Args:
            slices: Names in the spec's ``slices:``.
        """
        return any(name not in slices for names in self.entries for name in names)

    def unbounded(self, slices: Sequence[str]) -> str | None:
        """Reason why small cells would be left out unnoticed, as nothing bounds them; None where they would not.

        Args:
            slices: Names in the spec's ``slices:``.
        """
        decides = [one for one in self.requirements if asked_of(one.metric).form in BY_FORMS]
        bounded = self.blocking if any(requirement in self.blocking for requirement in decides) else self.requirements
        if not decides or not self.enumerates(slices) or any(r.metric == TOO_SMALL for r in bounded):
            return None
        columns = sorted({name for names in self.entries for name in names} - set(slices))
        return (
            f"check {self.name!r} takes slices from {', '.join(columns)} and skips those with fewer than {self.min_n} "
            f"rows; bound them: add `{TOO_SMALL} == 0` to its requirements"
        )

    def check_names(self, names: SpecNames) -> str | None:
        """Reason why small cells are not bounded, or the reference is no slice; None where all is well."""
        return self.unbounded(names.slices) or self._reference_there(names.slices)

    def _reference_there(self, slices: Sequence[str]) -> str | None:
        entry_names = [" & ".join(entry) for entry in self.entries]
        if self.reference is None or self.enumerates(slices) or self.reference in entry_names:
            return None
        remedy = did_you_mean(self.reference, entry_names)
        return str(
            Problem(f"`reference: {self.reference}` is not a slice of `by:`", choices=tuple(entry_names), remedy=remedy)
        )

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: it needs a field that is not set, or all rows in one slice would be too few."""
        asked = asked_of(requirement.metric)
        form = asked.form
        field, what = NEEDS[form]
        if not getattr(self, field):
            return f"{requirement.metric} needs `{field}:`, {what}"
        if requirement.model is not None and form not in ("each", "worst"):
            return f"{requirement.metric} is not compared between models; require it of each"
        known = rows.get(self.dataset)
        if asked.base is None or known is None:
            return None
        if form == "percentile":
            return self._too_few_groups(requirement, asked.base, known, confidence)
        kind = kind_of(asked.base, beside_a_model=requirement.model is not None)
        if kind in ("share", "f1") and form not in ("each", "worst"):
            return None
        sample = Sample(self.dataset, known, confidence, more="a slice has no more than all of them; add rows")
        return never_shown(requirement, kind, sample)

    def _too_few_groups(self, requirement: Requirement, base: str, rows: int, confidence: float) -> str | None:
        groups, each = fewest_in_groups(requirement, kind_of(base), confidence)
        if rows >= groups * each:
            return None
        return (
            f"{rows:,} rows of {self.dataset} can't show {requirement.sentence} at {in_percent(confidence)} "
            f"confidence, were every group the best it can be: {groups:,} groups of {each:,} rows are needed; add rows"
        )

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Columns of ``by`` (names that are no slices), of groups, and those to be searched."""
        columns = [name for entry in self.entries for name in entry if name not in names.slices]
        columns += [self.groups] if self.groups is not None else []
        columns += self.discover.columns if self.discover is not None else ()
        return {self.dataset: tuple(dict.fromkeys(name for name in columns if name != LABEL_WORD))}

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model and of every model that a requirement names, and the rows."""
        models = dict.fromkeys((self.model, *self.baselines))
        return (*(NeedPredictions(self.dataset, model) for model in models), NeedRows(self.dataset, label=True))
