"""Files that a check's result rests on beside its rows and answers, by their digests."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from evalspec.errors import InputError
from evalspec.language.parts import Access, Check, Dataset
from evalspec.pipeline.artifact import shown_path
from evalspec.running.files import sha256_of


def files_of(check: Check, datasets: Mapping[str, Dataset], access: Access) -> dict[str, str]:
    """Digests of the files that a check reads beside rows and answers, by file; empty where one can't be read.

    A Python module counts together with the modules beside it that it imports.

    Args:
        check: The check.
        datasets: Of the spec.
        access: Where files may be looked for.
    """
    digests: dict[str, str] = {}
    for _, name in check.files_named():
        try:
            paths = [access.path(name)]
        except InputError:
            digests[name] = ""
            continue
        if paths[0].suffix == ".py":
            paths = list(_with_imports(paths[0]))
        digests |= {shown_path(path, access): _digest(path) for path in paths}
    for name in check.holds_files_of():
        try:
            files = datasets[name].files(access)
        except InputError:
            continue
        digests |= {shown_path(path, access): _digest(path) for path in files}
    return digests


def _digest(path: Path) -> str:
    try:
        return sha256_of(path) if path.is_file() else ""
    except OSError:
        return ""


def _with_imports(module: Path) -> Iterator[Path]:
    """A module, and those beside it that it imports, and so on. Nothing is imported to find out."""
    waiting, seen = [module], set()
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path
        waiting += [beside for name in _imported(path) for beside in _places(module.parent, name) if beside.is_file()]


def _imported(module: Path) -> Iterator[str]:
    try:
        tree = ast.parse(module.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ([node.module] if node.module else [one.name for one in node.names])


def _places(folder: Path, name: str) -> tuple[Path, Path]:
    stem = folder.joinpath(*name.split("."))
    return stem.with_name(f"{stem.name}.py"), stem / "__init__.py"
