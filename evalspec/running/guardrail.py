"""Speed without quality is void: answers given while timing are held against those that quality is computed on."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.words import plural
from evalspec.language.inputs import Samples
from evalspec.language.parts import CheckResult
from evalspec.language.timings import FAILED, NOT_FINITE, NOT_UNDERSTOOD, OTHER_SHAPE
from evalspec.running.graded_answers import GradedAnswers, side_by_side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.language.parts import Check

MAY_DIFFER = 0.005
"""Largest share of items that may be answered otherwise; of very many rows, 598 equal ones show it."""
ITS_OWN = (FAILED, NOT_UNDERSTOOD, OTHER_SHAPE, NOT_FINITE)
"""Outcomes of a query that are the model's own failure on a row."""
REPEATED = 1.5
"""Times that a row was sent on average, from which on it matters that a model may remember it."""
CLOSE = 1e-4
"""Relative: values, and the sums that stand for boxes and masks, as close as this are the same answer (another batch
size rounds otherwise)."""


@dataclass(frozen=True, slots=True)
class AnswerComparison:
    """Answers of one model on one dataset, timed against judged.

    Args:
        items: Distinct rows that were compared.
        rows: Rows of the dataset.
        different: Of the items, those with another answer at least once.
        broken: Distinct rows, none of the items, that the model only ever failed on, though it answered them where
            quality is computed.
        by_sums: Not the answers were compared, which are boxes, masks or embeddings, but a weighted sum of each.
    """

    items: int
    rows: int
    different: int
    broken: int = 0
    by_sums: bool = False

    def shown_equal(self, confidence: float) -> bool:
        """True where the share of different answers among all rows is shown to be small enough.

        The rows are finitely many and were drawn without replacement: were one more than ``MAY_DIFFER`` of them
        answered otherwise, so few would be seen only with the hypergeometric probability that is held against
        1 - confidence. Where all were compared it is a count.
        """
        from evalspec.stats.binomial import drawn_at_most

        too_many = math.floor(MAY_DIFFER * self.rows + 1e-9) + 1
        if too_many > self.rows or not self.items:
            return False
        return drawn_at_most(self.different, self.rows, too_many, self.items) <= 1.0 - confidence


def guarded(
    result: CheckResult,
    samples: Iterable[Samples],
    answers: Mapping[str, Path],
    confidence: float,
    *,
    grades: Mapping[str, GradedAnswers] | None = None,
    draft: bool = False,
) -> CheckResult:
    """A check's result, void where timed answers are not shown to be those that quality is computed on.

    Args:
        result: As the check gave it.
        samples: Everything that it timed.
        answers: Model: file of the answers that quality is computed on; models without one are not compared.
        confidence: Of the policy.
        grades: Model: scores of the texts that it gave while timing; these need not be equal, but as good.
        draft: That few answers are there to compare voids nothing.
    """
    made = [one for one in samples if one.answers is not None]
    reasons, notes, broken = [], [], []
    if grades:
        good = [one for one in grades.values() if draft or one.shown(confidence)]
        notes += [one.sentence for one in good]
        reasons += [one.doubt for one in grades.values() if one not in good]
        reasons += [why for one in grades.values() if (why := one.shorter) is not None and not draft]
        result = replace(result, blocks=(*result.blocks, side_by_side(list(grades.values()))))
    for model in dict.fromkeys(one.model for one in made if one.model not in (grades or {})):
        if model not in answers:
            notes.append(f"answers of {model} while timing were not compared: no quality is computed on these rows")
            continue
        compared = compare([one for one in made if one.model == model], answers[model])
        if compared.broken > MAY_DIFFER * (compared.items + compared.broken):
            broken.append(
                f"{model} failed, while it was timed, on {plural(compared.broken, 'row')} that it answered where "
                "quality is "
                "computed: what was timed is not what was judged"
            )
        if compared.shown_equal(confidence):
            asked = sum(_rows_asked(one) for one in made if one.model == model)
            often = asked / max(compared.items, 1)
            repeated = (
                f"; each row was sent {often:,.0f} times on average, so a model that remembers rows would look too fast"
            )
            notes.append(f"{_told(model, compared)}{repeated if often >= REPEATED else ''}")
        elif draft and not compared.different:
            notes.append(_told(model, compared))
        elif compared.different:
            reasons.append(f"{_told(model, compared)}, and at most {MAY_DIFFER * 100:g} % may differ")
        else:
            reasons.append(
                f"{_told(model, compared)}, which are too few to show that at most {MAY_DIFFER * 100:g} "
                "% differ; time more queries"
            )
    # A reason of its own kind stays of it where nothing is added.
    invalid = result.invalid if not reasons else "; ".join([result.invalid, *reasons] if result.invalid else reasons)
    if broken:
        # Failing is what the model does by itself: it keeps from PASS, and leaves every violation.
        result = replace(result, estimates=_withheld(result.estimates, "; ".join(broken)))
    return replace(result, invalid=invalid, notes=(*result.notes, *notes, *broken))


