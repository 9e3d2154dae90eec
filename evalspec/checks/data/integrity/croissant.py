"""Croissant files: types of a dataset's columns, digests of its files. Read as plain JSON.

References:
    MLCommons, Croissant format specification 1.1 (2026), https://docs.mlcommons.org/croissant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError

if TYPE_CHECKING:
    from evalspec.checks.data.integrity.spec import Kind

LARGEST_BYTES = 16 * 2**20
KINDS: Mapping[str, Kind] = {
    "text": "text", "string": "text", "url": "text", "integer": "integer", "int": "integer", "long": "integer",
    "float": "number", "number": "number", "double": "number", "decimal": "number", "boolean": "bool", "bool": "bool",
    "date": "time", "datetime": "time", "time": "time",
}  # fmt: skip
"""Last part of a data type's name, in lower case: what it is here."""


@dataclass(frozen=True)
class Croissant:
    """Description of a dataset, read from a Croissant file.

    Args:
        columns: Column: what it holds; None: something that has no type here.
        digests: File's name or address: its sha256.
        types: Column: its data type as it stands in the file.
    """

    columns: Mapping[str, Kind | None]
    digests: Mapping[str, str]
    types: Mapping[str, str]


def read_croissant(path: Path, record_set: str | None) -> Croissant:
    """Types and digests.

    Args:
        path: The file.
        record_set: Name of the record set whose fields are the columns; None: the only one.

    Raises:
        InputError: It is no Croissant file, or has several record sets and none is named.
    """
    content = _content(path)
    sets = {_name(one): one for one in _items(content, "recordSet")}
    fields: list[dict[str, Any]] = []
    if record_set is not None and record_set not in sets:
        raise InputError(f"{path.name} has no record set {record_set!r}", choices=sets)
    if len(sets) > 1 and record_set is None:
        raise InputError(f"{path.name} has several record sets", choices=sets, remedy="name one in `record_set:`")
    if sets:
        fields = list(_items(sets[record_set] if record_set is not None else next(iter(sets.values())), "field"))
    types = {_column(one): _type(one) for one in fields}
    digests = {
        str(one.get("contentUrl") or _name(one)): str(one["sha256"]).lower()
        for one in _items(content, "distribution")
        if one.get("sha256")
    }
    columns = {name: _kind(kind) for name, kind in types.items()}
    return Croissant(columns, digests, types)


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise InputError(f"{path.name} is larger than 16 MiB, so it is not a Croissant file")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path.name} can't be read as Croissant: it is not JSON ({error})") from error
    if not isinstance(content, dict) or not ("recordSet" in _plain(content) or "distribution" in _plain(content)):
        raise InputError(
            f"{path.name} is not a Croissant file: it has neither recordSet nor distribution",
            remedy="name the JSON-LD that describes the dataset",
        )
    return _plain(content)


def _plain(one: Mapping[str, Any]) -> dict[str, Any]:
    """Keys without their vocabulary (``cr:field`` is ``field``)."""
    return {key.rsplit(":", 1)[-1].rsplit("/", 1)[-1]: value for key, value in one.items()}


def _items(content: Mapping[str, Any], key: str) -> Iterator[dict[str, Any]]:
    found = content.get(key) or []
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            yield _plain(one)


def _name(one: Mapping[str, Any]) -> str:
    return str(one.get("name") or one.get("@id") or "")


def _column(field: Mapping[str, Any]) -> str:
    """The column that a field is read from; else its own name."""
    source = next(_items(field, "source"), {})
    extract = next(_items(source, "extract"), {})
    return str(extract.get("column") or _name(field).rsplit("/", 1)[-1])


def _type(field: Mapping[str, Any]) -> str:
    kinds = field.get("dataType") or ""
    kinds = kinds if isinstance(kinds, list) else [kinds]
    repeated = field.get("repeated") in (True, "true", "True") or field.get("isArray") in (True, "true", "True")
    return "list" if repeated else ", ".join(str(kind) for kind in kinds)


def _kind(types: str) -> Kind | None:
    """The first of its types that is one of values."""
    if types == "list":
        return "list"
    for one in types.split(", "):
        name = one.rsplit(":", 1)[-1].rsplit("/", 1)[-1].lower().rstrip("0123456789").removeprefix("u")
        if name in KINDS:
            return KINDS[name]
        if "url" in one.lower():
            return "text"
    return None
