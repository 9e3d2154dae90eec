"""The level that all screens share."""

from __future__ import annotations

from evalspec.evidence.screens import LEVEL, Suspicion
from evalspec.screens.evidence import Look
from evalspec.screens.level import screen_names, screening


def suspicion(p_value: float | None, subject: str = "x") -> Suspicion:
    return Suspicion(screen="s", dimension="data", subject=subject, sentence="x is odd", suggestion="", p_value=p_value)


def test_what_was_asked_counts_over_all_screens() -> None:
    one = Look((suspicion(LEVEL / 10),), questions=10)
    assert len(screening({"data/s": one}, {}).suspicions) == 1
    assert screening({"data/s": one, "model/t": Look(questions=1)}, {}).suspicions == ()


def test_holm_steps_down() -> None:
    two = Look((suspicion(LEVEL / 2, "a"), suspicion(LEVEL / 3, "b")), questions=3)
    assert [one.subject for one in screening({"data/s": two}, {}).suspicions] == ["a", "b"]
    late = Look((suspicion(LEVEL / 2, "a"), suspicion(LEVEL / 2, "b")), questions=3)
    assert screening({"data/s": late}, {}).suspicions == ()


def test_a_fact_needs_no_level_and_costs_none() -> None:
    found = screening({"data/s": Look((suspicion(None), suspicion(LEVEL)), questions=1)}, {"model/t": "crashed"})
    assert len(found.suspicions) == 2
    assert (found.questions, found.blind) == (1, {"model/t": "crashed"})


def test_screens_are_found_by_their_files() -> None:
    names = screen_names()
    assert {"data/columns", "data/copies", "data/classes", "data/spelling", "data/raters"} <= set(names)
    assert len(names) == len(set(names))
