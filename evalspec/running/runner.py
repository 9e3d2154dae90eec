"""Plan -> Record. The parent of all children: it measures nothing and imports nothing heavy."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalspec.errors import (
    EngineError,
    EvalspecError,
    InputError,
    InvalidError,
    NotRunError,
    Problem,
    RecordError,
    SpecError,
    WriteError,
)
from evalspec.evidence.record import CheckRecord, CheckStatus, Environment, Record, Resumption
from evalspec.evidence.screens import Screening
from evalspec.interrupts import Interrupts
from evalspec.language.parts import Check, NeedTiming
from evalspec.loading import PROFILE_FILE
from evalspec.planning import Plan, PlannedCheck
from evalspec.redaction import Redaction
from evalspec.running import environment
from evalspec.running.basis import files_of
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
from evalspec.running.children.leaf_journal import passes_of, remove_leaves
from evalspec.running.children.scans import Ahead
from evalspec.running.children.sharing import Heir, SharedChild
from evalspec.running.children.spare import Spares
from evalspec.running.children.workers import may_start_together
from evalspec.running.describe import not_tested, without_evidence
from evalspec.running.engines.opening import EngineFacts, opened, recorded
from evalspec.running.folders import (
    discard,
    earlier_runs,
    last_blessed,
    point_latest,
    previous_run,
    timings_of,
)
from evalspec.running.journal.closing import write_record
from evalspec.running.journal.events import JournalEvents
from evalspec.running.journal.partial_rerun import Again, again, gone_on_from, profile_digest
from evalspec.running.journal.resuming import KeptChecks
from evalspec.running.options import Options
from evalspec.running.ownership import RunFolder, claimed
from evalspec.running.preflight import refuse_unallowed
from evalspec.running.screens import screen_job, screens_of
from evalspec.running.servers.fingerprint import ServerFingerprint, voided
from evalspec.running.servers.served import Servers
from evalspec.running.spec_diff import since_before
from evalspec.running.standing import check_end, violated, void_changed, without_lost
from evalspec.running.subjects import Children, Observer, Subjects, WatchesChecks, digest_of, subject_of
from evalspec.running.supervision.made_runs import FOLDER, MadeRuns, made_models, made_parts, supervised
from evalspec.running.trials import tried_models
from evalspec.trainings.command import awaited
from evalspec.verdict import decide
from evalspec.version import __version__

ROOM_BYTES = 4 * 2**30
"""Memory that a run may use, at least, where models are loaded beside what is measured before they are timed."""
FIRST = 4
"""Checks whose modules are imported while datasets are read; later ones import theirs beside others."""


def run(
    plan: Plan,
    options: Options,
    observer: Observer,
    signals: Interrupts | None = None,
    spares: Spares | None = None,
) -> tuple[Record, Path]:
    """Run a plan and write its record; a signal ends what is measured, and the record says so.

    Args:
        plan: The plan.
        options: How.
        observer: Who watches.
        signals: Counts those that come; whoever gives it may go on counting afterwards.
        spares: Children that are there already.

    Returns:
        The record with its verdict, and its folder.

    Raises:
        SpecError: The plan needs what the caller has not allowed.
        RecordError: The run that is to be gone on with is not there, or can't be.
        WriteError: The record can't be written.
        EngineError: The cluster that is to scan datasets can't be used, or is gone; such a run can be resumed.
    """
    refuse_unallowed(plan, options.access)
    if options.remeasure is not None and (made := next(iter(supervised(plan)), None)) is not None:
        raise SpecError(
            Problem(f"a run that makes the runs of {made} can't be measured again in part", remedy="start a new run")
        )
    cluster = None
    if options.engine.address and not options.draft:
        observer.step(f"opening {options.engine.words}")
        cluster = opened(options.engine)
        observer.step(cluster.line)
    with signals or Interrupts() as counted:
        before = None if options.remeasure is None else again(options.remeasure, plan)
        folder = RunFolder(claimed(plan, options))
        try:
            access = replace(folder.takes_over(options.access), made=folder.path.resolve() / FOLDER)
            options = replace(options, access=access)
            return _Run(plan, options, observer, folder, before, counted, spares).go(cluster)
        finally:
            folder.let_go()


class _Run:
    """The state of one run; everything that it learns ends in the record."""

    def __init__(
        self,
        plan: Plan,
        options: Options,
        observer: Observer,
        own: RunFolder,
        before: Again | None,
        signals: Interrupts,
        spares: Spares | None,
    ) -> None:
        self.signals = signals
        self.plan = plan
        self.spec = plan.spec
        self.options = options
        self.observer = observer
        self.datasets = dict(self.spec.datasets)
        """As they are read: trainings whose runs are made take the place of what the spec says of them."""
        self.models = dict(self.spec.models)
        parts = SpecParts(
            models=self.models,
            datasets=self.datasets,
            slices={one.name: one.where for one in self.spec.slices},
            access=options.access,
            rows=DRAFT_ROWS if options.draft else None,
            foreign_code=foreign_code(plan),
        )
        self.started = datetime.now(UTC)
        self.hidden = Redaction.of(options.access.secrets)
        self.own = own
        own.journal.signals = signals
        self.folder = own.path
        self.journal = own.journal
        self.journal.hidden = self.hidden
        events = self.journal.read() if options.resume else []
        self.again = gone_on_from(events, plan) if options.resume else before
        known = JournalEvents(events if self.again is None else [*self.again.events, *events])
        self.children = Children(
            options.access, options.limits, options.threads, self.folder, options.engine, signals.raise_lost, spares
        )
        self.made = MadeRuns(
            plan, self.folder, self.journal, self.children, observer, draft=options.draft, events=events
        )
        self.subjects = Subjects(parts, self.children, self.journal, observer, known)
        self.parts = self.subjects.parts
        self.kept = KeptChecks(JournalEvents(events), self.own, self.journal, self.subjects, observer)
        self.servers = Servers(self.spec.models, options.access, self.folder, self.journal, observer)
        self.witness = ServerFingerprint(self.parts, self.children, self.subjects, self.journal)
        self.shared = SharedChild(self.children)
        self.timed_ahead = False
        """The processes of the first timed check were started, or may not be, before it."""
        self.left = list(plan.checks)
        """Checks that are still to come."""
        self.checks: list[CheckRecord] = []
        self.named: dict[str, dict[str, str]] = {}
        """Digests at the start of the files that each check names, by check."""
        self.interrupted = False
        self.screens: Screening | None = None

    def go(self, cluster: EngineFacts | None) -> tuple[Record, Path]:
        self.own.write("spec.yaml", self.spec.text)
        if self.spec.profile is not None:
            self.own.write(PROFILE_FILE, self.spec.profile_text)
        self.own.make("evidence")
        begun = {
            "evalspec": __version__, "spec": self.spec.digest, "time": _stamp(self.started),
            "draft": self.options.draft, "command": self.options.command,
        }  # fmt: skip
        if self.spec.profile is not None:
            begun["profile"] = profile_digest(self.spec.profile)
        if self.again is not None:
            begun["remeasures"] = str(self.again.folder)
        self.journal.write("start", **begun)
        beside = ThreadPoolExecutor(1)
        captured = beside.submit(environment.capture, self.options.access.folder)
        beside.shutdown(wait=False)
        try:
            with _interrupted_by(self.signals):
                self._measure_all(captured)
            self.signals.hold()
        except KeyboardInterrupt:
            self.signals.hold()
            self.interrupted = True
            self.observer.step("interrupted: what was measured is kept")
        finally:
            self.signals.hold()
            self.shared.close()
            self.subjects.close()
            self.servers.stop()
        self._fill_up()
        self.children.tidy()
        read = {one.check.name: self._answers_read(one) for one in self.plan.checks}
        self.checks = without_lost(self.checks, self.own, self.subjects.answered, read)
        engine = recorded(self.options.engine, cluster, passes_of(self.folder))
        update = {"load_at_end": environment.load(), "engine": engine}
        record = self._record(captured.result().model_copy(update=update))
        self._write(record)
        return record, self.folder

    def _measure_all(self, captured: Future[Environment]) -> None:
        """Measure every check; what each said is kept as soon as it is there."""
        if supervised(self.plan):
            self._on_this_machine(captured.result())
        self._make_runs()
        self.observer.step("reading datasets and models")
        untimed = (one.check for one in self.plan.checks if one.check.dimension != "system")
        self.shared.begin(itertools.islice(untimed, FIRST), foreign_code=self.parts.foreign_code)
        datasets = [name for one in self.plan.checks for name in one.datasets if name not in self.made.broken]
        models = [name for one in self.plan.checks for name in one.models]
        about = [check.model for check in self.spec.checks if check.uses_model]
        there = [name for name in (*models, *about) if not awaited(self.models[name])]
        self.subjects.describe("model", there)
        if not any(one.place for one in self.datasets.values()):
            # Whoever reads objects must know which ones the run began with.
            self._load_ahead()
        self.subjects.describe("dataset", datasets)
        self._on_this_machine(captured.result())
        self.named = {one.check.name: self._named(one.check) for one in self.plan.checks}
        self._ask_servers()
        self._go_on(captured.result())
        self._load_ahead()
        while self.left:
            planned = self._next()
            self.left.remove(planned)
            self._check(planned)
            if isinstance(self.observer, WatchesChecks):
                self.observer.ended(check_end(self.checks[-1], self.plan, self.left, self.options.draft))
            if self.options.fail_fast and violated(self.checks[-1], self.plan):
                break
        self._end()

    def _on_this_machine(self, where: Environment) -> None:
        """From now on all that is measured rests on the machine and its software."""
        self.subjects.basis_of_all = {"the machine, or its software,": digest_of(environment.lasting(where))}

    def _make_runs(self) -> None:
        """Make the runs of trainings; one whose runs can't be made is the error of the checks that need it."""
        self.made.make(digest_of(self.subjects.basis_of_all))
        self.datasets |= made_parts(self.spec.datasets, self.made.records, self.folder)
        self.models |= made_models(self.spec.models, self.spec.datasets, self.made.records)
        for name, error in self.made.broken.items():
            self.subjects.refuse(f"dataset {name}", str(error))
        for name in self.models:
            if awaited(self.models[name]):
                draft = self.options.draft
                why = "a draft stops the run that makes it" if draft else "the first run that makes it saved none"
                self.subjects.refuse(f"model {name}", why, not_made=draft)

    def _go_on(self, where: Environment) -> None:
        """Make sure that what is kept of an earlier run and what is measured now go together, and take it over."""
        if self.again is None:
            return
        try:
            if not self.options.draft:
                self.witness.go_on(self.again.folder, self.plan, self.again.journal.servers)
            basis = {one.check.name: self._basis(one) for one in self.plan.checks}
            self.again.check(where, self.subjects.datasets, self.subjects.models, basis)
            self.again.check_code(self.subjects)
            if not self.options.resume:
                self.again.copy_evidence(self.folder)
                for one in self.again.journal.answers.values():
                    self.journal.write("predictions", **one.model_dump())
        except RecordError:
            if not self.options.resume:
                discard(self.journal, keep=self.options.output is not None)
            raise
        self.observer.step(f"measured again: {', '.join(self.again.checks)}; all else is kept")

    def _load_ahead(self) -> None:
        """Have models loaded that answer soon, while the checks before are measured; not where answers are kept."""
        if self.again is not None or self.options.resume:
            return
        self.subjects.load_ahead(model for one in self._untimed() for _, model in one.predictions)

    def _untimed(self) -> Iterator[PlannedCheck]:
        """Checks that are left and come before those that time."""
        return itertools.takewhile(lambda one: one.check.dimension != "system", self.left)

    def _next(self) -> PlannedCheck:
        """The check to be measured next: one whose models are still being loaded lets others go first."""
        loading, untimed = self.subjects.loading(), list(self._untimed())
        waits = {one.check.name: len(loading & {model for _, model in one.predictions}) for one in untimed}
        if untimed and (not loading or min(waits.values())):
            # A processor has little to do.
            self._load_timed_ahead()
        return min(untimed, key=lambda one: waits[one.check.name], default=self.left[0])

    def _load_timed_ahead(self) -> None:
        """Have the first model that is timed loaded by the processes that will be, while other checks are measured."""
        if self.timed_ahead or self.again is not None or self.options.resume or self.options.draft:
            return
        self.timed_ahead = True
        first = next((one.check for one in self.left if one.check.dimension == "system"), None)
        if first is None:
            return
        need = _first_timed(first)
        if need is not None and need.ahead and not self.options.timings_from and self._has_room(need.model):
            self.shared.load_ahead(self._job(first, seed_of(self.spec.seed, first.name)), need)

    def _has_room(self, model: str) -> bool:
        """Several processes may hold a model at once."""
        facts, limit = self.subjects.facts(), self.options.limits.memory_bytes
        small = model in facts and may_start_together(self.models[model], facts[model].get("size_bytes"))
        return small and (limit is None or limit >= ROOM_BYTES)

    def _ask_servers(self) -> None:
        """Start what the plan needs; a server that does not come up is the error of the checks that need it."""
        with contextlib.suppress(EvalspecError):
            self.servers.ensure(name for one in self.plan.checks for name in one.models)
        if not self.options.draft:
            self.witness.start(self.plan, self.kept.before.servers)

    def _end(self) -> None:
        """Void what was measured of what is not the same any more, and let screens look at what stands."""
        if self.options.draft:
            return
        self.subjects.begin_second_look()
        # A server that a check has killed is started again first: its answers are what is asked for.
        with contextlib.suppress(EvalspecError):
            self.servers.ensure(name for one in self.plan.checks for name in one.models)
        measured, answers = self.checks, self.witness.end()
        self.checks = voided(measured, answers)
        try:
            with _interrupted_by(self.signals):
                screens = self._screens()
        except KeyboardInterrupt:
            self._void_changed(measured, answers)
            raise
        self.screens = self._screens() if self._void_changed(measured, answers) else screens

    def _void_changed(self, measured: list[CheckRecord], answers: Mapping[str, str]) -> bool:
        """Void what was measured of files that are not the same any more; whether there are any.

        Args:
            measured: Checks as they were measured.
            answers: How answers of servers differ.
        """
        changed = self.subjects.changed()
        for one in self.plan.checks:
            if self._named(one.check) != self.named[one.check.name]:
                changed[f"check {one.check.name}"] = f"a file that {one.check.name} names"
        self.checks = voided(void_changed(measured, changed), answers)
        return bool(changed)

    # -- checks -------------------------------------------------------------------------------------------------

    def _basis(self, planned: PlannedCheck) -> dict[str, str]:
        """Digests of all that a check's result rests on, by name."""
        settings = digest_of(
            planned.check.model_dump_json(),
            self.plan.alpha,
            self.plan.alpha_fail,
            self.options.threads,
            __version__,
            self.started.date().isoformat() if planned.check.dated else None,
        )
        name = planned.check.name
        files = {f"{path}, which {name} names,": digest for path, digest in self.named[name].items()}
        return {
            f"what is required of {name}": settings,
            **self.subjects.basis(planned.datasets, planned.models),
            **files,
        }

    def _key(self, planned: PlannedCheck) -> str:
        return digest_of("check", self._basis(planned))

    def _named(self, check: Check) -> dict[str, str]:
        return files_of(check, self.spec.datasets, self.options.access)

    def _answers_read(self, planned: PlannedCheck) -> tuple[tuple[str, str], ...]:
        """(dataset, model) of the answers that a check reads."""
        return tuple(dict.fromkeys((*planned.predictions, *answers_beside(self.plan, planned).values())))

    def _check(self, planned: PlannedCheck) -> None:
        check = planned.check
        key = self._key(planned)
        begun = time.monotonic()
        told: Mapping[str, Any] = {}
        try:
            if self._take_over(planned, key):
                return
            record, told = self._measure(planned)
        except NotRunError as error:
            record = self._without(planned, "not_run", str(error))
        except InvalidError as error:
            record = self._without(planned, "invalid", str(error))
        except (EngineError, WriteError):
            raise
        except EvalspecError as error:
            record = self._without(planned, "error", str(error))
        update: dict[str, Any] = {"duration_s": round(time.monotonic() - begun, 3)}
        if self.again is not None:
            update["attempts"] = self.again.attempts(check.name)
        self._ended(planned, record.model_copy(update=update), told)

    def _ended(self, planned: PlannedCheck, record: CheckRecord, told: Mapping[str, Any]) -> None:
        """Write down the result of a check; ``told`` holds what its models said and read while it ran."""
        self.checks.append(record)
        files = {file.path: file.digest for file in self.subjects.answered}
        answers = {
            predictions_key(dataset, model): digest
            for dataset, model in self._answers_read(planned)
            if (digest := files.get(f"evidence/{predictions_file(dataset, model)}")) is not None
        }
        self.journal.write(
            "check", key=self._key(planned), id=record.id, record=json.loads(record.model_dump_json()),
            basis=self._basis(planned), answers=answers, observed=told.get("observed", {}), read=told.get("read", {}),
        )  # fmt: skip

    def _take_over(self, planned: PlannedCheck, key: str) -> bool:
        """Take a check over as it is kept, with what it rests on; False where none is kept.

        Raises:
            EvalspecError: The answers that the kept check rests on are gone, or are other ones now.
        """
        name = planned.check.name
        answers = self._answers_read(planned)
        old = None if self.again is None else self.again.kept(name)
        event = None
        if self.again is None or name in self.again.checks:
            event = self.kept.of(planned, key, self._basis(planned), answers)
            old = None if event is None else event.record
        elif old is not None:
            event = self.again.journal.last.get(name)
            why = self.kept.not_kept(event, answers) if event is not None and old.status == "measured" else None
            if why is not None:
                raise InputError(f"it can't be kept: {why}")
        if old is None:
            return False
        told = {} if event is None else {"observed": event.observed, "read": event.read}
        self._learn(told)
        if key in self.kept.before.checks:
            self.checks.append(old)
        else:
            self._ended(planned, old, told)
        return True

    def _learn(self, told: Mapping[str, Any]) -> None:
        """Note what models said and read while a check ran."""
        for model, facts in told.get("observed", {}).items():
            self.subjects.observe(model, facts)
        for model, files in told.get("read", {}).items():
            self.subjects.has_read(model, files)

    def _measure(self, planned: PlannedCheck) -> tuple[CheckRecord, Mapping[str, Any]]:
        """The check's record, and what its models said and read when they ran."""
        self.subjects.need(planned.datasets, planned.models)
        for name in planned.timed:
            if not self.spec.models[name].timed:
                raise NotRunError(f"model {name} is a file of predictions: nothing can be timed")
        for name in planned.asked:
            if not self.spec.models[name].timed:
                raise NotRunError(
                    f"model {name} is a file of predictions: it can't answer again, nor answer other rows"
                )
        for name, pid in self.servers.ensure(planned.models).items():
            self.subjects.observe(name, {"server_pid": pid})
        predictions = {
            predictions_key(dataset, model): str(self.subjects.predict(dataset, model))
            for dataset, model in planned.predictions
        }
        check = planned.check
        self.observer.step(f"{check.dimension}: {check.name}")
        job = replace(
            self._job(check, seed_of(self.spec.seed, check.name)),
            predictions=predictions,
            timings_from=timings_of(self.options.timings_from, self.subjects.models) if planned.timed else None,
            answers={model: self.subjects.predict(*pair) for model, pair in answers_beside(self.plan, planned).items()},
            graders=graders_beside(self.plan, planned),
            engine=self.options.engine,
            stop_early=self.spec.policy.stop == "early" and not self.options.draft,
        )
        limit_s = max(self.options.limits.time_s, 4 * planned.seconds)
        answer = self._answer(job, limit_s)
        self._learn(answer)
        update: dict[str, Any] = {"models": planned.models, "datasets": planned.datasets}
        other = None if check.detects_mismatch else self.subjects.not_as_asked(planned.models)
        if other is not None:
            update |= {"status": "invalid", "reason": other}
        return CheckRecord.model_validate(answer["record"]).model_copy(update=update), answer

    def _job(self, check: Check, seed: int) -> CheckJob:
        """Job of a child that runs a check, without any answers."""
        return CheckJob(
            parts=self.parts,
            check=check,
            predictions={},
            model_facts=self.subjects.facts(),
            confidence=self.spec.policy.confidence,
            alpha_fail=self.plan.alpha_fail,
            seed=seed,
            draft=self.options.draft,
            evidence=self.folder / "evidence",
            limits=self.options.limits,
            threads=self.options.threads,
            environment=self.children.environment,
            repeating=frozenset(name for name, one in self.subjects.datasets.items() if one.may_repeat),
            today=self.started.date(),
        )

    def _answer(self, job: CheckJob, limit_s: float) -> dict[str, Any]:
        """Answer of a child that runs the check."""
        timed = job.check.dimension == "system" and not self.options.draft
        if timed:
            self.shared.rest()
            self.subjects.release()
        ahead = () if timed else self._ahead(job.check)
        heir = self._heir(job.check) if timed else None
        return self.shared.ask(job, progress=self.observer.progress, time_s=limit_s, ahead=ahead, heir=heir)

    def _heir(self, check: Check) -> Heir | None:
        """The next check, and its model, where it may be timed in the processes in which this one timed it."""
        after = next(iter(self.left), None)
        mine, its = _first_timed(check), None if after is None else _first_timed(after.check)
        if after is None or mine is None or its is None:
            return None
        if self.options.timings_from or self.options.resume or self.again is not None:
            return None
        if not self.models[its.model].forgets(self.options.access):
            return None
        shared = mine.ahead and its.shares_processes and (mine.model, mine.dataset) == (its.model, its.dataset)
        shared = shared and self._has_room(its.model)
        return (after.check.name, its.model) if shared else None

    def _screens(self) -> Screening | None:
        """Suspicions of the screens; None: nobody looks, or there is not all of the run to look at."""
        if self.spec.policy.screens == "off" or self.options.draft or self.plan.only or not self.plan.checks:
            return None
        earlier = self.options.timings_from
        job = self._job(self.plan.checks[0].check, self.spec.seed)
        timings = job.evidence if earlier is None else earlier / "evidence"
        self.observer.step("screens: what no requirement asks about")
        run_s = (datetime.now(UTC) - self.started).total_seconds()
        tried = tried_models(self.plan, self.parts, self.subjects, self.children, self.observer, run_s)
        of_run = screen_job(
            job, self.plan, self.checks, self.subjects.datasets.values(), self.subjects.answered, self.folder, timings,
            tried,
        )  # fmt: skip
        if of_run is None:
            return None
        return screens_of(of_run, self.shared, self.observer.progress, run_s)

    def _ahead(self, check: Check) -> Ahead:
        """Checks that come later and look at rows as this one does, each with its seed."""
        if not _scans(check):
            return ()
        later = [one for one in self.left if _scans(one.check)]
        asked = [one.check for one in later if not self.kept.has(self._key(one))]
        return tuple((one, seed_of(self.spec.seed, one.name)) for one in asked)

    def _without(self, planned: PlannedCheck, status: CheckStatus, reason: str) -> CheckRecord:
        return without_evidence(planned, self.spec, status, reason)

    def _fill_up(self) -> None:
        """Add checks that were not reached as NOT_RUN, with the reason."""
        reached = {record.id for record in self.checks}
        planned = {one.check.name: one for one in self.plan.checks}
        reason = "the run was interrupted before" if self.interrupted else "--fail-fast stopped the run before"
        left = (one for name, one in planned.items() if name not in reached)
        self.checks += [without_evidence(one, self.spec, "not_run", reason) for one in left]
        if self.plan.only:
            from evalspec.planning import plan as plan_all

            for one in plan_all(self.spec).checks:
                if one.check.name not in planned:
                    reason = f"left out by --only {', '.join(self.plan.only)}"
                    self.checks.append(without_evidence(one, self.spec, "not_run", reason))

    # -- the record ---------------------------------------------------------------------------------------------

    def _write(self, record: Record) -> None:
        """Write the record; a run that has ended needs no leaves any more."""
        try:
            write_record(record, self.folder, self.journal)
        except WriteError:
            # States of leaves may have taken the room that it needs.
            remove_leaves(self.folder)
            write_record(record, self.folder, self.journal)
        if not self.interrupted:
            remove_leaves(self.folder)
        if self.options.output is None:
            point_latest(self.folder)

    def _resumption(self) -> Resumption | None:
        """Checks kept when this run was resumed, and measured again; what earlier runs measured again stays listed."""
        before = None if self.again is None else self.again.record.resumption
        if not self.options.resume:
            return before
        now = self.kept.resumption
        return now if before is None else now.model_copy(update={"again": {**before.again, **now.again}})

    def _record(self, where: Any) -> Record:
        order = {check.name: index for index, check in enumerate(self.spec.checks)}
        record = Record(
            evalspec=__version__,
            spec=self.spec.name,
            spec_digest=self.spec.digest,
            spec_file=os.path.relpath(self.spec.folder / Path(self.spec.file).name, self.folder),
            started=_stamp(self.started),
            finished=_stamp(datetime.now(UTC)),
            command=self.options.command,
            allowed=tuple(
                dict.fromkeys((*self.options.allowed, *(() if self.again is None else self.again.record.allowed)))
            ),
            seed=self.spec.seed,
            draft=self.options.draft,
            only=self.plan.only,
            interrupted=self.interrupted,
            overrides=self.spec.overrides,
            timings_from=None if self.options.timings_from is None else self.options.timings_from.name,
            policy=self.spec.policy,
            waivers=self.spec.waivers,
            profile=self.spec.profile,
            without=self.spec.without,
            claims=self.spec.claims,
            rollback=self.spec.rollback,
            resumption=self._resumption(),
            continues=() if self.again is None else self.again.continues,
            subject=subject_of(
                self.subjects.models,
                self.subjects.datasets,
                (check.model for check in self.spec.checks if check.uses_model),
            ),
            models=tuple(self.subjects.models.values()),
            models_named=tuple(self.spec.models),
            datasets=tuple(self.subjects.datasets.values()),
            family=self.plan.family,
            family_warn=self.plan.family_warn,
            same=dict(self.plan.same),
            environment=where,
            predictions=tuple(self.subjects.answered),
            trainings=tuple(self.made.records),
            checks=tuple(sorted(self.checks, key=lambda one: order.get(one.id, 0))),
            screens=self.screens,
        )
        earlier = earlier_runs(self.folder, self.options.root, record)
        blessed = last_blessed(self.spec.folder, record)
        # What let a secret through must not put it into what is published.
        record = Record.model_validate(self.hidden.value(record.model_dump(mode="json"))) if self.hidden else record
        record = record.model_copy(
            update={
                "earlier_runs": earlier.runs,
                "earlier_of_subject": earlier.of_subject,
                "previous": previous_run(earlier.last),
                "asked_otherwise": since_before(earlier.last, blessed, self.folder, record),
                "not_tested": not_tested(record, self.spec),
            }
        )
        return record.model_copy(update={"verdict": decide(record)})


@contextlib.contextmanager
def _interrupted_by(signals: Interrupts) -> Iterator[None]:
    """Raise what other code made of an interrupt as one: pydantic builds its validators in Rust, where it is lost."""
    try:
        yield
    except EvalspecError:
        raise
    except Exception as error:
        if not signals.count:
            raise
        raise KeyboardInterrupt from error


def _first_timed(check: Check) -> NeedTiming | None:
    """The first need of a check, if it is to be timed."""
    need = next(iter(check.needs()), None)
    return need if isinstance(need, NeedTiming) else None


def _scans(check: Check) -> bool:
    """True where the check looks at rows by way of scans."""
    return type(check).scans is not Check.scans


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
