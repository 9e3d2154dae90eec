"""``evalspec doctor``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evalspec.cli._output import (
    AllowHost,
    AllowOutside,
    CloudCredentials,
    Engine,
    Env,
    Json,
    echo,
    echo_json,
)
from evalspec.cli._settings import say_widened, settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from evalspec.language.parts import Access
    from evalspec.running.doctor import MachineFact


def command(
    spec_file: Annotated[
        Path | None, typer.Argument(metavar="[SPEC]", help="Spec whose datasets each node of the engine is to read.")
    ] = None,
    engine: Engine = None,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    env: Env = [],  # noqa: B006  # typer copies it
    cloud_credentials: CloudCredentials = False,
    as_json: Json = False,
) -> None:
    """Show what this machine can measure: runtimes, providers, clocks, counters, limits; or what an engine can scan."""
    from evalspec.errors import SpecError
    from evalspec.language.parts import Access
    from evalspec.running.doctor import examine

    if engine is not None:
        how = Access(
            Path.cwd(), allow_outside=allow_outside, hosts=frozenset(allow_host), env=frozenset(env),
            cloud_credentials=cloud_credentials,
        )  # fmt: skip
        findings: Sequence[MachineFact] = _of_engine(spec_file, engine, how)
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


def _of_engine(spec_file: Path | None, engine: str, asked: Access) -> Sequence[MachineFact]:
    """Facts about an engine, and which datasets of a spec its nodes can read.

    Args:
        spec_file: The spec; None: none.
        engine: As ``--engine``.
        asked: What the command line allows.
    """
    from evalspec.loading import LoadOptions, load
    from evalspec.running.doctor import examine_engine
    from evalspec.running.engines.choice import check_host, engine_named

    defaults = settings(spec_file)
    say_widened(defaults.widened(asked.allow_outside, asked.hosts), defaults)
    outside, hosts = asked.allow_outside or defaults.allow_outside, defaults.hosts | asked.hosts
    choice = engine_named(engine, os.environ)
    check_host(choice, hosts)
    if spec_file is None:
        return examine_engine(choice, {}, asked)
    spec = load(spec_file, (), LoadOptions(allow_outside=outside, hosts=hosts))
    access = spec.access(allow_outside=outside, hosts=hosts, env=asked.env, cloud_credentials=asked.cloud_credentials)
    return examine_engine(choice, spec.datasets, access)
