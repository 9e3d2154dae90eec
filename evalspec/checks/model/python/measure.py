"""Measurement of `python`: call the function, and estimate from what it says of each row."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.cells import values_of
from evalspec.checks.model.python.show import largest, write_values
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.pipeline.untrusted_code import call, first_line
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.proportion import proportion
from evalspec.stats.value_only import ValueOnly

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.model.python.spec import OwnFunction
    from evalspec.language.inputs import Inputs

ROWS = ("rows", "table", "frame")
ANSWERS = "answers"
NO_BOUND = "a single number of the function, which has no bound: return a value for each row"


def measure(check: OwnFunction, inputs: Inputs) -> CheckResult:
    """Call the function.

    Raises:
        InputError: It may not run, can't be loaded, raises, or gives something else than was asked for.
        NotRunError: There are no rows.
    """
    path, name = check.named
    file = inputs.code(path, f"check {check.name}")
    table = inputs.table(check.dataset)
    if not table.num_rows:
        raise NotRunError(f"dataset {check.dataset} has no rows")
    with _found_beside(file):
        function = _function(file, name, check.function)
        given = _arguments(function, check, inputs, table)
        # Imports of the function may stand inside of it.
        found = call(lambda: function(**given), check.function)
    conditions = {f"code {path}": hashlib.sha256(file.read_bytes()).hexdigest()}
    if isinstance(found, Estimate | Fact | Measured):
        return CheckResult(estimates={name: found}, conditions=conditions)
    if isinstance(found, bool | int | float | np.generic):
        return CheckResult(estimates={name: _alone(float(found), table.num_rows, check)}, conditions=conditions)
    said = said_of_rows(found, table.num_rows, check.function)
    clusters = inputs.clusters(check.dataset)
    file_name = write_values(inputs.evidence, check.name, said.rows, said.values)
    return CheckResult(
        estimates={name: _estimate(said, check, inputs, None if clusters is None else clusters[said.rows])},
        counts=Counts(attempted=table.num_rows, used=len(said.rows), dropped=table.num_rows - len(said.rows)),
        conditions=conditions,
        blocks=(largest(name, said.rows, said.values, yes_or_no=said.yes_or_no),) if len(said.rows) else (),
        evidence=((file_name, f"what {name} says of each row"),),
    )


@dataclass(frozen=True, slots=True)
class SaidOfRows:
    """Values that a function gives the rows that count.

    Args:
        rows: shape (m,), index of each.
        values: shape (m,), 0 and 1 where it says yes or no.
        yes_or_no: It says True or False of every row.
    """

    rows: NDArray[np.int64]
    values: NDArray[np.float64]
    yes_or_no: bool


def said_of_rows(found: Any, n: int, reference: str) -> SaidOfRows:
    """Check what a function has returned.

    Args:
        found: A list, an array, or a column.
        n: Rows that it was given.
        reference: File and function, for sentences.

    Raises:
        InputError: It is no value for each row.
    """
    wanted = "return True or False, a number, or None for each row"
    if isinstance(found, str | bytes | Mapping) or not hasattr(found, "__iter__"):
        raise InputError(f"{reference} returned an object of type {type(found).__name__}", remedy=wanted)
    cells = (
        found.to_pylist() if hasattr(found, "to_pylist") else found.tolist() if hasattr(found, "tolist") else [*found]
    )
    if len(cells) != n:
        raise InputError(f"{reference} returned {len(cells):,} values for {n:,} rows", remedy=wanted)
    counted = [index for index, one in enumerate(cells) if one is not None]
    kept = [cells[index].item() if isinstance(cells[index], np.generic) else cells[index] for index in counted]
    for index, one in zip(counted, kept, strict=True):
        if not isinstance(one, bool | int | float):
            raise InputError(f"{reference} returned {str(one)[:40]!r} for row {index}", remedy=wanted)
        if not np.isfinite(one):
            remedy = "return None for a row that does not count"
            raise InputError(f"{reference} returned {one} for row {index}", remedy=remedy)
    yes_or_no = bool(kept) and all(isinstance(one, bool) for one in kept)
    return SaidOfRows(np.array(counted, dtype=np.int64), np.array(kept, dtype=np.float64), yes_or_no)


def _estimate(said: SaidOfRows, check: OwnFunction, inputs: Inputs, clusters: NDArray[np.int64] | None) -> Estimate:
    if not len(said.rows):
        raise NotRunError(f"{check.function} says of no row that it counts")
    if said.yes_or_no:
        return proportion(said.values > 0, clusters)
    share = check.own_metrics[0].unit == "fraction"
    if share:
        _check_shares(said.values, said.rows, check.function)
    return mean(said.values, rng=inputs.rng, clusters=clusters, limits=(0.0, 1.0) if share else None)


def _alone(value: float, n: int, check: OwnFunction) -> Estimate:
    if not np.isfinite(value):
        raise InputError(f"{check.function} returned {value}", remedy="return a value for each row")
    return ValueOnly(value, n, NO_BOUND)


def _check_shares(values: NDArray[np.float64], rows: NDArray[np.int64], reference: str) -> None:
    wrong = np.flatnonzero((values < 0) | (values > 1))
    if len(wrong):
        first = wrong[0]
        raise InputError(
            f"{reference} returned {values[first]:g} for row {rows[first]}, and its requirement is a share",
            remedy="return numbers in 0..1, or write the requirement without %",
        )


def _arguments(function: Callable[..., Any], check: OwnFunction, inputs: Inputs, table: pa.Table) -> dict[str, Any]:
    """Arguments of the function, by the names of its parameters."""
    makers: dict[str, Callable[[], Any]] = {
        "rows": lambda: _arrays(table),
        "table": lambda: table,
        "frame": lambda: _frame(table),
    }
    if check.uses_model:
        makers[ANSWERS] = lambda: _answers(check, inputs)
    given = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name in makers:
            given[name] = makers[name]()
        elif name == ANSWERS:
            raise InputError(f"{check.function} takes answers, and under data: there is no model", remedy="move it")
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            raise InputError(f"{check.function} takes {name!r}, which nobody gives it", choices=tuple(makers))
    return given


def _arrays(table: pa.Table) -> dict[str, NDArray[Any]]:
    from evalspec.answers.arrays import plain_array

    arrays = {}
    for name in table.column_names:
        try:
            arrays[name] = plain_array(table.column(name), name)
        except InputError:
            # Times, structures, lists of several lengths: as Python has them.
            arrays[name] = np.empty(table.num_rows, dtype=object)
            arrays[name][:] = _objects(table.column(name))
    return arrays


def _objects(column: pa.ChunkedArray) -> list[Any]:
    """Values of cells as pyarrow makes them; where Python has no object for one of them, as the report shows them."""
    try:
        objects: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        objects = values_of(column)
    return objects


def _frame(table: pa.Table) -> Any:
    import pyarrow as pa

    try:
        import pandas  # noqa: F401  # pyarrow makes the frame
    except ImportError as error:
        raise NotRunError("a parameter called frame needs pandas: pip install pandas") from error
    try:
        return table.to_pandas()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(
            f"pandas can't hold a column of the rows: {first_line(error)}",
            remedy="take `table` or `rows` in place of `frame`",
        ) from error


def _answers(check: OwnFunction, inputs: Inputs) -> dict[str, Any]:
    """A model's answers in the words of a spec."""
    said = inputs.predictions(check.dataset)
    classes = None if said.classes is None else np.array(said.classes, dtype=object)
    given: dict[str, Any] = {
        "label": None if classes is None or said.predicted is None else classes[said.predicted],
        "probabilities": said.probabilities,
        "classes": said.classes,
        "value": said.values,
        "lower": said.lower,
        "upper": said.upper,
        "text": said.texts,
        "members": said.members,
        "embedding": said.embeddings,
    }
    if said.truth is not None:
        given["truth"] = said.truth if classes is None or said.predicted is None else classes[said.truth]
    return {name: value for name, value in given.items() if value is not None}


def _function(file: Path, name: str, reference: str) -> Callable[..., Any]:
    """The function in a file.

    Raises:
        InputError: The file can't be imported, or holds none of this name.
    """
    module_spec = importlib.util.spec_from_file_location(file.stem, file)
    assert module_spec is not None and module_spec.loader is not None
    module = importlib.util.module_from_spec(module_spec)
    try:
        module_spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"importing {file.name} raised {type(error).__name__}: {first_line(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise InputError(f"{file.name} has no function {name!r}, which {reference} names")
    found: Callable[..., Any] = function
    return found


@contextmanager
def _found_beside(file: Path) -> Iterator[None]:
    """Let modules beside a file be imported by it."""
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
