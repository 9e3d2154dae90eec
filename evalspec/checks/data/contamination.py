"""`contamination`: whether rows of the test set occur in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, CheckResult, DatasetName, Need, NeedRows
from evalspec.language.units import Share

if TYPE_CHECKING:
    from evalspec.language.inputs import Inputs

# Wanted share of text pairs just at `similarity` that the search finds.
RECALL = 0.99


class Contamination(Check):
    """Whether rows of the test set occur in training, equal or nearly so.

    ## What it measures

    `exact_duplicates`: test rows that are equal to a training row in all compared columns. Texts are compared after
    Unicode normalisation (NFKC), case folding, and with invisible characters removed and white space folded.
    `near_duplicates`: share of test rows that have an exact or a near duplicate in training. Each test row counts once,
    however often it occurs. Compared are the columns that the model reads, or those in `column`; never the label. Rows
    in which every compared column is missing or empty are left out and counted.

    ## Why it matters

    A model has seen the answers to rows that it was trained on. Its score on them is memory, and the higher score is
    not there in production. Copies come from crawls, from augmentation before splitting, from a source exported twice.

    ## Method

    Exact: digests of 128 bits over typed values (1 is 1.0, but not "1"; missing is not ""). Near, by type of column:

    - Text: Jaccard similarity of the sets of runs of `shingle_words` words is at least `similarity`. At the defaults
      one word changed among 15, or two among 30, is near. MinHash with bands solved for a recall of 99 % at the limit
      finds candidates, each is verified exactly (Broder 1997; Leskovec, Rajaraman, Ullman 2020, chapter 3). There is no
      closure over chains: a match is always a pair.
    - Arrays (pixels, signals, embeddings; fixed length): root mean square difference of at most `tolerance` of the
      range of values in the test set, or no value differs by more than 1 where they are whole numbers over a range of
      16 and more. The search is exact: recall 100 %.
    - Tables: every number differs by at most `tolerance` of its column's range (1st to 99th percentile of the test
      set), all else is equal. The search is exact: recall 100 %.

    Where columns are of several types each must be near by its own rule; a text column of at most 3 words on average
    that isn't the only column must be equal. Both metrics are facts about these files, without an interval; the
    recall stands beside them.

    ## What it cannot show

    Paraphrases, translations, crops and other pictures of the same thing; a test row inside a longer training text;
    training data that the spec does not name, such as that of a pretrained model. Rows with few distinct values agree
    by chance: compare with the repeats inside the test set, which are shown.

    ## Example

    ```yaml
    data:
      - check: contamination
        train: [train]
        test: test
        require: [exact_duplicates == 0, near_duplicates <= 0.5 %]
    ```
    """

    dimension: ClassVar[Literal["data"]] = "data"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("exact_duplicates", "rows", "lower", "Test rows that are equal to a training row.", exact=True),
        Metric("near_duplicates", "%", "lower", "Test rows equal or nearly equal to a training row.", exact=True),
    )

    check: Literal["contamination"] = "contamination"
    train: tuple[DatasetName, ...] = Field(min_length=1, description="What the model was trained and calibrated on.")
    test: DatasetName = Field(description="The rows that must be new to it.")
    column: str | tuple[str, ...] = Field((), description="Column or columns compared; default: what the model reads.")
    key: str | None = Field(None, description="Column that names a row in the examples.")
    similarity: float = Field(0.7, ge=0.1, le=1.0, description="Texts: Jaccard similarity from which on they are near.")
    shingle_words: int = Field(2, ge=1, le=20, description="Texts: words in a shingle.")
    tolerance: Share = Field(
        0.02, ge=0.0, lt=1.0, description="Numbers and arrays: difference, as a share of the range."
    )

    @model_validator(mode="after")
    def _sets_differ(self) -> Self:
        if self.test in self.train:
            raise ValueError(f"the test set {self.test!r} is named among its own training sets")
        if len(set(self.train)) < len(self.train):
            raise ValueError(f"a training set is named twice: {', '.join(self.train)}")
        return self

    @property
    def named(self) -> tuple[str, ...]:
        """The columns named in ``column``."""
        return (self.column,) if isinstance(self.column, str) else self.column

    def needs(self) -> tuple[Need, ...]:
        """Rows of all sets."""
        columns = self.named + ((self.key,) if self.key else ())
        return tuple(NeedRows(name, columns=columns) for name in (*self.train, self.test))

    def run(self, inputs: Inputs) -> CheckResult:
        """Measure.

        Raises:
            InputError: There is nothing to compare, or columns hold values that could never be equal.
        """
        from evalspec.checks.data._contamination import contamination
        from evalspec.checks.data._duplicates import Settings

        settings = Settings(self.similarity, self.shingle_words, self.tolerance, RECALL)
        return contamination(inputs, self.train, self.test, self.named, self.key, settings)
