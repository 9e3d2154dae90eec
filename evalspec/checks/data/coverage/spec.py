"""`coverage`: whether a test set holds what deployment will bring, and enough of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, field_validator, model_validator

from evalspec.errors import Problem, did_you_mean
from evalspec.evidence.metric import Metric
from evalspec.evidence.words import verb
from evalspec.language.declarations import Listing
from evalspec.language.header import Header, Matched, Misfit, misspelt
from evalspec.language.names import check_where
from evalspec.language.parts import Check, DatasetName, Name, Need, NeedRows, Part, SpecNames
from evalspec.language.reach import check_rows, never_fails
from evalspec.language.units import PercentagePoints, Share, custom_error
from evalspec.language.where import check_literals, parse_where

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement
    from evalspec.language.scans import Scan

Text = Annotated[str, StringConstraints(min_length=1)]
WHOLE = 1e-9


def _as_text(value: Any) -> Any:
    """Keys of a mapping as they would stand in a part: YAML reads `0:` as a number and `true:` as a truth value."""
    if not isinstance(value, dict):
        return value
    return {str(key).lower() if isinstance(key, bool) else str(key): share for key, share in value.items()}


class Condition(Part):
    """A condition that deployment brings: ``{name: night, where: lux < 10, share: 30 %, min_n: 200}``."""

    name: Name = Field(description="Its name in requirements: `smallest_slice(night) >= 200 rows`.")
    where: str | None = Field(
        None, description="Its rows: `lux < 10`. Default: those of the spec's slice of this name."
    )
    share: Share | None = Field(None, ge=0, le=1, description="Its share in deployment, where that is declared.")
    min_n: int | None = Field(None, ge=1, description="Rows that it needs; default: that of the check.")
    at_least: Share | None = Field(
        None, gt=0, lt=1, description="Instead of `min_n`: the limit of a requirement on the score there, `88 %`."
    )
    expected: Share | None = Field(None, gt=0, le=1, description="Beside `at_least`: the score that is expected there.")

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        return check_where(value) if value is not None else None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        both = self.at_least is not None and self.expected is not None
        if (self.at_least is None) != (self.expected is None):
            raise custom_error(Problem("`at_least` and `expected` go together", remedy="write both, or neither"))
        if both and self.min_n is not None:
            raise custom_error(Problem("`min_n` and `at_least` both say how many rows it needs", remedy="keep one"))
        if both and self.expected <= self.at_least:  # type: ignore[operator]  # both are numbers here
            raise custom_error(Problem("a score that is expected to be no better is never shown to be at least that"))
        return self


class Coverage(Check):
    """Coverage of what deployment will bring by a test set, with enough rows of it to say anything.

    ## What it measures
    `conditions:` are named predicates (`{name: night, where: lux < 10}`) or names of the spec's `slices:`. The groups
    of a test set are these, the classes of its label, the values of the columns in `by:`, and each class within each of
    these values. Values declared in `population:` of which there is no row are groups of 0 rows.
    - `smallest_slice(night)`: rows of a group; without a name the smallest of all.
    - `missing_conditions`: declared conditions, values and columns of which the test set holds no row, or of which
      nothing can be said since their column is not there or is missing in every row.
    - `slices_too_small`: groups with fewer rows than they need: what the condition itself says, else the check.
    - `class_imbalance`: rows of the largest class, as a multiple of those of the smallest.
    - `class_association(site)`: Cramer's V of class and group, from 0 (every group has the same classes) to 1 (the
      group tells the class).
    - `representation_gap(site=north)`: how far the share of a value or condition in the test set is from that in the
      population, either way; without a part the largest.

    ## Why it matters
    A score is an average over the rows that somebody collected. Where the test set holds no night, no accent and no
    patient under 18, it says nothing about them, and nobody sees that it doesn't: they are not among the wrong answers.
    Of 99 rows of one class and one of the other, always saying the first is right in 99 %.

    ## Method
    Rows are counted over the whole file: facts, without an interval. Tables of any size: one pass, shared with other
    checks of the spec that look at them; memory holds the values of `by:` and of the label (10,000 of each at most) and
    the cells of their tables, not the rows, but for a number for each row of a sampled population with clusters.
    A label of more than 20 distinct whole numbers makes no classes; `smallest_slice` and `slices_too_small` then pass
    only where `label_unit:` says that it holds values.
    `min_n:` is 100 rows by default; with `width: 5 pp` it is the n at which the one-sided bound of any share is at most
    so far from it, z^2 / (4 width^2). A condition with `at_least: 88 %, expected: 92 %` needs the rows at which a score
    of 92 % is shown to be at least 88 % in four of five cases (391 at 95 %). Rows in which the column of a condition is
    missing belong to neither side and are shown; against a declared share they count on the side on which they are
    worse.

    Columns of `by:` must be in a population that is a dataset too, and hold values of the same kind there: else it is
    an error of `validate`. That a column of a condition is missing is what the check finds.
    The population is declared (`population: {site: {north: 60 %, south: 40 %}}`, `share:` of a condition), and the gap
    is a fact of this file; values that are not declared share what is left of 100 %. Or it is a dataset that was
    sampled from it (`population: traffic`): then its shares have Clopper-Pearson intervals (with clusters after Korn
    and Graubard), while those of the test set are what they are; conditions and the columns in `by:` are compared. Its
    rows that are not known count on the side on which they are worse, too. All parts hold together: for PASS the
    largest p-value counts, for FAIL the smallest times their number.

    Cramer's V is corrected for its bias, so that it stays near 0 where class and group have nothing to do with each
    other.

    References: Bergsma, Journal of the Korean Statistical Society 2013. Clopper and Pearson, Biometrika 1934.
    Buolamwini and Gebru, Gender Shades, FAT* 2018.

    ## What it cannot show
    Conditions that nobody declared: only people who know the deployment can name them. Whether the rows of a condition
    are typical of it. Whether `population:` is right. How the model does there: see `slices`.

    ## Example
    ```yaml
    data:
      - check: coverage
        dataset: test
        conditions:
          - {name: night, where: lux < 10, share: 30 %, min_n: 200}
          - {name: rain, where: weather == 'rain', share: 12 %}
        by: [site]
        population: {site: {north: 60 %, south: 40 %}}
        require:
          - missing_conditions == 0
          - slices_too_small == 0
          - smallest_slice(night) >= 200 rows
          - class_imbalance <= 10x
          - representation_gap <= 10 pp
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "smallest_slice", "rows", "higher", "Rows of the smallest group.",
            parts="slice", exact=True, shows=("rare group",),
        ),
        Metric(
            "missing_conditions", "count", "lower", "Declared conditions without a row.",
            exact=True, shows=("absent group",),
        ),
        Metric(
            "slices_too_small", "count", "lower", "Groups with fewer rows than they need.", exact=True,
            label="slices with too few rows",
        ),
        Metric(
            "class_imbalance", "x", "lower", "Rows of the largest class by those of the smallest.", exact=True,
            label="imbalance of classes",
        ),
        Metric(
            "class_association", "score", "lower", "Cramer's V of class and group.", parts="group", exact=True,
            most=1.0, label="association of class and group",
        ),
        Metric(
            "representation_gap", "pp", "lower", "How far shares of the test set are from those of the population.",
            parts="value", interval="a fact where shares are declared; of a sampled population Clopper-Pearson",
            shows=("rare group",),
            extreme=True, label="distance from the shares of the population",
        ),
    )  # fmt: skip

    check: Literal["coverage"] = "coverage"
    dataset: DatasetName
    conditions: tuple[Condition | Name, ...] = Field(
        (), description="What deployment brings: `{name: night, where: lux < 10}`, or names of slices."
    )
    by: Annotated[tuple[Text, ...], Listing()] = Field(
        (), max_length=5, description="Columns whose values are groups, such as site."
    )
    joint: bool = Field(True, description="Each class within each value of `by:` is a group too.")
    min_n: Annotated[int, Listing()] = Field(100, ge=1, description="Rows that a group needs.")
    width_pp: PercentagePoints | None = Field(
        None, alias="width", gt=0, le=50,
        description="In place of `min_n`: how far a bound of a share may be from it; `5 pp` needs 271 rows at 95 %.",
    )  # fmt: skip
    population: DatasetName | dict[Text, Annotated[dict[Text, Share], BeforeValidator(_as_text)]] | None = Field(
        None, description="Shares in deployment, `{site: {north: 60 %, south: 40 %}}`, or a dataset sampled from it."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problem = self._named_twice() or self._population_wrong()
        if problem is None and self.width_pp is not None and "min_n" in self.model_fields_set:
            problem = Problem("`min_n` and `width` both say how many rows a group needs", remedy="keep one")
        if problem is not None:
            raise custom_error(problem)
        return self

    def _named_twice(self) -> Problem | None:
        names = [one.name for one in self.declared]
        for what, found in (("conditions", names), ("by", list(self.by))):
            twice = next((name for name in found if found.count(name) > 1), None)
            if twice is not None:
                return Problem(f"{twice!r} is listed twice in `{what}`", remedy="leave one out")
        return None

    def _population_wrong(self) -> Problem | None:
        if isinstance(self.population, str):
            if self.population == self.dataset:
                return Problem(f"{self.dataset!r} would be its own population", remedy="name another dataset")
            both = next((one.name for one in self.declared if one.share is not None), None)
            if both is not None:
                return Problem(
                    f"the share of {both!r} is declared, and `population: {self.population}` would give another",
                    remedy="keep one of the two",
                )
            if not self.declared and not self.by:
                return Problem("nothing is compared with the population", remedy="name columns in `by:`, or conditions")
            return None
        for column, shares in (self.population or {}).items():
            if not shares:
                return Problem(f"`population: {column}` has no value", remedy="write such as {north: 60 %}")
            wrong = next((value for value, share in shares.items() if not 0.0 <= share <= 1.0), None)
            if wrong is not None:
                return Problem(f"the share of {column}={wrong} is not between 0 % and 100 %")
            total = sum(shares.values())
            if total > 1.0 + WHOLE:
                return Problem(
                    f"the shares of {column!r} add up to {100 * total:.4g} %", remedy="they are at most 100 %"
                )
        return None

    @property
    def declared(self) -> tuple[Condition, ...]:
        """Every condition, a name of a slice as one without anything else."""
        return tuple(Condition(name=one) if isinstance(one, str) else one for one in self.conditions)

    @property
    def shares(self) -> Mapping[str, Mapping[str, float]]:
        """Column: value: its declared share, in 0..1."""
        return self.population if isinstance(self.population, dict) else {}

    def needed(self, condition: Condition | None, confidence: float) -> int:
        """Rows that a group needs.

        Args:
            condition: The condition; None: another group.
            confidence: Of the policy.
        """
        from math import ceil
        from statistics import NormalDist

        if condition is not None and condition.min_n is not None:
            return condition.min_n
        if condition is not None and condition.at_least is not None and condition.expected is not None:
            from evalspec.stats.shares.proportion import rows_for_power

            return rows_for_power(condition.expected, condition.at_least, 1.0 - confidence)
        if self.width_pp is None:
            return self.min_n
        return ceil((NormalDist().inv_cdf(confidence) / (2.0 * self.width_pp / 100.0)) ** 2)

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of a condition without a `where:` that is no slice."""
        for one in self.declared:
            if one.where is None and one.name not in names.slices:
                problem = Problem(
                    f"condition {one.name!r} has no `where:` and is not a slice of this spec",
                    choices=names.slices,
                    remedy=did_you_mean(one.name, names.slices) or "write {name: " + one.name + ", where: lux < 10}",
                )
                return str(problem)
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: a field is not there, or there are not so many rows."""
        if requirement.model is not None:
            return f"{requirement.metric} is about data and is not compared between models"
        if requirement.metric == "missing_conditions" and not self.declared and not self.shares and not self.by:
            return "missing_conditions needs `conditions:`, `by:` or `population:`"
        if requirement.metric == "class_association" and not self.by:
            return "class_association needs `by:`, columns whose values are groups"
        declared = any(one.share is not None for one in self.declared)
        if requirement.metric == "representation_gap" and self.population is None and not declared:
            return "representation_gap needs `population:`, or conditions with a `share:`"
        there = rows.get(self.dataset)
        most = self._most(requirement.metric, there)
        if most is not None and requirement.upper and requirement.threshold >= most[0]:
            raise never_fails(requirement.sentence, most[1], "less")
        return check_rows(requirement, self.dataset, there)

    def _most(self, metric: str, rows: int | None) -> tuple[int, str] | None:
        """The largest value that a count or ratio can have, and why; None: it isn't known."""
        if metric == "missing_conditions":
            declared = len(self.declared) + len(self.by) + sum(len(shares) for shares in self.shares.values())
            return declared, f"{declared} {verb(declared, 'is', 'are')} declared"
        if metric == "class_imbalance" and rows is not None and rows > 1:
            return rows - 1, f"{self.dataset} has {rows:,} rows in all"
        return None

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """Columns of conditions and of the population that are misspelt, and literals that they can't be compared with.

        That a column is not there is what it finds.
        """
        columns = headers[self.dataset].columns if self.dataset in headers else {}
        wheres = {
            index: parse_where(one.where)
            for index, one in enumerate(self.conditions if columns else ())
            if not isinstance(one, str) and one.where is not None
        }
        named = {*self.by, *self.shares, *(name for where in wheres.values() for name in where.columns)}
        for index, where in wheres.items():
            wrong = [misspelt(name, self.dataset, columns, named) for name in where.columns]
            for problem in (*(found for found in wrong if found is not None), *check_literals(where, columns)):
                yield Misfit(("conditions", index, "where"), problem)
        for name in self.shares if columns else ():
            slip = misspelt(name, self.dataset, columns, named)
            if slip is not None:
                yield Misfit(("population", name), slip)

    def matched(self, labels: Mapping[str, str]) -> tuple[Matched, ...]:
        """Columns of groups, which the population needs too where it is a dataset, as the same kind of value."""
        population = self.population
        if not isinstance(population, str) or not self.by:
            return ()
        return (Matched(self.dataset, (population,), self.by, every=True, field="by"),)

    def sides(self) -> tuple[tuple[str, str], ...]:
        """The test set and the population, where that is a dataset."""
        return ((self.dataset, self.population),) if isinstance(self.population, str) else ()

    def needs(self) -> tuple[Need, ...]:
        """Rows of the test set, and of the population where it is a dataset.

        Columns of conditions and of a declared population are not among what must be there: that they are not is what
        it finds.
        """
        asked = {requirement.metric for requirement in self.requirements}
        of_test = NeedRows(self.dataset, self.by, label=bool(asked & {"class_imbalance", "class_association"}))
        return (of_test, NeedRows(self.population, self.by)) if isinstance(self.population, str) else (of_test,)

    def scans(self, inputs: Inputs) -> tuple[Scan, ...]:
        """The columns that groups are made of, in the test set and in the population."""
        scans: tuple[Scan, ...] = self.room("measure").scans_of(self, inputs)
        return scans
