"""``evalspec run``."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspec.cli._output import (
    PIPE_CLOSED,
    AllowHost,
    AllowOutside,
    CloudCredentials,
    Engine,
    Env,
    Hub,
    Json,
    Overrides,
    Progress,
    Trust,
    echo,
    echo_errors,
    echo_json,
    echo_status,
    echo_verdict,
    errors_of,
    silence,
)
from evalspec.cli._settings import say_widened, settings
from evalspec.errors import EvalspecError, WriteError
from evalspec.interrupts import INTERRUPTED, Interrupts
from evalspec.redaction import Redaction

if TYPE_CHECKING:
    from evalspec.planning import Plan
    from evalspec.records.outputs import TerminalLine
    from evalspec.running.children.spare import Spares
    from evalspec.running.options import Options


def command(  # noqa: PLR0913  # one parameter an option
    context: typer.Context,
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC...", help="Spec files.")],
    only: Annotated[
        list[str], typer.Option("--only", metavar="NAME", help="Run only this check or requirement; never READY.")
    ] = [],  # noqa: B006  # typer copies it
    resume: Annotated[bool, typer.Option("--resume", help="Resume the newest unfinished run of this spec.")] = False,
    remeasure: Annotated[
        Path | None,
        typer.Option(
            "--remeasure",
            metavar="RUN",
            help="Keep what this run decided; measure again what a busy machine disturbed.",
        ),
    ] = None,
    draft: Annotated[
        bool,
        typer.Option("--draft", help="Try everything on a few rows and queries, to see that it runs; never READY."),
    ] = False,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first violation.")] = False,
    overrides: Overrides = [],  # noqa: B006  # typer copies it
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="DIR", help="Folder of the run (default: reports/NAME/TIME-DIGEST)."),
    ] = None,
    trust: Trust = False,
    allow_outside: AllowOutside = False,
    allow_host: AllowHost = [],  # noqa: B006  # typer copies it
    env: Env = [],  # noqa: B006  # typer copies it
    cloud_credentials: CloudCredentials = False,
    hub: Hub = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="CPU threads of each worker.")] = 1,
    engine: Engine = None,
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", metavar="TIME", help="Limit for each answer of a child process: '30 min'."),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            "--memory-limit", metavar="SIZE", help="Limit on the resident memory of each child process: '4 GiB'."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    as_json: Json = False,
) -> None:
    """Measure all that a spec requires, decide, and write record and report."""
    from evalspec.running.children.spare import Spares, child_environment

    # They import while this process does, and while it reads the specs.
    spares = Spares(child_environment(trust=trust, hub=hub, metadata=False, threads=threads))
    context.call_on_close(spares.close)
    from evalspec.errors import SpecError
    from evalspec.language.units import parse_quantity
    from evalspec.loading import LoadOptions, load_all
    from evalspec.planning import plan
    from evalspec.records.outputs import worst
    from evalspec.running.engines.choice import engine_named
    from evalspec.running.options import Options, default_limits
    from evalspec.running.preflight import Start, refuse

    if output is not None and len(specs) > 1:
        raise SpecError("--output names one folder, and there are several specs; leave it out")
    if remeasure is not None:
        _goes_alone(specs, {"--resume": resume, "--draft": draft, "--only": bool(only)})
    limits = default_limits(
        parse_quantity(time_limit, "time") if time_limit else None,
        int(parse_quantity(memory_limit, "size")) if memory_limit else None,
    )
    defaults = [settings(path) for path in specs]
    for one in defaults:
        say_widened((), one)
    engines = [engine_named(one.engine if engine is None else engine, os.environ) for one in defaults]
    asked = [
        LoadOptions(trust, allow_outside or one.allow_outside, hub, hosts=one.hosts | set(allow_host))
        for one in defaults
    ]
    # All of them are read before the first is run: hours later is no time to hear of a slip in the second.
    plans = [plan(spec, only=only) for spec in load_all(list(zip(specs, asked, strict=True)), overrides)]
    accesses = [
        planned.spec.access(
            trust=trust,
            allow_outside=one.allow_outside,
            hub=hub,
            hosts=one.hosts,
            env=frozenset(env),
            cloud_credentials=cloud_credentials,
        )
        for planned, one in zip(plans, asked, strict=True)
    ]
    refuse(Start(planned, access, limits, used) for planned, access, used in zip(plans, accesses, engines, strict=True))
    codes: list[int] = []
    results: list[dict[str, Any]] = []
    signals = Interrupts()
    for planned, access, default, used in zip(plans, accesses, defaults, engines, strict=True):
        if signals.count:
            # It came when the last run was being written.
            codes.append(INTERRUPTED)
            break
        options = Options(
            access=access,
            output=output.resolve() if output is not None else None,
            root=default.root,
            resume=resume,
            remeasure=remeasure,
            draft=draft,
            fail_fast=fail_fast,
            limits=limits,
            threads=threads,
            engine=used,
            command=(shlex.join(["evalspec", *sys.argv[1:]]),),
            allowed=default.widened(allow_outside, allow_host),
        )
        try:
            with signals:
                _run_one(planned, options, codes, results, signals, spares, quiet=quiet or as_json, as_json=as_json)
        except EvalspecError as error:
            if len(specs) == 1 and not codes:
                raise
            # A FAIL stands whatever else crashed, in the same run or in another.
            _print(partial(echo_errors, error, Redaction.of(env)), codes)
            codes.append(error.exit_code)
            results.append({"spec": planned.spec.file} | errors_of(error))
        if INTERRUPTED in codes:
            break
    if as_json:
        _print(partial(echo_json, results), codes)
    raise typer.Exit(worst(codes))


def _print(echo: Callable[[], None], codes: list[int]) -> None:
    """Say something; a verdict that blocks stands whether or not that can be done, and none is a success without."""
    try:
        echo()
    except OSError as error:
        silence()
        if isinstance(error, BrokenPipeError):
            codes.append(PIPE_CLOSED)
            return
        codes.append(EvalspecError.exit_code)
        with contextlib.suppress(OSError):
            echo_errors(WriteError(f"the outcome can't be printed: {error.strerror}; the run's folder has it"))


def _goes_alone(specs: list[Path], others: dict[str, bool]) -> None:
    """Refuse what can't stand beside --remeasure."""
    from evalspec.errors import SpecError

    given = next((option for option, passed in others.items() if passed), None)
    if given is not None:
        raise SpecError(f"{given} and --remeasure can't be combined; leave one out")
    if len(specs) > 1:
        raise SpecError("--remeasure works on one spec, and several were named; name only that one")


