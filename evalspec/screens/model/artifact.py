"""Answers in a file that the artifact beside them does not give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalspec.screens.evidence import Look

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.evidence import Evidence

SHARE = 0.1
"""Least share of rows that the artifact answers otherwise."""


def look(evidence: Evidence) -> Look:
    """Artifacts that were asked beside their files of answers; all of it are facts."""
    found: list[Suspicion] = []
    for trial in evidence.trials:
        if trial.unlike is None:
            continue
        subject = f"{trial.model} on {trial.dataset}"
        if trial.reason:
            sentence = f"the artifact of {trial.model} does not run as `runs_as` says: {trial.reason}"
            found.append(evidence.suspicion(subject, sentence, "", weakens=True))
        if trial.unlike < max(1.0, SHARE * trial.rows):
            continue
        sentence = (
            f"the artifact of {trial.model} answers {trial.unlike:,} of {trial.rows:,} rows of {trial.dataset} unlike "
            f"the file of answers: that may be of another model, or `runs_as` of {trial.model} lacks how it is run"
        )
        # What a number is about is no threshold: nothing but the model itself in place of its file would decide it.
        found.append(evidence.suspicion(subject, sentence, "", weakens=True))
    return Look(tuple(found))
