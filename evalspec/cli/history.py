"""``evalspec history``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json
from evalspec.cli._pages import check_page, report_link, write_page
from evalspec.cli._settings import settings

if TYPE_CHECKING:
    from evalspec.lineage.history import History


def command(
    where: Annotated[
        Path, typer.Argument(metavar="[WHERE]", help="Spec file, run, or folder of runs (default: here).")
    ] = Path(),
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="DIR", help="Folder that holds the runs of SPEC.")
    ] = None,
    requirement: Annotated[
        list[str], typer.Option("--requirement", metavar="NAME", help="Show this requirement only.")
    ] = [],  # noqa: B006  # typer copies it
    last: Annotated[int, typer.Option("--last", min=1, help="How many of the newest runs to show.")] = 30,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE.html", help="Write a page with a chart of each requirement."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the result of each requirement run after run, with its threshold at the time."""
    from evalspec.records.history import find_runs, history, only, spec_name, to_json

    if output is not None:
        check_page(output)
    spec = spec_name(where) if where.is_file() and where.suffix != ".json" else None
    folder = runs if runs is not None else find_runs(where, settings(where if spec is not None else None).root)
    found = only(history(folder, spec, last=last), requirement)
    if output is not None:
        _write(found, output, folder)
    if as_json:
        echo_json(to_json(found))
        return
    from evalspec.report.trend_lines import trend_lines

    for line in trend_lines(found):
        echo(line)
    if output is not None:
        echo(f"trends: {output}")


def _write(found: History, output: Path, folder: Path) -> None:
    from evalspec.report.trends import render_trends

    links = {run.run: report_link(output, folder / run.run) for run in found.runs}
    write_page(output, render_trends(found, links))
