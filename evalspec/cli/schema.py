"""``evalspec schema``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo_json


def command(
    record: Annotated[
        bool, typer.Option("--record", help="The schema of record.json instead of that of a spec.")
    ] = False,
    monitoring: Annotated[bool, typer.Option("--monitoring", help="The schema of monitoring.json.")] = False,
    output: Annotated[Path | None, typer.Option("--output", metavar="FILE", help="Write it there.")] = None,
    plugins: Annotated[
        bool, typer.Option("--plugins/--no-plugins", help="With the checks and kinds of other distributions.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Print the JSON Schema that an editor completes a spec with."""
    from evalspec.language.registry import discover
    from evalspec.spec.schema import dump, monitoring_schema, record_schema, save, spec_schema

    if record and monitoring:
        raise typer.BadParameter("--record and --monitoring are two schemas; name one")
    text = dump(
        record_schema() if record else monitoring_schema() if monitoring else spec_schema(discover(plugins=plugins))
    )
    if output is None:
        typer.echo(text, nl=False)
        return
    save(text, output)
    if as_json:
        echo_json({"schema": str(output)})
    else:
        typer.echo(f"wrote {output}")
