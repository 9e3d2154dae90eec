"""``evalspec run``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from evalspec.cli._output import AllowOutside, Hub, Json, Overrides, Progress, Trust, echo_json, settings

INTERRUPTED = 130


def command(  # noqa: PLR0913  # one parameter an option
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Spec files.")],
    only: Annotated[
        list[str], typer.Option("--only", metavar="NAME", help="Run this check or requirement only; never READY.")
    ] = [],  # noqa: B006  # typer copies it
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the newest unfinished run of this spec.")
    ] = False,
    draft: Annotated[
        bool, typer.Option("--draft", help="A few rows and queries of everything, to see that it runs; never READY.")
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first violation.")] = False,
    overrides: Overrides = [],  # noqa: B006  # typer copies it
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Folder of the run (default: reports/NAME/TIME-DIGEST)."),
    ] = None,
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    hub: Hub = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads of each worker.")] = 1,
    time_limit: Annotated[
        str | None, typer.Option("--time-limit", metavar="TIME", help="For each answer of a child: '30 min'.")
    ] = None,
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", metavar="SIZE", help="Resident memory of each child: '4 GiB'.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Measure everything a spec asks for, decide, and write record and report."""
    from evalspec.errors import SpecError
    from evalspec.language.units import parse_quantity
    from evalspec.plan import plan
    from evalspec.records.outputs import say, verdict_of, worst, write_reports
    from evalspec.run.runner import Options, default_limits, run
    from evalspec.spec import Options as LoadOptions
    from evalspec.spec import load

    if output is not None and len(specs) > 1:
        raise SpecError("--output names one folder, and there are several specs; leave it out")
    limits = default_limits(
        parse_quantity(time_limit, "time") if time_limit else None,
        int(parse_quantity(memory_limit, "size")) if memory_limit else None,
    )
    codes, results = [], []
    for path in specs:
        defaults = settings(path.resolve().parent)
        outside = allow_outside or bool(defaults.get("allow-outside"))
        spec = load(path, overrides, LoadOptions(trust=trust, allow_outside=outside, hub=hub))
        options = Options(
            access=spec.access(trust=trust, allow_outside=outside, hub=hub),
            output=output.resolve() if output is not None else None,
            root=Path(str(defaults.get("output", "."))).resolve(),
            resume=resume,
            draft=draft,
            fail_fast=fail_fast,
            limits=limits,
            threads=threads,
            command=(shlex.join(["evalspec", *sys.argv[1:]]),),
        )
        with Progress(quiet=quiet or as_json) as observer:
            record, folder = run(plan(spec, only=only), options, observer)
        write_reports(record, folder)
        verdict = verdict_of(record)
        codes.append(INTERRUPTED if record.interrupted else verdict.exit_code)
        results.append({"spec": str(path), "folder": str(folder), "verdict": verdict.model_dump(mode="json")})
        if not as_json:
            for line in say(record, folder):
                typer.echo(line)
    if as_json:
        echo_json(results)
    raise typer.Exit(worst(codes))
