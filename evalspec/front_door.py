"""The functions of `import evalspec`: what the commands do, as calls.

Relative paths start at the working directory. Every call states what it trusts (`Allow`); settings files are for the
command line only.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

from evalspec.outcome import Run

if TYPE_CHECKING:
    from evalspec.errors import Problem
    from evalspec.evidence.record import Record
    from evalspec.evidence.verdict import Verdict
    from evalspec.loading import LoadOptions, Spec
    from evalspec.planning import Plan
    from evalspec.running.options import Options
    from evalspec.running.subjects import Observer


@dataclass(frozen=True, slots=True)
class Allow:
    """Permissions beyond reading files in the spec's own folder; none by default.

    Args:
        trust: Code that the spec names may run (``--trust``).
        outside: Paths may lead outside the spec's folder (``--allow-outside``).
        hub: Datasets may be fetched from their hub (``--hub``).
        hosts: Other machines that served models may run on, and buckets, ``s3://BUCKET`` (``--allow-host``).
        env: Environment variables that may be sent as secrets (``--env``).
        cloud_credentials: Credentials of this machine may be used for object storage (``--cloud-credentials``).
    """

    trust: bool = False
    outside: bool = False
    hub: bool = False
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    cloud_credentials: bool = False

    def load_options(self) -> LoadOptions:
        """Options for reading a spec with these permissions."""
        from evalspec.loading import LoadOptions

        return LoadOptions(self.trust, self.outside, self.hub, hosts=self.hosts)


NOTHING = Allow()
NONE: Mapping[str, object] = {}


class How(TypedDict, total=False):
    """Keywords of `run` that few calls need.

    ``resume``: continue the newest unfinished run of this spec. ``draft``: try everything on a few rows and queries; it
    decides nothing. ``fail_fast``: stop at the first violation. ``observer``: receives the progress of the run.
    ``engine``: who scans large datasets: ``"local:2"``, ``"ray:HOST:PORT"`` or ``"dask:HOST:PORT"``.
    """

    resume: bool
    draft: bool
    fail_fast: bool
    observer: Observer
    engine: str


class _Unobserved:
    """Nobody watches."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: float, total: float, what: str) -> None:
        """Say nothing."""


def load(
    spec: str | Path | Mapping[str, object],
    overrides: Sequence[str] = (),
    *,
    models: Mapping[str, object] = NONE,
    datasets: Mapping[str, object] = NONE,
    allow: Allow = NOTHING,
) -> Spec:
    """Read a spec, and validate all that can be known before anything is measured.

    Args:
        spec: The YAML file, or a mapping with the content of such a file. Paths in a mapping start at the working
            directory.
        overrides: Changes of values, as with ``--set``: ``"calibration.bins=15"``.
        models: Models in memory, by their names in the spec: estimators, torch modules, callables. The object replaces
            ``kind`` and ``path`` of its entry; these, or the whole entry, may be left out.
        datasets: Rows in memory, in the same way: frames, tables, dicts of arrays, pairs ``(X, y)``.
        allow: Permissions of the spec.

    Raises:
        SpecError: The spec is wrong. Holds every problem, each with its place and a remedy.
    """
    from evalspec.loading import load as load_spec
    from evalspec.loading.in_memory import hand_over

    options = replace(allow.load_options(), memory=hand_over(models, datasets))
    return load_spec(spec, overrides, options)


def validate(
    spec: str | Path | Mapping[str, object],
    overrides: Sequence[str] = (),
    *,
    models: Mapping[str, object] = NONE,
    datasets: Mapping[str, object] = NONE,
    allow: Allow = NOTHING,
) -> tuple[Problem, ...]:
    """All problems of a spec that can be known before a run; empty: none.

    Args:
        spec: As in `load`.
        overrides: As in `load`.
        models: As in `load`.
        datasets: As in `load`.
        allow: Permissions of the spec.
    """
    from evalspec.errors import SpecError

    try:
        load(spec, overrides, models=models, datasets=datasets, allow=allow)
    except SpecError as error:
        return error.problems
    return ()


