"""Bytes of a model: the files here that it answers from, and the artifact that stands for the subject."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from evalspec.errors import InputError
from evalspec.evidence.record import ContentFile
from evalspec.evidence.subject import CLASSES
from evalspec.evidence.words import short_digest
from evalspec.language.parts import Access, Model
from evalspec.language.parts.part import MADE
from evalspec.pipeline.digest import all_files, artifact_digest, file_digest
from evalspec.pipeline.preprocess import PythonStage, as_stages
from evalspec.pipeline.untrusted_code import source_file

STATED = re.compile(r"sha256:[0-9a-f]{64}")
CHEAP_BYTES = 1 << 26
"""Most bytes that are read for a digest where nothing is measured."""


def read_here(model: Model) -> bool:
    """True if this program loads the model's files, so that they are the subject, whatever is stated."""
    return model.timed and not model.served


def content_paths(model: Model, access: Access) -> dict[Path, str]:
    """Every file that decides what a model answers, as far as its fields tell, and what it is to the model.

    Raises:
        InputError: One is missing.
    """
    paths = {
        path: what for what, files in model.answers_from(access).items() for path in (all_files(files) if files else ())
    }
    if isinstance(model.classes, str):
        paths.setdefault(access.path(model.classes).resolve(), CLASSES)
    for stage in as_stages(model.preprocess):
        if isinstance(stage, PythonStage):
            paths.setdefault(source_file(stage.python, access).resolve(), "code")
    return dict(sorted(paths.items()))


def contents_of(model: Model, access: Access) -> dict[Path, ContentFile]:
    """The same with digests.

    Raises:
        InputError: One is missing, or can't be read.
    """
    return {
        path: ContentFile(path=shown_path(path, access), digest=file_digest(path), what=what)
        for path, what in content_paths(model, access).items()
    }


MEMORY = "memory:"
"""Begins the path, in a record, of what a program handed over in memory."""


def shown_path(path: Path, access: Access) -> str:
    """A path from the spec's folder on, as it stands in a record."""
    if access.memory is not None and path.resolve().parent == access.memory.resolve():
        return f"{MEMORY}{path.name}"
    if access.made is not None and path.resolve().is_relative_to(access.made.resolve()):
        return f"{MADE}{path.resolve().relative_to(access.made.resolve()).as_posix()}"
    return Path(os.path.relpath(path, access.folder.resolve())).as_posix()


def path_shown(shown: str, access: Access) -> Path:
    """The path that a record shows; a link may stand in it, and counts for what it leads to."""
    if access.memory is not None and shown.startswith(MEMORY):
        return access.memory / shown.removeprefix(MEMORY)
    if access.made is not None and shown.startswith(MADE):
        return access.made / shown.removeprefix(MADE)
    return (access.folder.resolve() / shown).resolve()


def contents_digest(contents: Mapping[Path, ContentFile]) -> str | None:
    """Digest of all of them together; None: there are none."""
    if not contents:
        return None
    listed = sorted([one.what, one.path, one.digest] for one in contents.values())
    return hashlib.sha256(json.dumps(listed, separators=(",", ":")).encode()).hexdigest()


def stated_digest(model: Model) -> str | None:
    """The digest that ``artifact:`` states, or None where it states none.

    Raises:
        InputError: It is no sha256.
    """
    artifact = model.artifact
    if artifact is None or not artifact.startswith("sha256:"):
        return None
    if STATED.fullmatch(artifact) is None:
        raise InputError(f"artifact {artifact!r} is not a digest", remedy="write sha256: and 64 digits of 0-9 and a-f")
    return artifact.removeprefix("sha256:")


def artifact_files(model: Model, access: Access) -> tuple[Path, ...]:
    """The files that ``artifact:`` names; none where it states a digest, or is left out.

    Raises:
        InputError: There is none.
    """
    if model.artifact is None or stated_digest(model) is not None:
        return ()
    files = tuple(all_files([access.path(model.artifact)]))
    if not files:
        raise InputError(f"artifact {model.artifact!r} is a folder without files")
    return files


def check_artifact(model: Model, access: Access, own: str, known: Mapping[Path, str] | None = None) -> None:
    """Hold what ``artifact:`` names against what answers.

    Args:
        model: Of which nothing has to be stated, since it is read here, or its digest was kept.
        access: Where files may be looked for.
        own: Digest of what answers.
        known: Digests of files that were read already.

    Raises:
        InputError: It is another one.
    """
    if model.artifact is None:
        return
    said = stated_digest(model) or artifact_digest(artifact_files(model, access), known)
    if said != own:
        raise _other(model, access, said, own)


def check_artifact_cheaply(model: Model, access: Access) -> None:
    """The same before anything is measured, as far as it can be known without reading much.

    Raises:
        InputError: It is another one, for certain.
    """
    if model.artifact is None:
        return
    named = artifact_files(model, access)
    if not read_here(model):
        return
    files = all_files(model.files(access))
    if not files or set(files) == set(named):
        return
    if named and sorted(one.stat().st_size for one in files) != sorted(one.stat().st_size for one in named):
        raise _other(model, access)
    if sum(one.stat().st_size for one in files) <= CHEAP_BYTES:
        check_artifact(model, access, artifact_digest(files))


def _other(model: Model, access: Access, said: str | None = None, own: str | None = None) -> InputError:
    files = all_files(model.files(access))
    names = ", ".join(shown_path(one, access) for one in files[:3]) + (", ..." if len(files) > 3 else "")
    return InputError(
        f"artifact {model.artifact!r}{_digits(said)} is not what answers: that is {names}{_digits(own)}",
        remedy=f"remove `artifact:`, since for `kind: {model.kind}` the subject is the file that is read",
    )


def _digits(digest: str | None) -> str:
    return "" if digest is None else f" (sha256 {short_digest(digest)})"
