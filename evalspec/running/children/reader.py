"""A child that looks at datasets and models and says what they are: digest, rows, columns, size."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalspec.errors import EvalspecError
from evalspec.evidence.model_card import Benchmark
from evalspec.evidence.record import DatasetRecord, ModelRecord
from evalspec.language.parts import Access, Dataset, Model
from evalspec.running.children.child import Handler
from evalspec.running.children.jobs import SpecParts
from evalspec.running.children.kept_rows import RowsWriter
from evalspec.running.children.messages import Message, Progress
from evalspec.running.children.same_files import FilesWatch


def prepare() -> None:
    """Import what this child needs for whatever it reads."""
    import pyarrow.parquet  # noqa: F401

    from evalspec.running import equal_rows  # noqa: F401
    from evalspec.sources.reading import copies, open, rows, table  # noqa: F401


def start(parts: SpecParts) -> Handler:
    """The handler of this child."""
    parts.spare_pandas()

    def handle(question: Message, progress: Progress) -> Message:
        if question["do"] == "second look":
            return _second_look(question, parts, progress)
        name = str(question["name"])
        if question["do"] == "objects":
            return {"objects": _objects_now(name, parts)}
        if question["do"] == "dataset":
            progress(0.0, 1.0, f"reading {name}")
            with FilesWatch(parts.datasets[name], parts.access) as files:
                return _dataset(name, parts, question, files, progress)
        return {"record": model_record(name, parts.models[name], parts.access).model_dump(mode="json")}

    return handle


def _dataset(name: str, parts: SpecParts, question: Message, files: FilesWatch, progress: Progress) -> Message:
    """Answer on a dataset, whose rows are not read where its files are those that the question knows."""
    import pyarrow as pa

    if question.get("files") is not None and question["files"] == files.digest():
        return {"record": question["record"], "kept": False, "files": question["files"]}
    told = _by_leaves(name, parts, question, progress)
    if told is not None:
        return {"record": told.model_dump(mode="json"), "kept": False, "files": files.end()}
    writer = RowsWriter(Path(question["keep"]) if "keep" in question else None)
    record = dataset_record(name, parts, writer).model_dump(mode="json")
    # Held memory would keep this child from waiting for the next question.
    pa.default_memory_pool().release_unused()
    return {"record": record, "kept": writer.end(), "files": files.end()}


def _second_look(question: Message, parts: SpecParts, progress: Progress) -> Message:
    """Answer whether the files of each dataset have the digest of the question, with each model as it is now.

    They are in the order of the question, since a name may hold what is hidden in answers; None: a model can't be read.
    """
    same, models = [], []
    for name, digest in question["files"].items():
        progress(0.0, 1.0, f"reading {name}")
        with FilesWatch(parts.datasets[name], parts.access) as files:
            same.append(files.digest() == digest)
    for name in question["models"]:
        record = None
        with contextlib.suppress(EvalspecError):
            record = model_record(name, parts.models[name], parts.access).model_dump(mode="json")
        models.append(record)
    return {"same": same, "models": models}


def _objects_now(name: str, parts: SpecParts) -> list[dict[str, Any]]:
    """Objects of a dataset as they are listed now, whatever was listed before.

    Raises:
        InputError: They can't be listed.
    """
    dataset, access = parts.datasets[name], replace(parts.access, stamps={})
    dataset.list_objects(access)
    return [one.model_dump(mode="json") for one in dataset.stamps(access)]


def dataset_record(name: str, parts: SpecParts, writer: RowsWriter | None = None) -> DatasetRecord:
    """Record of a dataset as it is read: its rows after ``where``, which the writer takes too.

    Raises:
        InputError: It can't be read.
    """
    import pyarrow as pa

    from evalspec.running.equal_rows import RepeatWatch
    from evalspec.sources.reading.open import open_batches
    from evalspec.sources.reading.rows import TableDigest

    dataset = parts.datasets[name]
    writer = RowsWriter(None) if writer is None else writer
    opened = open_batches(dataset, parts.access)
    digest, fields, repeats = TableDigest(), {}, RepeatWatch(name, parts)
    for batch in opened:
        alone = repeats.column(batch.schema)
        repeats.update(batch.num_rows, None if alone is None else batch.column(alone))
        fields = {field.name: str(field.type) for field in batch.schema}
        kept = batch if parts.rows is None else batch.slice(0, max(0, parts.rows - digest.rows))
        digest.update(pa.Table.from_batches([kept]))
        writer.update(kept)
    may_repeat = parts.rows is None and repeats.end()
    made = _record(name, parts, digest.end(), (digest.rows, opened.rows), fields)
    return made.model_copy(update={"may_repeat": may_repeat})


def _by_leaves(name: str, parts: SpecParts, question: Message, progress: Progress) -> DatasetRecord | None:
    """Record of a dataset whose leaves an engine looks at; None: it is read here, as one that is small always is."""
    if "engine" not in question:
        return None
    from evalspec.language.scans import Scan
    from evalspec.running.children.leaf_digest import LeafDigest
    from evalspec.running.children.leaves import Leaves
    from evalspec.running.children.process import Limits
    from evalspec.running.children.tables import Tables
    from evalspec.running.engines.choice import EngineChoice
    from evalspec.running.engines.engine import LeafWork
    from evalspec.running.equal_rows import MOST_ROWS

    # What was kept of an earlier reading says nothing of the files as they are.
    parts = replace(parts, kept={}, digests={})
    tables = Tables(parts)
    rows = tables.countable(name)
    if rows is None or rows <= MOST_ROWS:
        return None
    choice, folder = EngineChoice(*question["engine"]), Path(question["folder"])
    limits, environment = Limits(*question["limits"]), question["environment"]
    work = LeafWork(choice, folder, "digest", limits, environment, question["keeps"])
    leaves = Leaves(parts, work, tables, progress)
    try:
        summary = leaves.look(name, {"digest": Scan(name, "digest", None, LeafDigest)}).get("digest")
    finally:
        leaves.close()
    if not isinstance(summary, LeafDigest) or summary.digest.schema is None:
        return None
    fields = {field.name: str(field.type) for field in summary.digest.schema}
    digest = summary.digest
    return _record(name, parts, digest.end(), (digest.rows, digest.rows), fields)


def _record(
    name: str, parts: SpecParts, digest: str, rows: tuple[int, int], fields: Mapping[str, str]
) -> DatasetRecord:
    """Record of so many rows, of those that were read before ``where``."""
    dataset = parts.datasets[name]
    return DatasetRecord(
        name=name,
        kind=dataset.kind,
        digest=digest,
        rows=rows[0],
        columns=dict(fields),
        label=dataset.label,
        label_unit=dataset.label_unit,
        cluster=dataset.cluster,
        in_memory=dataset.in_memory,
        path=getattr(dataset, "path", None),
        where=dataset.where,
        rows_read=rows[1],
        origin=dict(dataset.origin),
        hub=benchmark_of(dataset),
        objects=dataset.stamps(parts.access),
    )


def benchmark_of(dataset: Dataset) -> Benchmark | None:
    """Benchmark that a dataset's rows come from; where the spec names no revision, at the commit that is read."""
    revision = getattr(dataset, "revision", None)
    if dataset.hub is None or dataset.hub.revision is not None or revision is None:
        return dataset.hub
    return dataset.hub.model_copy(update={"revision": revision})


