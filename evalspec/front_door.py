"""The functions of `import evalspec`: what the commands do, as calls.

Paths are read from the working directory. What widens trust is said in every call (`Allow`); files of settings are
for the command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


class _Unobserved:
    """Nobody watches."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def progress(self, done: float, total: float, what: str) -> None:
        """Say nothing."""


def load(path: str | Path, overrides: Sequence[str] = (), *, allow: Allow = NOTHING) -> Spec:
    """A spec, validated with everything that can be known before anything is measured.

    Args:
        path: The YAML file.
        overrides: Values changed as by ``--set``: ``"calibration.bins=15"``.
        allow: What it may do.

    Raises:
        SpecError: All that is wrong, each with its place and a remedy.
    """
    from evalspec.loading import load as load_spec

    return load_spec(path, overrides, allow.load_options())


def plan(spec: Spec | str | Path, *, only: Sequence[str] = (), allow: Allow = NOTHING) -> Plan:
    """Plan what a run will measure, and in which order.

    Args:
        spec: A spec, or the path of one.
        only: Names of checks; empty: all. A part of a spec is never READY.
        allow: What it may do, where it is still to be read.

    Raises:
        SpecError: As `load`; no check has such a name.
    """
    from evalspec.planning import plan as plan_spec

    return plan_spec(load(spec, allow=allow) if isinstance(spec, str | Path) else spec, only=tuple(only))


def run(
    spec: Plan | Spec | str | Path,
    *,
    allow: Allow = NOTHING,
    output: str | Path | None = None,
    resume: bool = False,
    draft: bool = False,
    fail_fast: bool = False,
    observer: Observer | None = None,
) -> Record:
    """Measure everything that a spec asks for, decide, and write record and pages, as ``evalspec run`` does.

    Args:
        spec: A plan, a spec, or the path of one.
        allow: What the spec may do.
        output: Folder of the run; None: ``reports/<spec>/<time>-<digest>`` in the working directory.
        resume: Go on with the newest unfinished run of this spec.
        draft: A few rows and queries of everything; it decides nothing.
        fail_fast: Stop at the first requirement that is violated.
        observer: Is told how far it is.

    Returns:
        The record, whose ``verdict`` has ``word``, ``exit_code`` and a decision for each requirement.

    Raises:
        SpecError: The spec is wrong, or asks for what is not allowed.
        RecordError: There is no run to go on with.
        WriteError: The folder can't be written to.
        KeyboardInterrupt: The run was interrupted; what was measured lies in its folder.
    """
    from evalspec.loading import Spec
    from evalspec.records.outputs import write_reports
    from evalspec.running.preflight import Start, refuse
    from evalspec.running.runner import run as run_plan

    planned = plan(spec, allow=allow) if isinstance(spec, str | Path | Spec) else spec
    options = _options(planned, allow, None if output is None else Path(output).resolve())
    refuse([Start(planned, options.access, options.limits)])
    options = replace(options, resume=resume, draft=draft, fail_fast=fail_fast)
    record, folder = run_plan(planned, options, observer or _Unobserved())
    write_reports(record, folder)
    if record.interrupted:
        raise KeyboardInterrupt
    return record


def _options(planned: Plan, allow: Allow, output: Path | None) -> Options:
    from evalspec.running.options import Options, default_limits

    access = planned.spec.access(
        trust=allow.trust, allow_outside=allow.outside, hub=allow.hub, hosts=allow.hosts, env=allow.env
    )
    return Options(access=access, output=output, limits=default_limits(), command=("evalspec.run, from Python",))


def read(folder: str | Path) -> Record:
    """The record of a run, whose verdict is what its own tests give.

    Args:
        folder: Of the run.

    Raises:
        RecordError: It can't be read, has no verdict, or its verdict was changed.
    """
    from evalspec.records.outputs import read_decided

    return read_decided(Path(folder))


def render(record: Record, verdict: Verdict | None = None) -> str:
    """The report of a run as one HTML document that loads nothing.

    Args:
        record: The run.
        verdict: What to show in place of the one that the record ends with.

    Raises:
        RecordError: There is no verdict.
    """
    from evalspec.records.outputs import verdict_of
    from evalspec.report import render as render_page

    return render_page(record, verdict_of(record) if verdict is None else verdict)
