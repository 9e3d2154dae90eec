"""Predictions made elsewhere: one file for each dataset, joined by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, model_validator

from evalspec.answers.classes import label_text, read_classes
from evalspec.arrow import column_of, read_parquet
from evalspec.cells import values_of
from evalspec.errors import InputError, SpecError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.subject import ANSWERS_ON, LOGGED, UNANSWERED
from evalspec.evidence.words import plural, verb
from evalspec.language.parts import Access, DatasetName, LoadedModel, Model, OutputName
from evalspec.language.registry import discover
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.loaded import Loaded
from evalspec.pipeline.model_fields import RuntimeModel
from evalspec.pipeline.untrusted_code import first_line
from evalspec.runtimes.eval_logs.inspect import read_inspect
from evalspec.runtimes.eval_logs.lm_eval import LogScore, read_lm_eval
from evalspec.runtimes.eval_logs.log import AnswerLog, check_same, field

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

FORMATS = (".parquet", ".csv", ".jsonl", ".ndjson", ".arrow", ".feather", ".npz")
SHOWN = 3
KEY_OF = {"lm_eval": "doc_id", "inspect": "id"}
"""Field of a sample that names its question, by the format of the log."""
KIND_OF = {".onnx": "onnx", ".skops": "sklearn"}
"""Kind of model that an artifact is, by its ending."""
COLUMNS: dict[str, tuple[str, ...]] = {
    "lm_eval": ("text", "probabilities"),
    "inspect": ("text", "answer", "stop_reason"),
}
"""What a log can say that a model answered."""
ONLY_OF = {"filter": "lm_eval", "score": "lm_eval", "scorer": "inspect"}
"""Fields that are about one format alone."""


class PredictionFiles(RuntimeModel):
    """Answers in files. They can be judged, but there is nothing to run, so nothing to time.

    ``outputs`` names columns: ``{probabilities: p}`` for a column of lists, ``{probabilities: "p_*"}`` for one column
    a class (``p_cat``, ``p_dog``), ``{label: predicted}``, ``{value: minutes}``. Logs of harnesses have
    columns of their own: ``text``, of lm-eval also ``probabilities``, of Inspect also ``answer`` and ``stop_reason``.
    """

    timed: ClassVar[bool] = False

    # `files` is a method of every model, so the field has another name in Python only.
    model_config = ConfigDict(serialize_by_alias=True)

    kind: Literal["predictions"] = "predictions"
    files_: dict[DatasetName, str] = Field(
        alias="files",
        min_length=1,
        description="Dataset: file with its predictions (parquet, csv, jsonl, arrow or npz), one row per key.",
    )
    format: Literal["table", "lm_eval", "inspect"] = Field(
        "table", description="table; lm_eval: samples of `--log_samples`; inspect: a log, .json or .eval."
    )
    filter: str | None = Field(None, description="lm_eval: the filter whose answers count, where the file has several.")
    score: LogScore = Field(
        "sum", description="lm_eval: probabilities of options by the sum of an option's log-likelihood, or per_byte."
    )
    scorer: str | None = Field(None, description="inspect: the scorer that extracted `answer` from the text.")
    key_from: str | None = Field(
        None, description="Field of a sample with the dataset's key, such as doc.id; default: doc_id, or id."
    )
    agrees: dict[str, str] = Field(
        default_factory=dict,
        description="Field of a sample: column of the dataset with the same value in every row, else the log is "
        "refused; default: the target and the label.",
    )

    runs_as: dict[str, Any] = Field(
        default_factory=dict,
        description="How to run `artifact` to compare 64 rows with the file: `kind` and the fields of such a model, "
        "without `path`; default: by its file ending and the dataset's columns.",
    )

    @model_validator(mode="after")
    def _runs_as_a_model(self) -> Self:
        if not self.runs_as:
            return self
        if self.artifact is None or self.artifact.startswith("sha256:"):
            raise ValueError(
                "`runs_as` says how to run `artifact`, but `artifact` names no file; write `artifact: PATH`"
            )
        made = self._as_model(self.runs_as)
        if not made.timed:
            raise ValueError(f"a model of kind {made.kind} can't be run")
        return self

    def _as_model(self, fields: Mapping[str, Any]) -> Model:
        """Model of these fields, over the artifact.

        Raises:
            ValueError: They are none of such a model.
        """
        kinds = discover()
        try:
            kind = kinds.runtime(str(fields.get("kind", "")))
            place = {"path": self.artifact} if "path" in kind.model_fields else {}
            made = kind.model_validate({**place, "classes": self.classes, **fields})
        except SpecError as error:
            raise ValueError(f"`runs_as` needs the `kind` of a model: {error.problems[0].message}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise ValueError(f"`runs_as` {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        return made

    def runs_code(self) -> tuple[str, ...]:
        return (*super().runs_code(), *(self._as_model(self.runs_as).runs_code() if self.runs_as else ()))

    def artifact_model(self, access: Access) -> Model | None:
        """As ``runs_as`` says, else as its ending does."""
        if self.runs_as:
            return self._as_model(self.runs_as)
        kind = KIND_OF.get(PurePath(self.artifact or "").suffix.lower())
        if kind is None or not self.outputs:
            return None
        fields: dict[str, Any] = {"kind": kind}
        if kind == "onnx":
            from evalspec.runtimes.onnx_model.graph import read_graph

            try:
                given = read_graph(access.path(str(self.artifact)), str(self.artifact)).outputs
            except InputError:
                return None
            own = next(iter(self.outputs))
            fields["outputs"] = _outputs_of(given, own)
        try:
            return self._as_model(fields)
        except ValueError:
            return None

    @model_validator(mode="after")
    def _fits_format(self) -> Self:
        table = self.format == "table"
        for name in (*ONLY_OF, "key_from", "agrees"):
            if name in self.model_fields_set and self.format != ONLY_OF.get(name, self.format if not table else None):
                raise ValueError(f"`{name}` is about `format: {ONLY_OF.get(name, 'lm_eval or inspect')}`")
        known = COLUMNS.get(self.format)
        unknown = [name for name in self.outputs.values() if known is not None and name not in known]
        if known is not None and unknown:
            raise ValueError(f"a log of {self.format} has no column {unknown[0]!r}, but {', '.join(known)}")
        return self

    def answer_tables(self) -> Mapping[str, str]:
        return self.files_ if self.format == "table" else {}

    def files(self, access: Access) -> tuple[Path, ...]:
        return tuple(access.path(path) for path in self.files_.values())

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        return {f"{ANSWERS_ON}{name}": (access.path(path),) for name, path in self.files_.items()}

    def answer_files(self) -> Mapping[str, str]:
        return self.files_

    def load(self, access: Access, *, threads: int | None = None) -> LoadedFiles:
        """Files are read when their dataset is asked for."""
        return LoadedFiles(
            observed={
                "framework": "predictions read from files" if self.format == "table" else f"log of {self.format}"
            },
            input_names=(),
            output_names=(),
            spec=self,
            access=access,
        )


@dataclass(kw_only=True)
class LoadedFiles(Loaded):
    """Files of predictions, not yet joined with a dataset."""

    spec: PredictionFiles
    access: Access

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """There is no model to run.

        Raises:
            InputError: Always; `for_dataset` joins the files with a dataset.
        """
        raise InputError("predictions read from files only answer for the dataset that they were made on")

    def for_dataset(self, facts: DatasetFacts, rows: pa.Table) -> LoadedModel:
        """The answers for one dataset.

        Args:
            facts: The dataset; its key names the column in both.
            rows: The dataset's.

        Raises:
            InputError: No file for it, keys that are missing, duplicate or too many, or a log of other rows.
        """
        from evalspec.answers.arrays import column_array

        key = facts.key
        if facts.name not in self.spec.files_:
            raise InputError(f"there are no predictions for the dataset {facts.name!r}", choices=self.spec.files_)
        if key is None:
            raise InputError(
                f"predictions are joined by key, but the dataset {facts.name!r} names none",
                remedy="add `key:` to the dataset",
            )
        shown, keys = self.spec.files_[facts.name], column_array(rows, key)
        path = self.access.path(shown)
        if self.spec.format != "table":
            return self._logged(path, shown, facts, rows, keys)
        as_text = key if keys.dtype.kind in "OUT" else None
        table = read_predictions(path, shown, as_text=as_text)
        if key not in table.column_names:
            raise InputError(f"the predictions {shown!r} have no key column {key!r}", choices=table.column_names)
        found = join(keys, _keys(table, key), shown, facts)
        return joined_table(table, found, key, self.spec.outputs, self.observed)

    def _logged(self, path: Path, shown: str, facts: DatasetFacts, rows: pa.Table, keys: NDArray[Any]) -> LoadedModel:
        """The answers of a harness's log, whose questions are those of the dataset."""
        import pyarrow as pa

        spec, key = self.spec, str(facts.key)
        if spec.format == "inspect":
            log = read_inspect(path, shown, scorer=spec.scorer, scored="answer" in spec.outputs.values())
        else:
            log = read_lm_eval(path, shown, filter_name=spec.filter, score=spec.score)
        named = spec.key_from or KEY_OF[spec.format]
        values = [label_text(field(sample, named)) for sample in log.samples]
        found = join(keys, _array(values), shown, facts)
        self._check(log, found, shown, facts, rows)
        unanswered = sum(log.missing[row] for row in found.tolist()) if log.missing else 0
        observed = {**self.observed, f"{LOGGED}{facts.name}": log.claim, f"{UNANSWERED}{facts.name}": unanswered}
        table = pa.table({key: values, **{name: list(column) for name, column in log.outputs.items() if name != key}})
        joined = joined_table(table, found, key, spec.outputs, observed)
        if "probabilities" in log.outputs:
            joined.classes = tuple(range(len(log.outputs["probabilities"][0])))
        return joined

    def _check(self, log: AnswerLog, found: NDArray[Any], shown: str, facts: DatasetFacts, rows: pa.Table) -> None:
        """Refuse a log of which the target is not the dataset's label, or what else is to agree does not."""
        from evalspec.answers.arrays import column

        labelled = facts.label is not None and facts.label in rows.column_names
        default = {"target": str(facts.label)} if labelled else {}
        places = found.tolist()
        samples = [log.samples[row] for row in places]
        options = None if log.options is None or self.spec.agrees else [log.options[row] for row in places]
        for path, name in (self.spec.agrees or default).items():
            said, known = [field(sample, path) for sample in samples], values_of(column(rows, name))
            check_same(said, known, (shown, path, name), options, read_classes(self.spec.classes, self.access))
        if log.missing and labelled:
            truth = column(rows, str(facts.label)).to_pylist()
            if any(log.missing[row] and label == "" for row, label in zip(places, truth, strict=True)):
                raise InputError(
                    f"{shown!r} has no answer to a question whose label is the empty text, like a missing answer"
                )


