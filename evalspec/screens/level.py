"""The level that all screens of a run share, and which screens there are."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from evalspec.evidence.screens import LEVEL, RowTrial, Screening, Suspicion
from evalspec.language.registry import DIMENSIONS

if TYPE_CHECKING:
    from evalspec.screens.evidence import Evidence, Look


def screen_names() -> tuple[str, ...]:
    """All screens, ``dimension/name``, in the order of the dimensions."""
    found = []
    for dimension in DIMENSIONS:
        package = import_module(f"evalspec.screens.{dimension}")
        found += [f"{dimension}/{one.name}" for one in pkgutil.iter_modules(package.__path__)]
    return tuple(found)


def look(name: str, evidence: Evidence) -> Look:
    """Let one screen look.

    Args:
        name: ``dimension/name``.
        evidence: Of the run.
    """
    found: Look = import_module(f"evalspec.screens.{name.replace('/', '.')}").look(evidence)
    return found


def screening(looks: Mapping[str, Look], blind: Mapping[str, str], trials: Sequence[RowTrial] = ()) -> Screening:
    """Suspicions that may be said: exact facts, and what stays at the family-wise level among all that was asked.

    Args:
        looks: Screen: what it saw.
        blind: Screen that could not look: why.
        trials: Models that were asked a few rows for them.

    References:
        Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statist. 6, 65-70. Questions
        whose effect is too small to matter count as p-values of 1.
    """
    questions = sum(one.questions for one in looks.values())
    seen = [one for each in looks.values() for one in each.suspicions]
    drawn = sorted((one for one in seen if one.p_value is not None), key=lambda one: one.p_value or 0.0)
    stands: list[Suspicion] = [one for one in seen if one.p_value is None]
    for place, one in enumerate(drawn):
        if (one.p_value or 0.0) > LEVEL / (questions - place):
            break
        stands.append(one)
    return Screening(
        level=LEVEL,
        questions=questions,
        looked=tuple(looks),
        blind=dict(blind),
        suspicions=tuple(one for one in seen if one in stands),
        trials=tuple(trials),
    )
