"""Subjects of a run: datasets and models by digest, and models' answers, made once and shared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import select
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

from evalspec.answers.parts import by_rows, copy_answers, first_fault
from evalspec.errors import EngineError, EvalspecError, InputError, InvalidError, NotRunError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import (
    TEMPLATE,
    TEMPLATE_PLANNED,
    CheckRecord,
    ContentFile,
    DatasetRecord,
    EvidenceFile,
    ModelRecord,
    ObjectStamp,
)
from evalspec.evidence.subject import subject_model
from evalspec.evidence.words import short_digest
from evalspec.language.parts import Access
from evalspec.language.places import METADATA_HOST
from evalspec.logs import scrub
from evalspec.pipeline.artifact import path_shown
from evalspec.redaction import Redaction
from evalspec.running.children.jobs import SpecParts, WorkerJob, predictions_file
from evalspec.running.children.kept_rows import unnamed_file
from evalspec.running.children.process import MOST_IDLE_BYTES, Child, Limits, resident_bytes
from evalspec.running.children.spare import Spares, child_environment
from evalspec.running.children.workers import may_start_together, note_read
from evalspec.running.engines.choice import LOCAL, EngineChoice
from evalspec.running.files import Journal, is_whole, make_folder, sha256_of
from evalspec.running.journal.events import JournalEvents, ModelAnswered, otherwise
from evalspec.sources.reading.footer import rows_in


class Observer(Protocol):
    """Watcher of a run."""

    def step(self, text: str) -> None:
        """Tell that a new step begins."""

    def progress(self, done: float, total: float, what: str) -> None:
        """Tell the progress within the step."""


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """A check that has ended, for whoever watches the run.

    Args:
        record: Its record.
        place: Its place among the checks of the run, from 1 on.
        of: Checks of the run.
        left_s: Seconds that the plan gives to those still to come; 0: not known, as in a draft.
        far_left_s: The same where all that they require is far from its threshold.
        violated: A blocking requirement is violated, whatever comes.
        met: Each blocking requirement holds by itself; data that fail later may still keep it from counting.
        draft: A few rows and queries were measured, which decide nothing.
    """

    record: CheckRecord
    place: int
    of: int
    left_s: float
    far_left_s: float
    violated: bool
    met: bool
    draft: bool = False


@runtime_checkable
class WatchesChecks(Protocol):
    """Watcher that is also told of each check that has ended."""

    def ended(self, end: CheckEnd) -> None:
        """Tell that a check has ended."""


class Children:
    """Starts every child of a run in the same way."""

    def __init__(
        self,
        access: Access,
        limits: Limits,
        threads: int,
        folder: Path,
        engine: EngineChoice = LOCAL,
        on_wait: Callable[[], None] | None = None,
        spares: Spares | None = None,
    ) -> None:
        """Children of a run.

        Args:
            access: Rights of the run.
            limits: Of each child.
            threads: Of each child.
            folder: Of the run, which takes their logs.
            engine: Looks at leaves of large datasets.
            on_wait: Called while an answer is waited for.
            spares: Children that are there already.
        """
        self.access = access
        self.engine = engine
        self.limits = limits
        self.threads = threads
        self.folder = folder
        self.on_wait = on_wait
        self.secrets = access.secrets
        self.environment = child_environment(
            trust=access.trust, hub=access.hub, metadata=METADATA_HOST in access.hosts, threads=threads
        )
        self._spares = spares

    @contextmanager
    def start(self, role: str, job: object, name: str) -> Iterator[Child]:
        """A child for as long as the context lasts."""
        log = self.folder / "logs" / f"{name}.log"
        spare = None if self._spares is None else self._spares.take(role, self.environment)
        with Child(
            role, job, limits=self.limits, log=log, environment=self.environment, secrets=self.secrets,
            on_wait=self.on_wait, spare=spare,
        ) as child:  # fmt: skip
            yield child

    def tidy(self) -> None:
        """Remove the logs in which nothing was written, and what secrets are left in the others."""
        hidden = Redaction.of(self.secrets)
        for log in (self.folder / "logs").glob("*.log"):
            if log.stat().st_size == 0:
                log.unlink()
            else:
                scrub(log, hidden)


class Subjects:
    """Records of datasets and models, and files of answers."""

    def __init__(
        self,
        parts: SpecParts,
        children: Children,
        journal: Journal,
        observer: Observer,
        before: JournalEvents,
        *,
        keeps: bool = True,
    ) -> None:
        """``before``: events of the run that is resumed; none for a new one. ``keeps``: keep rows for children."""
        parts = replace(parts, access=replace(parts.access, stamps={}))
        self.kept: dict[str, Path] = {}
        """Files of rows as they were read, by dataset."""
        self._keeps = keeps
        self._open = contextlib.ExitStack()
        self._workers: dict[str, tuple[contextlib.ExitStack, Child]] = {}
        """Workers that hold a model for the next dataset, by model."""
        self._reader: tuple[contextlib.ExitStack, Child] | None = None
        """Child that read the datasets, and will read them again at the end."""
        self._second_look: tuple[list[str], list[str]] | None = None
        """Datasets and models at which it was told to look again, and of which it has not answered."""
        self._loading: set[str] = set()
        """Models whose workers have not yet said that they are loaded."""
        self._digests: dict[str, str] = {}
        self.parts = replace(parts, kept=self.kept, digests=self._digests)
        self._children = children
        self._journal = journal
        self._observer = observer
        self._done = dict(before.answers)
        self._last = {(one.dataset, one.model): one for one in before.answers.values()}
        self.asked_again: dict[tuple[str, str], str] = {}
        """Reasons why earlier answers could not be kept, by (dataset, model)."""
        self._code: dict[str, dict[str, str] | str] = {}
        self._read: dict[str, dict[str, str]] = {}
        self.basis_of_all: dict[str, str] = {}
        """Digests of what everything in this run rests on, by name."""
        self.servers: dict[str, str] = {}
        """Digest that stands for a server's answers at the start, by model."""
        self._unasked = uuid.uuid4().hex
        self._broken: dict[str, str] = {}
        self._not_made: set[str] = set()
        self._replaced: set[str] = set()
        """What had other contents by the time that it was read."""
        self._known: dict[str, dict[str, Any]] = {}
        """Digest of the files of a dataset, and the record of its rows, by dataset."""
        self._files: dict[tuple[str, str], Path] = {}
        self._refused: dict[tuple[str, str], EvalspecError] = {}
        self.models: dict[str, ModelRecord] = {}
        self.datasets: dict[str, DatasetRecord] = {}
        self.answered: list[EvidenceFile] = []

    def describe(self, what: Literal["dataset", "model"], names: Iterable[str]) -> None:
        """Digest datasets or models in a child; one that kills the child leaves the others unharmed."""
        self._look((what, name) for name in names)
        for one, reason in self._broken.items():
            kind, _, name = one.partition(" ")
            if kind == what:
                self._journal.write("broken", what=kind, name=name, reason=reason)

    def refuse(self, what: str, reason: str, *, not_made: bool = False) -> None:
        """Keep whatever needs ``dataset NAME`` or ``model NAME`` from being measured.

        Args:
            what: The dataset or the model.
            reason: In words.
            not_made: Nothing is wrong with it: this run does not make it.
        """
        self._broken[what] = reason
        if not_made:
            self._not_made.add(what)

    def _look(self, subjects: Iterable[tuple[str, str]]) -> None:
        wanted = list(dict.fromkeys(subjects))
        while wanted:
            wanted = self._describe(wanted)

    def _describe(self, wanted: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Ask one child about all of these; return those that are left when one of them has killed it."""
        with self._reading() as child:
            for index, (what, name) in enumerate(wanted):
                try:
                    question = {"do": what, "name": name} | self._place(what, name) | self._leaves(what)
                    question |= self._known.get(name, {}) if what == "dataset" else {}
                    answer = child.ask(question, progress=self._observer.progress)
                except EngineError:
                    raise
                except EvalspecError as error:
                    self._broken[f"{what} {name}"] = str(error)
                    if isinstance(error, InvalidError):
                        self._replaced.add(f"{what} {name}")
                    if isinstance(error, WorkerError) and not child.alive:
                        return wanted[index + 1 :]
                    continue
                if what == "dataset":
                    self.datasets[name] = DatasetRecord.model_validate(answer["record"])
                    self._digests[name] = self.datasets[name].digest
                    # Whatever child comes later reads these contents, or says that they are gone.
                    self.parts.datasets[name].keep_stamps(self.parts.access, self.datasets[name].objects)
                    if answer["files"] is not None:
                        self._known[name] = {"files": answer["files"], "record": answer["record"]}
                    if answer["kept"]:
                        self.kept[name] = Path(question["keep"])
                else:
                    self.models[name] = ModelRecord.model_validate(answer["record"])
        return []

    @contextmanager
    def _reading(self) -> Iterator[Child]:
        """A child that reads: the one that read before, if it is there and holds little, else a new one."""
        if self._reader is None or not self._reader[1].alive:
            self._let_go()
            held = contextlib.ExitStack()
            child = held.enter_context(self._children.start("evalspec.running.children.reader", self.parts, "reader"))
            self._reader = held, child
        child = self._reader[1]
        try:
            yield child
        finally:
            if not child.alive or resident_bytes(child.pid) > MOST_IDLE_BYTES:
                self._let_go()

    def _let_go(self) -> None:
        """End the child that reads."""
        if self._reader is not None:
            self._reader[0].close()
            self._reader = None

    def _place(self, what: str, name: str) -> dict[str, Any]:
        """Field of a question: the file that keeps a dataset's rows for later children; empty where none is to."""
        if what != "dataset" or not self._keeps:
            return {}
        made = unnamed_file(self._children.folder)
        if made is None:
            return {}
        file, path = made
        self._open.enter_context(file)
        return {"keep": str(path)}

    def _leaves(self, what: str) -> dict[str, Any]:
        """Fields of a question: the engine that looks at the leaves of a large dataset; empty where none does."""
        children = self._children
        if what != "dataset" or not children.engine.apart:
            return {}
        return {
            "engine": astuple(children.engine), "folder": str(children.folder),
            "limits": astuple(children.limits), "environment": children.environment, "keeps": self._keeps,
        }  # fmt: skip

    def load_ahead(self, models: Iterable[str]) -> None:
        """Start workers that load small models while something else goes on; `predict` waits for them."""
        for model in dict.fromkeys(models):
            if model in self.models and model not in self._workers and self._is_kept(model):
                self._worker(model)

    def loading(self) -> frozenset[str]:
        """Models that are still being loaded."""
        children = {model: self._workers[model][1] for model in self._loading if model in self._workers}
        ready, _, _ = select.select(list(children.values()), [], [], 0)
        return frozenset(model for model, child in children.items() if child not in ready)

    def release(self) -> None:
        """Let the workers go that hold models for the next dataset: nothing is left beside what is timed."""
        for held, _ in self._workers.values():
            held.close()
        self._workers.clear()

    def _is_kept(self, model: str) -> bool:
        """True where a worker may hold a model without being asked."""
        return may_start_together(self.parts.models[model], self.models[model].size_bytes)

    def _worker(self, model: str) -> Child:
        """A worker that holds a model, or is about to; what it was told first is to load it."""
        if model not in self._workers or not self._workers[model][1].alive:
            job, held = WorkerJob(self.parts, model, self._children.threads), contextlib.ExitStack()
            child = held.enter_context(self._children.start("evalspec.running.children.worker", job, f"worker-{model}"))
            self._workers[model] = held, child
            child.tell({"do": "load"})
            self._loading.add(model)
        return self._workers[model][1]

    def close(self) -> None:
        """Let go of the rows and workers that were kept."""
        self.release()
        self._let_go()
        self.kept.clear()
        self._open.close()

    def need(self, datasets: Iterable[str], models: Iterable[str]) -> None:
        """Make sure that these datasets and models could be read.

        Raises:
            InputError: The first that could not, with the reason.
            InvalidError: It was replaced while it was read.
            NotRunError: This run does not make it.
        """
        for what in (*(f"dataset {name}" for name in datasets), *(f"model {name}" for name in models)):
            if what in self._not_made:
                raise NotRunError(f"{what}: {self._broken[what]}")
            if what in self._replaced:
                raise InvalidError(f"{what}: {self._broken[what]}")
            if what in self._broken:
                raise InputError(f"{what}: {self._broken[what]}")

    def basis(self, datasets: Sequence[str], models: Sequence[str]) -> dict[str, str]:
        """Digests of all that these datasets and models are, by name: what rests on the same need not be made again."""
        digests = {f"dataset {name}": self.datasets[name].digest for name in datasets if name in self.datasets}
        for name in models:
            if name in self.models:
                digests |= self._model_basis(name)
        return digests | self.basis_of_all | {"number of rows": str(self.parts.rows)}

    def _model_basis(self, name: str) -> dict[str, str]:
        record, model = self.models[name], self.parts.models[name]
        digests = {f"{one.path} ({one.what} of {name})": one.digest for one in record.contents}
        fields = model.model_dump_json(), record.digest, record.preprocess_digest, record.classes
        digests[f"model {name}"] = digest_of(*fields)
        if model.served:
            # One that was not asked at the start is like no other.
            digests[f"the server of {name}"] = self.servers.get(name, self._unasked)
        return digests

    def predict(self, dataset: str, model: str) -> Path:
        """The file with a model's answers on a dataset, made once.

        Raises:
            EvalspecError: Why there is none; asked again, the same.
        """
        pair = (dataset, model)
        if pair in self._refused:
            raise self._refused[pair]
        if pair not in self._files:
            try:
                self._files[pair] = self._predict(dataset, model)
            except EvalspecError as error:
                self._refused[pair] = error
                raise
        return self._files[pair]

    def _predict(self, dataset: str, model: str) -> Path:
        basis = self.basis([dataset], [model])
        key = digest_of("predictions", basis)
        file = self._children.folder / "evidence" / predictions_file(dataset, model)
        before = self._done.get(key)
        why = None if (dataset, model) not in self._last else self._not_kept(self._last[dataset, model], before, basis)
        if before is None or why is not None:
            if why is not None:
                self.asked_again[dataset, model] = why
            kept = self._kept(dataset, model, file) or self._asked(dataset, model, file)
            self._journal.write("predictions", key=key, basis=basis, dataset=dataset, model=model, **kept)
            before = ModelAnswered(key=key, basis=basis, dataset=dataset, model=model, **kept)
        what = f"answers of {model} on {dataset}"
        self.answered.append(
            EvidenceFile(path=f"evidence/{file.name}", digest=before.digest, rows=before.rows, what=what)
        )
        self.observe(model, before.observed)
        self.has_read(model, before.read)
        return file

    def _not_kept(self, last: ModelAnswered, same: ModelAnswered | None, basis: Mapping[str, str]) -> str | None:
        """Reason why existing answers can't be kept; None where they can."""
        if same is None:
            return otherwise(last.basis, basis)
        file = predictions_file(same.dataset, same.model)
        path = self._children.folder / "evidence" / file
        if not is_whole(path, same.digest):
            return f"evidence/{file} is missing, or has changed since it was written"
        fault = first_fault(path)
        if fault is not None:
            return f"evidence/{fault}"
        return self.reads_otherwise(same.model, same.read)

    def _asked(self, dataset: str, model: str, file: Path) -> dict[str, Any]:
        self._observer.step(f"{model} on {dataset}")
        kept = False
        try:
            answer = self._answer(dataset, model, file)
            kept = model in self.models and self._is_kept(model)
        finally:
            if not kept and model in self._workers:
                self._workers.pop(model)[0].close()
        told = {name: answer[name] for name in ("observed", "rows", "read")}
        return {**told, "digest": sha256_of(file)}

    def _answer(self, dataset: str, model: str, file: Path) -> dict[str, Any]:
        """Answer of a worker that has written all answers; those to a large dataset come in parts."""
        child, progress, whole = self._loaded(model), self._observer.progress, self.parts.rows is None
        may = whole and by_rows(self.parts.models[model])
        told = child.ask({"do": "cut", "dataset": dataset}) if may else {"cut": None, "observed": {}}
        cut = told["cut"]
        if cut is None:
            return child.ask({"do": "predict", "dataset": dataset, "out": str(file), "again": whole}, progress=progress)
        from evalspec.running.engines.pieces import Cut
        from evalspec.running.parts.asking import Asking, answered_in_parts

        children = self._children
        with contextlib.ExitStack() as held:

            def start(name: str) -> Child:
                job = WorkerJob(self.parts, model, children.threads)
                return held.enter_context(children.start("evalspec.running.children.worker", job, name))

            asking = Asking(
                self.parts, dataset, model, children.engine, children.folder, children.threads, children.limits,
                children.environment, start, told["observed"], children.on_wait,
            )  # fmt: skip
            key = digest_of("parts", self.basis([dataset], [model]), cut, children.threads)
            question, answer = answered_in_parts(asking, Cut(*cut), child, file, key, progress)
        self._loaded(model).ask(question)
        return answer

    def _loaded(self, model: str) -> Child:
        """A worker that holds a model and waits for a question."""
        child = self._worker(model)
        if model in self._loading:
            self._loading.discard(model)
            child.answer(progress=self._observer.progress)
            # It may have been started before the rows were read.
            child.ask({"do": "keep", "rows": {name: str(path) for name, path in self.kept.items()}})
        return child

    def _kept(self, dataset: str, model: str, file: Path) -> dict[str, Any] | None:
        """Answers that an earlier run kept of a model, copied beside the others; None where the model is asked now.

        Raises:
            NotRunError: It was not asked about these rows then.
        """
        digest = self.datasets[dataset].digest if dataset in self.datasets else ""
        kept = self.parts.models[model].kept_answers(self.parts.access, dataset, digest)
        if kept is None:
            return None
        make_folder(file.parent)
        copy_answers(kept, file)
        kept_of = self.parts.models[model].kept_facts(self.parts.access)
        observed = {"framework": "answers of a blessed run", **kept_of}
        single = not file.with_suffix("").is_dir()
        rows = (rows_in(file) if single else None) or self.datasets[dataset].rows
        return {"observed": observed, "rows": rows, "read": {}, "digest": sha256_of(file)}

    def observe(self, model: str, observed: Mapping[str, Any]) -> None:
        """Add what was got when a model ran: precision, device, provider."""
        if model in self.models:
            self.models[model] = observed_of(self.models[model], observed)

    def has_read(self, model: str, files: Mapping[str, str]) -> None:
        """Add files that were seen to be read when a model ran: path from the spec's folder, and digest."""
        record = self.models.get(model)
        if record is None or not files:
            return
        note_read(self._read, model, files)
        known = {one.path for one in record.contents}
        read = {path: digest for path, digest in sorted(self._read[model].items()) if path not in known}
        code = tuple(ContentFile(path=path, digest=digest, what="code") for path, digest in read.items())
        self.models[model] = record.model_copy(update={"code_read": code})

    def reads_otherwise(self, model: str, before: Mapping[str, str]) -> str | None:
        """Sentence on a change in what a model's code reads; None where there is none."""
        other = self._other_file(before)
        if other is not None:
            return f"{other}, which {model} reads, has changed"
        if not self.parts.models[model].timed or self.parts.models[model].served or not before:
            return None
        now = self._code_of(model)
        if isinstance(now, str):
            return f"model {model} can't be loaded to find out what it reads: {now}"
        new = next((path for path, digest in now.items() if before.get(path) != digest), None)
        return None if new is None else f"{model} reads {new} now, which it did not then"

    def _code_of(self, model: str) -> dict[str, str] | str:
        """Files that a model's code reads when it is loaded now, or why it can't be; looked at once."""
        if model not in self._code:
            job = WorkerJob(self.parts, model, self._children.threads)
            try:
                with self._children.start("evalspec.running.children.worker", job, f"code-{model}") as child:
                    self._code[model] = child.ask({"do": "load", "read": True})["read"]
            except EvalspecError as error:
                self._code[model] = str(error)
        return self._code[model]

    def _other_file(self, files: Mapping[str, str]) -> str | None:
        """The first of these files that is not what it was; None where all are."""
        paths = {path: path_shown(path, self.parts.access) for path in files}
        return next((path for path, digest in files.items() if not is_whole(paths[path], digest)), None)

    def not_shown(self, model: str) -> None:
        """Drop a model's digest: nothing ties what was measured of it to what will ship."""
        if model in self.models:
            self.models[model] = self.models[model].model_copy(update={"digest": None})

    def begin_second_look(self) -> None:
        """Have the child that read these datasets and models look at them again; `changed` waits for what it finds."""
        known = {name: one["files"] for name, one in self._known.items() if not self.datasets[name].objects}
        if not known and not self.models:
            return
        # As in `_look_on`.
        with contextlib.suppress(EvalspecError), self._reading() as child:
            child.tell({"do": "second look", "files": known, "models": list(self.models)})
            self._second_look = list(known), list(self.models)

    def changed(self) -> dict[str, str]:
        """Changes since datasets and models were described, in words, by ``dataset NAME`` or ``model NAME``."""
        now = Subjects(self.parts, self._children, self._journal, self._observer, JournalEvents(), keeps=False)
        now._reader, self._reader = self._reader, None
        now._known = self._known
        now._second_look, self._second_look = self._second_look, None
        try:
            now._look_on(self.datasets)
            left = [name for name, one in self.datasets.items() if name not in now.datasets and not one.objects]
            models = [name for name in self.models if name not in now.models]
            now._look((*(("dataset", name) for name in left), *(("model", name) for name in models)))
        finally:
            now._let_go()
        changes = self._objects_changed()
        for name, one in self.datasets.items():
            if not one.objects and (name not in now.datasets or now.datasets[name].digest != one.digest):
                changes[f"dataset {name}"] = f"dataset {name}"
        for name, model in self.models.items():
            other = self._model_changed(model, now.models.get(name))
            if other is not None:
                changes[f"model {name}"] = other
        return changes

    def _look_on(self, before: Mapping[str, DatasetRecord]) -> None:
        """Take over what the child has found that was asked to look again: of datasets, those that are as before."""
        if self._second_look is None or self._reader is None:
            return
        datasets, models = self._second_look
        limit_s = (len(datasets) + len(models)) * self._children.limits.time_s
        try:
            answer = self._reader[1].answer(progress=self._observer.progress, time_s=limit_s)
        except EvalspecError:
            # What keeps it from that keeps `_look` from it too, which says so.
            return
        same, now = zip(datasets, answer["same"], strict=True), zip(models, answer["models"], strict=True)
        self.datasets |= {name: before[name] for name, is_same in same if is_same}
        self.models |= {name: ModelRecord.model_validate(one) for name, one in now if one is not None}

    def _objects_changed(self) -> dict[str, str]:
        """Objects that have other stamps by now than when they were read, in words, by ``dataset NAME``."""
        changes: dict[str, str] = {}
        for name, one in self.datasets.items():
            place = self.parts.datasets[name].place
            if not one.objects or place is None:
                continue
            try:
                with self._children.start("evalspec.running.children.reader", self.parts, "reader-objects") as child:
                    now = child.ask({"do": "objects", "name": name}, progress=self._observer.progress)["objects"]
            except EvalspecError:
                changes[f"dataset {name}"] = f"dataset {name}, which could not be listed again, may have"
                continue
            key = another_object(one.objects, [ObjectStamp.model_validate(stamp) for stamp in now])
            if key is not None:
                changes[f"dataset {name}"] = f"{place.url(key)}, of dataset {name},"
        return changes

    def _model_changed(self, before: ModelRecord, now: ModelRecord | None) -> str | None:
        """Part of a model that has changed since it was described, in words; None where none has."""
        if now is None or is_another(before, now):
            return f"model {before.name}"
        read = self._read.get(before.name, {})
        described = {one.path: one.digest for one in before.contents}
        torn = next((path for path, digest in read.items() if described.get(path, digest) != digest), None)
        other = torn or self._other_file(read)
        return None if other is None else f"{other}, which {before.name} reads,"

    def not_as_asked(self, models: Iterable[str]) -> str | None:
        """Sentence on a model that ran in another precision or elsewhere than asked, which voids what was measured."""
        return not_as_asked(self.models[name] for name in models if name in self.models)

    def facts(self) -> dict[str, dict[str, Cell]]:
        """Facts about each model, for the checks."""
        return {name: model_facts(record) for name, record in self.models.items()}


def observed_of(record: ModelRecord, observed: Mapping[str, Any]) -> ModelRecord:
    """A model's record, with what was got when it ran: precision, device, provider."""
    details = {name: value for name, value in observed.items() if name not in ("precision", "device")}
    return record.model_copy(
        update={
            "details": record.details | details,
            "precision_observed": observed.get("precision", record.precision_observed),
            "device_observed": observed.get("device", record.device_observed),
        }
    )


def not_as_asked(models: Iterable[ModelRecord]) -> str | None:
    """Sentence on the first model that ran in another precision or elsewhere than asked, or with another template."""
    for record in models:
        name = record.name
        planned, template = (record.details.get(one) for one in (TEMPLATE_PLANNED, TEMPLATE))
        if planned is not None and planned != template:
            has = f"has {short_digest(str(template))}" if template else "does not report its own"
            return (
                f"model {name} should have the chat template {short_digest(str(planned))}, but its server {has}; "
                f"correct models.{name}.chat_template, or start the server with that template"
            )
        if record.device_observed is not None and _kind(record.device) != _kind(record.device_observed):
            return (
                f"model {name} should run on {record.device} but ran on {record.device_observed}; "
                f"correct models.{name}.device, or see `evalspec doctor` for what this machine has"
            )
        if record.precision in (None, "mixed") or record.precision_observed is None:
            continue
        if record.precision != record.precision_observed:
            return (
                f"model {name} should compute in {record.precision} but computed in {record.precision_observed}; "
                f"correct models.{name}.precision, or the artifact"
            )
    return None


def another_object(before: Sequence[ObjectStamp], now: Sequence[ObjectStamp]) -> str | None:
    """Key of the first object that was added, removed or replaced; None: they are the same."""
    then, today = ({one.key: one for one in some} for some in (before, now))
    return next((key for key in sorted({**then, **today}) if then.get(key) != today.get(key)), None)


def subject_of(
    models: Mapping[str, ModelRecord], datasets: Mapping[str, DatasetRecord], named: Iterable[str]
) -> str | None:
    """The digest of what the verdict is about: the candidate, else the only model that checks are about.

    A spec that is about data alone has the datasets for its subject.

    Args:
        models: By name, as they were run.
        datasets: By name.
        named: The models that checks are about.
    """
    about = set(named)
    if not about:
        return digest_of(sorted(one.digest for one in datasets.values())) if datasets else None
    name = subject_model(about)
    return models[name].digest if name in models else None


def _kind(device: str) -> str:
    return device.partition(":")[0]


def is_another(before: ModelRecord, now: ModelRecord) -> bool:
    """True where two records of a model differ in its files, or in what is made of them."""
    pair = [(one.digest, one.preprocess_digest, one.content_digest, one.classes) for one in (before, now)]
    return pair[0] != pair[1]


def model_facts(record: ModelRecord) -> dict[str, Cell]:
    """Facts about a model that a check is told."""
    return {
        "digest": record.digest,
        "size_bytes": record.size_bytes,
        "precision": record.precision,
        "precision_observed": record.precision_observed,
        "device": record.device,
        "batch": record.batch,
        "preprocess_digest": record.preprocess_digest,
        **record.details,
    }


def digest_of(*parts: object) -> str:
    """Digest of anything that JSON can express."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
