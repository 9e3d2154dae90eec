"""Metrics of this package as modules of the Hugging Face `evaluate` library, for notebooks and training loops.

``evaluate.load(evalspec.metrics.path("ece"))`` reads a file and uses no network. In a spec they are listed under
``modules:`` of the check `evaluate` like any other file, with ``--trust`` and ``--allow-outside``.
"""

from __future__ import annotations

from pathlib import Path

from evalspec.errors import InputError, did_you_mean

_FOLDER = Path(__file__).parent
NAMES: tuple[str, ...] = tuple(sorted(file.stem for file in _FOLDER.glob("[a-z]*.py")))
"""Names of the modules."""


def path(name: str) -> str:
    """File of a module, for ``evaluate.load``.

    Args:
        name: One of `NAMES`.

    Raises:
        InputError: There is no module of this name.
    """
    if name not in NAMES:
        raise InputError(f"there is no metric module {name!r}", choices=NAMES, remedy=did_you_mean(name, NAMES))
    return str(_FOLDER / f"{name}.py")


__all__ = ["NAMES", "path"]
