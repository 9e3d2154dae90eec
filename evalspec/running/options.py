"""Options of a run, whatever the spec."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import SpecError
from evalspec.language.parts import Access
from evalspec.running.children.process import Limits
from evalspec.running.engines.choice import LOCAL, EngineChoice

DEFAULT_TIME_S = 1800.0
MEMORY_SHARE = 0.9
"""Share of the memory that is free at the start, which a child may take where no limit is given."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run.

    Args:
        access: Where the spec may look and what it may run.
        output: Folder of the run; None: ``reports/<spec>/<time>-<digest>`` under ``root``.
        root: Folder that holds ``reports``.
        resume: Resume the newest unfinished run of this spec.
        remeasure: Folder of a run that has ended: only what a busy machine voided in it, or kept from being run, is
            measured; everything else is kept.
        draft: A few rows and queries of everything.
        fail_fast: Stop at the first requirement that is violated.
        limits: Of each child.
        threads: Of each worker.
        command: The command line, for the record.
        allowed: What a file of settings allows beyond the command line, in words, for the record.
        engine: Looks at leaves of large datasets.
        timings_from: Folder of a run of the same subject whose raw timings are used; nothing is timed, and the record
            says so.
    """

    access: Access
    output: Path | None = None
    root: Path = field(default_factory=Path.cwd)
    resume: bool = False
    remeasure: Path | None = None
    draft: bool = False
    fail_fast: bool = False
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    command: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    timings_from: Path | None = None
    engine: EngineChoice = LOCAL


def default_limits(time_s: float | None = None, memory_bytes: int | None = None) -> Limits:
    """Limits of each child; memory as a share of what is free now.

    Raises:
        SpecError: A limit is not above 0.
    """
    import psutil

    for option, limit in (("--time-limit", time_s), ("--memory-limit", memory_bytes)):
        if limit is not None and limit <= 0:
            raise SpecError(f"{option} must be above 0; leave it out for the default")
    if memory_bytes is None:
        memory_bytes = int(psutil.virtual_memory().available * MEMORY_SHARE)
    return Limits(time_s=DEFAULT_TIME_S if time_s is None else time_s, memory_bytes=memory_bytes)
