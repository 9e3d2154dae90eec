"""Recompute a run from its raw evidence, and say what differs."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from evalspec import __version__
from evalspec.errors import EvalspecError, RecordError, SpecError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.verdict import RULE_VERSION
from evalspec.language.parts import Access
from evalspec.plan import Plan, plan
from evalspec.run.checking import check_record, run_check
from evalspec.run.files import sha256_of
from evalspec.run.folders import read_record
from evalspec.run.jobs import (
    DRAFT_ROWS,
    CheckJob,
    Parts,
    answers_beside,
    judged_beside,
    predictions_file,
    predictions_key,
    seed_of,
)
from evalspec.run.process import Limits
from evalspec.run.reader import dataset_record, model_record
from evalspec.run.replay import Replay
from evalspec.run.subjects import model_facts, subject_of
from evalspec.spec import load_kept
from evalspec.verdict import decide

TOLERANCE = 1e-9
"""Relative: what another machine's rounding may change."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What came of recomputing a run.

    Args:
        same: What came out as the record has it.
        differs: What did not, each with both values.
        skipped: What can't be recomputed here, with the reason.
        otherwise: What another version of the program recomputed otherwise, which blames nobody: each with both values.
        versions: That the record is of another version; None: it is of this one.
    """

    same: tuple[str, ...]
    differs: tuple[str, ...]
    skipped: tuple[str, ...]
    otherwise: tuple[str, ...] = ()
    versions: str | None = None


class _Findings:
    """Collects findings. ``another``: the record is of another version of the program."""

    def __init__(self, another: bool) -> None:
        self.same: list[str] = []
        self.differs: list[str] = []
        self.skipped: list[str] = []
        self.otherwise: list[str] = []
        self._another = another

    def recompute(self, what: str, before: object, now: object) -> None:
        """Compare what comes out of the program's own rules, which another version may have changed."""
        self.compare(what, before, now, self.otherwise if self._another else self.differs)

    def compare(self, what: str, before: object, now: object, differs: list[str] | None = None) -> None:
        """Compare what is in the record, or in files, whatever version looks at it."""
        differs = self.differs if differs is None else differs
        if _equal(before, now):
            self.same.append(what)
        elif isinstance(before, Mapping) and isinstance(now, Mapping):
            changed = [key for key in {**before, **now} if not _equal(before.get(key), now.get(key))]
            pairs = (f"{key} {_short(before.get(key))}, recomputed {_short(now.get(key))}" for key in changed)
            differs.append(f"{what}: the record says {'; '.join(pairs)}")
        else:
            differs.append(f"{what}: the record says {_short(before)}, recomputed {_short(now)}")


def verify(folder: Path, *, spec_folder: Path | None = None, allow_outside: bool = False) -> Verification:
    """Recompute digests of the evidence, every estimate and test, and the verdict.

    Args:
        folder: Folder of a run. Datasets are read again, if they are still there unchanged.
        spec_folder: Folder that paths in the spec start from; None: where the spec was, from the run's folder.
        allow_outside: As for the run.

    Raises:
        RecordError: There is no record, or it can't be read.
    """
    record = read_record(folder)
    versions = _versions(record)
    findings = _Findings(versions is not None)
    damaged = _evidence(record, folder, findings)
    findings.recompute("verdict", _plain(record.verdict), _plain(decide(record)))
    place = spec_folder or (folder / record.spec_file).resolve().parent
    _recompute(record, folder, findings, damaged, Access(place, allow_outside=allow_outside))
    if spec_folder is None and findings.skipped and not (folder / record.spec_file).is_file():
        findings.skipped.insert(
            0,
            f"the run's spec is not at {record.spec_file} from its folder, so one of them was moved; "
            "name the folder of the spec with --spec-folder DIR",
        )
    return Verification(
        same=tuple(findings.same),
        differs=tuple(findings.differs),
        skipped=tuple(findings.skipped),
        otherwise=tuple(findings.otherwise),
        versions=versions,
    )


