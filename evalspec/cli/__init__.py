"""The command line: arguments -> stage -> exit code. One file a command, no logic."""

from __future__ import annotations

import gc
from typing import Annotated

import typer

from evalspec import __version__
from evalspec.cli import checks, doctor, init, plan, report, run, schema, validate, verify
from evalspec.cli._output import guarded

app = typer.Typer(
    name="evalspec",
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
        typer.echo(f"evalspec {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before the command."""


for _name, _module in (
    ("init", init),
    ("validate", validate),
    ("plan", plan),
    ("run", run),
    ("report", report),
    ("verify", verify),
    ("checks", checks),
    ("doctor", doctor),
    ("schema", schema),
):
    app.command(_name)(guarded(_module.command))


def main() -> None:
    """Entry point of the ``evalspec`` command."""
    # Imports make many objects that stay: looking through them for garbage again and again is a tenth of the start.
    gc.set_threshold(100_000, 50, 50)
    app(prog_name="evalspec")
