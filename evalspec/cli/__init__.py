"""The command line: arguments -> stage -> exit code. One file a command, no logic."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from evalspec import interrupts


def main() -> None:
    """Entry point of the ``evalspec`` command."""
    # Before anything that takes long to import, so that Ctrl-C is one line at any time.
    interrupts.end_at_once()
    _open_streams()
    # Imports make many objects that stay: looking through them for garbage again and again is a tenth of the start.
    gc.set_threshold(100_000, 50, 50)
    from evalspec.cli._app import app
    from evalspec.imports import arrow_without_pandas_once_imported

    # Whoever needs pandas imports it, and then pyarrow looks for it again.
    arrow_without_pandas_once_imported()
    try:
        app(prog_name="evalspec")
    finally:
        interrupts.ignore()
        # The interpreter looks through everything once more when it ends, which takes a seventh of `validate`.
        gc.freeze()


def _open_streams() -> None:
    """Let what was started without a standard stream write to nowhere: files that it opens would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def __getattr__(name: str) -> Any:
    """``app``, with all commands: imported when it is needed."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evalspec.cli._app import app

    return app
