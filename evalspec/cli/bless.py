"""``evalspec bless``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json


def command(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="Name of the baseline.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace a baseline of this name.")] = False,
    as_json: Json = False,
) -> None:
    """Make a run a baseline: copy its record and answers next to the spec, to be committed."""
    from evalspec.records.bless import bless
    from evalspec.running.folders import folder_of

    target, record = bless(folder_of(folder), name, replace=replace)
    verdict = "no verdict" if record.verdict is None else record.verdict.headline
    if as_json:
        echo_json({"baseline": str(target), "verdict": verdict, "subject": record.subject})
        return
    echo(f"baseline: {target}")
    echo(f"its verdict is {verdict}; in a spec: baseline: {{kind: record, path: baselines/{name}}}")
