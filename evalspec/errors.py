"""Everything that evalspec raises on purpose.

    EvalspecError
    ├── SpecError         the spec or the command line is wrong (exit 2); holds every problem found
    ├── InputError        a model or a dataset can't be read or answers nonsense (the check's ERROR)
    ├── NotRunError       evidence can't be had here, and why (the check's NOT_RUN)
    ├── InvalidError      measured, but inadmissible, and why (the measurement's INVALID)
    ├── WorkerError       a process of ours ended without an answer (the check's ERROR)
    ├── EngineError       the cluster that scans datasets can't be used, or is gone (the run ends; --resume goes on)
    ├── WriteError        a file of the run can't be written (full disk, no permission)
    └── RecordError       a record or its evidence can't be read or was changed

Every user-facing problem says what is wrong, where, which value, which choices there are, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

MOST_CHOICES = 20
"""Choices that a sentence names; more would hide it."""


class ProblemCode(Enum):
    """Which problem it is, where code that catches it can say more about it."""

    UNKNOWN_METRIC = "unknown metric"
    WRONG_DIRECTION = "wrong direction"
    NO_FILE = "no file"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem, in the words that the user will read.

    Args:
        message: What is wrong: one sentence without a full stop, which names the bad value.
        file: Its file, as the user named it.
        line: Line, counted from 1.
        column: Column, counted from 1.
        path: The place inside the file (``model[0].require[1]``).
        choices: Valid values.
        remedy: What to do, as an instruction.
        code: Kind of problem, for code; None: code does not need it.
        value: The bad value alone, for code.
    """

    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str | None = None
    choices: tuple[str, ...] = ()
    remedy: str | None = None
    code: ProblemCode | None = None
    value: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = ": ".join(part for part in (place, self.path, self.message) if part)
        if self.choices:
            more = len(self.choices) - MOST_CHOICES
            text += f" (choices: {', '.join(self.choices[:MOST_CHOICES])}{f' and {more} more' if more > 0 else ''})"
        if self.remedy:
            text += f"; {self.remedy}"
        return text

    def at(self, *, file: str | None, line: int | None, column: int | None, path: str | None) -> Problem:
        """The same problem, with its place."""
        return replace(self, file=file, line=line, column=column, path=path)


class EvalspecError(Exception):
    """Base of all errors that a user can cause; printed as sentences, never as a traceback."""

    exit_code = 4


class SpecError(EvalspecError):
    """The spec or the command line is wrong. Holds a list of all problems."""

    exit_code = 2

    def __init__(self, problems: Problem | str | Sequence[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class InputError(EvalspecError):
    """A model or a dataset can't be read, or gives values that can't be used."""

    def __init__(
        self,
        message: str,
        *,
        remedy: str | None = None,
        choices: Iterable[str] = (),
        code: ProblemCode | None = None,
    ) -> None:
        self.problem = Problem(message, remedy=remedy, choices=tuple(choices), code=code)
        super().__init__(str(self.problem))


class NotRunError(EvalspecError):
    """The evidence is not available here; the message gives the reason."""


class InvalidError(EvalspecError):
    """The measurement can't be used; the message gives the reason."""


class WorkerError(EvalspecError):
    """A process of ours ended without an answer, or ran past a limit."""


class EngineError(EvalspecError):
    """The cluster that scans datasets can't be used, or is gone: no check is to blame, and the run can go on later."""


class WriteError(EvalspecError):
    """A file of the run can't be written."""


class RecordError(EvalspecError):
    """A record, or evidence beside it, is missing, unreadable or changed."""

    exit_code = 2


def did_you_mean(value: str, choices: Iterable[str]) -> str | None:
    """A remedy that names the closest choice; None: nothing is close."""
    # Lower case first: `ID` and `id` have no letter in common.
    folded = {choice.lower(): choice for choice in reversed(list(choices))}
    close = difflib.get_close_matches(value.lower(), list(folded), n=1, cutoff=0.6)
    return f"did you mean {folded[close[0]]!r}?" if close else None