def _outputs_of(given: Sequence[str], own: str) -> dict[str, str]:
    """Outputs of a file as its names tell them, else what the answers in the file are called."""
    for word, kind in (("prob", "probabilities"), ("logit", "logits")):
        named = [name for name in given if word in name.lower()]
        if named:
            return {kind: named[0]}
    return {own: given[0]} if given else {}


def read_predictions(path: Path, shown: str, *, as_text: str | None = None) -> pa.Table:
    """A file of predictions as a table.

    Args:
        path: The file.
        shown: Its name, for sentences.
        as_text: A column that stays text where the format has no types, so that ``00387`` keeps its zeros.

    Raises:
        InputError: Another format, empty, truncated or of another type than its name says.
    """
    import zlib

    import pyarrow as pa

    if path.suffix not in FORMATS:
        raise InputError(f"{shown!r} is not a file of predictions", choices=FORMATS)
    if path.is_dir():
        raise InputError(f"{shown!r} is a folder", remedy="name one file of predictions")
    if path.stat().st_size == 0:
        raise InputError(f"the file of predictions {shown!r} is empty")
    try:
        table = _read(path, as_text)
    except (
        OSError, ValueError, EOFError, LookupError, TypeError, ArithmeticError, MemoryError, RuntimeError, SyntaxError,
        zlib.error, pa.ArrowException,
    ) as error:  # fmt: skip
        raise InputError(f"{shown!r} can't be read as {path.suffix[1:]}: {first_line(error)}") from error
    if len(table) == 0:
        raise InputError(f"the file of predictions {shown!r} has no rows")
    return table


