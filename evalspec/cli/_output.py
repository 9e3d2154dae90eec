"""Parts that every command shares: errors as sentences, JSON for machines, progress for people."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspec import interrupts
from evalspec.errors import EvalspecError, Problem, SpecError
from evalspec.evidence.visible import one_line, visible
from evalspec.redaction import NOTHING, Redaction

if TYPE_CHECKING:
    from evalspec.running.subjects import CheckEnd

PIPE_CLOSED = 141

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Trust = Annotated[bool, typer.Option("--trust", help="Run code that the spec names, and read pickles.")]
AllowOutside = Annotated[bool, typer.Option("--allow-outside", help="Allow paths outside the spec's folder.")]
Hub = Annotated[bool, typer.Option("--hub", help="Allow datasets to be fetched from their hub.")]
AllowHost = Annotated[
    list[str],
    typer.Option(
        "--allow-host",
        metavar="NAME",
        help="Allow served models on this other machine, or datasets in this bucket: s3://BUCKET.",
    ),
]
Env = Annotated[
    list[str], typer.Option("--env", metavar="NAME", help="Allow this environment variable to be read as a secret.")
]
CloudCredentials = Annotated[
    bool,
    typer.Option(
        "--cloud-credentials",
        help="Read object storage with the credentials of this machine: the provider's variables, files or role.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="ENGINE",
        help="Scan and answer large datasets in N processes (local:N), or on a cluster "
        "(ray, ray:HOST:PORT, dask:HOST:PORT).",
    ),
]
Overrides = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="Override a field: calibration.bins=15, seed=3.")
]


def echo(line: str, *, err: bool = False) -> None:
    """Print one line; characters that would not be seen, or would repaint what is, are written out.

    Args:
        line: Of anybody's making.
        err: On standard error.
    """
    terminal = Terminal.of(sys.stderr if err else sys.stdout)
    safe = one_line(line)
    for one in terminal.wrapped(safe, len(safe) - len(safe.lstrip()) + 2):
        typer.echo(one, err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines, which ends its last one itself; as `echo` but for line feeds."""
    typer.echo(visible(text), nl=False, err=err)


