"""`labels`: whether the labels are right, and where they are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from math import ceil, log
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.evidence.units import from_unit
from evalspec.evidence.words import in_percent
from evalspec.language.declarations import Effort, Listing
from evalspec.language.header import Header, Misfit
from evalspec.language.parts import (
    Check,
    DatasetName,
    ModelName,
    Need,
    NeedPredictions,
    NeedRows,
    SpecNames,
)
from evalspec.language.requirement import Requirement
from evalspec.language.units import custom_error
from evalspec.scoring.catalogue.metrics import LABEL_WORD
from evalspec.scoring.cross import Cross
from evalspec.scoring.sliced_metrics import CELLS_MAX

TOO_SMALL = "slices_too_small"
PIP = "pip install 'evalspec-gate[labels]'"
AUDIT = "name the column with the true labels of rows drawn at random: `audited: COLUMN`"

Column = Annotated[str, StringConstraints(min_length=1)]


class Labels(Check):
    """Wrong labels: how many there are, and where.

    ## What it measures
    - `label_error_rate`: share of rows whose label is not the true one, of audited rows drawn at
      random: the column in `audited:` holds their true label, and nothing elsewhere. `label_error_rate(dark)`: of a
          slice.
    - `label_error_concentration`: how many times as often labels are wrong in a slice as outside of it; the largest, or
      that of a slice. Slices are those in `by:`: names of slices, columns, or crosses of them; `class` is the label.
    - `estimated_label_errors`: share of rows that confident learning takes for wrong. It may only stand under `warn:`;
      so does a concentration that has no audit.
    - `slices_too_small`: slices taken from columns in which fewer than `min_n` rows were audited (without an audit:
      which have fewer rows).

    ## Why it matters
    Test sets that people use have 3 to 6 % wrong labels: a model at 95 % may be right in every row. Errors at random
    blur a score. Errors of one kind in one place (every wolf in snow is labelled a dog) are learnt, scored as right,
    and no average shows them.

    ## Method
    Rates: Clopper-Pearson over the audited rows, with clusters after Korn and Graubard. A ratio: exact binomial on
    where the wrong labels lie; with clusters from bounds of both rates. The largest ratio is at most R where every
    slice's is (the largest p-value), and more where one's is (Bonferroni). A slice without a wrong label beside others
    without one has no ratio; then bound its rate.

    Confident learning (cleanlab; the extra `labels`) needs probabilities from a model that has not seen the row. They
    are made here by cross-validation on `features:` (arrays are flattened, words of texts hashed; rows of one cluster
    stay in one fold), or are those of `predictions:` with `out_of_sample: true`. Of very many rows some are drawn. Only
    the columns that are named are read, into memory. Probabilities that look as if the model had been trained on these
    rows are not used: it agrees with labels that the audit found wrong, is far more accurate than on `held_out:` or
    than the cross-validated classifier, or is sure of nearly every row and never wrong. Rows to review are written to a
    CSV file, the most suspicious first.

    With `audited:` and `predictions:` the report says what wrong labels leave of that model's accuracy a: with a share
    e of wrong labels the truth lies in a - e to a + e, whichever labels they are; and a corrected by the audited rows:
    how often rows that look right are, and rows that look wrong, weighed by how many of all rows look so.

    References: Clopper and Pearson 1934. Korn and Graubard 1998. Przyborowski and Wilenski 1940. Benjamini and
    Heller 2008. Northcutt, Jiang and Chuang, Confident learning, JAIR 2021. Holt and Smith, Post stratification,
    JRSS A 1979.

    ## What it cannot show
    Whether rows for the audit were drawn at random: of one picked because it looked odd nothing follows for the others.
    That classes, or slices of `by:`, have other shares among audited than among other rows is seen (chi-square over the
    design effect of clusters) and keeps rates and their concentration from PASS. What auditors get wrong: see
    `agreement`. Confident learning finds labels that do not fit the rows like them; where all
    labels of a kind are wrong, they fit.

    ## Example
    ```yaml
    - check: labels
      dataset: test
      audited: looked_at
      features: [pixels]
      by: [dark, {cross: [class, dark]}]
      min_n: 20
      require:
        - label_error_rate <= 3 %
        - label_error_concentration <= 5x
        - slices_too_small <= 10
      warn:
        - estimated_label_errors <= 5 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "label_error_rate", "%", "lower", "Share of audited rows whose label is wrong.", parts="slice", whole=True,
            interval="over the audited rows Clopper-Pearson, with clusters after Korn and Graubard",
            label="wrong labels",
        ),
        Metric(
            "label_error_concentration", "x", "lower",
            "How many times as often labels are wrong in a slice as outside of it.",
            parts="slice", whole=True,
            interval="exact binomial on where wrong labels lie, with clusters from both rates; partial conjunction",
            label="concentration of wrong labels",
        ),
        Metric(
            "estimated_label_errors", "%", "lower", "Share of rows that confident learning takes for wrong.",
            exact=True, label="labels that are probably wrong",
        ),
        Metric(
            TOO_SMALL, "count", "lower", "Slices taken from columns that have too few rows to count.", exact=True,
            most=float(CELLS_MAX), label="slices with too few rows",
        ),
    )  # fmt: skip

    check: Literal["labels"] = "labels"
    dataset: DatasetName
    audited: Column | None = Field(
        None, description="Column with the true label of rows drawn at random and audited; empty elsewhere."
    )
    by: Annotated[tuple[Cross | str, ...], Listing()] = Field(
        (), description="Names of slices, columns, or {cross: [class, b]}."
    )
    min_n: Annotated[int, Listing()] = Field(
        30, ge=1, description="Audited rows from which on a slice taken from columns counts."
    )
    features: tuple[Column, ...] = Field((), description="Columns that a classifier is cross-validated on.")
    classifier: Literal["logistic", "boosting"] = Field(
        "logistic", description="What is cross-validated: logistic regression, or gradient boosting."
    )
    folds: int = Field(5, ge=2, le=20, description="Of the cross-validation.")
    predictions: ModelName | None = Field(
        None, description="Model whose accuracy is corrected for wrong labels, or whose probabilities judge them."
    )
    out_of_sample: bool = Field(
        False, description="`predictions:` was not trained on these rows, so that its probabilities may judge labels."
    )
    held_out: DatasetName | None = Field(
        None, description="Labelled rows that `predictions:` surely was not trained on, to compare with."
    )
    key: Column | None = Field(None, description="Column that names a row in the list for review.")
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Show rows to review, with their columns, in the report."
    )

    @property
    def entries(self) -> tuple[tuple[str, ...], ...]:
        """Each entry of ``by`` as the names that are crossed."""
        return tuple(entry.names if isinstance(entry, Cross) else (entry,) for entry in self.by)

    @property
    def judges(self) -> bool:
        """Something gives the probabilities that confident learning needs."""
        return bool(self.features) or (self.predictions is not None and self.out_of_sample)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problem = self._nothing_to_do() or self._without_predictions() or self._twice()
        if problem is not None:
            raise custom_error(problem)
        return self

    def _nothing_to_do(self) -> Problem | None:
        if self.audited is not None or self.judges:
            return None
        said = (
            "say `out_of_sample: true` if it was not trained on these rows" if self.predictions else "name `features:`"
        )
        return Problem("the labels that are wrong are unknown", remedy=f"{AUDIT}; or {said}")

    def _without_predictions(self) -> Problem | None:
        if self.predictions is not None:
            return None
        field = "out_of_sample" if self.out_of_sample else "held_out" if self.held_out is not None else None
        if field is None:
            return None
        return Problem(f"`{field}:` is about `predictions:`, and there are none", remedy="name the model, or remove it")

    def _twice(self) -> Problem | None:
        if self.held_out == self.dataset:
            return Problem(f"`held_out: {self.held_out}` is the dataset itself", remedy="name a different one")
        if self.audited is not None and self.audited in self.features:
            return Problem(f"{self.audited!r} is both `audited:` and one of `features:`", remedy="remove it from these")
        names = [frozenset(entry) for entry in self.entries]
        twice = next((entry for entry in names if names.count(entry) > 1), None)
        return None if twice is None else Problem(
            f"{' & '.join(sorted(twice))!r} is listed twice in `by`", remedy="leave one out"
        )  # fmt: skip

    def enumerates(self, slices: Sequence[str]) -> bool:
        """Some entry takes its slices from the values of a column."""
        return any(name not in slices for names in self.entries for name in names)

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """The slices, where all of them are named; None where columns are enumerated."""
        if metric.parts is None or self.enumerates(names.slices):
            return None
        return tuple(" & ".join(entry) for entry in self.entries)

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of slices that are too small to count and not bounded, where something is required of all together."""
        asked = [one for one in self.requirements if one.metric == "label_error_concentration" and one.part is None]
        bounded = self.blocking if any(one in self.blocking for one in asked) else self.requirements
        if not asked or not self.enumerates(names.slices) or any(one.metric == TOO_SMALL for one in bounded):
            return None
        columns = sorted({name for names_ in self.entries for name in names_} - set(names.slices))
        return (
            f"check {self.name!r} takes slices from {', '.join(columns)} and skips those with fewer than {self.min_n} "
            f"rows; bound them: add `{TOO_SMALL} == 0` to its requirements"
        )

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass, or may not block: no audit, no classifier, no slice, or too few rows."""
        metric = requirement.metric
        if requirement.model is not None:
            return f"{metric} is about labels, not about a model; write a number"
        if metric == "estimated_label_errors":
            if requirement not in self.warn:
                return f"{metric} is an estimate without an interval and may only stand under `warn:`; {AUDIT}"
            if not self.judges:
                return f"{metric} needs `features:`, or `predictions:` with `out_of_sample: true`"
            absent = missing_packages()
            return None if absent is None else f"{metric}: {absent}"
        if metric != "label_error_rate" and not self.by:
            return f"{metric} needs `by:`, names of slices, columns, or crosses"
        if metric == TOO_SMALL:
            return None
        if self.audited is None and (metric == "label_error_rate" or requirement not in self.warn):
            return f"{metric} is decided on audited rows; {AUDIT}"
        return None if metric != "label_error_rate" else _too_few(requirement, rows.get(self.dataset), confidence)

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """A label among the features, or audited by itself."""
        label = labels.get(self.dataset)
        if label is not None and label in self.features:
            message = f"{label!r} is the label of {self.dataset}, so the classifier would see the answer"
            yield Misfit(("features", self.features.index(label)), Problem(message, remedy="leave it out"))
        if label is not None and self.audited == label:
            message = f"{label!r} is the label of {self.dataset}, and the auditors' labels are in a different column"
            yield Misfit(("audited",), Problem(message, remedy="name the column with the true labels"))

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Entries of ``by`` that are no slices."""
        found = [name for entry in self.entries for name in entry if name not in (*names.slices, LABEL_WORD)]
        return {self.dataset: tuple(dict.fromkeys(found))}

    def needs(self) -> tuple[Need, ...]:
        """Rows with their labels, and predictions where a model is named."""
        columns = (*((self.audited,) if self.audited else ()), *self.features, *((self.key,) if self.key else ()))
        needs: list[Need] = [NeedRows(self.dataset, tuple(dict.fromkeys(columns)), label=True)]
        if self.predictions is not None:
            over = [self.dataset] + ([self.held_out] if self.held_out is not None else [])
            needs += [NeedPredictions(dataset, self.predictions) for dataset in over]
        return tuple(needs)


def missing_packages() -> str | None:
    """Packages that confident learning needs and that are not installed, with the line to type; None: all are there."""
    wanted = (("cleanlab", "cleanlab"), ("scikit-learn", "sklearn"))
    missing = [name for name, module in wanted if find_spec(module) is None]
    if not missing:
        return None
    return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed: {PIP}"


def _too_few(requirement: Requirement, rows: int | None, confidence: float) -> str | None:
    """Why so many rows can't show a rate, were all of them audited and right."""
    share = from_unit(requirement.threshold, requirement.unit)
    if rows is None or not 0.0 < share < 1.0:
        return None
    needed = ceil(log(1.0 - confidence) / log(1.0 - share))
    if rows >= needed:
        return None
    return (
        f"{rows} rows can't show {requirement.metric} {requirement.op} {100 * share:.4g} % at {in_percent(confidence)} "
        f"confidence, were all of them audited and every label right: {needed} are needed"
    )
