"""Patterns of a spec: those that a text could make run for ever are refused."""

from __future__ import annotations

import pytest

from evalspec.language.patterns import LONGEST, pattern_problem, shortest


@pytest.mark.parametrize(
    "pattern",
    [
        r"####\s*(-?[0-9.,]+)",
        r"(?i)answer(?: is)?:?\s*\(?([A-D])\b",
        r"\\boxed\{([^{}]*)\}",
        r"<answer>(.*?)</answer>",
        r"(?m)^Answer:\s*(.+)$",
        r"(?:one|two) of (?:a{3}){2}(x)",
        r"(?:abc)+(x+)",
    ],
)
def test_patterns_that_people_write(pattern: str) -> None:
    assert pattern_problem(pattern, groups=1) is None


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)+", "a repeat inside a repeat"),
        (r"(?:a*b?)*(x)", "a repeat inside a repeat"),
        (r"(?:(x)a{1,9}){2,}", "a repeat inside a repeat"),
        (r"(?:a|ab)*(x)", "alternatives inside a repeat"),
        (r"((?:a|ab)*?)", "alternatives inside a repeat"),
        (r"(a)\1", "refers back"),
        (r"(?=a)(a)", "looks ahead or behind"),
        (r"(?<!a)(a)", "looks ahead or behind"),
        (r"(a)?(?(1)b|c)", "refers back"),
        (r"(?>a)(b)", "atomic group"),
        (r"(a++)", "possessive"),
        (r"(a", "not a regular expression"),
        (r"a", "has 0 groups"),
        (r"(a)(b)", "has 2 groups"),
        ("(" + "a" * LONGEST + ")", "too long"),
    ],
)
def test_patterns_that_are_refused(pattern: str, why: str) -> None:
    problem = pattern_problem(pattern, groups=1)
    assert problem is not None and why in problem.message


@pytest.mark.parametrize(
    "pattern",
    [r"I(?:'m| am) sorry", r"(?i)can(?:not|'t) (?:help|assist)", r"[Nn]o[.!]{2} \d{3}\s\w", r"(?m)^a.c$", r"x*"],
)
def test_a_text_in_which_it_is_found_can_be_made(pattern: str) -> None:
    assert pattern_problem(pattern, groups=0) is None
    assert shortest(pattern) is not None


def test_of_some_none_is_found() -> None:
    assert shortest(r"x\by") is None