def _read(path: Path, as_text: str | None) -> pa.Table:
    import zipfile

    import numpy as np
    import pyarrow as pa

    if path.suffix == ".parquet":
        return read_parquet(path)
    if path.suffix == ".csv":
        import pyarrow.csv

        types = {as_text: pa.string()} if as_text is not None else None
        return pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=types))
    if path.suffix in (".jsonl", ".ndjson"):
        import pyarrow.json

        return pyarrow.json.read_json(path)
    if path.suffix in (".arrow", ".feather"):
        import pyarrow.feather

        return pyarrow.feather.read_table(path)
    try:
        # numpy leaves a file open that it opened itself and then can't read.
        with path.open("rb") as file:
            arrays = np.load(file, allow_pickle=False)
            if isinstance(arrays, np.ndarray):
                raise ValueError("it holds one array without a name")
            return pa.table({name: _listed(arrays[name]) for name in arrays.files})
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error


def _array(values: Sequence[str]) -> NDArray[Any]:
    import numpy as np

    return np.array(values, dtype=np.str_)


def _listed(array: NDArray[Any]) -> Any:
    import pyarrow as pa

    return pa.array(array) if array.ndim == 1 else pa.array(list(array.reshape(len(array), -1)))


def _keys(table: pa.Table, key: str) -> NDArray[Any]:
    from evalspec.answers.arrays import column_array

    return column_array(table, key)


