"""Patterns that a spec may hold: of a subset of regular expressions that no text makes run for ever.

What RE2 leaves out is refused (references back, looking around), and so are repeats inside of repeats, by which a text
of a hundred characters can take years. What is left takes at most some power of a text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any

from evalspec.errors import Problem

LONGEST = 1000
"""Characters of a pattern."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_REFUSED = {
    "GROUPREF": "refers back to a group",
    "GROUPREF_EXISTS": "refers back to a group",
    "ASSERT": "looks ahead or behind",
    "ASSERT_NOT": "looks ahead or behind",
    "POSSESSIVE_REPEAT": "has a possessive repeat",
    "ATOMIC_GROUP": "has an atomic group",
}


def pattern_problem(pattern: str, groups: int | None) -> Problem | None:
    """Fault of a pattern; None: it may be used.

    Args:
        pattern: As Python's `re` reads it.
        groups: Capturing groups that it must have; None: any number.
    """
    if len(pattern) > LONGEST:
        return Problem(f"a pattern of {len(pattern):,} characters is too long", remedy=f"use at most {LONGEST:,}")
    try:
        compiled, parsed = re.compile(pattern), _parsed(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        remedy = "fix it; to match a special character itself, put a \\ before it"
        return Problem(f"{pattern!r} is not a regular expression: {error}", remedy=remedy)
    refused = next(_refused(parsed, repeated=False), None)
    if refused is not None:
        return Problem(
            f"the pattern {pattern!r} {refused}",
            remedy="write it without: such a pattern can take for ever on some texts",
        )
    if groups is not None and compiled.groups != groups:
        message = f"the pattern {pattern!r} has {compiled.groups} groups and needs {groups}"
        return Problem(message, remedy="put ( ) around what is searched for, and (?: ) around everything else")
    return None


@lru_cache(maxsize=64)
def ready(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled."""
    return re.compile(pattern)


def _parsed(pattern: str) -> Any:
    """The parse tree: items of operator and argument. The parser is `re`'s own, which has no public name."""
    return import_module("re._parser").parse(pattern)


def _refused(items: Any, *, repeated: bool) -> Iterator[str]:
    """Reasons to refuse a part of the tree; ``repeated``: it stands in what may come more than once."""
    for operator, argument in items:
        name = str(operator)
        if name in _REFUSED:
            yield _REFUSED[name]
        elif name in _REPEATS:
            least, most, inside = argument
            if repeated and least != most:
                yield "has a repeat inside a repeat"
            yield from _refused(inside, repeated=repeated or int(most) > 1)
        elif name == "BRANCH":
            if repeated:
                yield "has alternatives inside a repeat"
            for branch in argument[1]:
                yield from _refused(branch, repeated=repeated)
        elif name == "SUBPATTERN":
            yield from _refused(argument[-1], repeated=repeated)


def shortest(pattern: str) -> str | None:
    """A short text in which the pattern finds something; None: none was found."""
    made = "".join(_written(_parsed(pattern)))
    return made if ready(pattern).search(made) else None


def _written(items: Any) -> Iterator[str]:
    for operator, argument in items:
        name = str(operator)
        if name == "LITERAL":
            yield chr(argument)
        elif name == "IN":
            yield _one_of(argument)
        elif name in ("ANY", "NOT_LITERAL"):
            yield "x" if argument != ord("x") else "y"
        elif name in _REPEATS:
            yield "".join(_written(argument[2])) * int(argument[0])
        elif name == "BRANCH":
            yield from _written(argument[1][0])
        elif name == "SUBPATTERN":
            yield from _written(argument[-1])


def _one_of(members: Any) -> str:
    """A character of a class: the first that it names."""
    examples = {"CATEGORY_DIGIT": "0", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
    operator, argument = members[0]
    name = str(operator)
    if name in ("LITERAL", "RANGE"):
        return chr(argument if name == "LITERAL" else argument[0])
    return examples.get(str(argument), "-")
