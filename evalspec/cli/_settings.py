"""Defaults of a repository: ``[tool.evalspec]`` of a pyproject.toml of the caller's, never one of the spec's.

What may be read and asked is for whoever starts evalspec to say. So the file is looked for from the folder that the
caller stands in, and one that lies in a spec's own folder, or below it, widens nothing: whoever sends a spec may send
that along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.cli._output import echo
from evalspec.errors import InputError, Problem, SpecError

FILE = "pyproject.toml"
LARGEST_BYTES = 2**20
KNOWN = {"allow-outside": bool, "allow-host": list, "engine": str, "output": str}


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of a repository, never thresholds.

    Args:
        allow_outside: As the option.
        root: The folder that holds ``reports``.
        hosts: As ``--allow-host``.
        engine: As ``--engine``.
        file: Where they stand; None: nowhere.
        refused: Settings of it that are not taken, since the spec could have brought them along.
    """

    allow_outside: bool
    root: Path
    hosts: frozenset[str] = frozenset()
    engine: str = "local"
    file: Path | None = None
    refused: tuple[str, ...] = ()

    def widened(self, allow_outside: bool, hosts: Iterable[str]) -> tuple[str, ...]:
        """Permissions beyond those of the command line, in words; for the record.

        Args:
            allow_outside: As it was passed.
            hosts: Likewise.
        """
        added = ["allow-outside"] if self.allow_outside and not allow_outside else []
        added += [f"allow-host {name}" for name in sorted(self.hosts - set(hosts))]
        return (f"{self.file} allows {', '.join(added)}",) if added else ()


def settings(spec: Path | None = None) -> Settings:
    """The table of the nearest pyproject.toml at or above the current folder that has one.

    Args:
        spec: The spec that they are for; None: for none.

    Raises:
        SpecError: It is no TOML, or a key is not a setting.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        table = _table(folder / FILE)
        if table is not None:
            return _of(table, folder / FILE, None if spec is None else spec.resolve().parent)
    return Settings(allow_outside=False, root=here)


def say_widened(widened: Iterable[str], defaults: Settings) -> None:
    """Print what a file of settings allows, and what it would and may not."""
    for line in widened:
        echo(f"note: {line}", err=True)
    if defaults.refused:
        options = ", ".join(f"--{name}" for name in defaults.refused)
        echo(
            f"note: {defaults.file} lies in the spec's own folder, so its settings for {', '.join(defaults.refused)} "
            f"are ignored; pass {options} if you mean them",
            err=True,
        )


def _table(path: Path) -> Mapping[str, Any] | None:
    """``[tool.evalspec]`` of a file; None: there is no such table, or no such file."""
    import tomllib

    from evalspec.language.bounded import read_bounded

    if not path.is_file():
        return None
    try:
        tool = tomllib.loads(read_bounded(path, str(path), LARGEST_BYTES).decode("utf-8")).get("tool", {})
    except (ValueError, RecursionError) as error:
        raise SpecError(Problem(f"{path} is not valid TOML: {error}")) from error
    except InputError as error:
        raise SpecError(error.problem) from error
    except OSError as error:
        raise SpecError(Problem(f"{path} can't be read: {error.strerror or error}")) from error
    if not isinstance(tool, dict) or "evalspec" not in tool:
        return None
    table = tool["evalspec"]
    if not isinstance(table, dict):
        raise SpecError(Problem("tool.evalspec is not a table", file=str(path), remedy="write [tool.evalspec]"))
    return table


def _of(table: Mapping[str, Any], path: Path, spec_folder: Path | None) -> Settings:
    wrong = [
        Problem(f"[tool.evalspec] {key} is not a setting, or has the wrong type", file=str(path), choices=tuple(KNOWN))
        for key, value in table.items()
        if key not in KNOWN
        or not isinstance(value, KNOWN[key])
        or (isinstance(value, list) and not all(isinstance(name, str) for name in value))
        or (isinstance(value, str) and "\0" in value)
    ]
    if wrong:
        raise SpecError(wrong)
    folder = path.parent.resolve()
    root = (folder / table["output"]).resolve() if "output" in table else Path.cwd()
    if spec_folder is None or not folder.is_relative_to(spec_folder):
        hosts = frozenset(table.get("allow-host", ()))
        engine = table.get("engine", "local")
        return Settings(bool(table.get("allow-outside", False)), root, hosts, engine, path)
    refused = [key for key in ("allow-outside", "allow-host", "engine") if table.get(key)]
    if "output" in table and not root.is_relative_to(folder):
        refused.append("output")
        root = Path.cwd()
    return Settings(allow_outside=False, root=root, file=path, refused=tuple(refused))
