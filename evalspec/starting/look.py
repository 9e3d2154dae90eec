"""A child that opens a model and its rows for ``init``: its kind, its inputs, its classes, and one batch through it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from evalspec.errors import EvalspecError, InputError
from evalspec.language.registry import Registry, discover, install_line, missing_packages
from evalspec.running.children.child import Handler
from evalspec.running.children.messages import Message, Progress
from evalspec.starting import as_message
from evalspec.starting.artifact import ModelKind, recognize
from evalspec.starting.entry import validated
from evalspec.starting.factories import factories
from evalspec.starting.rows import NO_HINTS, LabelHints, RowsSketch, recognize_rows, sketch_rows, training_split
from evalspec.starting.served import recognize_server
from evalspec.starting.sketch import ModelSketch, Sketch, SketchJob

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.parts import LoadedModel, Model

PROMPTED = ("gguf", "transformers")
UNKNOWN = "name what the server serves with `artifact:`, a file or sha256:...; it can't be seen from here"


def start(job: SketchJob) -> Handler:
    """The handler of this child."""

    def handle(question: Message, progress: Progress) -> Message:
        return as_message.from_sketch(look(job, progress))

    return handle


def look(job: SketchJob, progress: Progress) -> Sketch:
    """Open everything.

    Raises:
        InputError: A file is not there, or no model or dataset that can be read.
    """
    registry = discover()
    progress(0.0, 1.0, f"opening {job.model}")
    artifact = _artifact(job.model, job)
    opened = _open(artifact, job.model, job, registry)
    progress(0.3, 1.0, f"reading {job.test}")
    test, table = _rows(job.test, "test", job, registry, job.label, _hints(opened))
    datasets = {"test": test}
    train = _training(job, registry, test)
    if train is not None:
        datasets["train"] = train
    progress(0.6, 1.0, "running the first rows")
    model = _asked(opened, artifact, job.model, job, registry, test, table)
    baseline = None
    if job.baseline is not None:
        other = _artifact(job.baseline, job)
        baseline = _asked(_open(other, job.baseline, job, registry), other, job.baseline, job, registry, test, table)
    if "url" in model.fields:
        model = replace(model, notes=(*model.notes, UNKNOWN))
    if model.class_names:
        datasets["test"] = replace(test, values=test.names)
    return Sketch(model, baseline, datasets)


def _artifact(path: str, job: SketchJob) -> ModelKind:
    if "://" in path:
        return recognize_server(path, job.access)
    return recognize(job.access.path(path), path, job.factory)


def _rows(
    path: str, role: str, job: SketchJob, registry: Registry, label: str | None, hints: LabelHints = NO_HINTS
) -> tuple[RowsSketch, pa.Table]:
    found = recognize_rows(job.access.path(path), path)
    if role == "train" and found["kind"] == "huggingface" and "split" in found:
        found = training_split(job.access.path(path)) or found
    return _sketched({"kind": found.pop("kind"), "path": path, **found}, job, registry, label, hints)


def _sketched(
    fields: dict[str, Any], job: SketchJob, registry: Registry, label: str | None, hints: LabelHints = NO_HINTS
) -> tuple[RowsSketch, pa.Table]:
    source = registry.source(str(fields["kind"]))
    if missing_packages(source):
        raise InputError(f"kind {fields['kind']!r} needs a package that is not installed", remedy=install_line(source))
    return sketch_rows(fields, registry, job.access, label, hints)


def _training(job: SketchJob, registry: Registry, test: RowsSketch) -> RowsSketch | None:
    """The training set, or the training split beside the test split."""
    if job.train is not None:
        path = job.train
        header = _rows(path, "train", job, registry, None)[0]
    else:
        split = training_split(job.access.path(job.test))
        if split is None or split.get("split") == test.fields.get("split"):
            return None
        path = job.test
        header = _sketched({"kind": split.pop("kind"), "path": path, **split}, job, registry, None)[0]
    return replace(header, label=test.label if test.label in header.columns else "")


class _Opened:
    """A model that was loaded, or the reason why it was not."""

    def __init__(self, fields: dict[str, Any], loaded: LoadedModel | None, why: str) -> None:
        self.fields = fields
        self.loaded = loaded
        self.why = why


def _open(artifact: ModelKind, path: str, job: SketchJob, registry: Registry) -> _Opened:
    """Load it, where that runs no code that was not allowed.

    Raises:
        InputError: Its packages are not here, or it can't be loaded.
    """
    runtime = registry.runtime(artifact.kind)
    if missing_packages(runtime):
        raise InputError(
            f"{path!r} is {artifact.what}, but its packages are not installed", remedy=install_line(runtime)
        )
    fields: dict[str, Any] = {"kind": artifact.kind, **artifact.fields}
    if "url" not in fields:
        fields = {"kind": artifact.kind, "path": path, **artifact.fields}
    if _needs_factory(artifact, fields):
        return _with_factory(artifact, path, job, registry)
    if artifact.kind in PROMPTED or fields.get("protocol") == "openai":
        return _Opened(fields, None, "")
    model = validated(registry, fields)
    why = _code(model, job)
    if why:
        return _Opened(fields, None, why)
    return _Opened(fields, model.load(job.access, threads=1), "")


def _with_factory(artifact: ModelKind, path: str, job: SketchJob, registry: Registry) -> _Opened:
    """A state dict in the first class of the folder that it fits; only files that do nothing but define are imported.

    Raises:
        InputError: It fits none of them.
    """
    quiet, loud = factories(job.access.folder)
    plain = {"kind": artifact.kind, "path": path}
    remedy = "name its class, --factory module:Class, in a file that does nothing else on import"
    if loud and not quiet:
        remedy = f"{loud[0]} may be its class, but importing it runs more than definitions: move it into its own file"
    if not quiet:
        raise InputError(f"{path!r} is {artifact.what}: weights without the code that uses them", remedy=remedy)
    for one in quiet if job.access.trust else ():
        fields = {**plain, "factory": one}
        try:
            return _Opened(fields, validated(registry, fields).load(job.access, threads=1), "")
        except InputError:
            # Another one of them may fit.
            continue
    if job.access.trust:
        raise InputError(f"{path!r} is {artifact.what} that fits none of {', '.join(quiet)}", remedy=remedy)
    return _Opened({**plain, "factory": quiet[0]}, None, f"the factory {quiet[0]}")


def _needs_factory(artifact: ModelKind, fields: Mapping[str, Any]) -> bool:
    return artifact.what.startswith("a state dict") and "factory" not in fields


def _code(model: Model, job: SketchJob) -> str:
    """Code that would run without being allowed, in words."""
    if job.access.trust:
        return ""
    return " and ".join(model.runs_code()) or model.may_hide_code(job.access) or ""


def _hints(opened: _Opened) -> LabelHints:
    """Hints of a loaded model at the label."""
    from evalspec.answers.classes import label_text
    from evalspec.pipeline.loaded import traits

    if opened.loaded is None:
        return LabelHints()
    facts = traits(opened.loaded)
    return LabelHints(
        takes=opened.loaded.input_names if facts.by_column else (),
        classes=tuple(map(label_text, facts.classes or ())),
        numbers="value" in facts.default_outputs,
    )


def _asked(
    opened: _Opened,
    artifact: ModelKind,
    path: str,
    job: SketchJob,
    registry: Registry,
    test: RowsSketch,
    table: pa.Table,
) -> ModelSketch:
    """The model's entry, with what its answers to the first rows show."""
    from evalspec.starting.matching import match
    from evalspec.starting.prompted import prompted

    if opened.why:
        return ModelSketch(opened.fields, artifact.what, unopened=opened.why)
    if opened.loaded is None:
        return prompted(opened.fields, artifact.what, job.access, registry, test, table)
    try:
        began = time.perf_counter()
        found = match(opened.fields, artifact.what, opened.loaded, job.access, registry, test, table)
        return found if found.row_s else replace(found, row_s=time.perf_counter() - began)
    except InputError:
        raise
    except EvalspecError as error:
        raise InputError(f"{path}: {error}") from error
    finally:
        opened.loaded.close()
