"""``evalspec plan``."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import AllowHost, AllowOutside, Engine, Hub, Json, Overrides, Trust, echo, echo_json
from evalspec.cli._settings import say_widened, settings


def command(  # noqa: PLR0913  # one parameter an option
    spec_file: Annotated[Path, typer.Argument(metavar="SPEC", help="Spec file.")],
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="RUN", help="Take times and assumed truths from this run (default: the newest)."
        ),
    ] = None,
    overrides: Overrides = [],  # noqa: B006  # typer copies it
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    hub: Hub = False,
    engine: Engine = None,
    as_json: Json = False,
) -> None:
    """Print checks, order, sample sizes and the smallest change that each requirement can detect; measure nothing."""
    from evalspec.loading import LoadOptions, load
    from evalspec.planning import plan
    from evalspec.planning.answered import answered
    from evalspec.planning.explain import explain, to_json
    from evalspec.planning.held import held
    from evalspec.planning.permissions import lacking
    from evalspec.planning.scanned import scanned
    from evalspec.records.outputs import newest_record
    from evalspec.running.engines.choice import engine_named

    defaults = settings(spec_file)
    used = engine_named(defaults.engine if engine is None else engine, os.environ)
    say_widened(defaults.widened(allow_outside, allow_host), defaults)
    outside, hosts = allow_outside or defaults.allow_outside, defaults.hosts | set(allow_host)
    spec = load(spec_file, overrides, LoadOptions(trust=trust, allow_outside=outside, hub=hub, hosts=hosts))
    planned = plan(spec)
    before = newest_record(record, defaults.root, spec.name)
    lacks = lacking(planned, spec.access(trust=trust, allow_outside=outside, hub=hub, hosts=hosts))
    apart = scanned(planned, elsewhere=bool(used.address)) if used.apart else ()
    answers = answered(planned, elsewhere=bool(used.address))
    if as_json:
        more: dict[str, object] = {
            "in_memory": [asdict(one) for one in held(planned)], "answered": [asdict(one) for one in answers],
        }  # fmt: skip
        if used.apart:
            more |= {"engine": asdict(used), "scanned": [asdict(one) for one in apart]}
        echo_json(to_json(planned, before, lacks) | more)
        return
    for line in explain(planned, before, lacks):
        echo(line)
    for whole in held(planned):
        echo(whole.line)
    for those in answers:
        echo(those.line(used.words if used.apart else ""))
    for one in apart:
        echo(one.line(used.scans))
