"""A spec's text without what can't be: each such line stays as a comment, with one reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from evalspec.errors import Problem, SpecError
from evalspec.loading import LoadOptions, Spec, load
from evalspec.starting.writing import comment

MOST_ROUNDS = 12
"""In each something is taken out, and what follows from it is seen in the next."""
REQUIREMENT = re.compile(r"^ *- (?!check:|id:)\S")
FIELD = re.compile(r"^datasets\.(?P<name>\w+)\.(?P<field>label|key|cluster)$")
PARTS = re.compile(r"^(models|datasets|system|model|data|rollback)\b")


def settle(text: str, path: Path, options: LoadOptions) -> tuple[str, Spec]:
    """The text with all that is wrong commented out, and the spec that it is then.

    Args:
        text: Of a spec.
        path: A file in its folder that may be written.
        options: What may be looked at.

    Raises:
        SpecError: What is wrong is no entry that can be left out.
    """
    for _ in range(MOST_ROUNDS):
        path.write_text(text, encoding="utf-8")
        try:
            return text, load(path, options=options)
        except SpecError as error:
            text = _without(text, error)
    raise SpecError("the generated spec is not valid; please report this together with the input files")


def _without(text: str, error: SpecError) -> str:
    lines = text.splitlines()
    for problem in sorted(error.problems, key=lambda one: one.line or 0, reverse=True):
        if _field_left_out(lines, problem):
            continue
        place = _place(lines, problem)
        if place is None:
            raise error
        first, end = place
        lines[first:end] = _commented(lines[first:end], problem.message)
    return "\n".join(_without_empty(lines)) + "\n"


def _field_left_out(lines: list[str], problem: Problem) -> bool:
    """Take one field out of the line of a dataset that is fine without it; False: the problem is another one."""
    named = FIELD.match(problem.path or "")
    if named is None or problem.line is None or problem.line > len(lines):
        return False
    here = problem.line - 1
    found = re.search(rf", {named['field']}: (?:[^,{{}}\[\]\"]+|\"[^\"]*\")(?=[,}}])", lines[here])
    if found is None:
        return False
    indent = lines[here][: len(lines[here]) - len(lines[here].lstrip())]
    said = comment(f"Left out of {named['name']}: `{found[0][2:]}`, since {problem.message}.", indent)
    lines[here : here + 1] = [*said.splitlines(), lines[here].replace(found[0], "", 1)]
    return True


def _place(lines: Sequence[str], problem: Problem) -> tuple[int, int] | None:
    """Lines of the smallest entry that a problem is about; None: it is about no entry."""
    if problem.line is None or not PARTS.match(problem.path or ""):
        return None
    here = problem.line - 1
    if here >= len(lines) or lines[here].lstrip().startswith("#"):
        return (here, here) if here < len(lines) else None
    if REQUIREMENT.match(lines[here]):
        return here, here + 1
    start = here
    while start and not re.match(r"^  (- |[\w]+:)", lines[start]):
        start -= 1
    return start, _end(lines, start)


def _end(lines: Sequence[str], start: int) -> int:
    """The line after an entry: the next one that is as far to the left, or blank."""
    end = start + 1
    while end < len(lines) and lines[end].startswith("   "):
        end += 1
    return end


def _commented(lines: Sequence[str], reason: str) -> list[str]:
    if not lines:
        return []
    indent = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    said = comment(f"Left out: {reason}.", indent).splitlines()
    return [*said, *(f"{indent}# {line.removeprefix(indent)}" for line in lines)]


def _without_empty(lines: Sequence[str]) -> list[str]:
    """The lines, keys under which nothing is left commented out as well."""
    kept: list[str] = []
    for index, line in enumerate(lines):
        opens = re.fullmatch(r" *(require|warn|system|model|data|rollback):", line)
        kept.append(_closed(lines, index) if opens and _is_empty(lines, index) else line)
    return kept


def _closed(lines: Sequence[str], index: int) -> str:
    line = lines[index]
    indent = line[: len(line) - len(line.lstrip())]
    return f"{indent}# {line.lstrip()}"


def _is_empty(lines: Sequence[str], index: int) -> bool:
    depth = len(lines[index]) - len(lines[index].lstrip())
    for line in lines[index + 1 :]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        return len(line) - len(line.lstrip()) <= depth
    return True
