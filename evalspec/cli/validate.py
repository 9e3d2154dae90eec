"""``evalspec validate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspec.cli._output import (
    AllowHost,
    AllowOutside,
    CloudCredentials,
    Env,
    Hub,
    Json,
    Overrides,
    Trust,
    echo,
    echo_json,
)
from evalspec.cli._settings import say_widened, settings

if TYPE_CHECKING:
    from evalspec.errors import Problem
    from evalspec.loading import LoadOptions, Spec


def command(  # noqa: PLR0913  # one parameter an option
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Spec files.")],
    overrides: Overrides = [],  # noqa: B006  # typer copies it
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    hub: Hub = False,
    env: Env = [],  # noqa: B006  # typer copies it
    cloud_credentials: CloudCredentials = False,
    loads: Annotated[
        bool,
        typer.Option("--load", help="Load each model and send one batch through it, to find what would stop a run."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a spec as far as possible without measuring, and list what was not verified."""
    from evalspec.loading import LoadOptions, load_all
    from evalspec.loading.summary import summary, to_json

    requests = []
    for path in specs:
        defaults = settings(path)
        say_widened(defaults.widened(allow_outside, allow_host), defaults)
        outside, hosts = allow_outside or defaults.allow_outside, defaults.hosts | set(allow_host)
        requests.append((path, LoadOptions(trust=trust, allow_outside=outside, hub=hub, hosts=hosts)))
    loaded = load_all(requests, overrides)
    loaded_lines = (
        _loaded(loaded, requests, frozenset(env), cloud_credentials=cloud_credentials, quiet=as_json)
        if loads
        else [()] * len(loaded)
    )
    if as_json:
        told = [{"loaded": list(lines)} if loads else {} for lines in loaded_lines]
        echo_json({"specs": [to_json(spec) | more for spec, more in zip(loaded, told, strict=True)]})
        return
    for spec, lines in zip(loaded, loaded_lines, strict=True):
        for line in summary(spec, loaded=loads):
            echo(line)
        for line in lines:
            echo(f"  {line}")


def _loaded(
    specs: list[Spec],
    requests: list[tuple[Path, LoadOptions]],
    env: frozenset[str],
    *,
    cloud_credentials: bool,
    quiet: bool,
) -> list[tuple[str, ...]]:
    """Lines on what answered, spec by spec.

    Raises:
        SpecError: With everything that would fail in any of them.
    """
    from evalspec.cli._output import Progress
    from evalspec.errors import SpecError
    from evalspec.starting.load_check import check_loading

    lines: list[tuple[str, ...]] = []
    problems: list[Problem] = []
    with Progress(quiet=quiet) as observer:
        for spec, (_, options) in zip(specs, requests, strict=True):
            access = spec.access(
                trust=options.trust,
                allow_outside=options.allow_outside,
                hub=options.hub,
                hosts=options.hosts,
                env=env,
                cloud_credentials=cloud_credentials,
            )
            found = check_loading(spec, access, observer)
            lines.append(found.lines)
            problems += found.problems
    if problems:
        raise SpecError(problems)
    return lines
