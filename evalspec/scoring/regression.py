"""One value a row: how its metrics are scored, what is shown beside the scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Parts
from evalspec.scoring import dummies, show
from evalspec.scoring import resampled as statistics
from evalspec.scoring.catalogue.metrics import REGRESSION
from evalspec.scoring.family import Family, QualityContext, blind_sentence
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.scores import MeanLoss, Resampled, RootMeanSquare, Score

if TYPE_CHECKING:
    from evalspec.evidence.blocks import AnyBlock
    from evalspec.scoring.family import ScoringFields


def _varies(rows: Scored) -> None:
    # A label may vary by so little that its square is 0.
    if rows.n < 2 or not float(np.var(rows.truth)) > 0.0:
        raise Undefined(f"the label of {rows.where} doesn't vary: r2 is 0/0")


R2 = Resampled("r2", statistics.explained(), _varies)
_SCORES: dict[str, Score] = {
    "mae": MeanLoss("mae", lambda rows: np.abs(rows.errors())),
    "rmse": RootMeanSquare(),
    "r2": R2,
}


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score as `evalspec.scoring.tasks.score`."""
    return _SCORES[metric]


def listed(rows: Scored, check: ScoringFields) -> tuple[str, ...]:
    """Names of all metrics."""
    return tuple(_SCORES)


def weakens(seen: QualityContext) -> Sequence[str]:
    """Sentence that the model does no better than the mean; empty where it does."""
    estimate = seen.whole("r2", R2)
    if estimate is None or estimate.value is None or estimate.value > 0.0:
        return ()
    return (blind_sentence("r2", estimate.value, 0.0, "the mean", worse=True),)


def notes(seen: QualityContext) -> Sequence[str]:
    """Sentence that the model is not shown to be nearer than the median; empty where it is."""
    estimate, blind = seen.found.estimates.get("mae"), dummies.majority(seen.rows, "mae")
    if estimate is None or isinstance(estimate, Parts) or estimate.value is None or blind is None:
        return ()
    bound = estimate.bound(seen.inputs.confidence, "upper")
    if bound is not None and bound < blind:
        return ()
    return (blind_sentence("mae", estimate.value, blind, "the median", worse=estimate.value >= blind),)


def blocks(seen: QualityContext) -> Sequence[AnyBlock]:
    """Residuals, and the rows furthest off."""
    shown = list(show.residuals(seen.rows))
    examples = show.wrong_rows(seen.inputs, seen.rows) if seen.check.show_examples else None
    return [*shown, examples] if examples is not None else shown


VALUES = Family(
    REGRESSION,
    score,
    listed,
    blind={"constant": dummies.majority},
    blind_caption="constant: the best single number for every row (median for mae, mean for rmse).",
    blocks=blocks,
    weakens=weakens,
    notes=notes,
)
