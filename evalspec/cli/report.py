"""``evalspec report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json, echo_text


def command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    html: Annotated[bool, typer.Option("--html", help="Print the page instead of writing the files.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the summary in Markdown.")] = False,
    junit: Annotated[bool, typer.Option("--junit", help="Print the JUnit XML.")] = False,
    attestation: Annotated[
        bool, typer.Option("--attestation", help="Print the verdict as an in-toto statement, to be signed.")
    ] = False,
    monitoring: Annotated[
        bool, typer.Option("--monitoring", help="Print the limits for monitoring in production.")
    ] = False,
    model_card: Annotated[
        bool, typer.Option("--model-card", help="Print the scores for the model's page on the hub, as .eval_results.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make report.html, junit.xml and summary.md again, from the record alone."""
    from evalspec.errors import SpecError
    from evalspec.records.outputs import read_decided, render_one, verdict_of, write_reports
    from evalspec.running.folders import folder_of

    forms = (
        ("html", html),
        ("markdown", markdown),
        ("junit", junit),
        ("attestation", attestation),
        ("monitoring", monitoring),
        ("model_card", model_card),
    )
    wanted = [name for name, asked in forms if asked]
    if len(wanted) > 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in wanted)
        raise SpecError(f"{names} can't be printed together; name one of them")
    folder = folder_of(folder)
    record = read_decided(folder)
    if wanted:
        echo_text(render_one(record, wanted[0], folder))
        return
    write_reports(record, folder)
    if as_json:
        echo_json({"report": str(folder / "report.html"), "verdict": verdict_of(record).model_dump(mode="json")})
    else:
        echo(f"report: {folder / 'report.html'}")