def _run_one(
    planned: Plan,
    options: Options,
    codes: list[int],
    results: list[dict[str, Any]],
    signals: Interrupts,
    spares: Spares,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run one spec and print the outcome of it; its exit code is noted before anything else can go wrong."""
    from evalspec.records.outputs import say, verdict_of, write_reports
    from evalspec.running.runner import run

    with _RunProgress(quiet=quiet) as observer:
        record, folder = run(planned, options, observer, signals, spares)
    verdict = verdict_of(record)
    codes.append(INTERRUPTED if record.interrupted else verdict.exit_code)
    results.append({"spec": planned.spec.file, "folder": str(folder), "verdict": verdict.model_dump(mode="json")})
    try:
        write_reports(record, folder)
    except WriteError as error:
        raise WriteError(
            f"{error}; the record and journal are kept; `evalspec report {folder}` writes the pages"
        ) from error
    if not as_json:
        _print(partial(_say, say(record, folder)), codes)


class _RunProgress(Progress):
    """Progress of a run; with its first step this process begins to wait, and imports meanwhile what writes pages."""

    _waits = False

    def step(self, text: str) -> None:
        if not self._waits:
            self._waits = True
            Thread(target=_import_pages, daemon=True).start()
        super().step(text)


def _import_pages() -> None:
    # What can't be imported is told when a page is written.
    with contextlib.suppress(Exception):
        import_module("evalspec.report.page")


def _say(lines: Iterable[TerminalLine]) -> None:
    for line in lines:
        if line.word:
            echo_verdict(line.text, line.word)
        elif line.status:
            echo_status(line.text, line.status, line.note)
        else:
            echo(line.text)
