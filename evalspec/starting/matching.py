"""Inputs, preprocessing, outputs and classes that make a loaded model answer the rows: tried with one batch."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evalspec.answers.from_outputs import CLASS_OUTPUTS, resolve_outputs
from evalspec.cells import values_of
from evalspec.errors import EvalspecError, InputError
from evalspec.language.parts import Access, LoadedModel, OutputName
from evalspec.language.registry import Registry
from evalspec.pipeline.inputs import DatasetFacts, build, resolve_feed
from evalspec.pipeline.loaded import Tensor, traits
from evalspec.pipeline.serve import Served
from evalspec.starting.class_order import in_order
from evalspec.starting.entry import validated
from evalspec.starting.rows import NUMBERS, RowsSketch
from evalspec.starting.sketch import ModelSketch

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.answers.file import Answers

TRIED, SHOWN = 16, 3
"""Rows of the batch that is tried, and answers that are shown."""
QUERIES, QUERIES_S = 100, 2.0
"""Single rows that are timed, and the longest time for all of them."""
ORDER_ROWS = 512
"""Rows by which the order of classes is told."""
LISTS = ("list", "large_list", "fixed_size_list")
TEXTS = ("string", "large_string")
CAST = "float32"
SUM_TOLERANCE = 1e-3
IMAGE_AXES = 4
PICTURE_NOTE = "`preprocess` is guessed from shapes: write the size, range and normalization used in training"
BYTE = 0.00392156862745098


class Feeding(NamedTuple):
    """A way to feed a model.

    Args:
        inputs: As in a spec; empty: they are left out.
        preprocess: Likewise.
        note: What of it is a guess; empty: nothing.
    """

    inputs: Mapping[str, str | list[str]]
    preprocess: Sequence[Mapping[str, Any]] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Matching:
    """A model with rows, to be tried out.

    Args:
        fields: Of the model's entry.
        loaded: The model.
        access: Where it may look.
        registry: The kinds there are.
        rows: The dataset as it was seen.
        table: Its first rows, as they are read; labels as their names, where the data give them some.
    """

    fields: Mapping[str, Any]
    loaded: LoadedModel
    access: Access
    registry: Registry
    rows: RowsSketch
    table: pa.Table

    @property
    def facts(self) -> DatasetFacts:
        """Facts that a model is told in a run."""
        roles = self.rows.roles
        reserved = (roles.cluster,) if roles.cluster else ()
        return DatasetFacts("test", self.rows.label or None, roles.key or None, reserved)

    def served(self, **more: Any) -> Served:
        """The model with these fields of its entry."""
        model = validated(self.registry, {**self.fields, **more})
        return Served(model, self.loaded, self.access, self.facts)


def match(
    fields: Mapping[str, Any],
    what: str,
    loaded: LoadedModel,
    access: Access,
    registry: Registry,
    rows: RowsSketch,
    table: pa.Table,
) -> ModelSketch:
    """The entry of a model that answers the rows.

    Args:
        fields: Of its entry so far.
        what: What it is, in words.
        loaded: The model.
        access: Where it may look.
        registry: The kinds there are.
        rows: The dataset as it was seen.
        table: Its first rows.

    Raises:
        InputError: No way to feed it was found, or its answers are none that can be judged.
    """
    trial = Matching(fields, loaded, access, registry, rows, table)
    feeding, outputs, row_s = _fed(trial)
    entry = {**fields, **_written(feeding)}
    trial = replace(trial, fields=entry)
    kinds, stated = _outputs(trial, outputs)
    if stated:
        entry["outputs"] = kinds
        trial = replace(trial, fields=entry)
    notes = [feeding.note] if feeding.note else []
    classes: tuple[str, ...] = ()
    named = False
    if any(kind in CLASS_OUTPUTS for kind in kinds):
        width = _width(kinds, outputs)
        order = in_order(traits(loaded).classes, rows, width, _agreement(trial, width))
        if order.stated:
            entry["classes"] = list(order.stated)
        classes, named = order.classes, order.class_names
        notes += [order.note] if order.note else []
        trial = replace(trial, fields=entry)
    served = trial.served()
    answers = served.predict_all(table.slice(0, SHOWN))
    return ModelSketch(
        fields=entry,
        what=what,
        task=answers.task,
        scores=answers.probabilities is not None,
        classes=classes,
        class_names=named,
        answers=shown_answers(answers, SHOWN),
        notes=tuple(notes),
        row_s=row_s,
        query_s=query_s(served, table),
    )


def query_s(served: Served, table: pa.Table) -> float:
    """Seconds within which 99 of 100 single rows are answered, by as many as go into a short time."""
    began, taken = time.perf_counter(), []
    rows = table.slice(0, QUERIES)
    for index in range(QUERIES):
        one = rows.slice(index % len(rows), 1)
        start = time.perf_counter()
        served.predict_all(one)
        taken.append(time.perf_counter() - start)
        if time.perf_counter() - began > QUERIES_S:
            break
    return float(np.quantile(taken, 0.99))


def _written(feeding: Feeding) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if feeding.preprocess:
        found["preprocess"] = [dict(one) for one in feeding.preprocess]
    if feeding.inputs:
        found["inputs"] = dict(feeding.inputs)
    return found


def _fed(trial: Matching) -> tuple[Feeding, dict[str, NDArray[Any]], float]:
    """The first way to feed the model in which it answers, what it answers, and the seconds that a row took.

    Raises:
        InputError: There is none: why the first one failed.
    """
    first: EvalspecError | None = None
    rows = trial.table.slice(0, TRIED)
    for feeding in _ways(trial):
        try:
            served = trial.served(**_written(feeding))
            takes = (
                ()
                if feeding.preprocess and served.pipeline.makes_tensors and feeding.inputs
                else trial.loaded.input_names
            )
            feed = resolve_feed(
                served.model.inputs, takes, rows.column_names, trial.facts, by_column=traits(trial.loaded).by_column
            )
            arrays = build(rows, feed)
            served.run(arrays)
            began = time.perf_counter()
            return feeding, served.run(arrays), (time.perf_counter() - began) / len(rows)
        except EvalspecError as error:
            first = first or error
    if first is None:
        raise InputError("the rows have no column that could be the model's input", choices=trial.rows.columns)
    raise first


def _ways(trial: Matching) -> Iterator[Feeding]:
    """Ways to feed the model, the likelier first; each also with a cast to the type that it takes."""
    for one in _columns(trial):
        yield one
        for stages in _stages(trial, one):
            yield one._replace(preprocess=stages, note=one.note or (PICTURE_NOTE if len(stages) > 1 else ""))


def _stages(trial: Matching, feeding: Feeding) -> Iterator[Sequence[Mapping[str, Any]]]:
    tensors = traits(trial.loaded).tensors
    types = {tensor.dtype for tensor in tensors.values() if tensor.dtype not in (None, "str")}
    wanted = types.pop() if len(types) == 1 else CAST
    if not traits(trial.loaded).by_column:
        yield ({"cast": wanted},)
    shape = next((tensor.shape for tensor in tensors.values()), None) if len(tensors) == 1 else None
    if shape is not None and len(shape) == IMAGE_AXES:
        yield from _of_images(shape, wanted or CAST)


def _of_images(shape: Sequence[int | None], wanted: str) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Stages that make the pictures of a folder what a network takes: size, type, range, channels."""
    first = shape[1] in (1, 3)
    height, width = (shape[2], shape[3]) if first else (shape[1], shape[2])
    stages: list[Mapping[str, Any]] = []
    if height is not None and width is not None:
        stages.append({"resize": [height, width]})
    stages += [{"cast": wanted}, *([{"scale": BYTE}] if wanted.startswith("float") else [])]
    if first:
        yield (*stages, {"layout": "nhwc -> nchw"})
        yield (*stages, {"reshape": [shape[1], height or -1, width or -1]})
    yield tuple(stages)


