"""The pipeline that quality and timing share: rows, preprocessing, the model, its answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalspec.answers.again import ROWS, UNLIKE, otherwise, rows_again
from evalspec.answers.classes import label_text, read_classes
from evalspec.answers.file import Answers, compared_numbers, joined
from evalspec.answers.from_outputs import Mapped, map_outputs, resolve_outputs
from evalspec.arrow import column_of
from evalspec.errors import EvalspecError, InputError, NotRunError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural
from evalspec.language.abilities import AsksAgain, MakesClient, PerDataset, Stepped
from evalspec.language.parts import Access, LoadedModel, Model, OutputName
from evalspec.pipeline.inputs import Arrays, DatasetFacts, Feed, build, check_arrays, resolve_feed, take
from evalspec.pipeline.loaded import traits
from evalspec.pipeline.model_fields import RuntimeModel
from evalspec.pipeline.options import LETTERS, MASS, PROBABILITIES
from evalspec.pipeline.preprocess import Pipeline, as_stages
from evalspec.pipeline.untrusted_code import first_line
from evalspec.redaction import Redaction

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 4096


class Served:
    """A loaded model with everything between the dataset's columns and its answers.

    Args:
        model: As the spec has it.
        loaded: The same in memory.
        access: Where it may look and what may run.
        facts: The dataset that rows come from.

    Raises:
        InputError: Preprocessing or classes can't be used.
    """

    def __init__(self, model: Model, loaded: LoadedModel, access: Access, facts: DatasetFacts | None = None) -> None:
        self.model = model
        self.loaded = loaded
        self.facts = facts or DatasetFacts()
        self.pipeline = Pipeline(as_stages(model.preprocess), access)
        self._hidden = Redaction.of(access.secrets)
        self._stated_classes = read_classes(model.classes, access)
        self._use(loaded)

    def _use(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.traits = traits(loaded)
        own = self.traits.classes
        self.own_classes = None if own is None else tuple(label_text(value) for value in own)
        self.classes = _agreed(self._stated_classes, self.own_classes)
        self._kinds: dict[OutputName, str] | None = None
        self._seen: set[tuple[Any, ...]] = set()

    def predict_all(self, table: pa.Table, batch: int | None = None, first_row: int = 0) -> Answers:
        """Answers for every row of a table.

        Args:
            table: Rows of the dataset, in its order.
            batch: Rows at once; default: the model's ``batch``. A fixed batch in the file wins and is padded.
            first_row: Number of the first of them, for sentences.

        Raises:
            InputError: Nothing to predict, or anything that inputs, model or outputs have wrong.
        """
        if len(table) == 0:
            raise InputError(f"the dataset {self.facts.name!r} has no rows to predict")
        self._bind(table)
        feed = self._feed(table)
        table = _fed(table, feed)
        size = self.loaded.fixed_batch or batch or self.model.batch
        started = time.perf_counter()
        parts = [self.map(self.run(arrays), first) for first, arrays in _batches(table, feed, size, first_row)]
        seconds = time.perf_counter() - started
        padded = -len(table) % size if self.loaded.fixed_batch else 0
        details: dict[str, Cell] = {"batch": size, "padded_rows": padded, "seconds": seconds}
        if isinstance(self.loaded, AsksAgain) and self.loaded.failed:
            how = ", ".join(f"{outcome} {count:,}" for outcome, count in self.loaded.failed.items())
            details |= {"requests_failed": sum(self.loaded.failed.values()), "requests_failed_how": how}
        return joined(parts, len(table), self.classes, details)

    def again(self, table: pa.Table, answers: Answers) -> dict[str, int]:
        """How many of some rows are answered otherwise when they are asked a second time; {} where that tells nothing.

        Args:
            table: The rows that were answered.
            answers: To all of them.
        """
        rows = rows_again(answers.n)
        if not self.model.timed or self.model.sampled or not len(rows):
            return {}
        return {ROWS: len(rows), UNLIKE: otherwise(answers, rows, self.predict_all(table.take(column_of(rows))))}

    def rows(self, table: pa.Table) -> ServedRows:
        """The rows as arrays in memory, to be timed.

        Raises:
            NotRunError: The model can't be timed.
            InputError: As `predict_all`.
        """
        if not self.model.timed or isinstance(self.loaded, PerDataset):
            raise NotRunError("predictions read from a file can't be timed: there is no model to run")
        if len(table) == 0:
            raise InputError(f"the dataset {self.facts.name!r} has no rows to serve")
        feed = self._feed(table)
        arrays = build(_fed(table, feed), feed)
        client: ServedRows | None = self.loaded.client(self, arrays) if isinstance(self.loaded, MakesClient) else None
        return client or ServedRows(self, arrays)

    def prepare(self, arrays: Arrays) -> Arrays:
        """Preprocessing alone, one batch."""
        return self.pipeline(arrays)

    def ready(self, arrays: Arrays) -> Arrays:
        """Preprocessing, and that what it gives is what the model takes.

        Raises:
            InputError: It is not.
        """
        ready = self.prepare(arrays)
        self.check(ready)
        return ready

    def run(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """Preprocessing and model, one batch of any size; a fixed batch is padded and the padding dropped.

        Raises:
            InputError: Preprocessing or the model refuses, or answers another number of rows.
        """
        return self.infer(self.prepare(arrays))

    def infer(self, ready: Arrays) -> dict[str, NDArray[Any]]:
        """The model alone on what preprocessing gave; as `run`."""
        self.check(ready)
        rows = len(next(iter(ready.values())))
        fixed = self.loaded.fixed_batch
        if fixed is None or rows == fixed:
            return self._call(ready, rows)
        pieces = [self._padded(ready, first, min(fixed, rows - first), fixed) for first in range(0, rows, fixed)]
        if any(piece.keys() != pieces[0].keys() for piece in pieces):
            raise InputError("the model's outputs change from one batch to the next")
        return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}

    @property
    def output_names(self) -> frozenset[str]:
        """Outputs that answers are read from; empty: none has been read yet."""
        return frozenset(() if self._kinds is None else self._kinds.values())

    def map(self, outputs: Mapping[str, NDArray[Any]], first_row: int = 0) -> Mapped:
        """Answers from what the model gave; ``first_row`` is for sentences.

        Raises:
            InputError: As `evalspec.answers.from_outputs.map_outputs`.
        """
        if self._kinds is None:
            given = self.loaded.output_names or tuple(outputs)
            self._kinds = resolve_outputs(
                self.model.outputs, given, self.traits.default_outputs, multilabel=self.model.multilabel
            )
        masses = outputs.get(MASS) if self.model.chooses else None
        if masses is not None and self.classes is None:
            self.classes = LETTERS[: np.asarray(outputs[PROBABILITIES]).shape[1]]
        labels, several = self.own_classes, self.model.multilabel
        if self._hidden:
            outputs = {name: self._clean(np.asarray(array)) for name, array in outputs.items()}
        mapped = map_outputs(outputs, self._kinds, self.classes, labels, first_row, multilabel=several)
        return replace(self._with_answers(mapped, first_row), masses=masses)

    def _with_answers(self, mapped: Mapped, first_row: int) -> Mapped:
        """The same, with the answer inside each text where the spec says where it is."""
        place = self.model.answer if isinstance(self.model, RuntimeModel) else None
        if place is None or (mapped.texts is None and self.model.chooses is not None):
            return mapped
        if mapped.texts is None:
            raise InputError("`answer:` locates the answer in a text, but the model gives no text")
        found = place.extracted(mapped.texts.tolist(), first_row)
        return replace(mapped, extracted=found, extracted_as=place.as_)

    def _clean(self, array: NDArray[Any]) -> NDArray[Any]:
        """An output in which no text is a secret: a model that echoes what it is sent must not write it to a file."""
        if array.dtype.kind not in "OUST":
            return array
        clean = np.empty(array.shape, dtype=object)
        clean.reshape(-1)[:] = [self._hidden.value(one) for one in array.reshape(-1).tolist()]
        return clean

    def synchronize(self) -> None:
        """Wait for the device, where the model has one."""
        wait = getattr(self.loaded, "synchronize", None)
        if wait is not None:
            wait()

    def _bind(self, table: pa.Table) -> None:
        if isinstance(self.loaded, PerDataset):
            if self.facts.key is None:
                raise InputError(
                    f"predictions are joined by key and the dataset {self.facts.name!r} has none",
                    remedy="add `key:` to the dataset, the column that identifies a row",
                )
            self._use(self.loaded.for_dataset(self.facts, table))

    def _feed(self, table: pa.Table) -> Feed:
        takes = () if self.pipeline.makes_tensors and self.model.inputs else self.loaded.input_names
        columns = tuple(table.column_names)
        return resolve_feed(self.model.inputs, takes, columns, self.facts, by_column=self.traits.by_column)

    def check(self, ready: Arrays) -> None:
        """Stop where what preprocessing gave is not what the model takes.

        Raises:
            InputError: It is not.
        """
        seen = tuple((name, array.shape[1:], array.dtype) for name, array in ready.items())
        if seen not in self._seen:
            check_arrays(ready, self.loaded.input_names, self.traits.tensors)
            self._seen.add(seen)

    def _padded(self, ready: Arrays, first: int, rows: int, fixed: int) -> dict[str, NDArray[Any]]:
        # The last row again is a likely input, which zeros might not be.
        index = np.minimum(np.arange(first, first + fixed), first + rows - 1)
        outputs = self._call(take(ready, index), fixed)
        return {name: array[:rows] for name, array in outputs.items()}

    def _call(self, ready: Arrays, rows: int) -> dict[str, NDArray[Any]]:
        try:
            outputs = self.loaded.predict(ready)
        except EvalspecError:
            raise
        except Exception as error:
            raise InputError(f"the model raised {type(error).__name__}: {first_line(error)}") from error
        for name, array in outputs.items():
            if np.ndim(array) == 0 or len(array) != rows:
                got = "a single value" if np.ndim(array) == 0 else plural(len(array), "row")
                raise InputError(f"the model gave {got} as {name!r} for a batch of {plural(rows, 'row')}")
        return outputs


class ServedRows:
    """Rows in memory, served one query after the other: what a measuring loop is handed.

    Args:
        served: The model.
        arrays: Tensor: shape (n, ...), before preprocessing.
    """

    def __init__(self, served: Served, arrays: Arrays) -> None:
        self.served = served
        self.arrays = arrays
        self.n = len(next(iter(arrays.values())))

    @property
    def fixed_batch(self) -> int | None:
        """The only number of rows that the model takes at once, or None."""
        return self.served.loaded.fixed_batch

    def raw(self, rows: NDArray[np.int64]) -> Arrays:
        """Copy of these rows before preprocessing."""
        return take(self.arrays, rows)

    def take(self, rows: NDArray[np.int64]) -> Any:
        """The query: these rows, copied. Not timed."""
        return self.raw(rows)

    def serve(self, query: Any) -> Any:
        """Preprocessing and model: what is timed."""
        return self.served.run(query)

    def answers(self, outputs: Any) -> NDArray[np.float64]:
        """Class index or value of each row, or a number that stands for its answer, shape (batch,). Not timed.

        Raises:
            InputError: The outputs are no answers.
        """
        return compared_numbers(self.served.map(outputs))

    def synchronize(self) -> None:
        """Wait for the device."""
        self.served.synchronize()

    def steps(self) -> list[tuple[str, Callable[[Any], Any]]]:
        """The stages of a query in order: each call takes what the one before gave, the first one a query.

        Preprocessing stages by their names, the model (where it can tell its own stages apart, these), and
        ``postprocess``, which makes answers.
        """
        served = self.served
        steps: list[tuple[str, Callable[[Any], Any]]] = list(
            zip(served.pipeline.names, served.pipeline.steps, strict=True)
        )
        own = served.loaded.steps() if isinstance(served.loaded, Stepped) and served.loaded.fixed_batch is None else ()
        # A single stage is the call itself, which is better served with its checks.
        steps += own if len(own) > 1 else [("inference", served.infer)]
        return [*steps, ("postprocess", self.answers)]


def _fed(table: pa.Table, feed: Feed) -> pa.Table:
    """The columns that feed the model alone; where one of them is absent all, for `build` to say so."""
    names = dict.fromkeys(
        name for columns in feed.values() for name in ((columns,) if isinstance(columns, str) else columns)
    )
    return table.select(list(names)) if names and names.keys() <= set(table.column_names) else table


def _batches(table: pa.Table, feed: Feed, size: int, first_row: int) -> Iterator[tuple[int, Arrays]]:
    """Number of the first row and arrays of each batch; columns are read many batches at once."""
    at_once = size * max(1, ROWS_AT_ONCE // size)
    for start in range(0, len(table), at_once):
        arrays = build(table.slice(start, at_once), feed, first_row + start)
        rows = min(at_once, len(table) - start)
        for first in range(0, rows, size):
            yield first_row + start + first, {name: array[first : first + size] for name, array in arrays.items()}


def _agreed(stated: tuple[str, ...] | None, own: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Labels of the output: the spec's, which may rename the model's own but not reorder them."""
    if stated is None or own is None:
        return stated or own
    if len(stated) != len(own):
        raise InputError(
            f"`classes` lists {len(stated)} labels, but the model has {len(own)} of its own", choices=own[:20]
        )
    if stated != own and set(stated) == set(own):
        raise InputError(
            "`classes` lists the model's own labels in a different order", choices=own, remedy="leave `classes` out"
        )
    return stated
