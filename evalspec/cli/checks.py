"""``evalspec checks``."""

from __future__ import annotations

from typing import Annotated

import typer

from evalspec.cli._output import Json, echo, echo_json


def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A check; leave out to list all.")] = None,
    as_json: Json = False,
) -> None:
    """List the checks, or print one check's documentation: fields, metrics, method, what it cannot show."""
    from evalspec.loading.catalogue import document, listing, to_json

    if as_json:
        echo_json(to_json(name))
        return
    for line in listing() if name is None else document(name):
        echo(line)
