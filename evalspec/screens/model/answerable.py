"""Rows of today that a model can't answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.screens.evidence import Look
from evalspec.screens.pairs import alike

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.evidence import Evidence

LONGEST = 160
"""Characters of a reason."""


def look(evidence: Evidence) -> Look:
    """Rows that models were tried on, the odd ones first; all of it are facts."""
    found: list[Suspicion] = []
    for trial in evidence.trials:
        if trial.unlike is not None or not trial.failed:
            continue
        beside = next((first for first, second in alike(evidence) if second == trial.dataset), "")
        if beside and evidence.asks("prediction_shift", (beside, trial.dataset), model=trial.model):
            continue
        reason = trial.reason if len(trial.reason) <= LONGEST else f"{trial.reason[: LONGEST - 1]}…"
        sentence = (
            f"{trial.model} can't answer {trial.failed:,} of {trial.rows:,} rows of {trial.dataset} that it was tried "
            f"on, rare and incomplete ones first: {reason}"
        )
        fields = {"reference": beside, "current": trial.dataset, "predictions": trial.model}
        suggestion = evidence.requirement("data", "shift", "prediction_shift <= 0.1", fields) if beside else ""
        found.append(evidence.suspicion(f"{trial.model} on {trial.dataset}", sentence, suggestion, weakens=True))
    return Look(tuple(found))
