"""A child that looks into files before a run starts: traces, and models that may hide code. None of it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from evalspec.errors import InputError
from evalspec.language.parts import Check
from evalspec.loading.inspect_rows import LogRows, looked_at, refused
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.messages import Message, Progress


@dataclass(frozen=True, slots=True)
class LookJob:
    """Job for a child that looks into models' files and at rows of checks.

    Args:
        parts: Of the spec.
        checks: Whose rows are looked at, by name.
        file: The spec's.
    """

    parts: SpecParts
    checks: Mapping[str, Check]
    file: str


def start(job: LookJob) -> Handler:
    """The handler of this child."""
    once = LogRows(job.parts.datasets, job.parts.access)

    def handle(question: Message, progress: Progress) -> Message:
        name = str(question["name"])
        if question["do"] == "model":
            return {"hides": _hides(job, name)}
        progress(0.0, 1.0, f"reading what {name} goes by")
        check = job.checks[name]
        try:
            looked_at(check, _rows(job, check), once)
        except InputError as error:
            return {"refused": asdict(refused(check, job.parts.datasets, error, job.file))}
        return {"refused": None}

    return handle


def _hides(job: LookJob, name: str) -> str | None:
    try:
        return job.parts.models[name].may_hide_code(job.parts.access)
    except InputError:
        # That it can't be read at all is for whoever loads it to say.
        return None


def _rows(job: LookJob, check: Check) -> dict[str, int | None]:
    """Number of rows of each dataset that is only counted."""
    from evalspec.sources.reading.open import open_dataset

    counts: dict[str, int | None] = {}
    for need in check.inspects():
        if need.columns:
            continue
        dataset = job.parts.datasets[need.dataset]
        header = dataset.header(job.parts.access)
        known = header.rows if dataset.where is None else None
        some = tuple(header.columns)[:1]
        counts[need.dataset] = known if known is not None else len(open_dataset(dataset, job.parts.access, some))
    return counts
