"""Answers to rows that a check made itself: one worker for each model, asked as often as it takes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import NotRunError
from evalspec.language.parts import Model
from evalspec.pipeline.code_files import CHANGED
from evalspec.running.children.jobs import CheckJob, WorkerJob, altered_file, likelihoods_file
from evalspec.running.children.messages import Progress
from evalspec.running.children.process import Child
from evalspec.timing.looks import LEAST

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Variant
    from evalspec.language.likelihoods import Windows


MOST_AHEAD = 4
"""Workers that hold the model at once."""
FEW_AHEAD = 2
"""Workers that are started for one that is wanted later, when it is no longer likely that many follow."""
MOST_KEPT = LEAST
"""Workers that a check leaves to the next: as many as that asks at its first look."""
MOST_AHEAD_BYTES = 256 * 2**20
"""Size of a model of which several are held at once."""
TEXTS_DIGEST = b"evalspec_texts"
"""Where a file of likelihoods says what was asked."""


class Answering:
    """Asks workers, and keeps what they answered.

    Args:
        job: Of the check that asks.
    """

    def __init__(self, job: CheckJob) -> None:
        self._job = job
        self._workers: dict[str, Child] = {}
        self.files: list[tuple[str, str]] = []
        """Files in the folder of evidence, and what they hold."""
        self.observed: dict[str, dict[str, Cell]] = {}
        self.read: dict[str, dict[str, str]] = {}
        """Digests of the files that each model's code was seen to read, by model."""

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """The file with a model's answers to these rows.

        Raises:
            NotRunError: The model is read from files, which hold no answers to other rows.
        """
        if not self._job.parts.models[model].timed:
            raise NotRunError(f"model {model} is a file of predictions: it can't answer again, nor answer other rows")
        file = altered_file(self._job.check.name, model, dataset, name)
        out = self._job.evidence / file
        out.parent.mkdir(parents=True, exist_ok=True)
        asked = out.with_name(f".{file}.rows")
        _write_rows(rows, asked)
        try:
            question = {
                "do": "predict", "dataset": dataset, "out": str(out), "table": str(asked),
                "rows_digest": rows_digest(rows), "variant": asdict(variant),
            }  # fmt: skip
            answer = self._worker(model).ask(question, progress=progress)
        finally:
            asked.unlink(missing_ok=True)
        self.observed[model] = dict(answer["observed"])
        self.files.append((file, f"answers of {model} to rows that this check made"))
        return out

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """The file with the likelihoods that a model gives the tokens of texts.

        Raises:
            NotRunError: It gives none, or not beside the other model.
        """
        file = likelihoods_file(self._job.check.name, model, name)
        out = self._job.evidence / file
        out.parent.mkdir(parents=True, exist_ok=True)
        asked = out.with_name(f".{file}.rows")
        rows = _as_table(texts)
        _write_rows(rows, asked)
        try:
            question = {
                "do": "likelihoods", "out": str(out), "table": str(asked), "cut": asdict(windows), "beside": beside,
                "texts_digest": texts_digest(rows, windows, beside),
            }  # fmt: skip
            answer = self._worker(model).ask(question, progress=progress)
        finally:
            asked.unlink(missing_ok=True)
        for one, observed in answer["observed"].items():
            self.observed[one] = dict(observed)
        self.files.append((file, f"likelihoods that {model} gives the tokens of each text"))
        return out

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    def _worker(self, model: str) -> Child:
        worker = self._workers.get(model)
        if worker is None or not worker.alive:
            log = f"answering-{self._job.check.name}-{model}"
            worker = self._workers[model] = started(self._job, model, log, self.read)
        return worker


def started(job: CheckJob, model: str, log: str, read: dict[str, dict[str, str]]) -> Child:
    """A fresh worker that holds a model.

    Args:
        job: Of the check that asks.
        model: Its name.
        log: Name of its log.
        read: Takes the files that the model's code was seen to read.
    """
    return Child(
        "evalspec.running.children.worker",
        WorkerJob(job.parts, model, job.threads),
        limits=job.limits,
        log=job.evidence.parent / "logs" / f"{log}.log",
        environment=job.environment,
        secrets=job.parts.access.secrets,
        on_read=lambda files: note_read(read, model, files),
    )


def note_read(read: dict[str, dict[str, str]], model: str, files: Mapping[str, str]) -> None:
    """Add files that a model's code was seen to read; one with two contents in one run is noted as changed."""
    known = read.setdefault(model, {})
    for path, digest in files.items():
        known[path] = digest if known.get(path, digest) == digest else CHANGED


def kept_answers(evidence: Path, check: str, rows: pa.Table, dataset: str, name: str, model: str) -> Path:
    """The file that `Answering.predict` wrote for these rows.

    Raises:
        NotRunError: There is none, or it is about other rows.
    """
    from evalspec.answers.file import read_answers

    path = evidence / altered_file(check, model, dataset, name)
    if not path.exists():
        raise NotRunError(f"the evidence has no answers of {model} to {name}")
    if read_answers(path).details.get("rows_digest") != rows_digest(rows):
        raise NotRunError(f"the evidence has answers of {model} to rows other than {name}")
    return path


