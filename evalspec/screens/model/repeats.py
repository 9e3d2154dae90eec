"""Answers that change when the same row is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.answers.again import ROWS, UNLIKE
from evalspec.screens.evidence import Look

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.language.inputs import Samples
    from evalspec.screens.evidence import Evidence

FEWEST = 3
SHARE = 0.1
"""Rows that are answered otherwise the second time: so many, and so large a share of those that were asked twice."""
NOTHING_DECIDES = ": make it answer alike (dropout off, seeds set), since no number of it is that of what ships"
"""No requirement decides it: each takes its number from answers that are others the next time."""
REPEATS = 100
"""Answers beyond the first of their row that a check's timings must have."""


def look(evidence: Evidence) -> Look:
    """Rows that a model was asked twice, when it answered a dataset and when it was timed; all of it are facts."""
    suspicions: dict[str, Suspicion] = {}
    for dataset, model in evidence.answers:
        details = evidence.predictions(dataset, model).details
        rows, unlike = details.get(ROWS), details.get(UNLIKE)
        if isinstance(rows, int) and isinstance(unlike, int) and unlike >= max(FEWEST, SHARE * rows):
            sentence = (
                f"{model} answers {unlike:,} of {rows:,} rows of {dataset} otherwise when it is asked again"
                f"{NOTHING_DECIDES}"
            )
            suspicions.setdefault(model, evidence.suspicion(model, sentence, "", weakens=True))
    for check in evidence.checks:
        samples = [one for one in evidence.samples(check.name) if one.model == check.model]
        rows, unlike = _timed(samples)
        if check.model not in suspicions and rows >= REPEATS and unlike >= SHARE * rows:
            sentence = (
                f"{check.model} gave other answers in {unlike:,} of {rows:,} queries of {check.name} than to the first "
                f"about the same row{NOTHING_DECIDES}"
            )
            suspicions[check.model] = evidence.suspicion(check.model, sentence, "", weakens=True)
    return Look(tuple(suspicions.values()))


def _timed(samples: Sequence[Samples]) -> tuple[int, int]:
    """Answers beyond the first of their row, and how many of them are others; of a batch the first row is looked at."""
    # A prompt that is salted is another one each time.
    kept = [one for one in samples if one.answers is not None and not one.details.get("altered") and not one.streams]
    if not kept:
        return 0, 0
    items = np.concatenate([one.items for one in kept])
    answers = np.concatenate([one.answers[:, 0] for one in kept if one.answers is not None])
    known = np.isfinite(answers)
    items, answers = items[known], answers[known]
    if not len(items):
        return 0, 0
    _, first, inverse = np.unique(items, return_index=True, return_inverse=True)
    before = answers[first][inverse]
    close = np.isclose(answers, before, rtol=1e-2, atol=1e-2 * float(np.std(answers)))
    return len(items) - len(first), int((~close).sum())
