"""Templates as they were compiled once, beside their sources, as Python keeps its modules."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import FileSystemBytecodeCache

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

READABLE = 0o644
"""Also by those who run what somebody else installed."""


class CompiledTemplates(FileSystemBytecodeCache):
    """Kept in a folder; where it can't be written, templates are compiled in each process.

    A file holds the digest of its template's text, so that an edited template is compiled again.

    Args:
        folder: Made when the first template is kept.
        settings: All else on which a compiled template depends.
    """

    def __init__(self, folder: Path, settings: bytes) -> None:
        about = hashlib.sha256(version("jinja2").encode() + settings).hexdigest()[:12]
        super().__init__(str(folder), f"%s.{about}.{sys.implementation.cache_tag}.jinja")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Take what is kept of a template; what is cut or of another Python is passed over."""
        # A damaged file makes pickle raise nearly anything.
        with contextlib.suppress(Exception):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template, whole or not at all."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError):
            Path(self.directory).mkdir(exist_ok=True)
            super().dump_bytecode(bucket)
            os.chmod(Path(self.directory, self.pattern % bucket.key), READABLE)
