"""For authors of extensions: run a check on rows in memory, in this process, and see what would become of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import InputError
from evalspec.outcome import RequirementResult
from evalspec.version import __version__

if TYPE_CHECKING:
    from evalspec.evidence.record import CheckRecord
    from evalspec.language.parts import Check, CheckResult, Dataset
    from evalspec.loading.in_memory import Handover
    from evalspec.running.children.jobs import CheckJob, SpecParts

NOTHING: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """Result of a check, and what a verdict would make of it.

    Args:
        result: As `Check.run` returned it.
        record: As a run would keep it: tests, blocks, measured values.
        requirements: By name, ``<check id>/<metric>[(part)]``, with ``status``, ``value``, ``lower``, ``upper``, ``n``.
    """

    result: CheckResult
    record: CheckRecord
    requirements: Mapping[str, RequirementResult]

    @property
    def status(self) -> str:
        """The status of its only requirement.

        Raises:
            ValueError: It has none, or several.
        """
        (one,) = self.requirements.values()
        return one.status


def run_check(
    check: Check,
    rows: object,
    *,
    label: str | None = None,
    model: object | None = None,
    fields: Mapping[str, object] = NOTHING,
    confidence: float = 0.95,
    seed: int = 0,
) -> CheckOutcome:
    """Run a check on rows in memory, as a run would, decided as in a spec that holds nothing else.

    Args:
        check: The check, made by ``MyCheck.model_validate({...})``.
        rows: Of its dataset: a frame, a table, a dict of arrays or a pair ``(X, y)``, as `evalspec.run` takes them. Of
            a check that needs several datasets: these by name.
        label: Column with the truth.
        model: Its model, as `evalspec.run` takes them; a check that times its model can't be run here.
        fields: Of the model, as in a spec: ``{"classes": ["no", "yes"]}``.
        confidence: Of the decision.
        seed: Of what the check draws.

    Raises:
        SpecError: The rows can't be handed over.
        EvalspecError: The check refused, or returned what is no result.
    """
    from evalspec.loading.in_memory import hand_over
    from evalspec.running.children.checking import check_on, check_record
    from evalspec.running.children.inputs import RunInputs
    from evalspec.running.journal.replay import Replay

    handed = hand_over({}, _datasets(check, rows))
    with tempfile.TemporaryDirectory(prefix="evalspec-testing-") as scratch:
        folder = Path(scratch)
        parts = _parts(handed, label)
        answers = _answers(check, parts, model, fields, folder)
        job = _job(check, parts, answers, folder, confidence=confidence, seed=seed)
        result = check_on(job, RunInputs(job, lambda *_: None, Replay(folder, check.name)))
        record = check_record(job, result, [*result.evidence])
    return CheckOutcome(result, record, _decided(record, confidence))


def _datasets(check: Check, rows: object) -> dict[str, object]:
    """Rows of each dataset that a check needs."""
    names = tuple(dict.fromkeys(need.dataset for need in check.needs()))
    if len(names) == 1:
        return {names[0]: rows}
    if not isinstance(rows, Mapping) or not set(names) <= set(rows):
        raise InputError(f"the check needs rows of {', '.join(names)}", remedy="hand over a dict of these by name")
    return {name: rows[name] for name in names}


def _parts(handed: Handover | None, label: str | None) -> SpecParts:
    from evalspec.language.parts import Access
    from evalspec.running.children.jobs import SpecParts
    from evalspec.sources.memory import MemoryRows

    access = Access(Path.cwd(), trust=True)
    if handed is None:
        return SpecParts(models={}, datasets={}, slices={}, access=access)
    datasets: dict[str, Dataset] = {
        name: MemoryRows(path=file, label=label or handed.labels.get(name)) for (_, name), file in handed.files.items()
    }
    return SpecParts(models={}, datasets=datasets, slices={}, access=handed.given_to(access))


def _answers(
    check: Check, parts: SpecParts, model: object | None, fields: Mapping[str, object], folder: Path
) -> dict[str, str]:
    """Files of what a model says of the rows that the check asks for."""
    from evalspec.answers.file import write_answers
    from evalspec.language.parts import NeedPredictions
    from evalspec.pipeline.model_fields import usable_cpus
    from evalspec.pipeline.serve import Served
    from evalspec.running.children.jobs import predictions_file, predictions_key
    from evalspec.running.children.tables import Tables
    from evalspec.runtimes.memory import MemoryModel

    needs = [need for need in check.needs() if isinstance(need, NeedPredictions) and need.model == check.model]
    if needs and model is None:
        raise InputError("the check asks for a model's answers", remedy="hand over model=, such as a function")
    files: dict[str, str] = {}
    part, tables = MemoryModel.model_validate(dict(fields)), Tables(parts)
    for need in needs:
        served = Served(part, part.ready(model, usable_cpus()), parts.access, tables.facts(need.dataset))
        path = folder / predictions_file(need.dataset, check.model)
        write_answers(served.predict_all(tables.get(need.dataset)), path)
        files[predictions_key(need.dataset, check.model)] = str(path)
    return files


def _job(
    check: Check, parts: SpecParts, answers: Mapping[str, str], folder: Path, *, confidence: float, seed: int
) -> CheckJob:
    from evalspec.running.children.jobs import CheckJob
    from evalspec.running.children.process import Limits
    from evalspec.runtimes.memory import MemoryModel

    return CheckJob(
        parts=replace(parts, models={check.model: MemoryModel()}),
        check=check,
        predictions=answers,
        model_facts={check.model: {}},
        confidence=confidence,
        alpha_fail=1.0 - confidence,
        seed=seed,
        draft=False,
        evidence=folder,
        limits=Limits(),
        threads=1,
        environment={},
    )


def _decided(check: CheckRecord, confidence: float) -> dict[str, RequirementResult]:
    """The check's requirements, decided as in a spec that holds nothing else."""
    from evalspec.evidence.policy import Policy
    from evalspec.evidence.record import Record
    from evalspec.report.requirements import requirement_rows
    from evalspec.verdict import decide

    drawn = [test for test in check.tests if not test.exact]
    record = Record(
        evalspec=__version__, spec="testing", spec_digest="", spec_file="", started="", finished="",
        seed=check.seed, policy=Policy(confidence=confidence), checks=(check,), subject="testing",
        family=tuple(test.name for test in drawn if test.severity == "require"),
        family_warn=tuple(test.name for test in drawn if test.severity == "warn"),
    )  # fmt: skip
    names = {test.name for test in check.tests}
    rows = requirement_rows(record, decide(record))
    return {row.name: RequirementResult.of(row) for row in rows if row.name in names}