def _columns(trial: Matching) -> Iterator[Feeding]:
    yield Feeding({})
    takes, facts = trial.loaded.input_names, traits(trial.loaded)
    features = [name for name in trial.rows.features() if name in trial.table.column_names]
    numbers = [name for name in features if NUMBERS.match(trial.rows.columns[name])]
    if facts.by_column:
        if len(numbers) == len(takes):
            yield Feeding({"X": numbers}, note="columns go to the model in the order of the file, not by name")
        return
    if len(takes) == 1:
        yield from _single(trial, takes[0], facts.tensors.get(takes[0], Tensor()), features, numbers)
    elif takes:
        yield from _several(takes, trial, numbers)


def _single(
    trial: Matching, name: str, tensor: Tensor, features: Sequence[str], numbers: Sequence[str]
) -> Iterator[Feeding]:
    """Ways to feed one tensor: a list of columns of numbers, or one column that holds lists, pictures or text."""
    kinds = trial.rows.columns
    every = [one for one in trial.table.column_names if one != trial.rows.label and NUMBERS.match(kinds[one])]
    width = tensor.shape[1] if tensor.shape is not None and len(tensor.shape) == 2 else None
    for columns in (numbers, every):
        if len(columns) > 1 and width in (None, len(columns)):
            yield Feeding({name: list(columns)})
    single = [one for one in features if kinds[one].startswith((*LISTS, "image"))]
    texts = [one for one in features if kinds[one].startswith(TEXTS)]
    single += sorted(texts, key=lambda one: mean_length(trial.table, one), reverse=True)
    for one in single:
        yield Feeding({name: one})
    if len(every) == 1:
        yield Feeding({name: every[0]})
    if width is not None and len(numbers) != width and len(every) != width and not single:
        raise InputError(
            f"the model takes {width} numbers a row, and {len(numbers)} columns of {trial.rows.fields['path']} could "
            f"be them: {', '.join(numbers[:8])}{', ...' if len(numbers) > 8 else ''}",
            remedy="write a file with only the training columns, the label and the column that identifies a row",
        )


