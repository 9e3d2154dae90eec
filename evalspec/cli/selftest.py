"""``evalspec selftest``."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
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
    Progress,
    Trust,
    echo,
    echo_json,
)
from evalspec.cli._settings import say_widened, settings
from evalspec.interrupts import INTERRUPTED, Interrupts

if TYPE_CHECKING:
    from evalspec.selftest.outcomes import RequirementOutcome

ANSWERS = {"red": "yes", "implied": "implied", "excused": "not shown", "green": "NO"}
"""What is printed: whether a requirement went red."""


def command(  # noqa: PLR0913  # one parameter an option
    spec_file: Annotated[Path, typer.Argument(metavar="SPEC", help="Spec file.")],
    from_run: Annotated[
        Path | None,
        typer.Option("--run", metavar="RUN", help="Plant defects in the evidence of this run (default: run it now)."),
    ] = None,
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    env: Env = [],  # noqa: B006  # typer copies it
    cloud_credentials: CloudCredentials = False,
    hub: Hub = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Plant defects, and report which requirements go red, which can't, and why."""
    from evalspec.loading import LoadOptions, load
    from evalspec.planning import plan
    from evalspec.running.folders import folder_of
    from evalspec.running.options import Options, default_limits
    from evalspec.running.runner import run
    from evalspec.selftest.selftest import selftest

    default = settings(spec_file)
    say_widened(default.widened(allow_outside, allow_host), default)
    outside, hosts = allow_outside or default.allow_outside, default.hosts | set(allow_host)
    planned = plan(load(spec_file, (), LoadOptions(trust, outside, hub, hosts=hosts)))
    access = planned.spec.access(
        trust=trust,
        allow_outside=outside,
        hub=hub,
        hosts=hosts,
        env=frozenset(env),
        cloud_credentials=cloud_credentials,
    )
    limits, signals = default_limits(), Interrupts()
    try:
        with (
            signals,
            tempfile.TemporaryDirectory(prefix="evalspec-selftest-run-") as scratch,
            Progress(quiet=quiet or as_json) as observer,
        ):
            folder = Path(scratch) / "run"
            if from_run is not None:
                folder = folder_of(from_run)
            else:
                run(planned, Options(access, output=folder, root=Path(scratch), limits=limits), observer, signals)
            if signals.count:
                raise KeyboardInterrupt
            found = selftest(planned, folder, access, limits, observer)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        echo_json({"spec": planned.spec.file, "requirements": [asdict(one) for one in found]})
    else:
        _say(found)
    raise typer.Exit(1 if any(one.answer == "green" for one in found) else 0)


def _say(found: tuple[RequirementOutcome, ...]) -> None:
    for one in found:
        echo(f"{ANSWERS[one.answer]}: {one.name} ({one.sentence})")
        for label, words in (
            ("planted", one.defect),
            ("why not", one.why),
            ("falls together with", ", ".join(one.fell_with)),
            ("implied by", ", ".join(one.implied_by)),
        ):
            if words:
                echo(f"    {label}: {words}")
    counts = {answer: sum(one.answer == answer for one in found) for answer in ANSWERS}
    echo(
        f"{counts['red']} went red alone, {counts['implied']} with others, {counts['excused']} could "
        f"not be shown, {counts['green']} stayed green"
    )
