"""Plain JSON: a request made from a template, and the place of the answer in what comes back. No code runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from evalspec.errors import InputError
from evalspec.language.timings import NOT_UNDERSTOOD, OTHER_SHAPE
from evalspec.runtimes.http_client.wire import HttpError, Reply, parse_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
EACH = "each"
"""``{each: ...}``: a list with what follows once for each row."""
STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+|\*)\]")


def placeholders(template: Any) -> tuple[str, ...]:
    """Names of the inputs that a template has a place for, in its order."""
    return tuple(dict.fromkeys(_names(template)))


def _names(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        match = PLACEHOLDER.fullmatch(template)
        if match is not None:
            yield match[1]
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from _names(value)
    elif isinstance(template, list | tuple):
        for value in template:
            yield from _names(value)


def fill(template: Any, arrays: Mapping[str, NDArray[Any]], *, per_row: bool = False) -> bytes:
    """The body of a request.

    A string that is nothing but ``{name}`` becomes that input: a list of rows, or the value of one row inside
    ``{each: ...}`` and where a request is about one row. Any other string stays as it is.

    Args:
        template: As the spec has it.
        arrays: Input: shape (rows, ...).
        per_row: The request is about one row.

    Raises:
        HttpError: A number that JSON has not.
    """
    import numpy as np

    if not all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f"):
        raise HttpError(
            NOT_UNDERSTOOD, "an input holds a number that is not finite, which JSON can't express",
            remedy="fill the gaps with a stage of `preprocess`",
        )  # fmt: skip
    values = {name: array.tolist() for name, array in arrays.items()}
    rows = len(next(iter(values.values())))
    if per_row:
        values = {name: value[0] for name, value in values.items()}
    return to_json(_filled(template, values, rows))


def _filled(template: Any, values: Mapping[str, Any], rows: int) -> Any:
    if isinstance(template, str):
        match = PLACEHOLDER.fullmatch(template)
        return template if match is None else values[match[1]]
    if isinstance(template, Mapping):
        if set(template) == {EACH}:
            of_rows = ({name: value[row] for name, value in values.items()} for row in range(rows))
            return [_filled(template[EACH], one, rows) for one in of_rows]
        return {key: _filled(value, values, rows) for key, value in template.items()}
    if isinstance(template, list | tuple):
        return [_filled(value, values, rows) for value in template]
    return template


def check_path(path: str) -> None:
    """Stop at what is no path to an answer, such as ``predictions[*].score``.

    Raises:
        InputError: It is none.
    """
    _steps(path)


def _steps(path: str) -> list[str | int]:
    """Keys, indices, and ``*`` for every one; empty: the whole answer, written ``$``."""
    text = path.removeprefix("$").removeprefix(".")
    steps: list[str | int] = []
    place = 0
    while place < len(text):
        match = STEP.match(text, place)
        if match is None:
            raise InputError(
                f"{path!r} is not a path to an answer", remedy="write such as predictions, outputs[0].data, $[*].score"
            )
        key, index = match.groups()
        steps.append(key if key is not None else "*" if index == "*" else int(index))
        place = match.end()
    if not path:
        raise InputError("a path to an answer is empty", remedy="write $ for the whole answer")
    return steps


def read(reply: Reply, paths: Mapping[str, str], rows: int, *, per_row: bool = False) -> dict[str, NDArray[Any]]:
    """The answers in a reply.

    Args:
        reply: What came back.
        paths: Output: where it stands.
        rows: Rows that were asked about.
        per_row: The request was about one row, so that what stands there is its answer, not a list of them.

    Returns:
        Output: shape (rows, ...).

    Raises:
        HttpError: It is no JSON, has not this place, or holds another number of answers.
    """
    import numpy as np

    found = parse_json(reply.body)
    arrays = {}
    for name, path in paths.items():
        value = _at(found, _steps(path), path)
        value = [value] if per_row else value
        try:
            array = np.asarray(value)
        except ValueError:
            arrays[name] = _listed(value, path, rows)
            continue
        if array.ndim == 0 or len(array) != rows:
            raise HttpError(OTHER_SHAPE, f"there are not {rows} answers at {path!r}")
        if array.dtype.kind not in "biufU":
            raise HttpError(NOT_UNDERSTOOD, f"the value at {path!r} in the answer is neither numbers nor text")
        arrays[name] = array.astype(object) if array.dtype.kind == "U" else array
    return arrays


def _listed(value: Any, path: str, rows: int) -> NDArray[Any]:
    """Lists of another length in each row, such as boxes, as objects."""
    import numpy as np

    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise HttpError(OTHER_SHAPE, f"the value at {path!r} in the answer has rows of several lengths")
    if len(value) != rows:
        raise HttpError(OTHER_SHAPE, f"there are not {rows} answers at {path!r}")
    found = np.empty(rows, dtype=object)
    for index, row in enumerate(value):
        found[index] = row
    return found


def _at(value: Any, steps: list[str | int], path: str) -> Any:
    for index, step in enumerate(steps):
        if step == "*":
            if not isinstance(value, list):
                raise HttpError(NOT_UNDERSTOOD, f"the answer has no list where {path!r} expects one")
            return [_at(one, steps[index + 1 :], path) for one in value]
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError) as error:
            raise HttpError(NOT_UNDERSTOOD, f"the answer has nothing at {path!r}") from error
    return value
