"""``evalspec init``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json


def command(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where; made if it is not there.")] = Path(),
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="For this context, with suggested thresholds: real_time, cloud, edge, tiny, serverless, "
            "scientific_medical, interactive.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a commented spec to start from, and the schema that an editor completes it with."""
    from evalspec.loading.starter import start

    spec, schema, left = start(folder, force=force, profile=profile)
    if as_json:
        echo_json({"spec": str(spec), "schema": str(schema)})
        return
    echo(f"wrote {spec} and {schema}")
    if left:
        echo(left)
    echo(f"edit {spec}, then: evalspec validate {spec}")
