"""Parts that are on disk, so that a run that is gone on with answers none twice.

A part is written beside its place and renamed. What was said beside it is a line of a journal; it counts where the file
still has the digest that the line has.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from evalspec.answers.parts import part_path
from evalspec.errors import WriteError
from evalspec.running.children.leaf_journal import FOLDER
from evalspec.running.files import is_whole, make_folder, open_lines, open_regular


class KeptParts:
    """Parts of the answers of a model to a dataset; files that are none of them are removed.

    Args:
        run: Folder of the run.
        answers: The list of the parts, once it is written.
        key: Digest of all that the answers rest on.
    """

    def __init__(self, run: Path, answers: Path, key: str) -> None:
        self._answers = answers
        folder, journal = part_path(answers, 0).parent, run / FOLDER / f"answers-{key[:32]}.jsonl"
        make_folder(journal.parent)
        told = _lines(journal)
        self.parts: dict[int, Mapping[str, Any]] = {
            number: one for number, one in told.items() if is_whole(part_path(answers, number), str(one["sha256"]))
        }
        """What was said beside each part, with its digest."""
        mine = {part_path(answers, number) for number in self.parts}
        if folder.is_symlink():
            folder.unlink()
        make_folder(folder)
        for path in folder.iterdir():
            if path not in mine:
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self._file: IO[bytes] = _opened(journal)

    def put(self, number: int, told: Mapping[str, Any], file: bytes) -> None:
        """Keep a part.

        Args:
            number: Its own.
            told: What is said beside it.
            file: Its bytes.

        Raises:
            WriteError: It can't be written.
        """
        path = part_path(self._answers, number)
        partial = path.with_name(path.name + ".partial")
        one = {**told, "sha256": hashlib.sha256(file).hexdigest()}
        try:
            partial.write_bytes(file)
            os.replace(partial, path)
            self._file.write(json.dumps({"number": number, **one}).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise WriteError(f"{path} can't be written: {error.strerror or error}; free some space") from error
        self.parts[number] = one

    def close(self) -> None:
        """Keep nothing more."""
        self._file.close()


def _opened(path: Path) -> IO[bytes]:
    try:
        return open_lines(path)
    except OSError as error:
        raise WriteError(f"{path} can't be written: {error.strerror or error}") from error


def _lines(path: Path) -> dict[int, Mapping[str, Any]]:
    """Number: what the last line on a part says."""
    told: dict[int, Mapping[str, Any]] = {}
    with contextlib.suppress(OSError), open_regular(path) as file:
        for line in file:
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                one = json.loads(line)
                told[int(one.pop("number"))] = {"sha256": one["sha256"], **one}
    return told
