"""Texts given while timing, scored by the metric that is required of the answers: what was fast must be as good.

Texts need not be equal: a server that answers several requests at once rounds otherwise, and a tie between two words
falls the other way. So both sets are scored, and paired by row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.evidence.blocks import Column, Table
from evalspec.evidence.words import in_percent, plural
from evalspec.language.streams import NOT_COUNTED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.language.inputs import Predictions, Samples
    from evalspec.language.parts import Check
    from evalspec.pipeline.answer_place import AnswerPlace


SHORTEST = 0.9
"""Length of timed answers by that of the calm ones, which MLPerf asks for (TEST09): shorter ones are sooner done."""


@dataclass(frozen=True, slots=True)
class GradedAnswers:
    """Answers of one model to the same rows, timed and calm.

    Args:
        model: Its name.
        metric: That scores them.
        margin: Share of all rows' score that may be lost.
        rows: Rows of the dataset.
        compared: Of these, rows that were answered while timing.
        calm: Mean score of these rows where quality is computed.
        timed: Their mean score while timing; of a row that was asked for several times, the mean of its answers.
        length: Length of the timed answers by that of the calm ones to the same rows; None: the calm ones have none.
        unit: Lengths are counted in.
    """

    model: str
    metric: str
    margin: float
    rows: int
    compared: int
    calm: float
    timed: float
    length: float | None = None
    unit: str = "words"

    @property
    def lost(self) -> float:
        """Score that was lost, in rows."""
        return self.compared * (self.calm - self.timed)

    def shown(self, confidence: float) -> bool:
        """True where at most the margin is shown to be lost over all rows.

        The rows are finitely many and were drawn without replacement, as in `evalspec.running.guardrail`.
        """
        from evalspec.stats.binomial import drawn_at_most

        too_many = math.floor(self.margin * self.rows + 1e-9) + 1
        if too_many > self.rows or not self.compared:
            return False
        lost = max(0, math.ceil(self.lost - 1e-9))
        return drawn_at_most(min(lost, self.compared), self.rows, too_many, self.compared) <= 1.0 - confidence

    @property
    def sentence(self) -> str:
        """Both scores, in words."""
        timed, calm = (in_percent(round(score, 3)) for score in (self.timed, self.calm))
        return (
            f"{self.metric} of {self.model} was {timed} while it was timed and {calm} where quality is computed, on "
            f"{self.compared:,} of {plural(self.rows, 'row')}"
        )

    @property
    def shorter(self) -> str | None:
        """Why the speed does not count, as that of answers which are too short; None: they are long enough."""
        if self.length is None or self.length >= SHORTEST:
            return None
        return (
            f"while it was timed, {self.model} gave answers with {100 * self.length:.0f} % of the {self.unit} "
            f"that they have where quality is computed; at least {100 * SHORTEST:.0f} % are needed, because "
            "shorter answers are faster"
        )

    @property
    def doubt(self) -> str:
        """Why the speed does not count, where it is not `shown`."""
        most = in_percent(round(self.margin, 3))
        if self.lost > self.margin * self.compared:
            return f"{self.sentence}: at most {most} may be lost"
        return f"{self.sentence}: more queries must be timed to show that at most {most} are lost"


def graded(
    samples: Sequence[Samples], calm: Predictions, grader: Check, place: AnswerPlace | None
) -> GradedAnswers | None:
    """Score the texts that were given while timing, and those of the same rows that quality is computed on.

    Args:
        samples: Of one model, with streams.
        calm: Its answers to all rows.
        grader: A check that requires something of them.
        place: Where in a text the answer is.

    Returns:
        None where the check scores no texts, or none were given.
    """
    import numpy as np

    from evalspec.measure.servable import rows_of_queries
    from evalspec.timing.streams import tokens

    rows, texts, counts = [], [], []
    for one in samples:
        if one.streams is None:
            return None
        first = rows_of_queries(one.items, one.batch, calm.n, int(one.details.get("order_seed") or 0))[:, 0]
        given = one.ok & np.array([text is not None for text in one.streams.texts], dtype=np.bool_)
        rows.append(first[given])
        texts.append(one.streams.texts[given])
        counts.append(tokens(one.streams)[given])
    asked, said = np.concatenate(rows), np.concatenate(texts)
    before = grader.row_scores(calm)
    if before is None or not len(asked) or calm.truth is None:
        return None
    extracted = None if place is None else place.extracted(said.tolist(), 0)
    timed = replace(
        calm, n=len(asked), truth=calm.truth[asked], texts=said, extracted=extracted, clusters=None,
        finish_reasons=None, tokens=None, again=(), by_template=(), written=None,
    )  # fmt: skip
    after = grader.row_scores(timed)
    if after is None:
        return None
    count = np.bincount(asked, minlength=calm.n)
    mean = np.bincount(asked, weights=after.scores, minlength=calm.n) / np.maximum(count, 1)
    there = count > 0
    length, unit = _length(calm, asked, said.tolist(), np.concatenate(counts))
    return GradedAnswers(
        calm.model, before.name, before.margin, calm.n, int(there.sum()), float(before.scores[there].mean()),
        float(mean[there].mean()), length, unit,
    )  # fmt: skip


def _length(
    calm: Predictions, asked: NDArray[np.int64], said: list[str], tokens_said: NDArray[np.int64]
) -> tuple[float | None, str]:
    """Length of timed answers by that of the calm ones, each row as often as it was timed; and what it is counted in.

    Args:
        calm: Answers where quality is computed.
        asked: shape (k,), row of each timed answer.
        said: k texts.
        tokens_said: shape (k,), their tokens, or `NOT_COUNTED`.
    """
    import numpy as np

    assert calm.texts is not None
    if calm.tokens is not None and not (tokens_said == NOT_COUNTED).any():
        before, after, unit = calm.tokens[asked].sum(), tokens_said.sum(), "tokens"
    else:
        words = np.array([len(text.split()) for text in calm.texts.tolist()])
        before, after, unit = words[asked].sum(), sum(len(text.split()) for text in said), "words"
    return (float(after / before) if before else None), unit


def side_by_side(found: Sequence[GradedAnswers]) -> Table:
    """Scores of the same rows, calm and while timing."""
    columns = (
        Column(name="model"), Column(name="metric"), Column(name="calm", unit="%"),
        Column(name="while timing", unit="%"), Column(name="rows", unit="count"), Column(name="may be lost", unit="%"),
        Column(name="length while timing, by calm", unit="%"),
    )  # fmt: skip
    rows = tuple(
        (
            one.model,
            one.metric,
            100.0 * one.calm,
            100.0 * one.timed,
            one.compared,
            100.0 * one.margin,
            None if one.length is None else 100.0 * one.length,
        )
        for one in found
    )
    caption = "Answers given while timing, and those that quality is computed on, for the same rows."
    return Table(title="Speed and quality on the same answers", caption=caption, columns=columns, rows=rows)
