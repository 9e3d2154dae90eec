"""``evalspec doctor``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspec.cli._output import AllowHost, AllowOutside, Engine, Json, echo, echo_json
from evalspec.cli._settings import say_widened, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalspec.running.doctor import MachineFact


def command(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="[SPEC]", help="Spec whose datasets each node of the engine is to read.")
    ] = None,
    engine: Engine = None,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    as_json: Json = False,
) -> None:
    """Show what this machine can measure: runtimes, providers, clocks, counters, limits; or what an engine can scan."""
    from evalspec.errors import SpecError
    from evalspec.running.doctor import examine

    if engine is not None:
        findings: Sequence[MachineFact] = _of_engine(spec_file, engine, allow_outside, allow_host)
    elif spec_file is not None:
        raise SpecError("a spec is for the nodes of an engine; name one with --engine, or leave the spec out")
    else:
        findings = examine()
    if as_json:
        echo_json([{"what": one.what, "state": one.state, "detail": one.detail} for one in findings])
    else:
        for one in findings:
            echo(f"{one.state:<8} {one.what}: {one.detail}")
    raise typer.Exit(4 if any(one.state == "broken" for one in findings) else 0)


def _of_engine(
    spec_file: Path | None, engine: str, allow_outside: bool, allow_host: Sequence[str]
) -> Sequence[MachineFact]:
    """Facts about an engine, and which datasets of a spec its nodes can read."""
    from evalspec.language.parts import Access
    from evalspec.loading import LoadOptions, load
    from evalspec.running.doctor import examine_engine
    from evalspec.running.engines.choice import check_host, engine_named

    defaults = settings(spec_file)
    say_widened(defaults.widened(allow_outside, allow_host), defaults)
    outside, hosts = allow_outside or defaults.allow_outside, defaults.hosts | set(allow_host)
    choice = engine_named(engine, os.environ)
    check_host(choice, hosts)
    if spec_file is None:
        return examine_engine(choice, {}, Access(Path.cwd()))
    spec = load(spec_file, (), LoadOptions(allow_outside=outside, hosts=hosts))
    access = spec.access(allow_outside=outside, hosts=hosts)
    return examine_engine(choice, spec.datasets, access)