def unjudged(check: Check, samples: Iterable[Samples], judged: Collection[str]) -> list[str]:
    """Warnings about a timed model whose answers nothing requires to be right: random ones may be fast.

    Args:
        check: The check; one that requires nothing claims nothing.
        samples: Everything that it timed.
        judged: Models of whose answers on these rows something is required, so that the timed ones were compared.
    """
    timed = {one.model for one in samples}
    if check.model not in timed or check.model in judged or not check.blocking:
        return []
    return [
        f"no requirement checks the answers that {check.model} gave while it was timed, so a fast model that answers "
        "wrongly would pass"
    ]


def _told(model: str, compared: AnswerComparison) -> str:
    """Outcome of comparing answers, in words."""
    when = f"while it was timed, {model} answered"
    if compared.different:
        return f"{when} {compared.different:,} of {compared.items:,} rows differently from where quality is computed"
    how = f" (a weighted sum of each answer, to {CLOSE:g})" if compared.by_sums else ""
    return f"{when} as it did where quality is computed, on all {compared.items:,} rows that were compared{how}"


def _withheld(
    estimates: Mapping[str, Estimate | Fact | Parts | Measured], reason: str
) -> dict[str, Estimate | Fact | Parts | Measured]:
    kept: dict[str, Estimate | Fact | Parts | Measured] = {}
    for name, one in estimates.items():
        measured = Measured.of(one)
        kept[name] = replace(measured, withhold=measured.withhold or reason)
    return kept


def compare(samples: list[Samples], path: Path) -> AnswerComparison:
    """Hold timed answers against a file of answers, row by row.

    Raises:
        RecordError: The file can't be read.
    """
    import numpy as np

    from evalspec.answers.file import compared_exactly, compared_numbers, read_answers

    judged = read_answers(path)
    # Of a model that chooses and writes, what is timed is that it writes.
    judged = judged.written or judged
    truth = compared_numbers(judged)
    differs, seen, failed = (np.zeros(judged.n, dtype=bool) for _ in range(3))
    for one in samples:
        rows, given = _rows(one, judged.n), one.answers
        assert given is not None
        kept = np.isfinite(given) & one.ok[:, None]
        there, answer = rows[kept], given[kept]
        same = answer == truth[there]
        if not compared_exactly(judged):
            same = np.isclose(answer, truth[there], rtol=CLOSE, atol=1e-9)
        seen[there] = True
        differs[there[~same]] = True
        failed[rows[_by_itself(one)[:, None] & _of_query(one)]] = True
    # One that was answered elsewhere, or whose answer was not kept, is no row that always fails.
    failed &= ~seen & ~_answered_rows(samples, judged.n)
    by_sums = judged.task in ("boxes", "mask", "embedding")
    return AnswerComparison(int(seen.sum()), judged.n, int(differs.sum()), int(failed.sum()), by_sums)


def _by_itself(one: Samples) -> NDArray[np.bool_]:
    """Queries that the model failed on, and no connection, time-out or full server did; shape (q,)."""
    import numpy as np

    if one.outcome is None:
        return np.asarray(~one.ok)
    return np.isin(one.outcome, ITS_OWN)


def _answered_rows(samples: list[Samples], n: int) -> NDArray[np.bool_]:
    """Rows that were answered at least once, whether or not the answer was kept; shape (n,)."""
    import numpy as np

    answered = np.zeros(n, dtype=bool)
    for one in samples:
        answered[_rows(one, n)[one.ok[:, None] & _of_query(one)]] = True
    return answered


def _rows_asked(one: Samples) -> int:
    return one.batch * len(one.end_ns) if one.sizes is None else int(one.sizes.sum())


def _of_query(one: Samples) -> NDArray[np.bool_]:
    """Mask of the rows from `_rows` that a query really has, shape (q, batch): it may have fewer than the batch."""
    import numpy as np

    if one.sizes is None:
        return np.ones((len(one.ok), one.batch), dtype=bool)
    return np.asarray(np.arange(one.batch) < one.sizes[:, None])


def _rows(one: Samples, n: int) -> NDArray[np.int64]:
    """Rows of each query, shape (q, batch)."""
    from evalspec.measure.servable import rows_of_queries

    return rows_of_queries(one.items, one.batch, n, int(one.details.get("order_seed") or 0))
