"""``evalspec validate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import AllowHost, AllowOutside, Hub, Json, Overrides, Trust, echo, echo_json
from evalspec.cli._settings import say_widened, settings


def command(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Spec files.")],
    overrides: Overrides = [],  # noqa: B006  # typer copies it
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    hub: Hub = False,
    as_json: Json = False,
) -> None:
    """Say everything that can be known without measuring, and what was not verified."""
    from evalspec.loading import LoadOptions, load_all
    from evalspec.loading.summary import summary, to_json

    requests = []
    for path in specs:
        defaults = settings(path)
        say_widened(defaults.widened(allow_outside, allow_host), defaults)
        outside, hosts = allow_outside or defaults.allow_outside, defaults.hosts | set(allow_host)
        requests.append((path, LoadOptions(trust=trust, allow_outside=outside, hub=hub, hosts=hosts)))
    loaded = load_all(requests, overrides)
    if as_json:
        echo_json({"specs": [to_json(spec) for spec in loaded]})
        return
    for spec in loaded:
        for line in summary(spec):
            echo(line)
