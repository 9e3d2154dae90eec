"""Digests of artifacts and of preprocessing: what makes two evaluations be about one subject."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.preprocess import PythonStage, as_stages
from evalspec.pipeline.untrusted_code import source_file

MOST_INSIDE = 20_000
"""Files of one folder that stands for a model."""
PREFIX = b"evalspec artifact 1\n"


def file_digest(path: Path) -> str:
    """The sum that sha256sum prints.

    Raises:
        InputError: It can't be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path.name!r} can't be read: {error.strerror}") from error


def artifact_digest(files: Sequence[Path], known: Mapping[Path, str] | None = None) -> str:
    """Digest of an artifact: of one file its own, of several that of the list of names, sizes and digests.

    Names count from the folder that holds all of the files, so that an artifact keeps its digest when it is moved.
    A folder stands for all files in it.

    Args:
        files: At least one.
        known: Digests of files that were read already, by their resolved paths.

    Raises:
        InputError: No file, or one that can't be read.
    """
    paths = all_files(files)
    if not paths:
        raise InputError("there are no files to digest")
    known = known or {}
    digests = {path: known[path] if path in known else file_digest(path) for path in paths}
    if len(paths) == 1:
        return digests[paths[0]]
    root = Path(os.path.commonpath([path.parent for path in paths]))
    listed = [[path.relative_to(root).as_posix(), path.stat().st_size, digest] for path, digest in digests.items()]
    return hashlib.sha256(PREFIX + json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def all_files(files: Sequence[Path]) -> list[Path]:
    """Each file once, in the order of their paths; a folder stands for all files in it."""
    return sorted({inner.resolve() for path in files for inner in _inside(path)})


def _inside(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    seen: set[str] = set()
    number = 0
    # What reads a folder follows links in it, so what tells one folder from another must.
    for folder, inner, names in os.walk(path, followlinks=True):
        place = os.path.realpath(folder)
        if place in seen:
            inner.clear()
            continue
        seen.add(place)
        number += len(names)
        if number > MOST_INSIDE:
            sentence = f"the folder {str(path)!r} holds more than {MOST_INSIDE:,} files"
            raise InputError(sentence, remedy="give a folder with only the model")
        yield from (file for name in names if (file := Path(folder, name)).is_file())


def preprocess_digest(stages: Sequence[Any], access: Access) -> str:
    """Digest of what preprocessing does: fields as canonical JSON, and the source of stages that are code.

    Raises:
        InputError: The source of a stage can't be found.
    """
    listed: list[dict[str, Any]] = []
    for stage in as_stages(stages):
        fields = stage.model_dump(mode="json", exclude_defaults=True)
        if isinstance(stage, PythonStage):
            fields["source"] = file_digest(source_file(stage.python, access))
        listed.append(fields)
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
