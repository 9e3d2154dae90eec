"""Plan -> Record. The parent of all children: it measures nothing and imports nothing heavy."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalspec import __version__
from evalspec.errors import EvalspecError, InvalidError, NotRunError, RecordError, WriteError
from evalspec.evidence.record import CheckRecord, Environment, Record
from evalspec.evidence.test import holds
from evalspec.language.parts import Check
from evalspec.plan import Plan, PlannedCheck
from evalspec.run import environment
from evalspec.run.again import again, gone_on_from, profile_digest
from evalspec.run.closing import write_record
from evalspec.run.describe import not_tested, without_evidence
from evalspec.run.files import Journal, make_folder, write_atomically
from evalspec.run.folders import (
    discard,
    earlier_runs,
    find_unfinished,
    fresh,
    intact,
    last_blessed,
    new_folder,
    point_latest,
    read_record,
)
from evalspec.run.jobs import DRAFT_ROWS, CheckJob, Parts, answers_beside, predictions_key, seed_of
from evalspec.run.options import Options
from evalspec.run.otherwise import since_before
from evalspec.run.preflight import refuse_unallowed
from evalspec.run.scans import Ahead
from evalspec.run.served import Servers
from evalspec.run.sharing import SharedChild
from evalspec.run.subjects import Children, Observer, Subjects, digest_of, subject_of
from evalspec.run.witness import Witness, voided
from evalspec.spec import PROFILE_FILE
from evalspec.verdict import decide


def run(plan: Plan, options: Options, observer: Observer) -> tuple[Record, Path]:
    """Run a plan and write its record.

    Returns:
        The record with its verdict, and its folder.

    Raises:
        SpecError: The plan needs what the caller has not allowed.
        RecordError: The run that is to be gone on with is not there, or can't be.
        WriteError: The record can't be written.
    """
    refuse_unallowed(plan, options.access)
    return _Run(plan, options, observer).go()


class _Run:
    """The state of one run; everything that it learns ends in the record."""

    def __init__(self, plan: Plan, options: Options, observer: Observer) -> None:
        self.plan = plan
        self.spec = plan.spec
        self.options = options
        self.observer = observer
        self.parts = Parts(
            models=dict(self.spec.models),
            datasets=dict(self.spec.datasets),
            slices={one.name: one.where for one in self.spec.slices},
            access=options.access,
            rows=DRAFT_ROWS if options.draft else None,
        )
        self.started = datetime.now(UTC)
        self.again = None if options.remeasure is None else again(options.remeasure, plan)
        self.folder = self._folder()
        self.journal = Journal(self.folder / "journal.jsonl")
        events = self.journal.read() if options.resume else []
        if options.resume:
            self.again = gone_on_from(events, plan)
        self.done = {event["key"]: event for event in events if event["event"] == "check"}
        self.children = Children(options.access, options.limits, options.threads, self.folder)
        known = [*events, *(() if self.again is None else self.again.journal)]
        self.subjects = Subjects(self.parts, self.children, self.journal, observer, known)
        self.servers = Servers(self.spec.models, options.access, self.folder, self.journal, observer)
        self.witness = Witness(self.parts, self.children, self.subjects, self.journal)
        self.shared = SharedChild(self.children)
        self.checks: list[CheckRecord] = []
        self.interrupted = False

    def _folder(self) -> Path:
        if self.options.resume:
            profile = profile_digest(self.spec.profile)
            return find_unfinished(self.options.output, self.options.root, self.spec.name, self.spec.digest, profile)
        if self.options.output is not None:
            return fresh(self.options.output)
        return new_folder(self.options.root, self.spec.name, self.spec.digest, self.started)

    def go(self) -> tuple[Record, Path]:
        write_atomically(self.folder / "spec.yaml", self.spec.text)
        if self.spec.profile is not None:
            write_atomically(self.folder / PROFILE_FILE, self.spec.profile_text)
        make_folder(self.folder / "evidence")
        self.journal.hold()
        begun = {
            "evalspec": __version__, "spec": self.spec.digest, "time": _stamp(self.started),
            "draft": self.options.draft, "command": self.options.command,
        }  # fmt: skip
        if self.spec.profile is not None:
            begun["profile"] = profile_digest(self.spec.profile)
        if self.again is not None:
            begun["remeasures"] = str(self.again.folder)
        self.journal.write("start", **begun)
        where = environment.capture(self.options.access.folder)
        try:
            self.observer.step("reading datasets and models")
            datasets = [name for one in self.plan.checks for name in one.datasets]
            models = [name for one in self.plan.checks for name in one.models]
            about = [check.model for check in self.spec.checks if check.uses_model]
            self.subjects.describe(datasets, [*models, *about])
            self._ask_servers()
            self._go_on(where)
            for planned in self.plan.checks:
                self._check(planned)
                if self.options.fail_fast and self._violated():
                    break
            if not self.options.draft:
                self._same_as_at_the_start()
        except KeyboardInterrupt:
            self.interrupted = True
            self.observer.step("interrupted: what was measured is kept")
        finally:
            self.shared.close()
            self.servers.stop()
        self._fill_up()
        self.children.tidy()
        record = self._record(where.model_copy(update={"load_at_end": environment.load()}))
        write_record(record, self.folder, self.journal)
        if self.options.output is None:
            point_latest(self.folder)
        self.journal.let_go()
        return record, self.folder

    def _go_on(self, where: Environment) -> None:
        """Make sure that what is kept of an earlier run and what is measured now go together, and take it over."""
        if self.again is None:
            return
        try:
            keys = {one.check.name: self._key(one) for one in self.plan.checks}
            self.again.check(where, self.subjects.datasets, self.subjects.models, keys)
            self.witness.check_same(self.again.folder)
            if not self.options.resume:
                self.again.copy_evidence(self.folder)
        except RecordError:
            if not self.options.resume:
                self.journal.let_go()
                discard(self.folder, keep=self.options.output is not None)
            raise
        self.observer.step(f"measured again: {', '.join(self.again.checks)}; all else is kept")

    def _ask_servers(self) -> None:
        """Start what the plan needs; a server that does not come up is the error of the checks that need it."""
        with contextlib.suppress(EvalspecError):
            self.servers.ensure(name for one in self.plan.checks for name in one.models)
        if not self.options.draft:
            self.witness.start(self.plan)

    def _same_as_at_the_start(self) -> None:
        """Void what was measured of a file that is another one by now, or of a server that answers otherwise."""
        changed = self.subjects.changed()
        for index, record in enumerate(self.checks):
            used = [f"dataset {name}" for name in record.datasets] + [f"model {name}" for name in record.models]
            hit = [what for what in used if what in changed]
            if hit and record.status == "measured":
                reason = f"{hit[0]} was another one at the end of the run than at its start"
                self.checks[index] = record.model_copy(update={"status": "invalid", "reason": reason})
        # A server that a check has killed is started again first: its answers are what is asked for.
        with contextlib.suppress(EvalspecError):
            self.servers.ensure(name for one in self.plan.checks for name in one.models)
        self.checks = voided(self.checks, self.witness.end())

    # -- checks -------------------------------------------------------------------------------------------------

    def _key(self, planned: PlannedCheck) -> str:
        """Stands for all that a check's result rests on."""
        return digest_of(
            "check",
            planned.check.model_dump_json(),
            self.subjects.key(planned.datasets, planned.models),
            self.plan.alpha,
            self.plan.alpha_fail,
            self.options.threads,
            __version__,
            self.started.date().isoformat() if planned.check.dated else None,
        )

    def _check(self, planned: PlannedCheck) -> None:
        check = planned.check
        key = self._key(planned)
        begun = time.monotonic()
        observed: dict[str, dict[str, Any]] = {}
        try:
            kept = self._kept(planned, key)
            if kept is not None:
                self._take_over(planned, key, *kept)
                return
            record, observed = self._measure(planned)
        except NotRunError as error:
            record = without_evidence(planned, self.spec, "not_run", str(error))
        except InvalidError as error:
            record = without_evidence(planned, self.spec, "invalid", str(error))
        except WriteError:
            raise
        except EvalspecError as error:
            record = without_evidence(planned, self.spec, "error", str(error))
        update: dict[str, Any] = {"duration_s": round(time.monotonic() - begun, 3)}
        if self.again is not None:
            update["attempts"] = self.again.attempts(check.name)
        self._ended(key, record.model_copy(update=update), observed)

    def _ended(self, key: str, record: CheckRecord, observed: Mapping[str, Any]) -> None:
        self.checks.append(record)
        self.journal.write(
            "check", key=key, id=record.id, record=json.loads(record.model_dump_json()), observed=observed
        )

    def _kept(self, planned: PlannedCheck, key: str) -> tuple[CheckRecord, Mapping[str, Any]] | None:
        """What an earlier run has of a check that is not measured again, and what was got when its models ran.

        Of a run that is resumed that is a check that was measured, with its evidence as it was.
        """
        name = planned.check.name
        if self.again is not None and (old := self.again.kept(name)) is not None:
            return old, self.again.events[name].get("observed", {})
        event = self.done.get(key)
        if event is None or event["record"]["status"] != "measured":
            return None
        record = CheckRecord.model_validate(event["record"])
        return (record, event.get("observed", {})) if intact(record, self.folder) else None

    def _take_over(
        self, planned: PlannedCheck, key: str, record: CheckRecord, observed: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Keep a check as it is, and what it rests on."""
        if record.status == "measured":
            for dataset, model in planned.predictions:
                self.subjects.predict(dataset, model)
        for model, found in observed.items():
            self.subjects.observe(model, found)
        if key in self.done:
            self.checks.append(record)
        else:
            self._ended(key, record, observed)

    def _measure(self, planned: PlannedCheck) -> tuple[CheckRecord, dict[str, dict[str, Any]]]:
        """The check's record, and what was got when its models ran."""
        self.subjects.need(planned.datasets, planned.models)
        for name in planned.timed:
            if not self.spec.models[name].timed:
                raise NotRunError(f"model {name} is a file of predictions: nothing can be timed")
        for name in planned.asked:
            if not self.spec.models[name].timed:
                raise NotRunError(f"model {name} is a file of predictions: it can't be asked about other rows")
        for name, pid in self.servers.ensure(planned.models).items():
            self.subjects.observe(name, {"server_pid": pid})
        predictions = {
            predictions_key(dataset, model): str(self.subjects.predict(dataset, model))
            for dataset, model in planned.predictions
        }
        check = planned.check
        self.observer.step(f"{check.dimension}: {check.name}")
        job = CheckJob(
            parts=self.parts,
            check=check,
            predictions=predictions,
            model_facts=self.subjects.facts(),
            confidence=self.spec.policy.confidence,
            alpha_fail=self.plan.alpha_fail,
            seed=seed_of(self.spec.seed, check.name),
            draft=self.options.draft,
            evidence=self.folder / "evidence",
            limits=self.options.limits,
            threads=self.options.threads,
            environment=self.children.environment,
            timings_from=self._timings() if planned.timed else None,
            answers={model: self.subjects.predict(*pair) for model, pair in answers_beside(self.plan, planned).items()},
            today=self.started.date(),
        )
        limit_s = max(self.options.limits.time_s, 4 * planned.seconds)
        answer = self._answer(job, limit_s)
        observed: dict[str, dict[str, Any]] = answer["observed"]
        for model, found in observed.items():
            self.subjects.observe(model, found)
        update: dict[str, Any] = {"models": planned.models, "datasets": planned.datasets}
        other = None if check.finds_unlike else self.subjects.not_as_asked(planned.models)
        if other is not None:
            update |= {"status": "invalid", "reason": other}
        return CheckRecord.model_validate(answer["record"]).model_copy(update=update), observed

    def _answer(self, job: CheckJob, limit_s: float) -> dict[str, Any]:
        """What a child that runs the check says."""
        if self.options.draft or job.check.dimension != "system":
            return self.shared.ask(job, progress=self.observer.progress, time_s=limit_s, ahead=self._ahead(job.check))
        self.shared.close()
        with self.children.start("evalspec.run.checking", job, f"check-{job.check.name}") as child:
            return child.ask({"do": "run"}, progress=self.observer.progress, time_s=limit_s)

    def _ahead(self, check: Check) -> Ahead:
        """Checks that come later and look at rows as this one does, each with its seed."""
        if not _scans(check):
            return ()
        place = next(index for index, one in enumerate(self.plan.checks) if one.check is check)
        later = [one for one in self.plan.checks[place + 1 :] if _scans(one.check)]
        asked = [one.check for one in later if self._kept(one, self._key(one)) is None]
        return tuple((one, seed_of(self.spec.seed, one.name)) for one in asked)

    def _timings(self) -> Path | None:
        """Raw timings of an earlier run.

        Raises:
            NotRunError: They are of another subject.
        """
        folder = self.options.timings_from
        if folder is not None:
            before = {model.name: model.digest for model in read_record(folder).models}
            now = {name: model.digest for name, model in self.subjects.models.items()}
            if any(before.get(name) != digest for name, digest in now.items()):
                raise NotRunError(f"the timings in {folder.name} are of other models")
        return folder

    def _violated(self) -> bool:
        """The last check already shows a violation, whatever the rest of the family says."""
        waived = {waiver.of for waiver in self.spec.waivers}
        return any(
            (test.exact and test.value is not None and not holds(test.op, test.value, test.threshold))
            or (test.p_fail is not None and test.p_fail <= self.plan.alpha_fail)
            for test in self.checks[-1].tests
            if test.severity == "require" and test.invalid is None and test.name not in waived
        )

    def _fill_up(self) -> None:
        """Checks that were not reached are NOT_RUN, with the reason."""
        reached = {record.id for record in self.checks}
        planned = {one.check.name: one for one in self.plan.checks}
        reason = "the run was interrupted before" if self.interrupted else "--fail-fast stopped the run before"
        left = (one for name, one in planned.items() if name not in reached)
        self.checks += [without_evidence(one, self.spec, "not_run", reason) for one in left]
        if self.plan.only:
            from evalspec.plan import plan as plan_all

            for one in plan_all(self.spec).checks:
                if one.check.name not in planned:
                    reason = f"left out by --only {', '.join(self.plan.only)}"
                    self.checks.append(without_evidence(one, self.spec, "not_run", reason))

    # -- the record ---------------------------------------------------------------------------------------------

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
            continues=() if self.again is None else self.again.continues,
            subject=subject_of(
                self.subjects.models,
                self.subjects.datasets,
                (check.model for check in self.spec.checks if check.uses_model),
            ),
            models=tuple(self.subjects.models.values()),
            datasets=tuple(self.subjects.datasets.values()),
            family=self.plan.family,
            family_warn=self.plan.family_warn,
            same=dict(self.plan.same),
            environment=where,
            predictions=tuple(self.subjects.answered),
            checks=tuple(sorted(self.checks, key=lambda one: order.get(one.id, 0))),
        )
        earlier = earlier_runs(self.folder, self.options.root, record)
        blessed = last_blessed(self.spec.folder, record)
        record = record.model_copy(
            update={
                "earlier_runs": earlier.runs,
                "earlier_of_subject": earlier.of_subject,
                "asked_otherwise": since_before(earlier.last, blessed, self.folder, record),
                "not_tested": not_tested(record, self.spec),
            }
        )
        return record.model_copy(update={"verdict": decide(record)})


def _scans(check: Check) -> bool:
    """It looks at rows by way of scans."""
    return type(check).scans is not Check.scans


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
