"""`leakage`: whether training data hold what only the test set should know."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.evidence.words import and_list
from evalspec.language.declarations import Listing, Rows
from evalspec.language.header import Header, Matched, Misfit
from evalspec.language.parts import Check, DatasetName, Need, NeedRows
from evalspec.language.reach import check_rows
from evalspec.language.units import custom_error
from evalspec.language.where import column_family

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

NEEDS: Mapping[str, tuple[str, ...]] = {
    "group_overlap": ("train", "group"),
    "time_overlap": ("train", "time"),
    "entity_time_overlap": ("train", "group", "time"),
    "rows_before_cutoff": ("after", "time"),
    "index_overlap": ("train", "index"),
}
"""Metric: fields that it is made from."""
OF_LABELS = ("conflicting_labels", "target_leakage")
AS_TIME = "store it as a date, a timestamp or a number; a csv reads it as one with `types: {{{name}: time}}`"


class Leakage(Check):
    """Leakage of answers that only the test set should know, through training data or a single column.

    ## What it measures
    - `group_overlap`: test rows whose entity (`group: patient`, or `group: [hospital, patient]`) occurs in training.
    - `time_overlap`: test rows that are not later than the last training row (`time: visited`). With `group:` too,
      `entity_time_overlap`: test rows that are not later than the last training row of the same entity.
    - `rows_before_cutoff`: test rows that are not later than the day in `after:`, such as the last day of the texts
      that a model was trained on, where these are not at hand.
    - `index_overlap`: test rows between two training rows. In the order of `index:` (a position, a frame number, a
      time) the row before and the row after are training rows, or a training row stands at the same place. A
      place with rows of both counts as one of training.
    - `conflicting_labels`: test rows that are equal in all columns to another row, of the test set or of training,
      that has another label. Columns that name a row are left out, as in `contamination`.
    - `target_leakage(column)`: how well this column alone tells the label, from 0 (not at all) to 1 (always).

    ## Why it matters
    A model that knows a patient, a session or the week after knows part of the answer, and its score on such rows is
    not there in production. A column that tells the label too well was mostly written after the fact: a discharge code,
    the number of the payment. Equal rows with two labels say that no model can be right about both.

    ## Method
    Columns that the check names must be in every set and hold values of one kind: else it is an error of `validate`.
    Other columns of the test set that a training set lacks, or holds another kind of values in, are told by it.
    The counts are facts about these files. Ids are compared by value and type: 1 is 1.0 and is not "1"; where the two
    sides hold different types, none could ever be equal, and the check says so. Rows whose id or time is missing may
    belong to either side: they are counted, and with them nothing is shown to hold. Blank text is not an id. Times with
    a zone are compared as instants; a date and a time are compared by day. `index_overlap` is shown next to what a
    random split would give, m n (n - 1) / (N (N - 1)) of n training and m test rows. Conflicting rows are equal by
    digests of 128 bits. Training rows go by once, however many there are; memory holds of each test row who, when and
    where it is and digests. Only `target_leakage` needs rows: the columns that it judges, and the label, of both sides.

    `target_leakage`: numbers are cut at 64 quantiles of training, categories stand for themselves, missing cells are a
    category. Each cell gets the share of a class that its training rows have (without labelled training rows: those of
    one half of the test rows, drawn at random; the other half is judged); on test rows these shares rank the rows, and
    the score is 2 AUC - 1, the largest over the classes. A label of numbers is cut at the quartiles of training; of two
    normal columns the score is about their correlation. Of more than 20 classes, or with fewer than 20 rows, the rarest
    are one class together; where even that is too rare and holds more than 1 % of the rows, nothing is shown to hold.
    Bounds are DeLong's on the logit, Gaffke's very close to 1, and hold for this ranking in the population of the
    test rows. A sentence without a column is about all of them: for PASS the largest p-value counts, for FAIL the
    smallest times their number; a list, a picture, or a column that training lacks keeps it from PASS. `columns:` says
    which count.

    References: Kaufman, Rosset, Perlich and Stitelman, Leakage in data mining, TKDD 2012. DeLong, DeLong and
    Clarke-Pearson, Biometrics 1988. Gaffke, Mathematical Methods of Statistics 2005.

    ## What it cannot show
    Leakage by preprocessing (a scaler fitted on all rows), by several columns together, or inside texts, pictures and
    arrays. A column that predicts well may be honest: somebody has to know when it was written. Entities that go by two
    names. Copies of rows: see `contamination`.

    ## Example
    ```yaml
    data:
      - check: leakage
        train: [train]
        test: test
        group: patient
        time: visited
        require:
          - group_overlap == 0
          - time_overlap == 0
          - conflicting_labels == 0
          - target_leakage <= 0.95
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "data"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "group_overlap", "rows", "lower", "Test rows whose entity occurs in training.", exact=True,
            label="test rows whose entity is in training",
        ),
        Metric(
            "time_overlap", "rows", "lower", "Test rows not later than the last training row.", exact=True,
            label="test rows not later than training",
        ),
        Metric(
            "entity_time_overlap", "rows", "lower", "Test rows not later than the last training row of their entity.",
            exact=True, label="test rows not later than training rows of their entity",
        ),
        Metric(
            "rows_before_cutoff", "rows", "lower", "Test rows not later than the day in `after:`.", exact=True,
            label="test rows before the cutoff",
        ),
        Metric(
            "index_overlap", "rows", "lower", "Test rows that stand between two training rows.", exact=True,
            label="test rows between training rows",
        ),
        Metric(
            "conflicting_labels", "rows", "lower", "Test rows that are equal to a row with another label.", exact=True,
            label="equal rows with different labels",
        ),
        Metric(
            "target_leakage", "score", "lower", "How well a column alone tells the label: 0 not at all, 1 always.",
            parts="column", interval="DeLong on the logit, Gaffke's bound very close to 1, on test rows", most=1.0,
            label="single columns that give the label away",
        ),
    )  # fmt: skip

    check: Literal["leakage"] = "leakage"
    train: Annotated[tuple[DatasetName, ...], Rows("trained")] = Field((), description="What the model was trained on.")
    test: Annotated[DatasetName, Rows("beside")] = Field(description="The rows that must be new to it.")
    group: str | tuple[str, ...] = Field(
        (), description="Column, or columns together, of the entity that a row is of: patient, device, session."
    )
    time: str | None = Field(None, min_length=1, description="Column with the date or time of a row.")
    index: str | None = Field(None, min_length=1, description="Column with the position of a row: frame, line, time.")
    after: str | None = Field(None, description="Test rows must be later than this day: 2026-04-30.")
    columns: Annotated[tuple[str, ...], Listing()] = Field(
        (),
        description="Columns checked for `target_leakage` and `conflicting_labels`; default: what the model reads.",
    )

    @field_validator("after")
    @classmethod
    def _is_a_day(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return datetime.date.fromisoformat(value).isoformat()
        except ValueError as error:
            raise custom_error(Problem(f"{value!r} is not a day", remedy="write such as 2026-04-30")) from error

    @model_validator(mode="after")
    def _sets_differ(self) -> Self:
        if self.test in self.train:
            raise custom_error(
                Problem(
                    f"the test set {self.test!r} is named among its own training sets", remedy="name a different one"
                )
            )
        twice = next((name for name in self.train if self.train.count(name) > 1), None)
        if twice is not None:
            raise custom_error(Problem(f"{twice!r} is listed twice in `train`", remedy="leave one out"))
        return self

    @property
    def passing(self) -> tuple[str, ...]:
        """The training sets."""
        return self.train

    @property
    def entity(self) -> tuple[str, ...]:
        """The columns named in ``group``."""
        return (self.group,) if isinstance(self.group, str) else self.group

    @property
    def who(self) -> str:
        """These columns, in words."""
        return " & ".join(self.entity)

    @property
    def asked(self) -> frozenset[str]:
        """Metrics that requirements name."""
        return frozenset(requirement.metric for requirement in self.requirements)

    @property
    def placing(self) -> tuple[str, ...]:
        """Columns that say of whom, when and where a row is."""
        return (*self.entity, *(column for column in (self.time, self.index) if column is not None))

    def lacks(self, metric: str) -> tuple[str, ...]:
        """Fields that a metric needs and that are not there.

        Args:
            metric: Its name.
        """
        return tuple(field for field in NEEDS.get(metric, ()) if not getattr(self, field))

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass: a field is not there, or nothing is ever shown to be 0."""
        missing = self.lacks(requirement.metric)
        if missing:
            return f"{requirement.metric} needs {' and '.join(f'`{field}:`' for field in missing)}"
        if requirement.model is not None:
            return f"{requirement.metric} is about data and is not compared between models"
        if requirement.metric == "target_leakage" and requirement.threshold <= 0.0:
            return "no column is shown to tell nothing: its bound stays above 0; allow a little, such as 0.9"
        if requirement.part is not None and self.columns and requirement.part not in self.columns:
            return f"{requirement.part!r} is not among the checked columns; add it to `columns:`"
        return check_rows(requirement, self.test, rows.get(self.test))

    def matched(self, labels: Mapping[str, str]) -> tuple[Matched, ...]:
        """Columns that the spec names and all sets need; others that a training set lacks are left out, with a note."""
        train = tuple(self.train)
        aside = frozenset(labels[name] for name in (self.test, *train) if name in labels)
        named = (*self.placing, *self.columns)
        asked = [Matched(self.test, train, named, every=True)] if named else []
        described = [] if self.columns else [Matched(self.test, train, (), aside | {*self.placing}, goes_on=True)]
        return tuple([*asked, *described]) if train else ()

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterator[Misfit]:
        """Times and positions that are text, which has no order, and a label among the columns that may tell it."""
        for field, what in (("time", "time"), ("index", "position")):
            column = getattr(self, field)
            holds = {
                name: headers[name].columns.get(column, "") for name in (self.test, *self.train) if name in headers
            }
            texts = [name for name, kind in holds.items() if column_family(kind) == "text"]
            if texts:
                message = f"column {column!r} of {and_list(texts)} holds text, which has no order of {what}"
                yield Misfit((field,), Problem(message, remedy=AS_TIME.format(name=column)))
        label = labels.get(self.test)
        if label is not None and label in self.columns:
            problem = Problem(f"{label!r} is the label of {self.test}, and tells itself", remedy="leave it out")
            yield Misfit(("columns", self.columns.index(label)), problem)

    def needs(self) -> tuple[Need, ...]:
        """Rows of all sets."""
        columns = tuple(dict.fromkeys((*self.placing, *self.columns)))
        of_test = NeedRows(self.test, columns, label=bool(self.asked & set(OF_LABELS)))
        return (of_test, *(NeedRows(name, columns) for name in self.train))
