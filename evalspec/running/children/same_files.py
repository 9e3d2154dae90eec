"""Files of a dataset by their bytes: while these are the same, so are the rows that were read of them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from evalspec.errors import EvalspecError
from evalspec.language.parts import Access, Dataset
from evalspec.running.files import sha256_of

RECENT_NS = 10 * 10**9
"""Longer than a clock of files takes to tick, and than most networks keep their times."""
State = tuple[tuple[str, int, int, int, int], ...]


class FilesWatch:
    """Looks at the files of a dataset before its rows are read, and after; their bytes are digested meanwhile.

    Those that were written to a moment ago are digested first: their times may not tell of one more write.

    Args:
        dataset: The dataset.
        access: Rights of the run.
    """

    def __init__(self, dataset: Dataset, access: Access) -> None:
        self._dataset, self._access = dataset, access
        self._before = self._state()
        self._beside = ThreadPoolExecutor(1)
        self._digest: Future[str | None] | None = None
        if self._before is not None:
            self._digest = self._beside.submit(_digest, self._files)
            if max(changed_ns for *_, changed_ns in self._before) > time.time_ns() - RECENT_NS:
                self._digest.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._beside.shutdown()

    def digest(self) -> str | None:
        """The digest of their paths and bytes; None: its rows hang on more than these, or they can't be read."""
        return None if self._digest is None else self._digest.result()

    def end(self) -> str | None:
        """The digest, of the files that were read; None: one was written to meanwhile."""
        digest = self.digest()
        return digest if self._before is not None and self._state() == self._before else None

    def _state(self) -> State | None:
        # A kind that is made from another says for itself what its rows hang on.
        if not vars(type(self._dataset)).get("only_files", False):
            return None
        try:
            self._files = self._dataset.files(self._access)
            found = [(str(path), path.stat()) for path in self._files]
        except (EvalspecError, OSError):
            return None
        if not found:
            return None
        return tuple((path, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for path, one in found)


def _digest(files: Sequence[Path]) -> str | None:
    digest = hashlib.sha256()
    try:
        for path in files:
            digest.update(f"{sha256_of(path)} {path}\0".encode(errors="surrogateescape"))
    except OSError:
        return None
    return digest.hexdigest()
