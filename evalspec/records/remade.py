"""All of a record that can be made again: from its spec, its evidence, its datasets and its models."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evalspec.answers.parts import parts_of
from evalspec.arrow import read_parquet
from evalspec.errors import EvalspecError, SpecError
from evalspec.evidence.record import CheckRecord, DatasetRecord, EvidenceFile, ModelRecord, Record
from evalspec.language.parts import Access, Training
from evalspec.loading import load_kept
from evalspec.planning import Plan, PlannedCheck, plan
from evalspec.records.answer_parts import PartSample, read_parts
from evalspec.records.job_again import job_again, parts_again, with_rows
from evalspec.records.journal_record import JournaledRecord
from evalspec.records.parts import Kind, Remade, RemadePart, names_of
from evalspec.running.children.checking import check_record, run_check
from evalspec.running.children.jobs import (
    SpecParts,
    answers_beside,
    predictions_file,
    rows_file,
)
from evalspec.running.children.reader import dataset_record, model_record
from evalspec.running.describe import not_tested, without_evidence
from evalspec.running.files import sha256_of
from evalspec.running.journal.replay import Replay
from evalspec.running.screens import screen_job, screens_again
from evalspec.running.servers.fingerprint import otherwise_at_the_end, server_file, voided
from evalspec.running.subjects import not_as_asked, observed_of, subject_of

OBSERVED = {"details", "precision_observed", "device_observed", "code_read"}
"""What of a model was got while it ran: the journal has it, and nothing else."""
GROUPS = {"measured": "values", "blocks": "charts and tables", "conditions": "conditions", "counts": "counts",
          "evidence": "rows of the evidence"}  # fmt: skip
"""Field of a check: what a finding calls it."""
WORDS = ("notes", "weakens", "summary", "cannot_show", "remedies")
"""Fields of a check that are sentences, or what sentences are made of."""
BY_RULES = ("blocks", "conditions", *WORDS)
"""Fields of a check on which no verdict rests, and that another version may give otherwise."""
NOT_AGAIN = ("tests", "status", "reason", "duration_s", "attempts")
"""Fields of a check that are told by themselves, or by the journal alone."""


def remake(
    base: Record, folder: Path, journal: JournaledRecord, access: Access, sample: PartSample | None = None
) -> Remade:
    """Make again what can be.

    Args:
        base: The record that says what was run: as the journal has it, where it has it whole.
        folder: Of the run.
        journal: Of the run.
        access: Of the spec, whose datasets and models are read again.
        sample: Of the parts of answers that are looked at; None: all.

    Raises:
        RecordError: It holds a time that is none.
    """
    remade = Remade()
    damaged, unread = _files(base, folder, remade, sample)
    try:
        spec = load_kept(folder)
        planned = plan(spec)
        ran = plan(spec, only=base.only) if base.only else planned
    except SpecError as error:
        remade.skipped.append(f"estimates: the spec beside the record can't be read here: {error.problems[0]}")
        return remade
    _of_the_spec(base, planned, remade)
    again = _Again(base, folder, journal, ran, access, remade, damaged, unread)
    again.names()
    again.models()
    again.datasets()
    checks = {one.check.name: one for one in (*planned.checks, *ran.checks)}
    for check in base.checks:
        if check.id in checks:
            again.check(check, checks[check.id])
        else:
            remade.differs.append(f"{check.id}: the record has this check, the spec beside it does not")
    again.screens()
    return remade


def _files(base: Record, folder: Path, remade: Remade, sample: PartSample | None) -> tuple[set[str], set[str]]:
    """Files of evidence that are missing or changed, and those of which a part was looked at."""
    files = [*base.predictions, *(file for check in base.checks for file in check.evidence)]
    files += [run.log for one in base.trainings for run in (*one.runs, *one.trials) if run.log is not None]
    damaged, unread = set(), set()
    for file in files:
        path = folder / file.path
        if not path.is_file():
            remade.differs.append(f"{file.path}: the record names it, but it is missing")
        elif sha256_of(path) != file.digest:
            remade.differs.append(f"{file.path}: its content differs from what was written")
        else:
            remade.same.append(f"digest of {file.path}")
            read = read_parts(path, sample)
            remade.same += [read.same] if read.same else []
            remade.differs += read.differs
            remade.skipped += [read.left] if read.left else []
            unread |= {path.name} if read.left else set()
            if not read.differs:
                continue
        damaged.add(path.name)
    counted = _counted(base.predictions, folder, damaged)
    remade.parts.append(RemadePart("rows of the answers", ("predictions",), counted))
    return damaged, unread


def _counted(files: Sequence[EvidenceFile], folder: Path, damaged: set[str]) -> list[Any]:
    """Files of evidence with the rows that are in them."""
    import pyarrow.parquet as pq

    found = []
    for file in files:
        path, rows = folder / file.path, 0
        if path.name in damaged:
            rows = file.rows
        elif path.suffix == ".parquet":
            parts = parts_of(path)
            rows = sum(one.rows for one in parts) if parts else pq.read_metadata(path).num_rows
        found.append(file.model_dump(mode="json") | {"rows": rows})
    return found


def _of_the_spec(base: Record, planned: Plan, remade: Remade) -> None:
    spec = planned.spec
    remade.add("digest of spec.yaml", spec.digest, "spec_digest")
    remade.add("name", spec.name, "spec")
    remade.add("seed", spec.seed)
    remade.add("family", planned.family, kind="rules")
    remade.add("family of warnings", planned.family_warn, "family_warn", kind="rules")
    remade.add("requirements that make the same claim", planned.same, "same", kind="rules")
    for what in ("policy", "waivers", "claims", "rollback", "profile"):
        remade.add(what, getattr(spec, what))
    remade.add("names of the models", tuple(spec.models), "models_named", kind="facts")
    remade.add("set aside of the profile", spec.without, "without")
    remade.parts.append(RemadePart("checks", ("checks",), [one.name for one in spec.checks], read=names_of))
    asked = base.model_copy(update={"profile": spec.profile, "without": spec.without})
    remade.add("what was not tested", not_tested(asked, spec), "not_tested", kind="rules")


@dataclass(slots=True)
class _Again:
    """Makes models, datasets and checks of a run again."""

    base: Record
    folder: Path
    journal: JournaledRecord
    planned: Plan
    access: Access
    remade: Remade
    damaged: set[str]
    unread: set[str]
    """Files of answers of which a sample was looked at."""
    changed: dict[str, str] = field(default_factory=dict)
    """Datasets that can't be read again as they were, with the reason."""
    rows: dict[str, Path] = field(default_factory=dict)
    """Files of evidence with the rows of what can't be read again."""

    def names(self) -> None:
        """Check that everything which the plan reads stands in the record, but for what could not be read."""
        if self.base.interrupted:
            return
        checks, spec = self.planned.checks, self.planned.spec
        about = [check.model for check in spec.checks if check.uses_model]
        datasets = dict.fromkeys(name for one in checks for name in one.datasets)
        models = dict.fromkeys([*(name for one in checks for name in one.models), *about])
        for what, names in (("dataset", datasets), ("model", models)):
            # What broke once may have been read before, or when the run was gone on with.
            there = {one.name for one in (self.base.datasets if what == "dataset" else self.base.models)}
            broken = self.journal.broken_parts(what) - there
            wanted = [name for name in names if name not in broken]
            self.remade.parts.append(RemadePart(f"{what}s", (f"{what}s",), wanted, read=names_of))
        measured = {check.id for check in self.base.checks if check.status == "measured"}
        named = {file.path: file.what for file in self.base.predictions}
        for one in checks:
            for dataset, model in one.predictions if one.check.name in measured else ():
                path, what = f"evidence/{predictions_file(dataset, model)}", f"answers of {model} on {dataset}"
                if named.get(path) != what:
                    self.remade.differs.append(f"{path}: the record does not name it as {what}")

    def models(self) -> None:
        """Make again what stands on disk of each model, and which of them is the subject."""
        base, spec = self.base, self.planned.spec
        made = self._parts().models
        models, datasets = ({one.name: one for one in many} for many in (base.models, base.datasets))
        named = (check.model for check in spec.checks if check.uses_model)
        self.remade.add("subject", subject_of(models, datasets, named))  # type: ignore[arg-type]
        for one in base.models:
            if one.name not in spec.models:
                self.remade.differs.append(f"model {one.name}: the record has it, the spec beside it does not")
                continue
            try:
                now = model_record(one.name, made.get(one.name, spec.models[one.name]), self.access)
            except EvalspecError as error:
                self.remade.skipped.append(f"model {one.name}: {error}")
                continue
            # Of a server that could not be asked at the end none is shown.
            if not (one.digest is None and spec.models[one.name].served):
                self.remade.add(f"digest of model {one.name}", now.digest, "models", one.name, "digest")
            self.remade.add_fields(f"model {one.name}", now, OBSERVED | {"digest"}, "models", one.name, kind="facts")

    def datasets(self) -> None:
        """Each dataset as it reads now."""
        parts = self._parts()
        for one in self.base.datasets:
            if one.name not in parts.datasets:
                self.changed[one.name] = "is not in the spec beside the record"
                continue
            place = parts.datasets[one.name].place
            if place is not None:
                self.changed[one.name] = f"lies in {place.address}, which `verify` does not open"
                continue
            try:
                now = dataset_record(one.name, parts)
            except EvalspecError as error:
                kept = self._of_evidence(one)
                if kept is None:
                    self.changed[one.name] = f"can't be read here: {error}"
                    continue
                now = kept
            if now.digest == one.digest:
                self.remade.add(f"dataset {one.name}", now, "datasets", one.name, kind="facts")
            else:
                self.changed[one.name] = "has changed since"
                self.remade.differs.append(f"dataset {one.name}: its rows are not those that were measured")

    def _of_evidence(self, one: DatasetRecord) -> DatasetRecord | None:
        """Record of a training whose logs are elsewhere, from what the run kept of them; None: it kept nothing."""
        from evalspec.sources.reading.rows import TableDigest

        name = rows_file(one.name)
        path = self.folder / "evidence" / name
        named = any(file.path == f"evidence/{name}" for check in self.base.checks for file in check.evidence)
        if not named or name in self.damaged or not path.is_file():
            return None
        table, digest = read_parquet(path), TableDigest()
        digest.update(table)
        self.rows[one.name] = path
        return one.model_copy(update={"digest": digest.end(), "rows": table.num_rows})

    def check(self, check: CheckRecord, planned: PlannedCheck) -> None:
        """One check: all that it says, and how it ended."""
        self._status(check, planned)
        if check.status != "measured" and not _has_values(check):
            bare = without_evidence(planned, self.planned.spec, check.status, check.reason or "")
            self._add(check, bare, planned)
            return
        gone = sorted(self.changed.keys() & set(check.datasets))
        timings = self._evidence(planned)
        needed = {predictions_file(*pair) for pair in planned.predictions} | {
            Path(file.path).name for file in check.evidence
        }
        if gone:
            self.remade.skipped.append(f"{check.id}: dataset {gone[0]} {self.changed[gone[0]]}")
        elif lost := needed & self.damaged:
            self.remade.skipped.append(f"{check.id}: its evidence {min(lost)} was changed")
        elif some := needed & self.unread:
            self.remade.skipped.append(f"{check.id}: it needs all of {min(some)}, and --sample checked only some parts")
        elif not timings.is_dir():
            self.remade.skipped.append(
                f"{check.id}: its timings are those of {self.base.timings_from}, which does not lie beside this run"
            )
        else:
            self._measured(check, planned, timings)

    def screens(self) -> None:
        """Make again what the screens suspect."""
        screens = self.base.screens
        if screens is None:
            return
        # Screens look at no training.
        changed = [one for one in self.changed if not isinstance(self.planned.spec.datasets.get(one), Training)]
        if screens.blind or changed or self.damaged or self.unread:
            why = "not all of them could be run" if screens.blind else "some of what they examined has changed"
            if self.unread and not (screens.blind or changed or self.damaged):
                why = "they examine all answers, and --sample checked only some parts"
            self.remade.skipped.append(f"screens: {why}")
            return
        base, timings = self.base, self.folder / "evidence"
        if base.timings_from is not None:
            timings = self.folder.resolve().parent / base.timings_from / "evidence"
            # A run that is called like this one lies elsewhere.
            if not timings.is_dir() or timings.parent == self.folder.resolve():
                # One that looks at timings would have nothing to look at.
                self.remade.skipped.append(f"screens: {base.timings_from} does not lie beside this run")
                return
        with tempfile.TemporaryDirectory() as scratch:
            job = job_again(base, self.folder, self.planned, self.planned.checks[0], self.access, Path(scratch))
            job = replace(job, seed=self.planned.spec.seed)
            of_run = screen_job(
                job, self.planned, base.checks, base.datasets, base.predictions, self.folder, timings, screens.trials
            )
            try:
                found = None if of_run is None else screens_again(of_run)
            except EvalspecError as error:
                self.remade.skipped.append(f"screens: {error}")
                return
        self.remade.add("screens", found, kind="rules")

    def _status(self, check: CheckRecord, planned: PlannedCheck) -> None:
        """How a check ended that was measured: by what its models were seen to do, and by what servers answered."""
        if check.status != "measured":
            return
        other = None if planned.check.detects_mismatch else not_as_asked(self._as_it_ran(check, planned))
        if other is not None:
            check = check.model_copy(update={"status": "invalid", "reason": other})
        (check,) = voided([check], self._servers(check))
        place = ("checks", check.id)
        self.remade.parts.append(
            RemadePart(f"status of {check.id}", place, [check.status, check.reason], read=_status_and_reason)
        )

    def _as_it_ran(self, check: CheckRecord, planned: PlannedCheck) -> Iterator[ModelRecord]:
        """Models of a check with what was seen of them up to then."""
        pairs = {*planned.predictions, *answers_beside(self.planned, planned).values()}
        for one in self.base.models:
            if one.name not in planned.models or one.name not in self.planned.spec.models:
                continue
            part = self.planned.spec.models[one.name]
            seen = one.model_copy(
                update={"precision": part.precision, "device": part.device}
                | dict.fromkeys(("precision_observed", "device_observed"))
            )
            for observed in self.journal.observed(one.name, check.id, pairs):
                seen = observed_of(seen, observed)
            yield seen

    def _servers(self, check: CheckRecord) -> dict[str, str]:
        """Servers of a check that answered otherwise at the end of the run, with how."""
        found = {}
        for name in check.models:
            start, end = (self.folder / "evidence" / server_file(name, when) for when in ("start", "end"))
            if not self.base.draft and start.is_file() and end.is_file() and not {start.name, end.name} & self.damaged:
                differ = otherwise_at_the_end(start, end)
                if differ is not None:
                    found[name] = differ
        return found

    def _evidence(self, planned: PlannedCheck) -> Path:
        """Folder of what a check was computed from."""
        if self.base.timings_from is not None and planned.timed:
            return self.folder.resolve().parent / self.base.timings_from / "evidence"
        return self.folder / "evidence"

    def _measured(self, check: CheckRecord, planned: PlannedCheck, timings: Path) -> None:
        """A check from its evidence."""
        with tempfile.TemporaryDirectory() as scratch:
            # What a check writes while it is made again is not what the run left behind.
            job = job_again(self.base, self.folder, self.planned, planned, self.access, Path(scratch))
            job = replace(job, parts=with_rows(job.parts, self.rows, Path(scratch)))
            try:
                result = run_check(job, lambda *_: None, Replay(timings, check.id))
            except EvalspecError as error:
                self.remade.skipped.append(f"{check.id}: {error}")
                return
        self._add(check, check_record(job, result, []), planned)

    def _parts(self) -> SpecParts:
        return parts_again(self.base, self.folder, self.planned, self.access)

    def _add(self, before: CheckRecord, again: CheckRecord, planned: PlannedCheck) -> None:
        """All that a check says, part by part."""
        again = again.model_copy(update={"models": planned.models, "datasets": planned.datasets})
        place, value = ("checks", before.id), again.model_dump(mode="json")
        for test in value["tests"]:
            self.remade.add(test["name"], test, *place, "tests", test["name"], kind="values")
        names = names_of(value["tests"])
        self.remade.parts.append(RemadePart(f"requirements of {before.id}", (*place, "tests"), names, read=names_of))
        value["evidence"] = _counted(before.evidence, self.folder, self.damaged)
        for name, what in GROUPS.items():
            kind: Kind = "rules" if name in BY_RULES else "values"
            self.remade.add(f"{what} of {before.id}", value[name], *place, name, kind=kind)
        aside = {*NOT_AGAIN, *GROUPS}
        self.remade.add_fields(f"wording of {before.id}", again, set(value) - {*WORDS}, *place, kind="rules")
        self.remade.add_fields(f"the rest of {before.id}", again, aside | {*WORDS}, *place, kind="facts")


def _status_and_reason(check: Any) -> list[Any]:
    return [None, None] if check is None else [check["status"], check["reason"]]


def _has_values(check: CheckRecord) -> bool:
    """True if it was measured, whatever became of it then."""
    return bool(check.measured or check.blocks or any(test.value is not None for test in check.tests))
