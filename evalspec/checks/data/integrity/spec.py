"""`integrity`: whether the rows are what a schema says they are, and the files those that were meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.header import Header, Misfit, misspelt
from evalspec.language.parts import Check, DatasetName, Need, NeedRows, Part, SpecNames
from evalspec.language.reach import check_rows
from evalspec.language.units import custom_error
from evalspec.language.where import column_family, is_moment

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs
    from evalspec.language.requirement import Requirement
    from evalspec.language.scans import Scan

LONGEST_PATTERN = 200
Kind = Literal["integer", "number", "text", "bool", "time", "list"]
Bound = int | float | str
NUMBERS: tuple[Kind, ...] = ("integer", "number")
TIMES: tuple[Kind, ...] = ("time",)
TYPE_OF: Mapping[str, Kind] = {"text": "text", "number": "number", "truth value": "bool", "date": "time"}
"""What columns hold: as a rule's ``type`` calls it."""


class ColumnRule(Part):
    """Rule that must hold for every cell of a column."""

    type: Kind | None = Field(None, description="What the cells are; whole numbers are numbers too.")
    min: Bound | None = Field(None, description="Smallest value; of times as text: `2026-01-01`.")
    max: Bound | None = Field(None, description="Largest value, likewise.")
    values: tuple[str | int | float | bool, ...] = Field((), description="The only values that may occur.")
    pattern: str | None = Field(
        None, min_length=1, max_length=LONGEST_PATTERN, description="Regular expression (RE2) that all of a text fits."
    )
    nullable: bool = Field(True, description="Cells may be missing (null or NaN).")
    unique: bool = Field(False, description="No value may occur in two rows.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problem = self._range_wrong() or self._of_another_type()
        if problem is not None:
            raise custom_error(problem)
        return self

    def _range_wrong(self) -> Problem | None:
        low, high = self.min, self.max
        for field, bound in (("min", low), ("max", high)):
            if isinstance(bound, str) and not is_moment(bound):
                return Problem(f"`{field}: {bound}` is neither a number nor a time", remedy="write such as 2026-01-31")
        if low is None or high is None:
            return None
        if isinstance(low, str) or isinstance(high, str):
            if not (isinstance(low, str) and isinstance(high, str)):
                return Problem(f"`min: {low}` and `max: {high}` are not of one kind", remedy="write both as numbers")
            above = len(low) == len(high) and low > high
        else:
            above = low > high
        return Problem(f"`min: {low}` is above `max: {high}`: no value fits", remedy="swap them") if above else None

    def _of_another_type(self) -> Problem | None:
        """A bound or a pattern beside a type that has none."""
        for field, fits in self.fitting.items():
            if self.type is not None and self.type not in fits:
                return Problem(f"`{field}` does not apply to `type: {self.type}`", remedy="remove one of the two")
        return None

    @property
    def fitting(self) -> Mapping[str, tuple[Kind, ...]]:
        """Field that holds for some types only: these."""
        found: dict[str, tuple[Kind, ...]] = {
            field: TIMES if isinstance(bound, str) else NUMBERS
            for field, bound in (("min", self.min), ("max", self.max))
            if bound is not None
        }
        return found if self.pattern is None else found | {"pattern": ("text",)}


class Integrity(Check):
    """Integrity of the rows, by a schema, and of the files, by their digests.

    ## What it measures

    `schema_violations`: cells that break a rule of `table_schema` (type, range, allowed values, pattern, missing where
    that is not allowed, a value that occurs in two rows where each must be `unique`), each once for every rule that it
    breaks; with them a named column that is not there, a column whose type can't hold the required values, a file whose
    sha256 is not the one in `digest` or in the Croissant file (once it has one, every file needs one), and rows in
    two splits (where a column has another value in every row none could, so `duplicates_by` must say which
    count).
    `missing_rate(column)`: the share of cells that are missing (null or NaN); without a column that of the column where
    most are.
    `duplicate_rows`: rows that are equal to an earlier row, in all columns but the dataset's `key:`, by which copies
    would differ, or in those of `duplicates_by`.

    ## Why it matters

    A unit that changed from metres to feet, an id that was cut to eight digits, a column that has been empty since an
    upgrade, a test file that is not the one of last week: scores are computed all the same, and mean something else.

    ## Method

    One pass over all rows, some at a time, so that tables larger than memory are read, shared with other checks of the
    spec that look at them (`shift`, `coverage`); a second one only to show duplicate rows. All figures are exact
    facts of these rows. Equal rows are found by 128-bit digests of typed values (among ten thousand million rows the
    chance of one accidental pair is under 1e-18); columns of a type that has no digest are named. Beyond a million rows
    digests lie on the disk of the run's folder, 16 bytes a row for duplicates and 16 for each `unique` column, in files
    without a name that are gone when the run ends, however it ends. A Croissant file (JSON-LD, version 1.0 or 1.1)
    gives types of fields and sha256 of files; rules in `table_schema` come on top. Rows that break a rule are written
    to the evidence, the first 10,000 of each rule. Constant columns, columns without any value and infinite numbers are
    named and count only where a rule says so.

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
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "schema_violations",
            "count",
            "lower",
            "Cells, columns and files that break a rule.",
            exact=True,
            label="violations of the table's rules",
        ),
        Metric(
            "missing_rate",
            "%",
            "lower",
            "Share of cells that are missing.",
            parts="column",
            exact=True,
            whole=True,
            label="missing cells",
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
    duplicates_by: tuple[str, ...] = Field(
        (), description="Columns in which duplicates are equal; default: all but the `key:`."
    )
    split: str | None = Field(
        None,
        description="Column that names the split of a row; rows equal in `duplicates_by`, or in all but the `key:`, "
        "are in one.",
    )

    @model_validator(mode="after")
    def _digests(self) -> Integrity:
        for name, value in self.digest.items():
            plain = value.removeprefix("sha256:")
            if len(plain) != 64 or set(plain) - set("0123456789abcdef"):
                raise ValueError(f"digest of {name!r} is not a sha256; write 64 digits of 0-9 and a-f")
        return self

    def needs(self) -> tuple[Need, ...]:
        """Rows of the dataset. That a column of the schema is missing is what it finds, so none is asked for."""
        return (NeedRows(self.dataset, self.duplicates_by + ((self.split,) if self.split else ())),)

    def check_names(self, names: SpecNames) -> str | None:
        """A record set is one of a Croissant file."""
        if self.record_set is not None and self.croissant is None:
            return "record_set names a part of a Croissant file, and there is none; name it: `croissant: metadata.json`"
        return None

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """Rules of columns that are misspelt, or hold what the rule can't be compared with.

        That a column is not there, or holds another type than a rule's own ``type``, is what it finds.
        """
        columns = headers[self.dataset].columns if self.dataset in headers else {}
        for name, rule in self.table_schema.items() if columns else ():
            wrong = misspelt(name, self.dataset, columns, self.table_schema)
            if wrong is not None:
                yield Misfit(("table_schema", name), wrong)
            holds = columns.get(name, "")
            for field, fits in rule.fitting.items() if rule.type is None else ():
                if TYPE_OF.get(column_family(holds) or "", fits[-1]) not in fits:
                    yield Misfit(("table_schema", name, field), Problem(
                        f"column {name!r} holds {holds}, of which `{field}` says nothing",
                        remedy=f"say `type: {fits[-1]}` beside it if it should hold that, or remove it",
                    ))  # fmt: skip
            if _no_value_fits(rule.values, column_family(holds)):
                yield Misfit(("table_schema", name, "values"), Problem(
                    f"column {name!r} holds {holds}, of which none of `values` is one", remedy="write them as they are",
                ))  # fmt: skip
            unreadable = None if rule.pattern is None else _no_pattern(rule.pattern)
            if unreadable is not None:
                yield Misfit(("table_schema", name, "pattern"), unreadable)

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """The files in ``digest``, and the Croissant file."""
        yield from ((("digest", name), name) for name in self.digest)
        if self.croissant is not None:
            yield ("croissant",), self.croissant

    def holds_files_of(self) -> tuple[str, ...]:
        """Its dataset, where a Croissant file has digests of the files."""
        return () if self.croissant is None else (self.dataset,)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't be judged: there is no rule, or there are not so many rows."""
        nothing = not (self.table_schema or self.croissant or self.digest or self.split)
        if requirement.metric == "schema_violations" and nothing:
            return "schema_violations needs rules for the rows; name columns in `table_schema:`"
        return check_rows(requirement, self.dataset, rows.get(self.dataset))

    def scans(self, inputs: Inputs) -> tuple[Scan, ...]:
        """All columns."""
        scans: tuple[Scan, ...] = self.room("measure").scans_of(self, inputs)
        return scans


def _no_value_fits(values: Sequence[str | int | float | bool], holds: str | None) -> bool:
    """No cell of a column of numbers, or of truth values, is one of these."""
    if holds == "truth value":
        return bool(values) and not any(isinstance(one, bool) for one in values)
    return bool(values) and holds == "number" and all(isinstance(one, str | bool) for one in values)


def _no_pattern(pattern: str) -> Problem | None:
    """Problem of a pattern that is no regular expression; None: it is one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), f"^(?:{pattern})$")
    except pa.ArrowException as error:
        message = f"{pattern!r} is not a regular expression: {str(error).splitlines()[0]}"
        return Problem(message, remedy="write one in RE2's syntax, which has no look-around and no back-references")
    return None
