"""Which of a spec's models the verdict is about."""

from __future__ import annotations

from collections.abc import Iterable

CLASSES = "classes"
ANSWERS_ON = "answers on "
"""What some files are to a model."""
LOGGED = "log of answers on "
"""Detail of a model: what a harness's log says of its own origin."""
UNANSWERED = "unanswered on "
"""Detail of a model: samples of such a log that ended without an answer."""
CANDIDATE = "candidate"
"""What the model that is to ship is usually called."""


def subject_model(about: Iterable[str]) -> str:
    """The candidate, else the only model that checks are about.

    Args:
        about: Names of the models that checks are about.
    """
    names = set(about)
    return names.pop() if len(names) == 1 else CANDIDATE