def _versions(record: Record) -> str | None:
    """That another version of the program, or of the rule of verdicts, made the record; None: this one did."""
    rule = RULE_VERSION if record.verdict is None else record.verdict.rule
    if (record.evalspec, rule) == (__version__, RULE_VERSION):
        return None
    return (
        f"the record was made by evalspec {record.evalspec} with rule {rule}, and this is evalspec {__version__} with "
        f"rule {RULE_VERSION}: what is recomputed may differ because of that; evalspec {record.evalspec} can tell"
    )


def _plain(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json")


def _evidence(record: Record, folder: Path, findings: _Findings) -> set[str]:
    """Files of evidence that are missing or changed."""
    files = [*record.predictions, *(file for check in record.checks for file in check.evidence)]
    damaged = set()
    for file in files:
        path = folder / file.path
        if not path.exists():
            findings.differs.append(f"{file.path}: the record names it and it is not there")
        elif sha256_of(path) != file.digest:
            findings.differs.append(f"{file.path}: its bytes are not those that were written")
        else:
            findings.same.append(f"digest of {file.path}")
            continue
        damaged.add(path.name)
    return damaged


def _recompute(record: Record, folder: Path, findings: _Findings, damaged: set[str], access: Access) -> None:
    try:
        planned = plan(load_kept(folder))
    except SpecError as error:
        findings.skipped.append(f"estimates: the spec beside the record can't be read here: {error.problems[0]}")
        return
    findings.compare("digest of spec.yaml", record.spec_digest, planned.spec.digest)
    findings.compare("name", record.spec, planned.spec.name)
    findings.compare("seed", record.seed, planned.spec.seed)
    findings.recompute("family", list(record.family), list(planned.family))
    findings.recompute("family of warnings", list(record.family_warn), list(planned.family_warn))
    findings.recompute("requirements that claim the same", dict(record.same), dict(planned.same))
    findings.compare("policy", _plain(record.policy), _plain(planned.spec.policy))
    findings.compare("waivers", [_plain(one) for one in record.waivers], [_plain(one) for one in planned.spec.waivers])
    if record.profile is not None or planned.spec.profile is not None:
        findings.compare("profile", _plain(record.profile), _plain(planned.spec.profile))
        aside = [_plain(one) for one in record.without]
        findings.compare("set aside of the profile", aside, [_plain(one) for one in planned.spec.without])
    findings.compare("checks", sorted(one.id for one in record.checks), sorted(one.name for one in planned.spec.checks))
    _models(record, planned, access, findings)
    changed = _datasets(record, planned, access, findings)
    for check in record.checks:
        if check.status != "measured":
            continue
        gone = sorted(changed.keys() & set(check.datasets))
        if gone:
            findings.skipped.append(f"{check.id}: dataset {gone[0]} {changed[gone[0]]}")
        elif lost := _needed(check, planned) & damaged:
            findings.skipped.append(f"{check.id}: its evidence {min(lost)} was changed")
        else:
            _check(record, check, planned, folder, access, findings)


def _needed(check: CheckRecord, planned: Plan) -> set[str]:
    """Names of the files that a check is recomputed from."""
    pairs = next((one.predictions for one in planned.checks if one.check.name == check.id), ())
    return {predictions_file(dataset, model) for dataset, model in pairs} | {
        Path(file.path).name for file in check.evidence
    }


def _datasets(record: Record, planned: Plan, access: Access, findings: _Findings) -> dict[str, str]:
    """Datasets that can't be read again as they were, with the reason."""
    parts = _parts(record, planned, access)
    changed = {}
    for one in record.datasets:
        if one.name not in parts.datasets:
            changed[one.name] = "is not in the spec beside the record"
            continue
        try:
            now = dataset_record(one.name, parts)
        except EvalspecError as error:
            changed[one.name] = f"can't be read here: {error}"
            continue
        if now.digest == one.digest:
            findings.same.append(f"digest of dataset {one.name}")
            findings.recompute(f"whether rows of {one.name} may be copies", one.may_repeat, now.may_repeat)
        else:
            changed[one.name] = "has changed since"
            findings.differs.append(f"dataset {one.name}: its rows are not those that were measured")
    return changed


def _models(record: Record, planned: Plan, access: Access, findings: _Findings) -> None:
    """Hold the artifacts that are still there against the digests of those that were run, the subject's among them."""
    models = {one.name: one for one in record.models}
    datasets = {one.name: one for one in record.datasets}
    named = (check.model for check in planned.spec.checks if check.uses_model)
    findings.compare("subject", record.subject, subject_of(models, datasets, named))
    for one in record.models:
        if one.name not in planned.spec.models:
            findings.differs.append(f"model {one.name}: the record has it, the spec beside it does not")
            continue
        try:
            now = model_record(one.name, planned.spec.models[one.name], access)
        except EvalspecError as error:
            findings.skipped.append(f"model {one.name}: {error}")
            continue
        findings.compare(f"digest of model {one.name}", one.digest, now.digest)


def _parts(record: Record, planned: Plan, access: Access) -> Parts:
    return Parts(
        models=dict(planned.spec.models),
        datasets=dict(planned.spec.datasets),
        slices={one.name: one.where for one in planned.spec.slices},
        access=access,
        rows=DRAFT_ROWS if record.draft else None,
    )


def _check(
    record: Record, check: CheckRecord, planned: Plan, folder: Path, access: Access, findings: _Findings
) -> None:
    one = next((one for one in planned.checks if one.check.name == check.id), None)
    if one is None:
        findings.differs.append(f"{check.id}: the record has this check, the spec beside it does not")
        return
    evidence = folder / "evidence"
    with tempfile.TemporaryDirectory() as scratch:
        job = CheckJob(
            parts=_parts(record, planned, access),
            check=one.check,
            predictions={
                predictions_key(dataset, model): str(evidence / predictions_file(dataset, model))
                for dataset, model in one.predictions
            },
            model_facts={model.name: model_facts(model) for model in record.models},
            confidence=record.policy.confidence,
            alpha_fail=planned.alpha_fail,
            seed=seed_of(record.seed, check.id),
            draft=record.draft,
            # What a check writes while it is recomputed is not what the run left behind.
            evidence=Path(scratch),
            limits=Limits(),
            threads=1,
            environment={},
            answers={model: evidence / predictions_file(*pair) for model, pair in answers_beside(planned, one).items()},
            judged=judged_beside(planned, one),
            repeating=frozenset(dataset.name for dataset in record.datasets if dataset.may_repeat),
            today=_day(record),
        )
        try:
            result = run_check(job, lambda *_: None, Replay(evidence, check.id))
        except EvalspecError as error:
            findings.skipped.append(f"{check.id}: {error}")
            return
    again = check_record(job, result, [])
    before, now = ({test.name: _plain(test) for test in found.tests} for found in (check, again))
    for name in {**now, **before}:
        findings.recompute(name, before.get(name), now.get(name))
    findings.recompute(f"values of {check.id}", check.measured, again.measured)


def _day(record: Record) -> date:
    try:
        return date.fromisoformat(record.started[:10])
    except ValueError as error:
        raise RecordError(f"the record says that it began at {record.started!r}, which is no time") from error


def _equal(before: Any, now: Any) -> bool:
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=TOLERANCE, abs_tol=1e-12)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        return before.keys() == now.keys() and all(_equal(before[key], now[key]) for key in before)
    if isinstance(before, list | tuple) and isinstance(now, list | tuple):
        return len(before) == len(now) and all(map(_equal, before, now))
    return bool(before == now)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 160 else f"{text[:157]}..."