MARKS: Mapping[str, tuple[str, str]] = {
    "PASS": ("✔", "green"), "FAIL": ("✖", "red"), "ERROR": ("◆", "red"), "INVALID": ("⊘", "magenta"),
    "NOT_RUN": ("○", "yellow"), "INCONCLUSIVE": ("◌", "yellow"), "READY": ("✔", "green"), "NOT READY": ("✖", "red"),
    "UNDECIDED": ("◌", "yellow"),
}  # fmt: skip
"""Status or verdict: the shape and the colour that it has on a terminal."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A stream as people see it: wrapped by words where it is a terminal, with shapes and colours where it has them.

    Args:
        width: Columns; None: it is no terminal, and lines are never wrapped.
        marked: Shapes and colours are shown.
    """

    width: int | None
    marked: bool

    @classmethod
    def of(cls, stream: Any) -> Terminal:
        """The stream as it is by the environment: ``NO_COLOR`` (no-color.org) and ``TERM=dumb`` make it plain."""
        if stream is None or not stream.isatty():
            return cls(None, False)
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(shutil.get_terminal_size().columns, wanted and _has_shapes(stream))

    def shape(self, status: str) -> str:
        """Shape of a status, in its colour; empty where none is shown."""
        if not self.marked or status not in MARKS:
            return ""
        shape, colour = MARKS[status]
        return typer.style(shape, fg=colour, bold=True)

    def wrapped(self, line: str, indent: int) -> list[str]:
        """A line in as many as the terminal needs, cut between words; all but the first are indented."""
        if self.width is None or len(line) <= self.width:
            return [line]
        import textwrap

        begins = " " * (len(line) - len(line.lstrip()))
        return textwrap.wrap(
            line.strip(), max(self.width, 24), initial_indent=begins, subsequent_indent=" " * indent,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip


def _has_shapes(stream: Any) -> bool:
    try:
        "".join(shape for shape, _ in MARKS.values()).encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def echo_status(line: str, status: str, note: str = "") -> None:
    """Print a line about something that has a status: its shape on a terminal, the word elsewhere.

    Args:
        line: What is said of it.
        status: Of a requirement, or a verdict's word.
        note: ``warn``, ``waived`` or nothing.
    """
    terminal = Terminal.of(sys.stdout)
    shape = terminal.shape(status)
    if not shape:
        from evalspec.report.words import label

        for one in terminal.wrapped(one_line(f"  {label(status):<12} {note:<6} {line}"), 22):
            typer.echo(one)
        return
    first, *rest = terminal.wrapped(one_line(f"    {note + ': ' if note else ''}{line}"), 4)
    typer.echo(f"  {shape} {first[4:]}")
    for one in rest:
        typer.echo(one)


def echo_verdict(line: str, word: str) -> None:
    """Print the line that a run ends with, in the colour of its verdict where a terminal has colours."""
    terminal = Terminal.of(sys.stdout)
    shape = terminal.shape(word)
    first, *rest = terminal.wrapped(one_line(line), 2)
    typer.echo(f"{shape} {typer.style(first, bold=True)}" if shape else first)
    for one in rest:
        typer.echo(one)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are sentences on standard error and an exit code."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
        try:
            _run_and_tell(command, args, kwargs)
        except KeyboardInterrupt as error:
            # Also one that came while an error was being told.
            raise _interrupted() from error
        finally:
            # The code is settled: an interrupt that comes later changes nothing.
            interrupts.ignore()

    return wrapper


def _run_and_tell(command: Callable[..., None], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    hidden = Redaction.of(kwargs.get("env") or ())
    signals = interrupts.Raising()
    try:
        interrupts.raise_interrupt(signals)
        command(*args, **kwargs)
    except EvalspecError as error:
        with unheard():
            if kwargs.get("as_json"):
                echo_json(hidden.value(errors_of(error)))
            else:
                echo_errors(error, hidden)
        raise typer.Exit(error.exit_code) from error
    except BrokenPipeError as error:
        # What was not read is no success: as a shell sees a program that the closed pipe has ended.
        silence()
        raise typer.Exit(PIPE_CLOSED) from error
    except (typer.Exit, typer.Abort):
        raise
    except OSError as error:
        with contextlib.suppress(OSError):
            echo(f"error: {error.filename or 'output'}: {error.strerror or error}", err=True)
        silence()
        raise typer.Exit(EvalspecError.exit_code) from error
    except Exception as error:
        if signals.count:
            raise _interrupted() from error
        _tell_crash(error, hidden)
        # Python's own exit code for this is 1, which would read as NOT READY.
        raise typer.Exit(EvalspecError.exit_code) from error


def _tell_crash(error: Exception, hidden: Redaction) -> None:
    """Say whose fault an error is that nobody expected: an extension's, else our own, with all that is known."""
    from evalspec.language.extensions import at_fault

    theirs = at_fault(error)
    with unheard():
        if theirs is not None:
            echo(f"error: {hidden.text(theirs)}", err=True)
            return
        echo_text(hidden.text(traceback.format_exc()), err=True)
        echo(f"error: evalspec itself failed ({type(error).__name__}); please report it with the lines above", err=True)


def _interrupted() -> typer.Exit:
    """End of a command that was interrupted, said in a word."""
    interrupts.ignore()
    with contextlib.suppress(OSError):
        echo("interrupted", err=True)
    return typer.Exit(interrupts.INTERRUPTED)


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Keep the exit code of an error that can't be printed: it is wrong whoever hears of it."""
    try:
        yield
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except OSError:
        silence()


def silence() -> None:
    """Let nothing more be written where nothing can be: what waits to be would fail once more, and change the code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with contextlib.suppress(OSError):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def echo_errors(error: EvalspecError, hidden: Redaction = NOTHING) -> None:
    """Print an error's problems, a line each, on standard error, without secrets."""
    for problem in _problems(error):
        echo(f"error: {hidden.text(str(problem))}", err=True)


def errors_of(error: EvalspecError) -> dict[str, Any]:
    """An error's problems for machines."""
    return {"errors": [_as_dict(problem) for problem in _problems(error)]}


def usage_error(error: Any) -> SpecError:
    """Error of a wrong command line, in typer's words."""
    alike = tuple(getattr(error, "possibilities", None) or ())
    message = str(error.message if alike else error.format_message()).rstrip(".")
    context = getattr(error, "ctx", None)
    help_line = f"see {context.command_path} --help" if context is not None else "see evalspec --help"
    return SpecError(Problem(message, choices=alike, remedy=help_line))


def usage_text(error: Any) -> str:
    """Text that typer would print of a wrong command line."""
    text = io.StringIO()
    error.show(file=text)
    return text.getvalue()


def _problems(error: EvalspecError) -> tuple[Problem, ...]:
    return error.problems if isinstance(error, SpecError) else (Problem(str(error)),)


def _as_dict(problem: Problem) -> dict[str, Any]:
    return {
        "message": problem.message,
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "choices": list(problem.choices),
        "remedy": problem.remedy,
    }


def echo_json(value: Mapping[str, Any] | list[Any]) -> None:
    """Print a value as JSON."""
    echo_text(json.dumps(value, indent=1, allow_nan=False) + "\n")


class Progress:
    """Steps and progress on standard error: a bar on a terminal, plain lines elsewhere, a line for each check."""

    def __init__(self, quiet: bool = False) -> None:
        """``quiet`` shows nothing."""
        self._quiet = quiet
        self._terminal = Terminal.of(None if quiet else sys.stderr)
        self._bar: Any = None
        self._task: Any = None
        self._step = ""
        self._place = ""
        self._said = time.monotonic()

    def __enter__(self) -> Progress:
        if self._terminal.width is not None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self, text: str) -> None:
        """A new step begins."""
        self._step, self._said = text, time.monotonic()
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(one_line(f"{text}{self._place}"), total=None)
        else:
            self._echo(f"  {text}")

    def progress(self, done: float, total: float, what: str) -> None:
        """Progress within the step; a plain line every five seconds where there is no terminal."""
        if self._bar is not None and self._task is not None:
            description = one_line(f"{self._step}: {what}{self._place}")
            self._bar.update(self._task, completed=done, total=total, description=description)
        elif time.monotonic() - self._said > 5:
            self._said = time.monotonic()
            self._echo(f"    {what}: {done / total * 100:.0f} %" if total else f"    {what}")

    def ended(self, end: CheckEnd) -> None:
        """A check has ended: one line, which stays, with its place, and the time that is left by the plan."""
        from evalspec.evidence.words import duration
        from evalspec.records.outputs import check_line
        from evalspec.report.words import label

        far, whole = duration(end.far_left_s), duration(end.left_s)
        left = f", about {whole if far == whole else f'{far} to {whole}'} left" if end.left_s >= 1 else ""
        self._place = f" [{end.place}/{end.of}{left}]"
        status, said = check_line(end)
        word = label(status or "ran")
        line = f"{said}, {duration(end.record.duration_s)} [{end.place}/{end.of}]"
        if self._bar is None:
            self._echo(f"  {word}: {line}{left}")
            return
        shape = self._terminal.shape(status or "") or word
        first, *rest = self._terminal.wrapped(one_line(f"    {line}"), 6)
        self._bar.console.print(_text(f"  {shape} {first[4:]}"))
        for one in rest:
            self._bar.console.print(_text(one))

    def _echo(self, line: str) -> None:
        """A line, where somebody reads it; a run goes on without."""
        try:
            if not self._quiet:
                echo(line, err=True)
        except OSError:
            self._quiet = True
            silence()


def _text(line: str) -> Any:
    from rich.text import Text

    return Text.from_ansi(line)
