"""A child that looks at datasets and models and says what they are: digest, rows, columns, size."""

from __future__ import annotations

from evalspec.evidence.record import DatasetRecord, ModelRecord
from evalspec.language.parts import Access, Dataset, Model
from evalspec.run.child import Handler
from evalspec.run.jobs import Parts
from evalspec.run.messages import Message, Progress


def start(parts: Parts) -> Handler:
    """The handler of this child."""

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
    from evalspec.sources._open import open_dataset
    from evalspec.sources._rows import dataset_digest

    dataset: Dataset = parts.datasets[name]
    table = open_dataset(dataset, parts.access)
    if parts.rows is not None:
        table = table.slice(0, parts.rows)
    return DatasetRecord(
        name=name,
        kind=dataset.kind,
        digest=dataset_digest(table),
        rows=table.num_rows,
        columns={field.name: str(field.type) for field in table.schema},
        label=dataset.label,
        label_unit=dataset.label_unit,
        cluster=dataset.cluster,
        path=getattr(dataset, "path", None),
        origin=dict(dataset.origin),
    )


def model_record(name: str, model: Model, access: Access) -> ModelRecord:
    """A model as it stands on disk; nothing of it is run.

    Raises:
        InputError: A file of it is missing.
    """
    from evalspec.runtimes._digest import subject
    from evalspec.runtimes._labels import read_classes
    from evalspec.runtimes._preprocess import preprocess_digest, stage_names

    shown = subject(model, access)
    return ModelRecord(
        name=name,
        kind=model.kind,
        digest=shown.digest,
        digest_stated=shown.stated,
        path=getattr(model, "path", None),
        size_bytes=shown.size_bytes,
        precision=model.precision,
        device=model.device,
        batch=model.batch,
        preprocess_digest=preprocess_digest(model.preprocess, access),
        preprocess=stage_names(model.preprocess),
        quantization=dict(model.quantization),
        classes=read_classes(model.classes, access),
    )