def kept_likelihoods(
    evidence: Path, check: str, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None
) -> Path:
    """The file that `Answering.likelihoods` wrote for these texts.

    Raises:
        NotRunError: There is none, or it is about others.
    """
    import pyarrow.parquet as pq

    path = evidence / likelihoods_file(check, model, name)
    if not path.exists():
        raise NotRunError(f"the evidence has no likelihoods of {model} for {name}")
    written = (pq.read_schema(path).metadata or {}).get(TEXTS_DIGEST, b"").decode()
    if written != texts_digest(_as_table(texts), windows, beside):
        raise NotRunError(f"the evidence has likelihoods of {model} for texts or windows other than {name}")
    return path


def texts_digest(rows: pa.Table, windows: Windows, beside: str | None) -> str:
    """Digest of what is asked of a language model."""
    asked = json.dumps([rows_digest(rows), asdict(windows), beside])
    return hashlib.sha256(asked.encode()).hexdigest()


def _as_table(texts: Sequence[str]) -> pa.Table:
    import pyarrow as pa

    return pa.table({"text": pa.array(texts, pa.large_string())})


def rows_digest(rows: pa.Table) -> str:
    """Digest of a table's names and values."""
    digest = hashlib.sha256()
    _stream(rows, digest.update)
    return f"sha256:{digest.hexdigest()}"


def read_rows(path: Path) -> pa.Table:
    """Rows that `Answering.predict` handed over."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def _write_rows(rows: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        _stream(rows, file.write)


def _stream(rows: pa.Table, take: Callable[[bytes], object]) -> None:
    """The table as an arrow stream, in one chunk so that equal rows give equal bytes."""
    import pyarrow as pa

    plain = rows.replace_schema_metadata(None).combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as writer:
        writer.write_table(plain)
    take(sink.getvalue().to_pybytes())


class StartedAhead:
    """Workers of one model; those that come next are loaded and asleep while one is measured."""

    def __init__(self, start: Callable[[], Child], *, together: bool, ready: Sequence[Child] = ()) -> None:
        """Starts nothing yet.

        Args:
            start: Starts a worker.
            together: Several may hold the model at once.
            ready: Workers that hold the model, and are taken first.
        """
        self._start = start
        self._together = together
        self._ready = list(ready)
        self._loading = False
        self._begun = bool(ready)
        self._keeps = False
        self._kept: list[Child] = []

    def begin(self, count: int, dataset: str | None) -> None:
        """Start workers, and go on while they load.

        Args:
            count: Workers that are wanted.
            dataset: As in `take`.
        """
        most = max(1, MOST_AHEAD - len(self._kept)) if self._together else 1
        self._ready = [self._start() for _ in range(min(count, most))]
        self._loading = self._together
        self._begun = True
        if self._together:
            for one in self._ready:
                one.tell({"do": "load", "rows": dataset})

    def take(self, left: int, dataset: str | None = None) -> Child:
        """A worker, which the caller closes.

        Args:
            left: Workers that will be taken, this one included, as far as is known; others may follow on the last.
            dataset: What they will be asked about, whose rows workers that load together read as well.

        Raises:
            EvalspecError: As a worker raises it that can't load the model.
        """
        if not self._ready:
            others_follow = FEW_AHEAD if self._begun else MOST_AHEAD
            self.begin(others_follow if left == 1 else left, dataset)
        if self._loading:
            for one in self._ready:
                one.answer()
            self._loading = False
        return self._ready.pop(0)

    def keep(self) -> None:
        """Keep the first workers that are measured and may be kept, until `kept` takes them.

        The first, since how many follow hangs on what was measured: the last would be chosen by that.
        """
        self._keeps = self._together

    @contextlib.contextmanager
    def one(self, left: int, dataset: str | None = None, *, may_be_kept: bool = True) -> Iterator[Child]:
        """A worker, as `take` gives it, which is kept or closed when it was measured."""
        worker = self.take(left, dataset)
        try:
            yield worker
        except BaseException:
            worker.close()
            raise
        if self._keeps and may_be_kept and len(self._kept) < MOST_KEPT:
            self._kept.append(worker)
        else:
            worker.close()

    def kept(self) -> list[Child]:
        """Workers that were measured and kept, which the caller closes."""
        kept, self._kept = self._kept, []
        return kept

    def close(self) -> None:
        """End the workers that nobody has taken; not those that are kept."""
        for one in self._ready:
            one.close()
        self._ready = []


def may_start_together(model: Model, size_bytes: object) -> bool:
    """True where workers that hold a model and are not asked do nothing, and have room beside each other.

    Code of the spec may do something by itself, and what is on a GPU takes its memory from the one that is measured.

    Args:
        model: As the spec has it.
        size_bytes: Of its files, as far as it is known.
    """
    if model.served or model.in_memory or model.runs_code() or model.device != "cpu":
        return False
    return isinstance(size_bytes, int | float) and size_bytes <= MOST_AHEAD_BYTES
