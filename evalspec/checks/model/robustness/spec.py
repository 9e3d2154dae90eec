"""`robustness`: the cost of noise, blur, typos or a slipped unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort, Listing
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, NeedRows, SpecNames
from evalspec.language.units import custom_error
from evalspec.scoring.sample_size import Sample, never_shown, never_shown_of_pairs

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

Corruption = Literal[
    "gaussian_noise", "blur", "brightness", "contrast", "jpeg", "occlusion", "rotation",
    "missing", "number_noise", "unit_slip", "category_swap",
    "typos", "case", "unicode", "truncation",
    "audio_noise", "gain", "time_shift",
]  # fmt: skip
Severity = Annotated[int, Field(ge=1, le=5)]
COMPARED = ("corruption_accuracy", "worst_corruption_accuracy", "mean_corruption_accuracy")
_SHARE = "Clopper-Pearson, with clusters after Korn and Graubard; against a model Tango's score interval"
_MEAN = "BCa of the rows' means over all copies (saddlepoint) with at least 200 rows; a row and its copies are one"
_ACCURACIES = (
    "BCa of the rows' means over all copies, Gaffke's bound where few rows carry; a row and its copies are one"
)
_ALL = "all copies must clear the threshold, each by"


class Robustness(Check):
    """Loss of quality where inputs are worse than in the test set.

    ## What it measures
    The rows of a dataset are copied, each copy is corrupted in one way at one severity (1 light to 5 heavy), and the
    model answers the copies too. `corruption_accuracy(blur 3)` is the accuracy on one copy, `worst_corruption_accuracy`
    the smallest of all, `mean_corruption_accuracy` their mean, `robustness_drop` how far that mean lies below the
    accuracy on the rows as they are. For models with values: `corruption_mae(missing 2)`, `worst_corruption_mae`,
    `mean_corruption_mae` and `mae_increase`.

    Pictures: `gaussian_noise`, `blur`, `brightness` (either way), `contrast`, `jpeg`, `occlusion` (a grey rectangle),
    `rotation` (either way). Tables: `missing` cells, `number_noise` (in units of the column's spread), `unit_slip` (a
    share of the rows has one number times 0.001, 0.1, 10 or 1000), `category_swap`. Texts: `typos`, `case`, `unicode`
    (characters that look alike), `truncation`. Sound as flat lists: `audio_noise`, `gain`, `time_shift`.

    ## Why it matters
    A test set is tidier than what comes in: focused pictures, full tables, correct spelling. A model that reaches 97 %
    on it and 70 % on a slightly blurred copy will reach 70 % on the first foggy morning.

    ## Method
    Everything is drawn from the spec's seed, each corruption from a stream of its own: the same spec makes the same
    copies. Only `columns:` are changed (default: those that the model reads). Pictures and sound are scaled by the
    `range:` of their values (default: 0 to 255 for bytes, else the smallest and largest value in these rows) and
    clipped to it; whole numbers stay whole.
    Strengths by severity, in that range: noise with a standard deviation of 4, 8, 12, 18, 26 %; blur with a sigma of
    0.4, 0.6, 0.8, 1, 1.4 pixels, times the root of side / 32 for larger pictures; brightness 10 to 50 % up or down;
    contrast times 0.75, 0.5, 0.4, 0.3, 0.15; JPEG quality 80, 60, 40, 25, 10; 5, 10, 15, 20, 30 % covered; 5, 10, 15,
    20, 30 degrees. Empty cells 1, 5, 10, 20, 30 %; number noise 5, 10, 20, 40, 80 % of the spread; rows with a slipped
    unit 1, 2, 5, 10, 20 %; swapped categories 1, 5, 10, 20, 30 %. Words with a typo 2, 5, 10, 20, 30 %, with changed
    case 10 to 100 %; odd characters 1, 3, 5, 10, 20 %; 90, 75, 60, 45, 30 % of a text kept. Signal to noise 30, 20, 15,
    10, 5 dB; 3, 6, 9, 12, 18 dB louder or quieter; moved by 2, 5, 10, 15, 25 % of the length.
    Rows that changed are counted: a copy in which no row did (`category_swap` of a single category) has no value, with
    that reason, and neither have the metrics over all copies.
    Each copy is a sample of the same rows: shares by Clopper-Pearson. Over all copies each row has one mean, and the
    interval is that of the rows' means, so 35 copies of 500 rows count as 500 rows. The drop is paired by row: with one
    copy Tango's score interval; with several BCa, or where few rows carry it Gaffke's bound, which counts a row that
    was not drawn and is wrong on every copy. Absolute errors have no largest value: their bounds say nothing about an
    error that is so rare that these rows have none of it.

    References: Hendrycks and Dietterich, ICLR 2019 (severities of common corruptions).

    ## What it cannot show
    Other corruptions than these, several at once, and shifts that no filter makes: a new camera, another hospital (see
    `generalization`). Attacks that search for the model's weak spot. Whether a heavily corrupted row can be answered at
    all: look at the examples.

    ## Example
    ```yaml
    - check: robustness
      dataset: test
      corruptions: [gaussian_noise, blur, brightness]
      severities: [1, 3]
      range: [0, 16]
      require:
        - worst_corruption_accuracy >= 80 %
        - robustness_drop <= 5 pp
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "corruption_accuracy", "fraction", "higher", "Accuracy on a corrupted copy.", parts="corruption",
            interval=_SHARE, label="accuracy on corrupted rows",
        ),
        Metric(
            "worst_corruption_accuracy", "fraction", "higher", "The smallest accuracy of all corrupted copies.",
            interval=f"{_ALL} {_SHARE}",
            extreme=True, label="accuracy on the worst corruption",
        ),
        Metric(
            "mean_corruption_accuracy", "fraction", "higher", "Mean accuracy over all corrupted copies.",
            interval=f"{_ACCURACIES}; against a model the same of the differences",
            label="mean accuracy on corrupted rows",
        ),
        Metric(
            "robustness_drop", "pp", "lower", "Accuracy on the rows as they are, minus the mean over all copies.",
            interval=f"{_ACCURACIES}, paired by row; of one copy Tango's score interval",
            label="loss of accuracy by corruption",
        ),
        Metric(
            "corruption_mae", "label", "lower", "Mean absolute error on a corrupted copy.", parts="corruption",
            interval="BCa of the mean (saddlepoint) with at least 200 rows", label="error on corrupted rows",
        ),
        Metric(
            "worst_corruption_mae", "label", "lower", "The largest mean absolute error of all corrupted copies.",
            interval=f"{_ALL} BCa of the mean (saddlepoint) with at least 200 rows",
            extreme=True,
        ),
        Metric(
            "mean_corruption_mae", "label", "lower", "Mean over all copies of the mean absolute error.", interval=_MEAN,
            label="mean error on corrupted rows",
        ),
        Metric(
            "mae_increase", "label", "lower", "Mean absolute error over all copies, minus that on the rows as they "
                "are.",
            interval=f"{_MEAN}, paired by row", label="rise of the mean absolute error",
        ),
    )  # fmt: skip

    check: Literal["robustness"] = "robustness"
    dataset: DatasetName
    corruptions: Annotated[tuple[Corruption, ...], Listing()] = Field(
        min_length=1, description="What is done to the copies."
    )
    severities: Annotated[tuple[Severity, ...], Listing()] = Field(
        (1, 2, 3, 4, 5), min_length=1, description="1 is light, 5 is heavy."
    )
    columns: Annotated[tuple[str, ...], Listing()] = Field(
        (), description="Columns to corrupt; default: all that the model reads."
    )
    shape: tuple[int, ...] | None = Field(
        None, description="Height, width and (3) colours of pictures in flat lists; default: a square."
    )
    range: tuple[float, float] | None = Field(
        None,
        description="Smallest and largest value of a pixel or a sound; default: 0 and 255 for bytes, else as seen.",
    )
    rows: int = Field(1000, ge=1, description="Maximum number of rows to copy, drawn by the seed.")
    show_examples: Annotated[bool, Effort()] = Field(True, description="Show a row with its copies in the report.")

    @property
    def copies(self) -> tuple[tuple[str, int], ...]:
        """Corruption and severity of each copy."""
        return tuple((name, severity) for name in self.corruptions for severity in self.severities)

    @model_validator(mode="after")
    def _plain(self) -> Self:
        for what, names in (("corruptions", self.corruptions), ("severities", self.severities)):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise custom_error(Problem(f"{twice} is listed twice in `{what}`", remedy="leave one out"))
        if self.shape is not None and (len(self.shape) not in (2, 3) or min(self.shape) < 1):
            raise custom_error(
                Problem(f"{list(self.shape)} is not a shape", remedy="write [height, width] or [.., .., 3]")
            )
        if self.range is not None and not self.range[0] < self.range[1]:
            raise custom_error(Problem(f"{list(self.range)} is not a range", remedy="write [smallest, largest]"))
        return self

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Names of the copies: corruption and severity."""
        return None if metric.parts is None else tuple(f"{name} {severity}" for name, severity in self.copies)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: no such comparison, or too few rows for a bound that shows it."""
        known = rows.get(self.dataset)
        capped = known is None or known > self.rows
        sample = Sample(
            self.dataset, self.rows if capped else known, confidence,
            more="raise `rows:` of the check" if capped else "add rows",
        )  # fmt: skip
        if requirement.model is not None:
            if requirement.metric in COMPARED:
                return None
            return f"{requirement.metric} is not compared between models; compare mean_corruption_accuracy"
        if requirement.metric == "robustness_drop":
            if len(self.copies) == 1:
                return never_shown_of_pairs(requirement, sample)
            return never_shown(requirement, "share", sample, "every answer the same on the copies")
        return never_shown(requirement, "share" if requirement.metric in COMPARED else "mean", sample)

    def needs(self) -> tuple[Need, ...]:
        """Predictions of each model on the rows as they are and on every copy, and the rows."""
        models = dict.fromkeys((self.model, *self.baselines))
        answers = tuple(NeedPredictions(self.dataset, model, copies=len(self.copies)) for model in models)
        return (*answers, NeedRows(self.dataset, columns=self.columns, label=True))
