"""``evalspec init``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from evalspec.cli._output import AllowHost, Json, Progress, Trust, echo, echo_json

if TYPE_CHECKING:
    from evalspec.starting.gate import GateRequest

MOST_FILES = 3


def command(  # noqa: PLR0913  # one parameter an option
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DIR, or MODEL TEST [TRAIN]]", help="A folder; or a model (a file or URL) and its rows."
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Spec for this context, with suggested thresholds: real_time, cloud, edge, tiny, serverless, "
            "scientific_medical, interactive, training.",
        ),
    ] = None,
    baseline: Annotated[str | None, typer.Option("--baseline", metavar="OLD", help="A model to compare with.")] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="COLUMN", help="The label column.")] = None,
    factory: Annotated[
        str | None,
        typer.Option("--factory", metavar="MODULE:CLASS", help="The class that a torch state dict belongs to."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="PATH", help="The spec's file, or its folder.")
    ] = None,
    ci: Annotated[
        Literal["github"] | None, typer.Option("--ci", metavar="SERVICE", help="Write a workflow that runs it: github.")
    ] = None,
    trust: Trust = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files (DIR alone).")] = False,
    as_json: Json = False,
) -> None:
    """Write a first spec: a commented template, or one from a model and its rows that runs at once."""
    given = files or []
    if len(given) > 1:
        from evalspec.starting.gate import GateRequest

        _refuse_more(given, force)
        train = given[2] if len(given) == MOST_FILES else None
        request = GateRequest(
            model=given[0], test=given[1], train=train, baseline=baseline, output=output, profile=profile, ci=ci,
            label=label, factory=factory, trust=trust, hosts=frozenset(allow_host),
        )  # fmt: skip
        _from_files(request, as_json)
        return
    only = {"--baseline": baseline, "--label": label, "--factory": factory, "--output": output, "--ci": ci}
    _template(given, [option for option, value in only.items() if value is not None], profile, force, as_json)


def _refuse_more(given: list[str], force: bool) -> None:
    from evalspec.errors import SpecError

    if len(given) > MOST_FILES:
        raise SpecError(f"init takes a model, its test set and its training set, and {len(given)} files were named")
    if force:
        raise SpecError("--force goes with a folder alone: a gate from files overwrites nothing; name another --output")


def _template(given: list[str], only: list[str], profile: str | None, force: bool, as_json: bool) -> None:
    """The commented template in a folder."""
    from evalspec.errors import Problem, SpecError
    from evalspec.loading.starter import start

    folder = given[0] if given else "."
    if only or "://" in folder or Path(folder).is_file():
        what = f"{only[0]} is about a model and its rows" if only else f"{folder!r} is not a folder"
        raise SpecError(Problem(what, remedy="name both: evalspec init MODEL TEST [TRAIN]"))
    spec, schema, left = start(Path(folder), force=force, profile=profile)
    if as_json:
        echo_json({"spec": str(spec), "schema": str(schema)})
        return
    echo(f"wrote {spec} and {schema}")
    if left:
        echo(left)
    echo(f"edit {spec}, then: evalspec validate {spec}")


def _from_files(request: GateRequest, as_json: bool) -> None:
    from evalspec.starting.gate import start_gate

    with Progress(quiet=as_json) as observer:
        gate = start_gate(request, observer)
    if as_json:
        echo_json({"spec": str(gate.spec), "written": [str(path) for path in gate.written], "seen": list(gate.lines)})
        return
    for line in gate.lines:
        echo(line)
    echo(f"wrote {', '.join(str(path) for path in gate.written)}")
    echo(f"read it, then: evalspec run {gate.spec}{''.join(f' {flag}' for flag in gate.flags)}")
