"""`integrity`: whether the rows are what a schema says they are, and the files those that were meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, model_validator

from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, CheckResult, DatasetName, Need, NeedRows, Part, SpecNames

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement

LONGEST_PATTERN = 200
Kind = Literal["integer", "number", "text", "bool", "time", "list"]
Bound = int | float | str


class ColumnRule(Part):
    """What must hold for every cell of a column."""

    type: Kind | None = Field(None, description="What the cells are; whole numbers are numbers too.")
    min: Bound | None = Field(None, description="Smallest value; of times as text: `2026-01-01`.")
    max: Bound | None = Field(None, description="Largest value, likewise.")
    values: tuple[str | int | float | bool, ...] = Field((), description="The only values that may occur.")
    pattern: str | None = Field(
        None, min_length=1, max_length=LONGEST_PATTERN, description="Regular expression (RE2) that all of a text fits."
    )
    nullable: bool = Field(True, description="Cells may be missing (null or NaN).")
    unique: bool = Field(False, description="No value may stand in two rows.")


class Integrity(Check):
    """Whether the rows are what a schema says they are, and the files those that were meant.

    ## What it measures

    `schema_violations`: cells that break a rule of `table_schema` (type, range, allowed values, pattern, missing where
    that is not allowed, a value that stands in two rows where each must be `unique`), each once for every rule that it
    breaks; with them a named column that is not there, a column whose type can't hold what is asked for, a file whose
    sha256 is not the one in `digest` or in the Croissant file (once it has one, every file needs one), and rows that
    stand in two splits (where a column has another value in every row none could, so `duplicates_by` must say which
    count).
    `missing_rate(column)`: the share of cells that are missing (null or NaN); without a column that of the column where
    most are.
    `duplicate_rows`: rows that are equal to an earlier row, in all columns or in those of `duplicates_by`.

    ## Why it matters

    A unit that changed from metres to feet, an id that was cut to eight digits, a column that has been empty since an
    upgrade, a test file that is not the one of last week: scores are computed all the same, and mean something else.

    ## Method

    One pass over all rows, some at a time, so that tables larger than memory are read; a second one only to show rows
    that stand twice. All figures are exact facts of these rows. Equal rows are found by 64-bit digests of typed values
    (among 100 million rows the chance of one accidental pair is under 1 in 3,000); columns of a type that has no digest
    are named. A Croissant file (JSON-LD, version 1.0 or 1.1) gives types of fields and sha256 of files; rules in
    `table_schema` come on top. Rows that break a rule are written to the evidence, the first 10,000 of each rule.
    Constant columns, columns without any value and infinite numbers are named and count only where a rule says so.

    ## What it cannot show

    Values that are plausible and wrong. Rules that nobody wrote down. Near-duplicates: see `contamination`.

    ## Example

    ```yaml
    data:
      - check: integrity
        dataset: test
        table_schema:
          age: {type: integer, min: 0, max: 120, nullable: false}
          site: {values: [north, south]}
        require: [schema_violations == 0, missing_rate(age) <= 1 %, duplicate_rows == 0]
    ```
    """

    dimension: ClassVar[Literal["data"]] = "data"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("schema_violations", "count", "lower", "Cells, columns and files that break a rule.", exact=True),
        Metric(
            "missing_rate", "%", "lower", "Share of cells that are missing.", parts="column", exact=True, whole=True
        ),
        Metric("duplicate_rows", "rows", "lower", "Rows that are equal to an earlier row.", exact=True),
    )

    check: Literal["integrity"] = "integrity"
    dataset: DatasetName
    table_schema: dict[str, ColumnRule] = Field(default_factory=dict, description="Column: what its cells must be.")
    only: bool = Field(False, description="Columns that the schema doesn't name are violations.")
    croissant: str | None = Field(
        None, description="Croissant file (JSON-LD) with types of columns and sha256 of files."
    )
    record_set: str | None = Field(None, description="Which record set of the Croissant file, where it has several.")
    digest: dict[str, str] = Field(default_factory=dict, description="File: its sha256, as 64 digits of 0-9 and a-f.")
    duplicates_by: tuple[str, ...] = Field((), description="Columns in which duplicates are equal; default: all.")
    split: str | None = Field(
        None,
        description="Column that names the split of a row; rows equal in `duplicates_by` or in all else are in one.",
    )

    @model_validator(mode="after")
    def _digests(self) -> Integrity:
        for name, value in self.digest.items():
            plain = value.removeprefix("sha256:")
            if len(plain) != 64 or set(plain) - set("0123456789abcdef"):
                raise ValueError(f"digest of {name!r} is no sha256; write 64 digits of 0-9 and a-f")
        return self

    def needs(self) -> tuple[Need, ...]:
        """Rows of the dataset. That a column of the schema is missing is what it finds, so none is asked for."""
        return (NeedRows(self.dataset, self.duplicates_by + ((self.split,) if self.split else ())),)

    def check_names(self, names: SpecNames) -> str | None:
        """A record set is one of a Croissant file."""
        if self.record_set is not None and self.croissant is None:
            return "record_set names a part of a Croissant file, and there is none; name it: `croissant: metadata.json`"
        return None

    def check_requirement(self, requirement: Requirement, rows: object = None, confidence: float = 0.95) -> str | None:
        """Why it can't be judged: there is no rule."""
        nothing = not (self.table_schema or self.croissant or self.digest or self.split)
        if requirement.metric == "schema_violations" and nothing:
            return "schema_violations needs something to hold the rows against; name columns in `table_schema:`"
        return None

    def run(self, inputs: Inputs) -> CheckResult:
        """Measure.

        Raises:
            InputError: A rule can't be applied, or the Croissant file can't be read.
        """
        from evalspec.checks.data._integrity import measure

        return measure(self, inputs)
