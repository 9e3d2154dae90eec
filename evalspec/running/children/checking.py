"""One check in the child of checks: it is run, and what it says about each requirement is written down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import CheckRecord, EvidenceFile
from evalspec.language.extensions import whose
from evalspec.language.parts import Check, CheckResult, Training
from evalspec.language.undemanding import measured_undemanding
from evalspec.running.children.inputs import RunInputs
from evalspec.running.children.jobs import CheckJob, probes_file, rows_file, samples_file
from evalspec.running.children.looks import in_looks
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.scans import Scans
from evalspec.running.children.tables import Tables
from evalspec.running.children.templates import over_templates
from evalspec.running.children.workers import StartedAhead
from evalspec.running.describe import declaration_of, words
from evalspec.running.files import sha256_of
from evalspec.running.graded_answers import GradedAnswers, graded
from evalspec.running.guardrail import guarded, unjudged
from evalspec.running.journal.replay import Replay
from evalspec.running.probes import write_probes
from evalspec.running.requirements import SignificanceLevels, measured_values, write_tests
from evalspec.running.samples import write_samples
from evalspec.running.timing import Timing, Workers

ESTIMATE = "return an estimate, such as evalspec.api.proportion(hits) or mean(values), or a Fact"
COMPARISON = "return a comparison, such as evalspec.api.paired_mean(candidate, baseline)"


def answer(
    job: CheckJob,
    progress: Progress,
    scans: Scans | None = None,
    ahead: Mapping[str, StartedAhead] | None = None,
) -> Message:
    """The record of a check, and what its models said and read.

    Args:
        job: The check's.
        progress: Told how far it has come.
        scans: Keeps watchers for the checks that share the child.
        ahead: Workers that were started for it before, by model.

    Raises:
        EvalspecError: As the check raises it.
    """
    job.parts.spare_pandas()
    if job.timings_from is not None:
        return _replayed(job, progress)
    workers = Workers(job, ahead)
    try:
        result = run_check(job, progress, workers, scans)
    except EvalspecError:
        # Nothing that was measured is lost because of what came after it.
        _written(job, workers)
        raise
    finally:
        workers.close()
    record = check_record(job, result, [*result.evidence, *_rows_of_logs(job), *_written(job, workers)])
    return {"record": record.model_dump(mode="json"), "observed": workers.observed, "read": workers.answering.read}


def _written(job: CheckJob, workers: Workers) -> list[tuple[str, str]]:
    """Files of what was measured, each with a description of what it holds."""
    files = list(workers.answering.files)
    if workers.samples:
        name = samples_file(job.check.name)
        write_samples(workers.samples, job.evidence / name)
        files.append((name, "every query: intended, sent and end time"))
    if workers.probes:
        name = probes_file(job.check.name)
        write_probes(workers.probes, job.evidence / name)
        files.append((name, "what each process found"))
    return files


def _rows_of_logs(job: CheckJob) -> list[tuple[str, str]]:
    """Files of what was read of the logs of trainings, so that the check can be made again where they are not."""
    import pyarrow.parquet as pq

    files, tables = [], Tables(job.parts)
    for need in job.check.needs():
        name = getattr(need, "dataset", None)
        if name is not None and isinstance(job.parts.datasets.get(name), Training):
            pq.write_table(tables.get(name), job.evidence / rows_file(name), compression="zstd")
            files.append((rows_file(name), f"every value in the logs of {name}"))
    return files


def _replayed(job: CheckJob, progress: Progress) -> Message:
    assert job.timings_from is not None
    result = run_check(job, progress, Replay(job.timings_from / "evidence", job.check.name))
    record = check_record(job, result, [(name, what) for name, what in result.evidence])
    return {"record": record.model_dump(mode="json"), "observed": {}, "read": {}}


def run_check(job: CheckJob, progress: Progress, timing: Timing, scans: Scans | None = None) -> CheckResult:
    """The check's own result, void where the answers that were timed are not those that quality is computed on.

    Raises:
        InputError: It found a value that is not a number where it said that it has one.
    """
    return in_looks(job, timing, lambda one, timings: check_on(one, RunInputs(one, progress, timings, scans)))


def check_on(job: CheckJob, inputs: RunInputs) -> CheckResult:
    """As `run_check`, on inputs that are there."""
    result, timing = over_templates(job.check, inputs, lambda: checked(job.check, job.check.run(inputs))), inputs.timing
    told = (*inputs.equal_rows.lines(), *_begun_twice(job.check.model, inputs.model_facts()))
    result = replace(result, notes=(*result.notes, *told), weakens=(*result.weakens, *told))
    grades = _grades(job, inputs)
    result = guarded(result, timing.samples, job.answers, job.confidence, grades=grades, draft=job.draft)
    return replace(result, weakens=(*result.weakens, *unjudged(job.check, timing.samples, job.graders)))


def checked(check: Check, result: object) -> CheckResult:
    """The result of a check, if it is one.

    Raises:
        InputError: It is none, holds something else than estimates, or has neither value nor reason for what is asked.
    """
    if not isinstance(result, CheckResult):
        raise InputError(f"{whose(check)} returned {_type(result)} from run", remedy="return a CheckResult")
    for name, one in result.estimates.items():
        _check_estimate(check, name, one)
    for (name, model), other in result.comparisons.items():
        if not isinstance(other, Comparison | ComparisonParts):
            raise InputError(f"{whose(check)} returned {_type(other)} for {name} vs {model}", remedy=COMPARISON)
    for requirement in check.requirements:
        metric = requirement.metric
        there = metric in result.estimates or (metric, requirement.model) in result.comparisons
        if not there and not any(name.partition("(")[0] == metric for name in result.missing):
            raise InputError(
                f"{whose(check)} returned nothing for {metric}, which {requirement.sentence!r} is about",
                remedy="give an estimate of it, or the reason why there is none in CheckResult(missing=...)",
            )
    return result


def _check_estimate(check: Check, name: str, found: object) -> None:
    bare = found.estimate if isinstance(found, Measured) else found
    inside = [*bare.parts.values(), *([] if bare.whole is None else [bare.whole])] if isinstance(bare, Parts) else []
    for one in inside if isinstance(bare, Parts) else [bare]:
        plain = one.estimate if isinstance(one, Measured) else one
        if not isinstance(plain, Estimate | Fact):
            raise InputError(f"{whose(check)} returned {_type(plain)} for {name}", remedy=ESTIMATE)


def _type(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _begun_twice(model: str, facts: Mapping[str, Cell]) -> tuple[str, ...]:
    """Sentence on a language model whose prompts begin with two begin tokens; none where they do not."""
    if not facts.get("begins_twice"):
        return ()
    return (
        f"{model} gets prompts with two begin tokens (the first ids are {facts.get('first_ids')}), which no "
        "training "
        "text had: of its chat template, its tokenizer and the prompt, exactly one must add it",
    )


def _grades(job: CheckJob, inputs: RunInputs) -> dict[str, GradedAnswers]:
    """Timed model that streams texts: their scores, beside those of the answers that quality is computed on."""
    grades = {}
    for model, (dataset, grader) in job.graders.items():
        made = [one for one in inputs.timing.samples if one.model == model and one.streams is not None]
        if not made or model not in job.answers:
            continue
        calm = inputs.read_predictions(job.answers[model], dataset, model)
        one = graded(made, calm, grader, inputs.answer_place(model))
        if one is not None:
            grades[model] = one
    return grades


def check_record(job: CheckJob, result: CheckResult, files: list[tuple[str, str]]) -> CheckRecord:
    """Result of a check as it stands in the record."""
    check = job.check
    values, units = measured_values(check, result)
    tests = write_tests(check, result, SignificanceLevels(job.confidence, job.alpha_fail))
    summary, cannot_show = words(check)
    return CheckRecord(
        id=check.name,
        check=check.check,
        dimension=check.dimension,
        status="measured",
        tests=tests,
        blocks=tuple(result.blocks),
        measured=dict(values),
        units=units,
        conditions=_cells(result.conditions),
        counts=result.counts,
        notes=tuple(result.notes),
        weakens=(*result.weakens, *measured_undemanding(check, result, tests)),
        remedies=tuple(result.remedies),
        evidence=tuple(_file(job.evidence, name, what) for name, what in files),
        baseline_models=check.baselines,
        seed=job.seed,
        why=check.why,
        owner=check.owner,
        report_only=check.report_only,
        summary=summary,
        cannot_show=cannot_show,
        declares=declaration_of(type(check)),
    )


def _cells(values: Mapping[str, Cell]) -> dict[str, Cell]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in values.items()
    }


def _file(folder: Path, name: str, what: str) -> EvidenceFile:
    import pyarrow.parquet as pq

    path = folder / name
    if not path.exists():
        raise InputError(f"the check named evidence {name!r} and did not write it")
    rows = pq.read_metadata(path).num_rows if path.suffix == ".parquet" else 0
    return EvidenceFile(path=f"{folder.name}/{name}", digest=sha256_of(path), rows=rows, what=what)
