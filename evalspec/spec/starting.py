"""A new spec to start from: the commented template, and the schema that an editor completes it with."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from evalspec.errors import Problem, SpecError
from evalspec.language.registry import Registry, discover
from evalspec.spec.schema import SPEC_VERSION, dump, spec_schema

SPEC_FILE = "evalspec.yaml"
SCHEMA_FILE = f"spec.v{SPEC_VERSION}.json"


def template() -> str:
    """The text of the template."""
    return resources.files("evalspec.spec").joinpath("template.yaml").read_text(encoding="utf-8")


def start(folder: Path, *, force: bool = False, registry: Registry | None = None) -> tuple[Path, Path]:
    """Write a spec and its schema into a folder, which is made where it is not there.

    Args:
        folder: Where.
        force: Files that are there may be overwritten.
        registry: The kinds that the schema shows; None: all that are installed.

    Returns:
        The spec and the schema.

    Raises:
        SpecError: A file is there already, or the folder can't be written.
    """
    spec, schema = folder / SPEC_FILE, folder / SCHEMA_FILE
    there = [path for path in (spec, schema) if path.exists()]
    if there and not force:
        remedy = "pass --force to overwrite it, or name another folder"
        raise SpecError([Problem("this file is there already", file=str(path), remedy=remedy) for path in there])
    text = dump(spec_schema(registry or discover()))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        schema.write_text(text, encoding="utf-8")
        spec.write_text(template(), encoding="utf-8")
    except OSError as error:
        message = f"can't be written: {error.strerror or error}"
        raise SpecError(Problem(message, file=error.filename or str(folder))) from error
    return spec, schema
