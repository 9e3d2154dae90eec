"""The functions of `import evalspec`: what the commands do, as calls.

Paths are read from the working directory. What widens trust is said in every call (`Allow`); files of settings are
for the command line.
"""

from __future__ import annotations

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
    """Permissions of a spec beyond reading files of its own folder; none by default.

    Args:
        trust: Code that the spec names may run (``--trust``).
        outside: Paths may leave the spec's folder (``--allow-outside``).
        hub: Names on a hub may be looked up (``--hub``).
        hosts: Machines beside this one that served models may be on (``--allow-host``).
        env: Variables of the environment that may be sent as secrets (``--env``).
    """

    trust: bool = False
    outside: bool = False
    hub: bool = False
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()

    def load_options(self) -> LoadOptions:
        """The same, for reading a spec."""
        from evalspec.loading import LoadOptions

        return LoadOptions(self.trust, self.outside, self.hub, hosts=self.hosts)


NOTHING = Allow()
NONE: Mapping[str, object] = {}


class How(TypedDict, total=False):
    """Keywords of `run` that few calls need.

    ``resume``: go on with the newest unfinished run of this spec. ``draft``: a few rows and queries of everything,
    which decides nothing. ``fail_fast``: stop at the first requirement that is violated. ``observer``: is told how far
    the run is.
    """

    resume: bool
    draft: bool
    fail_fast: bool
    observer: Observer


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
    """A spec, validated with everything that can be known before anything is measured.

    Args:
        spec: The YAML file, or a mapping that says what such a file would; paths in a mapping start from the working
            directory.
        overrides: Values changed as by ``--set``: ``"calibration.bins=15"``.
        models: Models in memory, by their names in the spec: estimators, torch modules, callables. Kind and path of
            such an entry may be left out, the whole entry too, and where they stand the object takes their place.
        datasets: Rows in memory, likewise: frames, tables, dicts of arrays, pairs ``(X, y)``.
        allow: What it may do.

    Raises:
        SpecError: All that is wrong, each with its place and a remedy.
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
    """All that is wrong with a spec; empty: nothing that can be known before it is run.

    Args:
        spec: As for `load`.
        overrides: Likewise.
        models: In memory, likewise.
        datasets: In memory, likewise.
        allow: What it may do.
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
        spec: A spec, the path of one, or a mapping.
        only: Names of checks; empty: all. A part of a spec is never READY.
        models: In memory, as for `load`.
        datasets: In memory, likewise.
        allow: What it may do, where it is still to be read.

    Raises:
        SpecError: As `load`; no check has such a name.
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
    """Measure everything that a spec asks for, decide, and write record and pages, as ``evalspec run`` does.

    Args:
        spec: A plan, a spec, the path of one, or a mapping.
        models: In memory, as for `load`; the run's folder keeps a copy of each in ``inputs``.
        datasets: In memory, likewise.
        allow: What the spec may do.
        output: Folder of the run; None: ``reports/<spec>/<time>-<digest>`` in the working directory.
        how: ``resume``, ``draft``, ``fail_fast`` and ``observer``, as `How` has them.

    Returns:
        The run: ``ready``, ``verdict``, ``requirement(name)``, ``to_frame()``, ``report``, ``record``.

    Raises:
        SpecError: The spec is wrong, or asks for what is not allowed.
        RecordError: There is no run to continue.
        WriteError: The folder can't be written to.
        KeyboardInterrupt: The run was interrupted; what was measured lies in its folder.
    """
    from evalspec.planning import Plan
    from evalspec.records.outputs import write_reports
    from evalspec.running.preflight import Start, refuse
    from evalspec.running.runner import run as run_plan

    if isinstance(spec, Plan):
        _check_read(models, datasets)
        planned = spec
    else:
        planned = plan(spec, models=models, datasets=datasets, allow=allow)
    options = _options(planned, allow, None if output is None else Path(output).resolve())
    refuse([Start(planned, options.access, options.limits)])
    options = replace(
        options,
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
        trust=allow.trust, allow_outside=allow.outside, hub=allow.hub, hosts=allow.hosts, env=allow.env
    )
    return Options(access=access, output=output, limits=default_limits(), command=("evalspec.run, from Python",))


def read(folder: str | Path) -> Run:
    """A run that has ended, whose verdict is what its own tests give.

    Args:
        folder: Of the run.

    Raises:
        RecordError: It can't be read, has no verdict, or its verdict was changed.
    """
    from evalspec.records.outputs import read_decided
    from evalspec.running.folders import folder_of

    return Run(read_decided(Path(folder)), folder_of(Path(folder)))


def render(run: Run | Record, verdict: Verdict | None = None) -> str:
    """The report of a run as one HTML document that loads nothing.

    Args:
        run: The run, or its record.
        verdict: What to show in place of the one that the record ends with.

    Raises:
        RecordError: There is no verdict.
    """
    from evalspec.records.outputs import verdict_of
    from evalspec.report import render as render_page

    record = run.record if isinstance(run, Run) else run
    return render_page(record, verdict_of(record) if verdict is None else verdict)
