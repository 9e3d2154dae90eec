"""A child that looks at datasets and models and says what they are: digest, rows, columns, size."""

from __future__ import annotations

import re
from pathlib import Path

from evalspec.errors import InputError
from evalspec.evidence.model_card import Benchmark
from evalspec.evidence.record import DatasetRecord, ModelRecord
from evalspec.imports import arrow_without_pandas
from evalspec.language.parts import Access, Dataset, Model
from evalspec.run.child import Handler
from evalspec.run.jobs import Parts
from evalspec.run.messages import Message, Progress

STATED = re.compile(r"sha256:[0-9a-f]{64}")


def start(parts: Parts) -> Handler:
    """The handler of this child."""
    arrow_without_pandas()

    def handle(question: Message, progress: Progress) -> Message:
        name = str(question["name"])
        if question["do"] == "dataset":
            progress(0.0, 1.0, f"reading {name}")
            return {"record": dataset_record(name, parts).model_dump(mode="json")}
        return {"record": model_record(name, parts.models[name], parts.access).model_dump(mode="json")}

    return handle


def dataset_record(name: str, parts: Parts) -> DatasetRecord:
    """A dataset as it is read: its rows after ``where``.

    Raises:
        InputError: It can't be read.
    """
    import pyarrow as pa

    from evalspec.run.copies import Repeats
    from evalspec.sources._open import open_batches
    from evalspec.sources._rows import TableDigest

    dataset: Dataset = parts.datasets[name]
    opened = open_batches(dataset, parts.access)
    digest, fields, repeats = TableDigest(), {}, Repeats(name, parts)
    for batch in opened:
        repeats.update(batch)
        fields = {field.name: str(field.type) for field in batch.schema}
        table = pa.Table.from_batches([batch])
        digest.update(table if parts.rows is None else table.slice(0, max(0, parts.rows - digest.rows)))
    return DatasetRecord(
        name=name,
        kind=dataset.kind,
        digest=digest.end(),
        rows=digest.rows,
        columns=fields,
        label=dataset.label,
        label_unit=dataset.label_unit,
        cluster=dataset.cluster,
        path=getattr(dataset, "path", None),
        where=dataset.where,
        rows_read=opened.rows,
        origin=dict(dataset.origin),
        hub=benchmark_of(dataset),
        may_repeat=parts.rows is None and repeats.end(),
    )


def benchmark_of(dataset: Dataset) -> Benchmark | None:
    """The benchmark that its rows are, at the commit that they are read at where the spec names no other."""
    revision = getattr(dataset, "revision", None)
    if dataset.hub is None or dataset.hub.revision is not None or revision is None:
        return dataset.hub
    return dataset.hub.model_copy(update={"revision": revision})


def model_record(name: str, model: Model, access: Access) -> ModelRecord:
    """A model as it stands on disk; nothing of it is run.

    Raises:
        InputError: A file of it is missing.
    """
    from evalspec.runtimes._digest import all_files, artifact_digest, preprocess_digest
    from evalspec.runtimes._labels import read_classes
    from evalspec.runtimes._preprocess import stage_names

    stated = stated_digest(model) or model.kept_digest(access)
    files = () if stated is not None else artifact_files(model, access)
    return ModelRecord(
        name=name,
        kind=model.kind,
        digest=artifact_digest(files) if files else stated,
        files=max(1, len(all_files(files))),
        # Nothing here shows that a file of predictions came from the artifact that is named beside it.
        digest_stated=(bool(files) and (model.served or not model.timed)) or stated is not None,
        path=getattr(model, "path", None),
        size_bytes=sum(file.stat().st_size for file in files) if files else None,
        precision=model.precision,
        device=model.device,
        batch=model.batch,
        preprocess_digest=preprocess_digest(model.preprocess, access),
        preprocess=stage_names(model.preprocess),
        quantization=dict(model.quantization),
        classes=read_classes(model.classes, access),
    )


def stated_digest(model: Model) -> str | None:
    """The digest that ``artifact:`` states, or None where it states none.

    Raises:
        InputError: It is no sha256.
    """
    artifact = model.artifact
    if artifact is None or not artifact.startswith("sha256:"):
        return None
    if STATED.fullmatch(artifact) is None:
        raise InputError(f"artifact {artifact!r} is no digest", remedy="write sha256: and 64 digits of 0-9 and a-f")
    return artifact.removeprefix("sha256:")


def artifact_files(model: Model, access: Access) -> tuple[Path, ...]:
    """The files that stand for the subject: those of ``artifact:``, or the model's own.

    A file of predictions is not the model that made them: only ``artifact:`` ties it to one.

    Raises:
        InputError: One is missing.
    """
    if model.artifact is not None:
        path = access.path(model.artifact)
        return (path,) if path.is_file() else tuple(sorted(one for one in path.rglob("*") if one.is_file()))
    return model.files(access) if model.timed and not model.served else ()
