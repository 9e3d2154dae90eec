"""`answers`: texts that are cut off, empty, run in circles, or are no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions
from evalspec.scoring.sample_size import Sample, never_shown, never_shown_of_pairs

if TYPE_CHECKING:
    from evalspec.language.requirement import Requirement

_SHARE = (
    "Clopper-Pearson, with clusters after Korn and Graubard; against a model Tango's score interval, corrected for "
    "skewness and continuity"
)
LENGTH = "length_ratio"


class WrittenAnswers(Check):
    """Texts that a model writes: cut off, empty, in circles, without an answer, longer than before.

    ## What it measures
    Shares of rows, for models that write text:
    - `truncated`: the text ends because it was cut: the output named as `finish_reason` says `length` (or `max_tokens`,
      `model_length`, `model_context_window_exceeded`, as other servers put it).
    - `empty`: nothing but white space was written.
    - `unparsed`: there is no answer where the model's `answer:` says that it is. `quality` counts such a row as wrong;
      here is how many there are.
    - `repeated`: the text runs in circles: 8 words or more, 4 times in a row, one right after the other. Fewer words
      that repeat count as soon as they fill 32 words.
    - `length_ratio`: how long the answers are beside another model's to the same rows, in tokens where both models
      name `tokens` in `outputs:`, else in words: `length_ratio <= 1.2x baseline`.

    ## Why it matters
    An answer that is cut at 32 tokens is scored as wrong, and nobody is told that it would have been right; speed
    improves meanwhile. A harness that takes the last number of a text for its answer scores what the model never said;
    one that leaves out what it can't read reports a score of the easy rows. A model that loops takes longest and says
    least. Twice as many tokens for the same answers are twice the cost.

    ## Method
    Shares: Clopper-Pearson over the rows; with clusters Korn and Graubard; against another model Tango's score
    interval, paired by row. Words are runs of letters and digits, in small letters; of Chinese and Japanese each
    character is one. Lengths: the sum of the candidate's by the sum of the other model's, paired by row, from 200 rows
    on: BCa by saddlepoint where many rows carry it, else Gaffke's bound, by which no answer is longer than the longest
    that either model gave.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998. Tango, Statistics in
    Medicine 1998. Efron, JASA 1987. Gaffke, Mathematical Methods of Statistics 2005.

    ## What it cannot show
    Whether an answer is right: see `quality`. Whether a cut answer would have been right. A text that goes on about the
    same in other words, or repeats itself further apart, is no loop here.

    ## Example
    ```yaml
    - check: answers
      dataset: test
      require:
        - truncated <= 2 %
        - empty <= 0.5 %
        - unparsed <= 2 %
      warn:
        - length_ratio <= 1.2x baseline
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("truncated", "%", "lower", "Share of answers that were cut off.", interval=_SHARE),
        Metric("empty", "%", "lower", "Share of answers without a word.", interval=_SHARE),
        Metric("unparsed", "%", "lower", "Share of answers that hold no answer where it should be.", interval=_SHARE),
        Metric("repeated", "%", "lower", "Share of answers that run in circles.", interval=_SHARE),
        Metric(
            LENGTH, "x", "neither", "Length of all answers by that of another model's to the same rows.",
            interval="BCa of a ratio of means, paired by row (saddlepoint), from 200 rows on where many rows carry it, "
            "else Gaffke's bound",
        ),
    )  # fmt: skip

    check: Literal["answers"] = "answers"
    dataset: DatasetName
    show_examples: Annotated[bool, Effort()] = Field(True, description="Show answers of each fault in the report.")

    def needs(self) -> tuple[Need, ...]:
        """Answers of the model and of every model that a requirement names."""
        models = dict.fromkeys((self.model, *self.baselines))
        return tuple(NeedPredictions(self.dataset, model, label=False) for model in models)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass: a length beside nothing, or too few rows to show it."""
        sample = Sample(self.dataset, rows.get(self.dataset), confidence)
        if requirement.metric == LENGTH:
            beside = f"{LENGTH} is about another model's answers; write such as {LENGTH} <= 1.2x baseline"
            return beside if requirement.model is None else never_shown(requirement, "mean", sample)
        if requirement.model is not None:
            return never_shown_of_pairs(requirement, sample)
        return never_shown(requirement, "share", sample, f"none of them {requirement.metric}")