def mean_length(table: pa.Table, column: str) -> float:
    """Letters of a text in a column, on average."""
    import pyarrow.compute as pc

    return float(pc.mean(pc.utf8_length(table.column(column).cast("string"))).as_py() or 0.0)


def _several(takes: Sequence[str], trial: Matching, numbers: Sequence[str]) -> Iterator[Feeding]:
    """Each of several inputs reads the column of its own name; a single one that has none reads the other numbers."""
    known = {name.lower(): name for name in trial.rows.columns}
    own = {name: known[name.lower()] for name in takes if name.lower() in known}
    left = [name for name in takes if name not in own]
    if not left:
        yield Feeding(dict(own))
    rest = [name for name in numbers if name not in own.values()]
    if len(left) == 1 and rest:
        yield Feeding({name: own.get(name, rest if len(rest) > 1 else rest[0]) for name in takes})


def _outputs(trial: Matching, outputs: Mapping[str, NDArray[Any]]) -> tuple[dict[OutputName, str], bool]:
    """Kind of output: its name; and True if the entry has to say so.

    Raises:
        InputError: None of them is an answer that can be judged.
    """
    given = trial.loaded.output_names or tuple(outputs)
    try:
        return resolve_outputs({}, given, traits(trial.loaded).default_outputs), False
    except EvalspecError as error:
        first = error
    several = len(trial.rows.values)
    for name in sorted(outputs, key=lambda one: "prob" not in one.lower()):
        kind = _kind(np.asarray(outputs[name]), several)
        if kind is not None:
            return {kind: name}, True
    raise first


def _kind(array: NDArray[Any], several: int) -> OutputName | None:
    """Kind of an output by its shape and values; None: none that is known."""
    width = array.shape[1] if array.ndim == 2 else 1
    if array.ndim > 2 or array.dtype.kind not in "fiuOU" or (array.dtype.kind != "f" and width > 1):
        return None
    if array.dtype.kind != "f":
        return "label" if several else "value" if array.dtype.kind in "iu" else "text"
    within = bool(((array >= 0) & (array <= 1)).all())
    if width > 1:
        sums = bool((np.abs(array.sum(axis=1) - 1) < SUM_TOLERANCE).all())
        return "probabilities" if within and sums else "logits"
    if several == 2:
        return "probabilities" if within else "logits"
    return "value"


def _width(kinds: Mapping[OutputName, str], outputs: Mapping[str, NDArray[Any]]) -> int:
    """Classes that an output has a number for; 0: it gives labels."""
    name = kinds.get("probabilities", kinds.get("logits"))
    if name is None:
        return 0
    shape = np.shape(outputs[name])
    return int(shape[1]) if len(shape) == 2 and shape[1] > 1 else 2


def _agreement(trial: Matching, width: int) -> NDArray[np.int64] | None:
    """How often each class index was given to each value of the label, on more rows; None: not known."""
    from evalspec.answers.classes import label_text

    values = trial.rows.values
    if not values or trial.rows.names or width < 2:
        return None
    spread = np.unique(np.linspace(0, len(trial.table) - 1, min(ORDER_ROWS, len(trial.table))).astype(np.int64))
    table = trial.table.take(spread)
    unnamed = traits(trial.loaded).classes is None
    served = trial.served(classes=[f"class {index}" for index in range(width)]) if unnamed else trial.served()
    predicted = served.predict_all(table).predicted
    if predicted is None:
        return None
    labels = [label_text(one) for one in values_of(table.column(trial.rows.label))]
    place = {name: index for index, name in enumerate(values)}
    counts = np.zeros((width, len(values)), dtype=np.int64)
    for index, label in zip(predicted.tolist(), labels, strict=True):
        if label in place:
            counts[index, place[label]] += 1
    return counts


def shown_answers(answers: Answers, most: int) -> str:
    """The first answers in words."""
    if answers.texts is not None:
        return ", ".join(repr(str(one)[:40]) for one in answers.texts[:most].tolist())
    if answers.predicted is not None:
        names = answers.classes or ()
        said = [names[one] if one < len(names) else str(one) for one in answers.predicted[:most].tolist()]
        if answers.probabilities is None:
            return ", ".join(said)
        sure = answers.probabilities[:most].max(axis=1).tolist()
        return ", ".join(f"{name} {share:.2f}" for name, share in zip(said, sure, strict=True))
    if answers.values is not None:
        return ", ".join(f"{one:.4g}" for one in answers.values[:most].tolist())
    return f"{answers.n} answers ({answers.task})"