def plan(
    spec: Spec | str | Path | Mapping[str, object],
    *,
    only: Sequence[str] = (),
    models: Mapping[str, object] = NONE,
    datasets: Mapping[str, object] = NONE,
    allow: Allow = NOTHING,
) -> Plan:
    """Plan what a run will measure, and in which order.

    Args:
        spec: A spec, its path, or a mapping.
        only: Names of checks; empty: all. A part of a spec is never READY.
        models: As in `load`, if the spec is not read yet.
        datasets: As in `load`, if the spec is not read yet.
        allow: Permissions of the spec, if it is not read yet.

    Raises:
        SpecError: As in `load`, or a name in ``only`` is unknown.
    """
    from evalspec.loading import Spec
    from evalspec.planning import plan as plan_spec

    if isinstance(spec, Spec):
        _check_read(models, datasets)
        return plan_spec(spec, only=tuple(only))
    return plan_spec(load(spec, models=models, datasets=datasets, allow=allow), only=tuple(only))


def _check_read(models: Mapping[str, object], datasets: Mapping[str, object]) -> None:
    """Refuse objects for a spec that is read already.

    Raises:
        SpecError: There are some.
    """
    from evalspec.errors import SpecError

    if models or datasets:
        raise SpecError("objects are handed over when a spec is read: evalspec.load(path, models=..., datasets=...)")


def run(
    spec: Plan | Spec | str | Path | Mapping[str, object],
    *,
    models: Mapping[str, object] = NONE,
    datasets: Mapping[str, object] = NONE,
    allow: Allow = NOTHING,
    output: str | Path | None = None,
    **how: Unpack[How],
) -> Run:
    """Measure what a spec requires, decide, and write record and pages, as ``evalspec run`` does.

    Args:
        spec: A plan, a spec, its path, or a mapping.
        models: As in `load`. The run's folder keeps a copy of each in ``inputs``.
        datasets: As in `load`. The run's folder keeps a copy of each in ``inputs``.
        allow: Permissions of the spec.
        output: Folder of the run; None: ``reports/<spec>/<time>-<digest>`` in the working directory.
        how: ``resume``, ``draft``, ``fail_fast``, ``observer`` and ``engine``, see `How`.

    Returns:
        The run: ``ready``, ``verdict``, ``requirement(name)``, ``to_frame()``, ``report``, ``record``.

    Raises:
        SpecError: The spec is wrong, or needs a permission that it lacks.
        RecordError: There is no run to continue.
        EngineError: The cluster that ``engine`` names can't be used, or is gone; such a run can be resumed.
        WriteError: The folder can't be written to.
        KeyboardInterrupt: The run was interrupted; its folder holds what was measured.
    """
    from evalspec.planning import Plan
    from evalspec.records.outputs import write_reports
    from evalspec.running.engines.choice import engine_named
    from evalspec.running.preflight import Start, refuse
    from evalspec.running.runner import run as run_plan

    if isinstance(spec, Plan):
        _check_read(models, datasets)
        planned = spec
    else:
        planned = plan(spec, models=models, datasets=datasets, allow=allow)
    options = _options(planned, allow, None if output is None else Path(output).resolve())
    engine = engine_named(how.get("engine", "local"), os.environ)
    refuse([Start(planned, options.access, options.limits, engine)])
    options = replace(
        options,
        engine=engine,
        resume=how.get("resume", False),
        draft=how.get("draft", False),
        fail_fast=how.get("fail_fast", False),
    )
    record, folder = run_plan(planned, options, how.get("observer") or _Unobserved())
    write_reports(record, folder)
    if record.interrupted:
        raise KeyboardInterrupt
    return Run(record, folder)


def _options(planned: Plan, allow: Allow, output: Path | None) -> Options:
    from evalspec.running.options import Options, default_limits

    access = planned.spec.access(
        trust=allow.trust,
        allow_outside=allow.outside,
        hub=allow.hub,
        hosts=allow.hosts,
        env=allow.env,
        cloud_credentials=allow.cloud_credentials,
    )
    return Options(access=access, output=output, limits=default_limits(), command=("evalspec.run, from Python",))


def read(folder: str | Path) -> Run:
    """Read a finished run, and check that its verdict follows from its own tests.

    Args:
        folder: Folder of the run.

    Raises:
        RecordError: The run can't be read, has no verdict, or its verdict was changed.
    """
    from evalspec.records.outputs import read_decided
    from evalspec.running.folders import folder_of

    return Run(read_decided(Path(folder)), folder_of(Path(folder)))


def render(run: Run | Record, verdict: Verdict | None = None) -> str:
    """The report of a run as one HTML document that loads nothing from elsewhere.

    Args:
        run: The run, or its record.
        verdict: Verdict to show instead of the record's own.

    Raises:
        RecordError: There is no verdict.
    """
    from evalspec.records.outputs import verdict_of
    from evalspec.report import render as render_page

    record = run.record if isinstance(run, Run) else run
    return render_page(record, verdict_of(record) if verdict is None else verdict)
