"""`judged`: what a model judge says of answers, compared with what people say of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from evalspec.errors import Problem
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Circumstance, Effort, Rows
from evalspec.language.parts import Check, DatasetName, Need, NeedPredictions, NeedRows
from evalspec.language.units import custom_error
from evalspec.scoring.sample_size import Sample, never_shown

if TYPE_CHECKING:
    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

_POWERED = (
    "PPI++: BCa of the judge's mean corrected by human labels, if there are at least 200 with 20 disagreements; "
    "below, the human labels alone"
)
PASS, WIN = "judged_pass", "win_rate"
HUMAN = "name a dataset with the verdicts of people on rows drawn at random, its `label:`: `human: DATASET`"

Column = Annotated[str, StringConstraints(min_length=1)]


class JudgedAnswers(Check):
    """Share of answers that are good, by a model judge whose verdicts are compared with those of people.

    ## What it measures
    A judge has read the candidate's answers elsewhere; nothing is asked over a network. Its verdicts are the dataset
    `judgements:`, one row for each row of `dataset:`, joined by `key:`. The dataset `human:` has, for some of these
    rows, drawn at random, what people say: its `label:`.
    - `judged_pass`: share of answers that pass, with `verdict:`, a column with true or false (1 or 0).
    - `win_rate`: share of comparisons with another answer that the candidate wins, with `seats:`, two columns: what the
      judge said with the candidate in the first seat and in the second (1 or true: the candidate is better, 0.5: a tie,
      0 or false: it is not). A verdict that turns with the seat is a tie. A tie counts one half.

    An answer that the judge gave no verdict on counts as a fail (a loss), and so does one that people could not decide
    on; both are counted in the report. Shown beside: the judge's own share and how far it is off, what it says where
    people say otherwise, and both by the length of the answer, if the model writes text.

    ## Why it matters
    A judge likes long answers, its own words and the first seat; it passes what sounds right. Its share of 4,000
    answers has a narrow interval around the wrong number. A judge that fails on hard rows, which then leave the mean,
    reports the score of easy ones.

    ## Method
    PPI++: the judge's mean over all rows, times a weight, and the mean over the labelled rows of what people say minus
    the weighted verdict of the judge, where the weight makes the variance least. Bounds: BCa (by saddlepoint) over the
    contributions of rows, or of clusters; those of labelled rows are the jackknife's. It decides with at least 200
    human labels and 20 disagreements (with clusters: so many of these). Below, the human labels alone decide:
    Clopper-Pearson, with clusters Korn and Graubard; where there are ties Gaffke's bound of a mean. In simulations (a
    judge who is biased, lenient, harsh, worse on hard rows, or guesses; shares of .7, .9, .97) 95 % lower bounds err in
    at most 5.0 % of samples; the judge's share by itself covers the truth in none or in all of them. Without `human:` a
    requirement may only stand under `warn:`, and is about what the judge says.

    Where the judge passes another share of the labelled rows than of the rest (1 in 1,000 by chance), they are not
    drawn at random, and nothing passes.

    `answer:` names a column of `judgements:` with the answer that was judged, or its SHA-256 (of the text in UTF-8). An
    answer that is not the candidate's voids the check.

    References: Angelopoulos, Duchi and Zrnic, PPI++, 2023. Efron, JASA 1987. Clopper and Pearson, Biometrika 1934.
    Korn and Graubard, Survey Methodology 1998. Gaffke, Mathematical Methods of Statistics 2005. Zheng et al., Judging
    LLM-as-a-judge, NeurIPS 2023.

    ## What it cannot show
    Without `answer:`, that the judge has seen the answers of this candidate and not those of an older one. Whether
    people saw what the judge had said, which makes them agree. Whether labelled rows were drawn at random from rows on
    which the judge agrees with itself. Which of several people is right: see `agreement`. Longer answers that people
    like as well as the judge does are not a bias here.

    ## Example
    ```yaml
    - check: judged
      dataset: test
      key: id
      judgements: judgements
      verdict: good
      answer: answer_sha256
      human: audited
      require:
        - judged_pass >= 80 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(PASS, "%", "higher", "Share of answers that pass, by judge and people.", interval=_POWERED),
        Metric(WIN, "%", "higher", "Share of comparisons won, ties one half, by judge and people.", interval=_POWERED),
    )

    check: Literal["judged"] = "judged"
    dataset: DatasetName
    key: Column = Field(description="Column that names a row, in all three datasets.")
    judgements: Annotated[DatasetName, Rows("beside")] = Field(
        description="Dataset with the judge's verdicts, one row per key."
    )
    verdict: Column | None = Field(
        None,
        description="Column of `judgements:`: true or 1 where the answer passes; empty: no verdict.",
    )
    seats: tuple[Column, Column] | None = Field(
        None,
        description="Two columns of `judgements:`: 1 where the candidate wins in the first seat, and in the second; "
        "0.5: a tie.",
    )
    answer: Column | None = Field(
        None, description="Column of `judgements:`: the answer that was judged, or its SHA-256 in hex."
    )
    human: Annotated[DatasetName | None, Rows("beside")] = Field(
        None, description="Dataset with the verdicts of people on rows drawn at random: its `label:`."
    )
    judge: Annotated[str | None, Circumstance()] = Field(
        None, description="Who judged: model, version, instructions; told with every number."
    )
    show_examples: Annotated[bool, Effort()] = Field(
        True, description="Show answers on which judge and people disagree in the report."
    )

    @property
    def metric_name(self) -> str:
        """The metric that the columns are of."""
        return PASS if self.seats is None else WIN

    @property
    def verdicts(self) -> tuple[str, ...]:
        """Columns with the judge's verdicts: one, or one for each seat."""
        return self.seats or ((self.verdict,) if self.verdict is not None else ())

    @model_validator(mode="after")
    def _whole(self) -> Self:
        problem = self._columns() or self._datasets()
        if problem is not None:
            raise custom_error(problem)
        return self

    def _columns(self) -> Problem | None:
        if (self.verdict is None) == (self.seats is None):
            said = "no field says" if self.verdict is None else "`verdict:` and `seats:` both say"
            remedy = f"name `verdict: COLUMN` for {PASS}, or `seats: [FIRST, SECOND]` for {WIN}"
            return Problem(f"{said} where the judge's verdicts are", remedy=remedy)
        if self.seats is not None and self.seats[0] == self.seats[1]:
            message = f"{self.seats[0]!r} stands for both seats, so that no verdict could turn with them"
            return Problem(message, remedy="ask the judge with the candidate in the second seat too")
        return None

    def _datasets(self) -> Problem | None:
        named = [one for one in (self.dataset, self.judgements, self.human) if one is not None]
        twice = next((one for one in named if named.count(one) > 1), None)
        if twice is None:
            return None
        return Problem(
            f"{twice!r} stands for two of `dataset:`, `judgements:` and `human:`", remedy="name a different one"
        )

    def sides(self) -> tuple[tuple[str, str], ...]:
        """The judge's verdicts and those of people, which must come from different files."""
        return () if self.human is None else ((self.judgements, self.human),)

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why it can't pass, or may not block: nobody looked, the other kind of verdict, too few rows, a baseline."""
        name = requirement.metric
        if name != self.metric_name:
            columns = "`verdict: COLUMN`" if name == PASS else "`seats: [FIRST, SECOND]`"
            return f"{name} needs {columns}"
        if requirement.model is not None:
            return f"{name} is not compared with another model's, whose answers were not judged here; write a number"
        if self.human is None:
            if requirement not in self.warn:
                return f"{name} is what a judge says and may only stand under `warn:`; to decide by it {HUMAN}"
            return never_shown(requirement, "share", Sample(self.dataset, rows.get(self.dataset), confidence))
        sample = Sample(self.human, rows.get(self.human), confidence, more="have more rows labelled")
        return never_shown(requirement, "share", sample)

    def needs(self) -> tuple[Need, ...]:
        """Answers, keys, the judge's verdicts, and those of people."""
        said = (self.key, *self.verdicts, *((self.answer,) if self.answer is not None else ()))
        needs: list[Need] = [
            NeedPredictions(self.dataset, self.model, label=False),
            NeedRows(self.dataset, (self.key,)),
            NeedRows(self.judgements, tuple(dict.fromkeys(said))),
        ]
        if self.human is not None:
            needs.append(NeedRows(self.human, (self.key,), label=True))
        return tuple(needs)

    def defects(self) -> tuple[Defect, ...]:
        """Verdicts turned to fails."""
        defects: tuple[Defect, ...] = self.room("defects").defects(self)
        return defects