def model_record(name: str, model: Model, access: Access) -> ModelRecord:
    """Record of a model as it stands on disk; none of its code is run.

    Raises:
        InputError: A file of it is missing.
    """
    from evalspec.answers.classes import read_classes
    from evalspec.pipeline.artifact import contents_digest, contents_of
    from evalspec.pipeline.digest import preprocess_digest
    from evalspec.pipeline.preprocess import stage_names

    contents = contents_of(model, access)
    known = {path: one.digest for path, one in contents.items()}
    files, digest, stated = _subject(model, access, known)
    return ModelRecord(
        name=name,
        kind=model.kind,
        digest=digest,
        files=max(1, len(files)),
        digest_stated=stated,
        in_memory=model.in_memory,
        path=getattr(model, "path", None),
        size_bytes=sum(file.stat().st_size for file in files) if files else None,
        precision=model.precision,
        device=model.device,
        batch=model.batch,
        preprocess_digest=preprocess_digest(model.preprocess, access),
        preprocess=stage_names(model.preprocess),
        quantization=dict(model.quantization),
        classes=read_classes(model.classes, access),
        content_digest=contents_digest(contents),
        contents=tuple(contents.values()),
    )


def _subject(model: Model, access: Access, known: Mapping[Path, str]) -> tuple[list[Path], str | None, bool]:
    """The files that stand for the subject, their digest, and whether it is only stated.

    Of a model that is read here they are its own files. A file of predictions is not the model that made them, and
    what a server serves can't be seen: only ``artifact:`` ties them to one.

    Raises:
        InputError: One is missing, or what is stated is not what is read.
    """
    from evalspec.pipeline.artifact import artifact_files, check_artifact, read_here, stated_digest
    from evalspec.pipeline.digest import all_files, artifact_digest

    if read_here(model) and (files := all_files(model.files(access))):
        digest = artifact_digest(files, known)
        check_artifact(model, access, digest, known)
        return files, digest, False
    kept = model.kept_digest(access)
    if kept is not None:
        check_artifact(model, access, kept)
        return [], kept, True
    stated = stated_digest(model)
    if stated is not None:
        return [], stated, True
    named = list(artifact_files(model, access))
    return named, artifact_digest(named, known) if named else None, bool(named)
