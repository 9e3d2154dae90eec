"""The folder of a run belongs to it while it lasts: what was written there is there at its end, as it was written."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from evalspec.answers.parts import first_fault
from evalspec.errors import WriteError
from evalspec.evidence.record import EvidenceFile
from evalspec.language.parts import Access
from evalspec.planning import Plan
from evalspec.running.files import Journal, is_whole, make_folder, sha256_of, write_atomically
from evalspec.running.folders import INPUTS, claim, find_unfinished, new_folder
from evalspec.running.journal.partial_rerun import profile_digest
from evalspec.running.options import Options

GONE = "is missing, or has changed since it was written"


def claimed(plan: Plan, options: Options) -> Journal:
    """The journal of a run, held, in a folder that is this run's alone.

    Raises:
        SpecError: It holds something already, or belongs to another run.
        RecordError: There is no run to go on with, or another process is at it.
        WriteError: It can't be made.
    """
    spec = plan.spec
    if options.resume:
        return find_unfinished(options.output, options.root, spec.name, spec.digest, profile_digest(spec.profile))
    if options.output is not None:
        return claim(options.output)
    return claim(new_folder(options.root, spec.name, spec.digest, datetime.now(UTC)))


class RunFolder:
    """Writes to the folder of a run, and looks at its end whether all of it is still there.

    Folders are kept open meanwhile, so that one that is made anew in the place of another is seen to be another.
    """

    def __init__(self, journal: Journal) -> None:
        """``journal`` of the run, held."""
        self.path = journal.path.parent
        self.journal = journal
        self._written: dict[Path, str] = {}
        self._folders: dict[Path, int] = {}
        self._keep_open(self.path)

    def write(self, name: str, text: str) -> None:
        """Write a file.

        Raises:
            WriteError: It can't be written.
        """
        path = self.path / name
        with self.journal.signals.deferred():
            write_atomically(path, text)
            self._written[path] = sha256_of(path)

    def make(self, name: str) -> None:
        """Make a folder in the run's.

        Raises:
            WriteError: It can't be made.
        """
        make_folder(self.path / name)
        self._keep_open(self.path / name)

    def takes_over(self, access: Access) -> Access:
        """Access to what the calling program handed over in memory, copied into this folder; any other as it is.

        Raises:
            WriteError: It can't be copied.
        """
        if access.memory is None:
            return access
        self.make(INPUTS)
        place = self.path / INPUTS
        try:
            for file in access.memory.iterdir():
                shutil.copyfile(file, place / file.name)
        except OSError as error:
            raise WriteError(
                f"{place} can't be written: {error.strerror or error}; pass output= for another"
            ) from error
        return replace(access, memory=place)

    def _keep_open(self, path: Path) -> None:
        # Where the system opens no folders, only what lies in them is looked at.
        with contextlib.suppress(OSError):
            self._folders[path] = os.open(path, os.O_RDONLY)

    def lost(self) -> str | None:
        """Sentence on what is gone of the run itself; None while all of it is there."""
        for path, descriptor in self._folders.items():
            if not _is_at(descriptor, path, follow=path == self.path):
                return f"the folder {path.name} of the run {GONE}"
        if not self.journal.intact:
            return f"the run's {self.journal.path.name} {GONE}"
        other = next((path for path, digest in self._written.items() if not is_whole(path, digest)), None)
        return None if other is None else f"the run's {other.name} {GONE}"

    def first_lost(self, files: Iterable[EvidenceFile]) -> str | None:
        """Sentence on the first of these files that is gone; None while all are there, with their digests."""
        for file in files:
            path = self.path / file.path
            if not is_whole(path, file.digest):
                return f"its evidence is gone: {file.path} {GONE}"
            fault = first_fault(path)
            if fault is not None:
                return f"its evidence is gone: {Path(file.path).parent}/{fault}"
        return None

    def let_go(self) -> None:
        """Close what was kept open, and the journal."""
        for descriptor in self._folders.values():
            os.close(descriptor)
        self._folders.clear()
        self.journal.let_go()


def _is_at(descriptor: int, path: Path, *, follow: bool) -> bool:
    """True where an open folder is still the one at a path."""
    try:
        # The folder itself may have been named by a link.
        return os.path.samestat(os.fstat(descriptor), path.stat() if follow else path.lstat())
    except OSError:
        return False