def join(wanted: NDArray[Any], have: NDArray[Any], shown: str, facts: DatasetFacts) -> NDArray[Any]:
    """Row of the predictions for each row of the dataset.

    Args:
        wanted: shape (n,), keys of the dataset.
        have: shape (m,), keys of the predictions.
        shown: The file, for sentences.
        facts: The dataset.

    Returns:
        shape (n,), rows of the predictions.

    Raises:
        InputError: A key twice, a row without prediction, or a prediction without row.
    """
    import numpy as np

    wanted, have = _texts(wanted), _texts(have)
    _unique(wanted, f"the dataset {facts.name!r}")
    _unique(have, f"the predictions {shown!r}")
    order = np.argsort(have, kind="stable")
    place = np.minimum(np.searchsorted(have[order], wanted), len(have) - 1)
    rows = order[place]
    absent = have[rows] != wanted
    if absent.any():
        raise InputError(
            f"the predictions {shown!r} lack {int(absent.sum()):,} of {plural(len(wanted), 'key')} of the dataset "
            f"{facts.name!r}: {_some(wanted[absent])}"
        )
    extra = ~np.isin(have, wanted)
    if extra.any() and not facts.subset:
        raise InputError(
            f"the predictions {shown!r} have {plural(int(extra.sum()), 'key')} that are not in the dataset "
            f"{facts.name!r}: {_some(have[extra])}",
            remedy="were they made on a different version of the dataset?",
        )
    return rows


def _texts(keys: NDArray[Any]) -> NDArray[Any]:
    """Keys as text, so that 7 in a csv file and "7" in a parquet file are one key."""
    import numpy as np

    from evalspec.answers.classes import missing_mask

    if keys.ndim != 1:
        raise InputError(f"keys must be one value per row, and these are lists of {list(keys.shape[1:])}")
    missing = int(missing_mask(keys).sum())
    if missing:
        raise InputError(f"keys are missing in {missing:,} of {plural(len(keys), 'row')}, which can't be joined")
    if keys.dtype.kind in "iu":
        return keys.astype(np.str_)
    return np.array([label_text(key) for key in keys.tolist()], dtype=np.str_)


def _unique(keys: NDArray[Any], whose: str) -> None:
    import numpy as np

    _, first, inverse, counts = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    if len(first) == len(keys):
        return
    # The one whose repeat comes first when the rows are read from the top.
    repeats = np.flatnonzero(first[inverse.reshape(-1)] != np.arange(len(keys)))
    key = keys[repeats[0]]
    rows = np.flatnonzero(keys == key) + 1
    shown = " and ".join(f"{row:,}" for row in rows[:2]) + (f" and {len(rows) - 2} more" if len(rows) > 2 else "")
    others = int((counts > 1).sum()) - 1
    more = f"; {plural(others, 'more key')} {verb(others, 'occurs', 'occur')} more than once" if others else ""
    raise InputError(
        f"the key {str(key)!r} occurs in rows {shown} of {whose}{more}",
        remedy="a key identifies one row: drop the copies, or name a different column with `key:`",
    )


def _some(keys: NDArray[Any]) -> str:
    return ", ".join(str(key) for key in keys[:SHOWN]) + (", ..." if len(keys) > SHOWN else "")


def joined_table(
    table: pa.Table,
    rows: NDArray[Any],
    key: str,
    outputs: Mapping[OutputName, str | int],
    observed: Mapping[str, Cell],
) -> Loaded:
    """The predictions in the dataset's order, as a model that is asked by key."""
    import numpy as np

    from evalspec.answers.arrays import stacked
    from evalspec.answers.ragged import output_column

    pattern = outputs.get("probabilities")
    table = table.take(column_of(rows))
    columns: dict[str, NDArray[Any]] = {}
    classes: tuple[str, ...] | None = None
    if isinstance(pattern, str) and "*" in pattern:
        before, _, after = pattern.partition("*")
        names = [n for n in table.column_names if n.startswith(before) and n.endswith(after) and n != key]
        if not names:
            raise InputError(f"no column of the predictions matches {pattern!r}", choices=table.column_names)
        classes = tuple(name[len(before) : len(name) - len(after)] for name in names)
        columns[pattern] = stacked(table, names)
    wanted = [name for name in outputs.values() if isinstance(name, str)] or [n for n in table.column_names if n != key]
    for name in wanted:
        if name not in columns:
            columns[name] = output_column(table, name)
    keys = _texts(_keys(table, key))
    order = np.argsort(keys, kind="stable")
    return JoinedPredictions(
        observed=observed,
        input_names=(key,),
        output_names=tuple(columns),
        classes=classes,
        columns=columns,
        keys=keys[order],
        order=order,
    )


@dataclass(kw_only=True)
class JoinedPredictions(Loaded):
    """Predictions for one dataset, looked up by key.

    Args:
        columns: Output: shape (n, ...).
        keys: shape (n,), sorted.
        order: shape (n,), row of each of ``keys`` in ``columns``.
    """

    columns: Mapping[str, NDArray[Any]]
    keys: NDArray[Any]
    order: NDArray[Any]

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The answers for these keys."""
        import numpy as np

        (asked,) = inputs.values()
        rows = self.order[np.searchsorted(self.keys, _texts(asked))]
        return {name: array[rows] for name, array in self.columns.items()}
