"""What a run is about: datasets and models by digest, and what models answered, made once and shared."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from evalspec.errors import EvalspecError, InputError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.record import DatasetRecord, EvidenceFile, ModelRecord
from evalspec.evidence.subject import subject_model
from evalspec.language.parts import Access
from evalspec.run.files import Journal, make_folder, sha256_of
from evalspec.run.jobs import Parts, WorkerJob, predictions_file
from evalspec.run.process import Child, Limits


class Observer(Protocol):
    """Whoever watches a run."""

    def step(self, text: str) -> None:
        """A new step begins."""

    def progress(self, done: float, total: float, what: str) -> None:
        """Progress within the step."""


class Children:
    """Starts every child of a run in the same way."""

    def __init__(self, access: Access, limits: Limits, threads: int, folder: Path) -> None:
        """``folder`` of the run, which takes their logs."""
        self.limits = limits
        self.threads = threads
        self.folder = folder
        self.environment = _environment(access, threads)

    @contextmanager
    def start(self, role: str, job: object, name: str) -> Iterator[Child]:
        """A child for as long as the context lasts."""
        log = self.folder / "logs" / f"{name}.log"
        with Child(role, job, limits=self.limits, log=log, environment=self.environment) as child:
            yield child

    def tidy(self) -> None:
        """Remove the logs in which nothing was written."""
        for log in (self.folder / "logs").glob("*.log"):
            if log.stat().st_size == 0:
                log.unlink()


def _environment(access: Access, threads: int) -> dict[str, str]:
    """Set before a child imports anything."""
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_EVALUATE_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONHASHSEED": "0",
    }
    if not access.trust:
        environment["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if not access.hub:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return environment


class Subjects:
    """Records of datasets and models, and files of answers."""

    def __init__(
        self,
        parts: Parts,
        children: Children,
        journal: Journal,
        observer: Observer,
        events: Iterable[Mapping[str, Any]],
    ) -> None:
        """``events`` of the run that is resumed; none for a new one."""
        self._parts = parts
        self._children = children
        self._journal = journal
        self._observer = observer
        self._done = {event["key"]: event for event in events if event["event"] == "predictions"}
        self._broken: dict[str, str] = {}
        self._files: dict[tuple[str, str], Path] = {}
        self._refused: dict[tuple[str, str], EvalspecError] = {}
        self.models: dict[str, ModelRecord] = {}
        self.datasets: dict[str, DatasetRecord] = {}
        self.answered: list[EvidenceFile] = []

    def describe(self, datasets: Iterable[str], models: Iterable[str]) -> None:
        """Digest them, in a child; one that kills the child leaves the others unharmed."""
        wanted = [("dataset", name) for name in dict.fromkeys(datasets)]
        wanted += [("model", name) for name in dict.fromkeys(models)]
        while wanted:
            wanted = self._describe(wanted)

    def _describe(self, wanted: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Ask one child about all of these; gives back what is left when one of them has killed it."""
        with self._children.start("evalspec.run.reader", self._parts, "reader") as child:
            for index, (what, name) in enumerate(wanted):
                try:
                    answer = child.ask({"do": what, "name": name}, progress=self._observer.progress)["record"]
                except EvalspecError as error:
                    self._broken[f"{what} {name}"] = str(error)
                    self._journal.write("broken", what=what, name=name, reason=str(error))
                    if isinstance(error, WorkerError) and not child.alive:
                        return wanted[index + 1 :]
                    continue
                if what == "dataset":
                    self.datasets[name] = DatasetRecord.model_validate(answer)
                else:
                    self.models[name] = ModelRecord.model_validate(answer)
        return []

    def need(self, datasets: Iterable[str], models: Iterable[str]) -> None:
        """Make sure that these could be read.

        Raises:
            InputError: The first that could not, with the reason.
        """
        for what in (*(f"dataset {name}" for name in datasets), *(f"model {name}" for name in models)):
            if what in self._broken:
                raise InputError(f"{what}: {self._broken[what]}")

    def key(self, datasets: Sequence[str], models: Sequence[str]) -> str:
        """Stands for the content of these: what rests on the same key need not be made again."""
        return digest_of(
            [(name, self.datasets[name].digest) for name in datasets if name in self.datasets],
            [self._model_key(name) for name in models if name in self.models],
            self._parts.rows,
        )

    def _model_key(self, name: str) -> list[object]:
        record = self.models[name]
        return [self._parts.models[name].model_dump_json(), record.digest, record.preprocess_digest, record.classes]

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
        key = digest_of("predictions", self.key([dataset], [model]))
        file = self._children.folder / "evidence" / predictions_file(dataset, model)
        before = self._done.get(key)
        if before is None or not file.exists() or sha256_of(file) != before["digest"]:
            before = self._kept(dataset, model, file)
            if before is not None:
                self._journal.write("predictions", key=key, dataset=dataset, model=model, **before)
        if before is None:
            self._observer.step(f"{model} on {dataset}")
            job = WorkerJob(self._parts, model, self._children.threads)
            with self._children.start("evalspec.run.worker", job, f"worker-{model}-{dataset}") as child:
                child.ask({"do": "load"}, progress=self._observer.progress)
                question = {"do": "predict", "dataset": dataset, "out": str(file)}
                answer = child.ask(question, progress=self._observer.progress)
            before = {"observed": answer["observed"], "rows": answer["rows"], "digest": sha256_of(file)}
            self._journal.write("predictions", key=key, dataset=dataset, model=model, **before)
        what = f"answers of {model} on {dataset}"
        path = f"evidence/{file.name}"
        self.answered.append(EvidenceFile(path=path, digest=before["digest"], rows=before["rows"], what=what))
        self.observe(model, before["observed"])
        return file

    def _kept(self, dataset: str, model: str, file: Path) -> dict[str, Any] | None:
        """What an earlier run kept of a model, copied beside the other answers; None: it is asked now.

        Raises:
            NotRunError: It was not asked about these rows then.
        """
        digest = self.datasets[dataset].digest if dataset in self.datasets else ""
        kept = self._parts.models[model].kept_answers(self._parts.access, dataset, digest)
        if kept is None:
            return None
        make_folder(file.parent)
        shutil.copyfile(kept, file)
        rows = self.datasets[dataset].rows
        return {"observed": {"framework": "answers of a blessed run"}, "rows": rows, "digest": sha256_of(file)}

    def observe(self, model: str, observed: Mapping[str, Any]) -> None:
        """Add what was got when a model ran: precision, device, provider."""
        if model in self.models:
            self.models[model] = observed_of(self.models[model], observed)

    def not_shown(self, model: str) -> None:
        """Nothing ties what was measured of this model to what will ship."""
        if model in self.models:
            self.models[model] = self.models[model].model_copy(update={"digest": None})

    def changed(self) -> frozenset[str]:
        """What is another one now than when it was described: ``dataset NAME``, ``model NAME``."""
        now = Subjects(self._parts, self._children, self._journal, self._observer, ())
        now.describe(self.datasets, self.models)
        datasets = {
            f"dataset {name}" for name, one in self.datasets.items() if _digest(now.datasets, name) != one.digest
        }
        models = {
            f"model {name}"
            for name, one in self.models.items()
            if name not in now.models
            or (now.models[name].digest, now.models[name].preprocess_digest) != (one.digest, one.preprocess_digest)
        }
        return frozenset(datasets | models)

    def not_as_asked(self, models: Iterable[str]) -> str | None:
        """That a model ran in another precision or elsewhere than the spec asks, which voids what was measured."""
        return not_as_asked(self.models[name] for name in models if name in self.models)

    def facts(self) -> dict[str, dict[str, Cell]]:
        """Model: what is known of it, for the checks."""
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
    """That one of some models ran in another precision or elsewhere than the spec asks; None: none did."""
    for record in models:
        name = record.name
        if record.device_observed is not None and _kind(record.device) != _kind(record.device_observed):
            return (
                f"model {name} is to run on {record.device} and was seen to run on {record.device_observed}; "
                f"correct models.{name}.device, or see `evalspec doctor` for what this machine has"
            )
        if record.precision in (None, "mixed") or record.precision_observed is None:
            continue
        if record.precision != record.precision_observed:
            return (
                f"model {name} is to compute in {record.precision} and was seen to in {record.precision_observed}; "
                f"correct models.{name}.precision, or the artifact"
            )
    return None


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


def _digest(datasets: Mapping[str, DatasetRecord], name: str) -> str | None:
    return datasets[name].digest if name in datasets else None


def model_facts(record: ModelRecord) -> dict[str, Cell]:
    """What a check is told of a model."""
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
    """A digest of anything that JSON can say."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
