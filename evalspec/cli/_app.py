"""All commands, by their names."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from evalspec.cli import (
    bless,
    checks,
    compare,
    doctor,
    history,
    init,
    log,
    plan,
    report,
    run,
    schema,
    selftest,
    validate,
    verify,
)
from evalspec.cli._output import echo, echo_json, echo_text, errors_of, guarded, unheard, usage_error, usage_text
from evalspec.version import __version__

USAGE_ERRORS: tuple[type[Exception], ...] = tuple(
    one for one in typer.BadParameter.__mro__[1:2] if issubclass(one, Exception)
)
"""What typer raises for a wrong command line; it has given the class no public name."""


class _Group(TyperGroup):
    """All commands; a wrong command line with ``--json`` in it is answered in JSON, as every other error is."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As typer's; see there."""
        given = sys.argv[1:] if args is None else list(args)
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode, windows_expand_args, **extra)
        try:
            ended = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except USAGE_ERRORS as error:
            wrong = usage_error(error)
            with unheard():
                if "--json" in given:
                    echo_json(errors_of(wrong))
                else:
                    echo_text(usage_text(error), err=True)
            sys.exit(wrong.exit_code)
        sys.exit(ended if isinstance(ended, int) else 0)


app = typer.Typer(
    name="evalspec",
    cls=_Group,
    help="One YAML spec says what must hold before a model ships; one command measures it; one exit code gates it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 READY, 1 NOT READY, 2 the spec or the command is wrong, 3 UNDECIDED, 4 something crashed, "
    "130 interrupted.",
)


def _version(show: bool) -> None:
    if show:
        echo(f"evalspec {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command."""


for _name, _module, _short in (
    ("init", init, "Write a first spec"),
    ("validate", validate, "Check a spec without measuring"),
    ("plan", plan, "Show time, sample sizes and power"),
    ("run", run, "Measure, decide, write the report"),
    ("report", report, "Make the report again from the record"),
    ("compare", compare, "Show what changed between two runs"),
    ("history", history, "Show each requirement over all runs"),
    ("log", log, "Log a run to an experiment tracker"),
    ("bless", bless, "Keep a run as a baseline"),
    ("verify", verify, "Recompute a run from its raw evidence"),
    ("selftest", selftest, "Show that each requirement can go red"),
    ("checks", checks, "List the checks, or explain one"),
    ("doctor", doctor, "Show what this machine can measure"),
    ("schema", schema, "Print the JSON Schema for editors"),
):
    app.command(_name, short_help=_short)(guarded(_module.command))
