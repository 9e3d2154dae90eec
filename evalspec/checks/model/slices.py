"""`slices`: whether a good average hides a group for which the model is bad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from evalspec.checks.model._catalogue import LABEL_WORD, SLICED, SliceMetric
from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, CheckResult, DatasetName, Need, NeedPredictions, NeedRows, Part, SpecNames
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs

TOO_SMALL = "slices_too_small"


class Cross(Part):
    """Every combination of the values of columns and slices: ``{cross: [site, dark]}``."""

    cross: tuple[Annotated[str, StringConstraints(min_length=1)], ...] = Field(
        min_length=2, max_length=4, description="Columns and names of slices; `class` stands for the label."
    )

    @property
    def names(self) -> tuple[str, ...]:
        """What is crossed."""
        return self.cross


def _declared() -> tuple[Metric, ...]:
    """For each quality metric: of a slice, of the worst slice, and the largest gap between two."""
    found: list[Metric] = []
    for metric in SLICED:
        worst = "largest" if metric.better == "lower" else "smallest"
        gap = {"fraction": "pp"}.get(metric.unit, metric.unit)
        found += [
            replace(metric, parts="slice", summary=f"{metric.summary} In each slice."),
            replace(
                metric, name=f"worst_{metric.name}", parts=None, summary=f"The {worst} {metric.name} of all slices.",
                interval=f"all slices must clear the threshold, each by {metric.interval}",
            ),
            replace(
                metric, name=f"{metric.name}_gap", unit=gap, better="lower", parts=None,
                summary=f"The largest difference in {metric.name} between two slices.",
                interval=f"all pairs must clear the threshold, each by MOVER over its slices: {metric.interval}",
            ),
        ]  # fmt: skip
    found.append(
        Metric(TOO_SMALL, "count", "lower", "Cells enumerated from columns with fewer than min_n rows.", exact=True)
    )
    return tuple(found)


class Slices(Check):
    """Whether a good average hides a group of rows for which the model is bad.

    ## What it measures
    Quality metrics in each slice: `accuracy(dark)`, `recall(site=north)`, `mae(night)`; the worst slice:
    `worst_accuracy`, `worst_mae`; the largest difference between two: `accuracy_gap`. Slices are named predicates of
    the spec's `slices:`, the values of columns (`digit` gives `digit=0`, `digit=1`, ...), and crosses of both
    (`{cross: [digit, dark]}` gives `digit=0 & dark`, ...; `class` stands for the label). `slices_too_small` counts the
    enumerated cells that have too few rows. `precision`, `recall` and `f1` are of the positive class.

    ## Why it matters
    95 % overall and 60 % for one group in twenty is the same average as 95 % for everybody: the other rows make up for
    it. People in that group meet a system that fails two times in five.

    ## Method
    In each slice the estimate and the interval of `quality`. A sentence without a slice, and `worst_`, hold when every
    slice holds: for PASS the largest p-value counts, for FAIL the smallest times the number of slices (Bonferroni).
    A gap holds when every pair of slices holds. Against another model the same rows are paired, slice by slice, and
    `worst_accuracy >= baseline - 2 pp` asks that no slice has lost more than 2 points.
    Slices named in `slices:` always count. Cells enumerated from columns count from `min_n` rows on; smaller ones,
    empty combinations of a cross among them, are listed and bounded by a requirement on `slices_too_small`.
    A row whose column is missing belongs to no slice and is counted.

    References: Benjamini and Heller, Biometrics 2008 (at least u of K). Buolamwini and Gebru, Gender Shades, FAT* 2018.

    ## What it cannot show
    Groups that no column tells apart, and slices that nobody named: it searches for none. That two slices differ is no
    reason why. A slice of 100 rows shows a share of 90 % no better than to 5 points.

    ## Example
    ```yaml
    - check: slices
      dataset: test
      by: [dark, occluded, digit]
      min_n: 60
      require:
        - worst_accuracy >= 85 %
        - accuracy(dark) >= 88 %
        - slices_too_small == 0
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = _declared()

    check: Literal["slices"] = "slices"
    dataset: DatasetName
    by: tuple[Cross | str, ...] = Field(min_length=1, description="Names of slices, columns, or {cross: [a, b]}.")
    min_n: int = Field(100, ge=1, description="Rows from which on a cell enumerated from columns counts.")
    listed: tuple[SliceMetric, ...] = Field(
        (), alias="metrics", description="Metrics to show besides the required ones; default: accuracy, or mae."
    )
    positive: str | None = Field(
        None, description="Class that precision, recall, f1 and roc_auc are about; default: the second of two."
    )
    decision_threshold: float | None = Field(
        None, gt=0, lt=1, description="Two classes: predict the positive one where its probability is at least this."
    )

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Each entry of ``by`` as the names that are crossed."""
        return tuple(entry.names if isinstance(entry, Cross) else (entry,) for entry in self.by)

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen = [" & ".join(names) for names in self.entries]
        twice = next((name for name in seen if seen.count(name) > 1), None)
        if twice is not None:
            raise custom_error(Problem(f"{twice!r} stands twice in `by`", remedy="leave one out"))
        return self

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """The slices, where all of them are named; None where columns are enumerated."""
        if metric.parts is None or self.enumerates(names.slices):
            return None
        return tuple(" & ".join(entry) for entry in self.entries)

    def enumerates(self, slices: Sequence[str]) -> bool:
        """Some entry takes its slices from the values of a column.

        Args:
            slices: Names in the spec's ``slices:``.
        """
        return any(name not in slices for names in self.entries for name in names)

    def unbounded(self, slices: Sequence[str]) -> str | None:
        """What is missing where small cells would be left out without a word; None: nothing.

        Args:
            slices: Names in the spec's ``slices:``.
        """
        decides = [requirement for requirement in self.requirements if requirement.metric != TOO_SMALL]
        bounded = self.blocking if any(requirement in self.blocking for requirement in decides) else self.requirements
        if not decides or not self.enumerates(slices) or any(r.metric == TOO_SMALL for r in bounded):
            return None
        columns = sorted({name for names in self.entries for name in names} - set(slices))
        return (
            f"check {self.name!r} takes slices from {', '.join(columns)} and leaves out those with fewer than "
            f"{self.min_n} rows; bound them: add `{TOO_SMALL} == 0` to its requirements"
        )

    def check_names(self, names: SpecNames) -> str | None:
        """That what is too small to count is bounded."""
        return self.unbounded(names.slices)

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Entries of ``by`` that are no slices."""
        found = (name for entry in self.entries for name in entry if name not in (*names.slices, LABEL_WORD))
        return {self.dataset: tuple(dict.fromkeys(found))}

    def needs(self) -> tuple[Need, ...]:
        """Predictions of the model and of every model that a requirement names, and the rows."""
        models = dict.fromkeys((self.model, *self.baselines))
        return (*(NeedPredictions(self.dataset, model) for model in models), NeedRows(self.dataset, label=True))

    def run(self, inputs: Inputs) -> CheckResult:
        """Score each slice."""
        from evalspec.checks.model._slices import measure

        return measure(self, inputs)
