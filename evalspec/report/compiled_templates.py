"""Templates as they were compiled once, beside their sources, as Python keeps its modules."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from jinja2 import BytecodeCache

if TYPE_CHECKING:
    from jinja2.bccache import Bucket


READABLE = 0o644
"""Also by those who run what somebody else installed."""


class CompiledTemplates(BytecodeCache):
    """Kept in a folder; where it can't be written, templates are compiled in each process.

    A file holds the digest of its template's text, so that an edited template is compiled again.

    Args:
        folder: Made when the first template is kept.
        settings: All else on which a compiled template depends.
    """

    def __init__(self, folder: Path, settings: bytes) -> None:
        self._folder = folder
        self._settings = hashlib.sha256(version("jinja2").encode() + settings).hexdigest()[:12]

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what is kept of a template; what is cut or of another Python is passed over."""
        with contextlib.suppress(OSError, EOFError, ValueError, TypeError), self._file(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, whole or not at all."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(exist_ok=True)
            with NamedTemporaryFile(dir=self._folder, delete=False) as file:
                try:
                    bucket.write_bytecode(file)
                    file.close()
                    os.chmod(file.name, READABLE)
                    os.replace(file.name, self._file(bucket))
                except BaseException:
                    os.unlink(file.name)
                    raise

    def _file(self, bucket: Bucket) -> Path:
        return self._folder / f"{bucket.key[:12]}.{self._settings}.{sys.implementation.cache_tag}.jinja"
