"""Files of a training's code that its command names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evalspec.evidence.record import ContentFile
from evalspec.pipeline.digest import file_digest
from evalspec.trainings.command import CommandTraining

MODULE = "-m"
WHAT = "code of the training"


def code_of(training: CommandTraining, folder: Path) -> tuple[ContentFile, ...]:
    """Files below the spec's folder that the command names, and the Python modules beside them, with digests.

    Args:
        training: Its command.
        folder: Of the spec.
    """
    root = folder.resolve()
    files = sorted({path.resolve() for path in _named(training, root)})
    return tuple(
        ContentFile(path=path.relative_to(root).as_posix(), digest=file_digest(path), what=WHAT)
        for path in files
        if path.is_relative_to(root)
    )


def _named(training: CommandTraining, root: Path) -> Iterator[Path]:
    for before, part in zip(("", *training.run), training.run, strict=False):
        path = root / part
        if before == MODULE:
            path = root / Path(*part.split("."))
            path = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path
        try:
            if path.is_file():
                yield path
            if path.suffix == ".py" and path.is_file():
                yield from path.parent.glob("*.py")
            elif path.is_dir() and before == MODULE:
                yield from path.rglob("*.py")
        except (OSError, ValueError):
            continue
