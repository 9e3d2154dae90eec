"""Parts that every command shares: errors as sentences, JSON for machines, progress for people."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from evalspec import interrupts
from evalspec.errors import EvalspecError, Problem, SpecError
from evalspec.evidence.visible import one_line, visible
from evalspec.redaction import NOTHING, Redaction

PIPE_CLOSED = 141

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Trust = Annotated[bool, typer.Option("--trust", help="Let code that the spec names run, and pickles be read.")]
AllowOutside = Annotated[bool, typer.Option("--allow-outside", help="Let paths leave the spec's folder.")]
Hub = Annotated[bool, typer.Option("--hub", help="Let data sets be looked up on their hub.")]
AllowHost = Annotated[
    list[str], typer.Option("--allow-host", metavar="NAME", help="Another machine that served models may be on.")
]
Env = Annotated[
    list[str], typer.Option("--env", metavar="NAME", help="Let this variable of the environment be read as a secret.")
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
    typer.echo(one_line(line), err=err)


def echo_text(text: str, *, err: bool = False) -> None:
    """Print a text of several lines, which ends its last one itself; as `echo` but for line feeds."""
    typer.echo(visible(text), nl=False, err=err)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors are sentences on standard error and an exit code."""

    @functools.wraps(command)
    def wrapper(*args: Any, **kwargs: Any) -> None:
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
        except KeyboardInterrupt as error:
            raise _interrupted() from error
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

    return wrapper


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
    """Steps and progress with time left: a bar on a terminal, plain lines elsewhere, on standard error."""

    def __init__(self, quiet: bool = False) -> None:
        """``quiet`` shows nothing."""
        self._quiet = quiet
        self._terminal = sys.stderr.isatty() and not quiet
        self._bar: Any = None
        self._task: Any = None
        self._step = ""
        self._said = time.monotonic()

    def __enter__(self) -> Progress:
        if self._terminal:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
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
            self._task = self._bar.add_task(one_line(text), total=None)
        else:
            self._echo(f"  {text}")

    def progress(self, done: float, total: float, what: str) -> None:
        """Progress within the step; a plain line every five seconds where there is no terminal."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, description=one_line(f"{self._step}: {what}"))
        elif time.monotonic() - self._said > 5:
            self._said = time.monotonic()
            self._echo(f"    {what}: {done / total * 100:.0f} %" if total else f"    {what}")

    def _echo(self, line: str) -> None:
        """A line, where somebody reads it; a run goes on without."""
        try:
            if not self._quiet:
                echo(line, err=True)
        except OSError:
            self._quiet = True
            silence()
