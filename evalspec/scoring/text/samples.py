"""Several texts of one question: how their metrics are scored over questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.words import plural, verb
from evalspec.scoring.catalogue.samples import NAMES, SAMPLES
from evalspec.scoring.family import Family
from evalspec.scoring.ranking.family import clusters_of
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.text.rows import exact_hits
from evalspec.stats.means.bounded import SHARE
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.shares.samples import pass_all, pass_at

if TYPE_CHECKING:
    from evalspec.evidence.estimate import Comparison, Estimate
    from evalspec.scoring.family import ScoringFields
    from evalspec.scoring.scores import Estimators, Score
    from evalspec.stats.types import FloatArray, IntArray

_OF = {"pass_at": pass_at, "pass_all": pass_all}


@dataclass(frozen=True, slots=True)
class OverQuestions:
    """A mean over questions, each with several answers.

    Args:
        metric: Its name.
        k: Answers that are drawn.
    """

    metric: str
    k: int

    def estimate(self, rows: Scored, tools: Estimators) -> Estimate:
        """BCa, or Gaffke's bound where few questions carry."""
        values = self._values(rows)
        clusters = clusters_of(rows, len(values))
        return mean(values, rng=tools.rng(self.metric), clusters=clusters, alpha=tools.alpha, limits=SHARE)

    def compare(self, candidate: Scored, baseline: Scored, tools: Estimators) -> Comparison:
        """Paired by question: the same of the differences."""
        first, second = self._values(candidate), self._values(baseline)
        rng, clusters = tools.rng(self.metric, "paired"), clusters_of(candidate, len(first))
        return paired_mean(first, second, rng=rng, clusters=clusters, alpha=tools.alpha, limits=SHARE)

    def _values(self, rows: Scored) -> FloatArray:
        """Value of each question, shape (q,)."""
        questions, counts = _questions(rows)
        short = int((counts < self.k).sum())
        if short:
            raise Undefined(
                f"{plural(short, 'question')} of {rows.where} {verb(short, 'has', 'have')} fewer than {self.k} answers"
            )
        right = np.bincount(questions, weights=exact_hits(rows).astype(np.float64), minlength=len(counts))
        return _OF[self.metric](right.astype(np.int64), counts, self.k)


def _questions(rows: Scored) -> tuple[IntArray, IntArray]:
    """Question of each row, and rows of each question.

    Raises:
        Undefined: None is named, or there are no rows.
    """
    if rows.queries is None:
        raise Undefined("this metric is of several answers to a question; name the column that tells them: `query:`")
    if rows.n == 0:
        raise Undefined(f"{rows.where} has no rows")
    return rows.queries, np.bincount(rows.queries).astype(np.int64)


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    _questions(rows)
    return OverQuestions(metric, int(part or 1))


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of all metrics, where rows are answers to questions."""
    return () if rows.queries is None or rows.n == 0 else NAMES


def parts(metric: str, rows: Scored, check: ScoringFields) -> Sequence[str]:
    """1, each k of ``top_k`` that every question has answers for, and as many as every question has."""
    fewest = int(_questions(rows)[1].min())
    return tuple(str(k) for k in sorted({1, fewest, *(k for k in check.top_k if k <= fewest)}))


TEXT_SAMPLES = Family(SAMPLES, score, listed, parts)
