"""Digests of artifacts: what makes two evaluations be about one subject."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import InputError
from evalspec.language.parts import Access, Model

STATED = re.compile(r"^sha256:[0-9a-f]{64}$")
PREFIX = b"evalspec artifact 1\n"


@dataclass(frozen=True, slots=True)
class Subject:
    """What the numbers are about.

    Args:
        digest: ``sha256:...``; None: nothing shows which artifact it is.
        stated: It is as the maker states it; nothing here checked it.
        size_bytes: Bytes of the artifact, or None where it is not here.
    """

    digest: str | None
    stated: bool = False
    size_bytes: int | None = None


def file_digest(path: Path) -> str:
    """``sha256:`` and the sum that sha256sum prints.

    Raises:
        InputError: It can't be read.
    """
    try:
        with path.open("rb") as file:
            return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path.name!r} can't be read: {error.strerror}") from error


def artifact_digest(files: Sequence[Path]) -> str:
    """Digest of an artifact: of one file its own, of several that of the list of names, sizes and digests.

    Names count from the folder that holds all of the files, so that an artifact keeps its digest when it is moved.

    Raises:
        InputError: No file, or one that can't be read.
    """
    paths = sorted({path.resolve() for path in files})
    if not paths:
        raise InputError("there are no files to make a digest of")
    if len(paths) == 1:
        return file_digest(paths[0])
    root = Path(os.path.commonpath([path.parent for path in paths]))
    listed = [[path.relative_to(root).as_posix(), path.stat().st_size, file_digest(path)] for path in paths]
    return "sha256:" + hashlib.sha256(PREFIX + json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def subject(model: Model, access: Access) -> Subject:
    """What a model's numbers are about: its files, or what `artifact:` says stands for them.

    Raises:
        InputError: `artifact:` is neither a path that is there nor ``sha256:`` with 64 digits.
    """
    from evalspec.runtimes._observe import size_bytes

    if model.artifact is not None:
        if model.artifact.startswith("sha256:"):
            if not STATED.match(model.artifact):
                raise InputError(
                    f"artifact {model.artifact!r} is no digest", remedy="write sha256: and 64 digits of 0-9 and a-f"
                )
            return Subject(model.artifact, stated=True)
        path = access.path(model.artifact)
        files = [path] if path.is_file() else sorted(inner for inner in path.rglob("*") if inner.is_file())
        return Subject(artifact_digest(files), size_bytes=size_bytes(files))
    if not model.timed:
        return Subject(None)
    files = list(model.files(access))
    return Subject(artifact_digest(files), size_bytes=size_bytes(files)) if files else Subject(None)
