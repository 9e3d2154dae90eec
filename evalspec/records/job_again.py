"""Job for a child that makes a check of a run again from its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from evalspec.arrow import read_parquet
from evalspec.errors import RecordError
from evalspec.evidence.record import Record
from evalspec.language.parts import Access
from evalspec.planning import Plan, PlannedCheck
from evalspec.running.children.jobs import (
    DRAFT_ROWS,
    CheckJob,
    SpecParts,
    answers_beside,
    foreign_code,
    graders_beside,
    predictions_file,
    predictions_key,
    seed_of,
)
from evalspec.running.children.kept_rows import RowsWriter
from evalspec.running.children.process import Limits
from evalspec.running.subjects import model_facts
from evalspec.running.supervision.made_runs import made_models, made_parts


def parts_again(base: Record, folder: Path, plan: Plan, access: Access) -> SpecParts:
    """Models and datasets of a run, which lies in a folder."""
    spec = plan.spec
    return SpecParts(
        models={**spec.models, **made_models(spec.models, spec.datasets, base.trainings)},
        datasets={**spec.datasets, **made_parts(spec.datasets, base.trainings, folder)},
        slices={one.name: one.where for one in spec.slices},
        access=access,
        rows=DRAFT_ROWS if base.draft else None,
        foreign_code=foreign_code(plan),
    )


def with_rows(parts: SpecParts, rows: Mapping[str, Path], scratch: Path) -> SpecParts:
    """Parts of a run, some of whose datasets are read from its evidence.

    Args:
        parts: Of the run.
        rows: Dataset: the file of evidence with its rows.
        scratch: Folder for these rows as children map them.
    """
    kept = {}
    for name, path in rows.items():
        file = scratch / f"rows-{name}.arrow"
        file.touch()
        writer = RowsWriter(file)
        for batch in read_parquet(path).to_batches():
            writer.update(batch)
        if writer.end():
            kept[name] = file
    return replace(parts, kept={**parts.kept, **kept})


def job_again(base: Record, folder: Path, plan: Plan, planned: PlannedCheck, access: Access, scratch: Path) -> CheckJob:
    """The job of one check.

    Args:
        base: The record that says what was run.
        folder: Of the run.
        plan: Of its spec.
        planned: The check.
        access: Of the spec, whose datasets are read again.
        scratch: Folder for what the check writes.

    Raises:
        RecordError: The record holds a time that is none.
    """
    evidence, spec = folder / "evidence", plan.spec
    beside = answers_beside(plan, planned)
    return CheckJob(
        parts=parts_again(base, folder, plan, access),
        check=planned.check,
        predictions={
            predictions_key(dataset, model): str(evidence / predictions_file(dataset, model))
            for dataset, model in planned.predictions
        },
        model_facts={model.name: model_facts(model) for model in base.models},
        confidence=spec.policy.confidence,
        alpha_fail=plan.alpha_fail,
        seed=seed_of(spec.seed, planned.check.name),
        draft=base.draft,
        evidence=scratch,
        limits=Limits(),
        threads=1,
        environment={},
        answers={model: evidence / predictions_file(*pair) for model, pair in beside.items()},
        graders=graders_beside(plan, planned),
        repeating=frozenset(dataset.name for dataset in base.datasets if dataset.may_repeat),
        today=_day(base),
    )


def _day(record: Record) -> date:
    try:
        return date.fromisoformat(record.started[:10])
    except ValueError as error:
        raise RecordError(f"the record says that it began at {record.started!r}, which is not a time") from error
