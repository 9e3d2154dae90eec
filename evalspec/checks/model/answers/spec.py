"""`answers`: texts that are cut off, empty, run in circles, or are no answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, DatasetName, Model, Need, NeedPredictions, NeedRows, Part
from evalspec.language.patterns import pattern_problem
from evalspec.language.units import custom_error
from evalspec.scoring.sample_size import Sample, never_shown, never_shown_of_pairs

if TYPE_CHECKING:
    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

_SHARE = (
    "Clopper-Pearson, with clusters after Korn and Graubard; against a model Tango's score interval, corrected for "
    "skewness and continuity"
)
LENGTH, REFUSAL, GAP, UNLIKE = "length_ratio", "refusal_rate", "template_gap", "unlike"
MASS, FLIPS, WORST_ORDER = "option_mass", "order_flips", "worst_order"
FILE, COMMENT = ".txt", "#"
"""Ending of a file of patterns, and what begins its lines that are none."""


class Refusals(Part):
    """How an answer is told to be a refusal."""

    pattern: str = Field(
        min_length=1,
        description="A regular expression that finds refusals, large and small letters alike; or a file that ends in "
        ".txt with one a line. Without looking around, references back and repeats inside repeats.",
    )
    audited: str | None = Field(
        None,
        min_length=1,
        description='File of JSON lines on rows drawn at random, by key: {"id": 7, "refused": true}, with the "text" '
        "of the audited answer if you like. Without it nothing can be required.",
    )

    @property
    def in_a_file(self) -> bool:
        """The patterns stand in a file."""
        return self.pattern.endswith(FILE)

    @model_validator(mode="after")
    def _readable(self) -> Self:
        problem = None if self.in_a_file else pattern_problem(self.pattern, groups=None)
        if problem is not None:
            raise custom_error(problem)
        return self


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
    - `refusal_rate`: the answer is a refusal. `refusals:` names a pattern that finds some, and a file with people's
      word on rows drawn at random: `{"id": 7, "refused": true}` a line, joined by the dataset's key. Without people's
      word the rate is the pattern's, and may only stand under `warn:`. On harmless questions it should be low, on
      harmful ones high: both operators are accepted.
    - `unlike`: a row's samples do not all come to the same answer. The model's `generate: {samples: 5}` says how many
      are drawn; the answer is what `answer:` takes out of each text, else its words.
    - `length_ratio`: how long the answers are beside another model's to the same rows, in tokens where both models
      name `tokens` in `outputs:`, else in words: `length_ratio <= 1.2x baseline`.

    Of models that choose from `options:`, instead of the shares of texts:
    - `option_mass`: the probability that the letters of the options have together as the first token. The rest goes to
      words that are not an answer; below 1 % nobody answers the question, and all that is computed of the choice is
      INVALID.
    - `order_flips`: another option is chosen when the options are in a different order. `options: {orders: 4}` says in
      how many rotations each row is asked.
    - `worst_order`: the share of right answers in the order that has fewest. What holds for it holds for each order.

    Of both:
    - `template_gap`: how far right answers lie apart, in points, between two ways to put the question. The model's
      `prompt: {user: [FIRST, OTHER]}` lists them; the first ships, and what `quality`, `calibration`, `slices`,
      `generalization`, `compression` and this check require of the model must hold for each of them.

    ## Why it matters
    An answer that is cut at 32 tokens is scored as wrong, and nobody is told that it would have been right; speed
    improves meanwhile. A harness that takes the last number of a text for its answer scores what the model never said;
    one that leaves out what it can't read reports a score of the easy rows. "I'm sorry to hear that" begins many a
    helpful answer, and "that is beyond me" is a refusal that no pattern knows. A model that loops takes longest and
    says least. Twice as many tokens for the same answers are twice the cost.

    ## Method
    Shares: Clopper-Pearson over the rows; with clusters Korn and Graubard; against another model Tango's score
    interval, paired by row. `template_gap`: Tango's interval for each pair of templates, in either direction; that it
    is small is shown by all pairs, that it is large by one (Bonferroni). With `samples: k` the shares are of all
    answers, k to a row, and the row is a cluster; audited refusals are those of the first. Words are
    runs of letters and digits, in small letters; of Chinese and Japanese each character is one. Lengths: the sum of
    the candidate's by the sum of the other model's, paired by row with at least 200 rows: BCa by saddlepoint where many
    rows carry it, else Gaffke's bound, by which no answer is longer than the longest that either model gave.
    Refusals: how often an audited row that the pattern finds is a refusal, and one that it does not find, weighed by
    how many of all rows it finds (post-stratified). The bound towards the middle is MOVER's of these three shares, each
    by Clopper-Pearson, so that both errors of the pattern are in it; the one towards 0 (or 1) is that of the audited
    rows alone. In simulations of 648 patterns and audits, 95 % bounds miss in at most 6.1 % of 2,000 samples and 99.8 %
    bounds in 0.5 %. Of 2,000 answers with 200 audited and a pattern that errs in 1 %, the upper bound is 29 % (at 2 %
    refusals) to 47 % (at 10 %) closer than by the audited rows alone. With clusters, or where the pattern finds none
    (or all) of the audited rows, these alone count. An audit of which the pattern finds another share than of the other
    rows (p under 0.0001) is not a random sample and keeps the rate from PASS; one whose `text` is no longer what the
    model says is void.

    References: Clopper and Pearson, Biometrika 1934. Korn and Graubard, Survey Methodology 1998. Tango, Statistics in
    Medicine 1998. Efron, JASA 1987. Gaffke, Mathematical Methods of Statistics 2005. Holt and Smith, Post
    stratification, JRSS A 1979. Zou and Donner, Statistics in Medicine 2008 (MOVER).

    ## What it cannot show
    Whether an answer is right: see `quality`. What a wording does that is not in the list. Whether a cut answer would
    have been right. A text that goes on about the same in other words, or repeats itself further apart, is not a
    loop here. The length of answers so long and rare that
    these rows have none of them. Whether audited rows were drawn at random;
    and, where the file does not hold their text, whether people audited these answers or at another model's.

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
    each_template: ClassVar[bool] = True
    between_templates: ClassVar[tuple[str, ...]] = (GAP,)
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "truncated", "%", "lower", "Share of answers that were cut off.", interval=_SHARE,
            label="answers that are cut off",
        ),
        Metric("empty", "%", "lower", "Share of answers without a word.", interval=_SHARE, label="empty answers"),
        Metric(
            "unparsed", "%", "lower", "Share of answers that hold no answer where it should be.", interval=_SHARE,
            label="answers without an answer in them",
        ),
        Metric(
            "repeated", "%", "lower", "Share of answers that run in circles.", interval=_SHARE,
            label="answers that run in circles",
        ),
        Metric(
            REFUSAL, "%", "neither", "Share of answers that are refusals, by people's word on a random sample.",
            interval="Clopper-Pearson of audited rows, weighed by what the pattern finds of all rows (MOVER)",
        ),
        Metric(
            LENGTH, "x", "neither", "Length of all answers by that of another model's to the same rows.",
            interval="BCa of a ratio of means, paired by row (saddlepoint) with at least 200 rows where many rows "
                     "carry it, else Gaffke's bound",
        ),
        Metric(
            UNLIKE, "%", "lower", "Share of rows whose samples do not all come to the same answer.", interval=_SHARE,
        ),
        Metric(
            MASS, "%", "higher", "Mean probability that the options of a row have together.",
            interval="BCa by saddlepoint, or Gaffke's bound where few rows carry it",
        ),
        Metric(
            FLIPS, "%", "lower", "Share of rows whose chosen option depends on the order of the options.",
            interval=_SHARE,
        ),
        Metric(
            WORST_ORDER, "fraction", "higher", "Share of right answers in the order of options that has fewest.",
            extreme=True, interval="Clopper-Pearson for each order, with clusters after Korn and Graubard; all orders "
            "must hold, Bonferroni for a violation",
        ),
        Metric(
            GAP, "pp", "lower", "Largest difference in right answers between two of the templates.", extreme=True,
            interval="Tango's score interval for each pair, paired by row; all pairs must hold, Bonferroni for a "
            "violation",
        ),
    )  # fmt: skip

    check: Literal["answers"] = "answers"
    dataset: DatasetName
    refusals: Refusals | None = Field(
        None, description="What refusal_rate is about: {pattern: refusals.txt, audited: audited.jsonl}."
    )
    show_examples: Annotated[bool, Effort()] = Field(True, description="Show answers of each fault in the report.")

    def needs(self) -> tuple[Need, ...]:
        """Answers of the model and of every model that a requirement names."""
        models = dict.fromkeys((self.model, *self.baselines))
        answers = tuple(NeedPredictions(self.dataset, model, label=False) for model in models)
        joined = self.refusals is not None and self.refusals.audited is not None
        return (*answers, NeedRows(self.dataset)) if joined else answers

    def defects(self) -> tuple[Defect, ...]:
        """Texts that are cut off, empty, in circles, without an answer, refusals, or of another length."""
        planted: tuple[Defect, ...] = self.room("defects").planted(self)
        return planted

    def files_named(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Files of patterns and of audited rows, each with its place in the check."""
        if self.refusals is not None and self.refusals.in_a_file:
            yield ("refusals", "pattern"), self.refusals.pattern
        if self.refusals is not None and self.refusals.audited is not None:
            yield ("refusals", "audited"), self.refusals.audited

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why it can't pass, or may not block: nothing beside it, nobody's word, or too few rows to show it."""
        sample = Sample(self.dataset, rows.get(self.dataset), confidence)
        unheard = self._unheard(requirement) if requirement.metric == REFUSAL else None
        if unheard is not None:
            return unheard
        if requirement.metric == LENGTH:
            beside = f"{LENGTH} is about another model's answers; write such as {LENGTH} <= 1.2x baseline"
            return beside if requirement.model is None else never_shown(requirement, "mean", sample)
        if requirement.metric == GAP:
            alone = f"{GAP} is about the templates of one model; write such as {GAP} <= 5 pp"
            return None if requirement.model is None else alone
        if requirement.metric == WORST_ORDER and requirement.model is not None:
            return f"{WORST_ORDER} is about the orders of one model; compare accuracy"
        if requirement.model is not None:
            return never_shown_of_pairs(requirement, sample)
        return never_shown(requirement, "share", sample, f"none of them {requirement.metric}")

    def missing_from(self, requirement: Requirement, model: Model) -> str | None:
        """Several samples, or several templates."""
        if requirement.metric == UNLIKE and model.samples == 1:
            return f"{UNLIKE} needs several answers to each row: say such as generate: {{samples: 5, temperature: 0.8}}"
        if requirement.metric == GAP and model.templates == 1:
            return f"{GAP} needs several texts in `prompt: {{user: [FIRST, OTHER]}}`, and there is one"
        if requirement.metric in (MASS, FLIPS, WORST_ORDER) and not model.chooses:
            return f"{requirement.metric} is about a model that chooses from `options:`"
        if requirement.metric == MASS and model.chooses != "letter":
            return f"{MASS} is about letters, and the model's `options` score texts"
        if requirement.metric in (FLIPS, WORST_ORDER) and model.orders == 1:
            return f"{requirement.metric} needs several orders: say such as `orders: 4` in `options`"
        return None

    def _unheard(self, requirement: Requirement) -> str | None:
        """Reason why a share of refusals can't be told, or not required."""
        if self.refusals is None:
            return f"{REFUSAL} needs `refusals:`, a pattern that finds refusals, and audited rows"
        if requirement in self.warn:
            return None
        if requirement.model is not None:
            return f"{REFUSAL} beside another model is by the pattern alone, and may only stand under `warn:`"
        if self.refusals.audited is None:
            return (
                f"{REFUSAL} by a pattern alone is as wrong as the pattern, and may only stand under `warn:`; name "
                "audited rows drawn at random: `refusals: {audited: FILE}`"
            )
        return None
