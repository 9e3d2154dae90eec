"""Where runs land: ``reports/<spec name>/<time>-<short digest>/``, ``latest`` pointing to the newest."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from evalspec.errors import RecordError, SpecError, WriteError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.run.files import Journal, sha256_of

LATEST = "latest"


def new_folder(root: Path, spec: str, digest: str, started: datetime) -> Path:
    """Make the folder of a new run; numbered where two start in one second, also in two processes.

    Raises:
        WriteError: It can't be made.
    """
    base = root / "reports" / spec / f"{started.strftime('%Y%m%dT%H%M%SZ')}-{digest[:8]}"
    for number in itertools.count(1):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            if folder.exists():
                continue
            raise _unwritable(folder, "a file stands in its way") from None
        except OSError as error:
            raise _unwritable(folder, error.strerror or str(error)) from error
        return folder
    raise AssertionError("there is always a next number")


def _unwritable(folder: Path, reason: str) -> WriteError:
    return WriteError(f"the folder {folder} can't be made: {reason}; name another place with --output")


def fresh(folder: Path) -> Path:
    """A folder that a run may be written to.

    Raises:
        SpecError: It holds something already.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SpecError(f"--output {folder} is not empty; name another folder, or pass --resume to go on with its run")
    return folder


def discard(folder: Path, *, keep: bool) -> None:
    """Remove what a run that was refused has written.

    Args:
        folder: Its folder, which was empty or not there before.
        keep: The folder itself stays.
    """
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not keep:
        with contextlib.suppress(OSError):
            folder.rmdir()


def intact(record: CheckRecord, folder: Path) -> bool:
    """The evidence of a check lies in a folder as it was written."""
    places = ((folder / file.path, file.digest) for file in record.evidence)
    return all(path.is_file() and sha256_of(path) == digest for path, digest in places)


def point_latest(folder: Path) -> None:
    """Let ``latest`` beside a run point to it."""
    link = folder.parent / LATEST
    temporary = folder.parent / f".{LATEST}-{os.getpid()}"
    try:
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(folder.name, target_is_directory=True)
        temporary.replace(link)
    except OSError:
        temporary.unlink(missing_ok=True)


def find_unfinished(output: Path | None, root: Path, spec: str, digest: str) -> Path:
    """The newest run of this spec, word for word the same, that has no end in its journal.

    Raises:
        RecordError: There is none, or another process is at it.
    """
    folders = [output] if output is not None else sorted((root / "reports" / spec).glob("2*"), reverse=True)
    for folder in folders:
        events = Journal(folder / "journal.jsonl").read()
        begun = next((event for event in events if event["event"] == "start"), None)
        if begun is not None and begun.get("spec") == digest and not any(e["event"] == "end" for e in events):
            journal = Journal(folder / "journal.jsonl")
            if not journal.hold():
                raise RecordError(f"the run in {folder} is still going on; wait for it, or end it before --resume")
            journal.let_go()
            return folder
    where = output if output is not None else root / "reports" / spec
    raise RecordError(
        f"there is no unfinished run of this spec, as it reads now, in {where}; leave out --resume to start a new one, "
        "or measure again by --remeasure RUN what a run that has ended could not measure on a busy machine"
    )


def read_record(folder: Path) -> Record:
    """The record of a run.

    Raises:
        RecordError: There is none, or it can't be read.
    """
    path = folder / "record.json" if folder.is_dir() else folder
    try:
        return Record.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{folder} holds no record.json ({error.strerror}); name the folder of a run") from error
    except (ValidationError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise RecordError(f"{path} is no record that this version reads: {first}") from error


def records_in(reports: Path, pattern: str = "2*", *, but: Path | None = None) -> Iterator[Record]:
    """Readable records of the runs of a spec, newest first.

    Args:
        reports: The folder that holds the spec's runs.
        pattern: What their folders are called.
        but: The folder of a run to leave out.
    """
    for path in sorted(reports.glob(f"{pattern}/record.json"), reverse=True):
        # `latest` is one of the others under a second name.
        if path.parent == but or path.parent.is_symlink():
            continue
        try:
            yield read_record(path.parent)
        except RecordError:
            continue


def earlier_runs(folder: Path, root: Path, record: Record) -> int:
    """Decided runs before this one on a test set of this one, of any subject (run-until-green is visible).

    Args:
        folder: Of this run.
        root: The folder that holds ``reports``: runs of every spec in it count, whatever the spec is called now.
        record: Of this run.
    """
    judged = _judged_on(record)
    gone_on = {(one.started, record.spec_digest) for one in record.continues}
    specs = {path for path in (root / "reports").glob("*") if path.is_dir()} - {folder.parent}
    others = [record for spec in specs for record in records_in(spec)] + list(
        records_in(folder.parent, "*", but=folder)
    )
    return sum(
        1
        for other in others
        if other.started <= record.started
        # What this run goes on from decided nothing of what was measured again.
        and (other.started, other.spec_digest) not in gone_on
        and not (other.draft or other.only or other.interrupted)
        and other.verdict is not None
        and other.verdict.word != "ERROR"
        and judged & _judged_on(other)
    )


def _judged_on(record: Record) -> set[str]:
    """Digests of the datasets that models were judged on; without such, one for all of them together."""
    names = {name for check in record.checks if check.dimension == "model" for name in check.datasets}
    if not names:
        return {" ".join(sorted(one.digest for one in record.datasets))}
    return {one.digest for one in record.datasets if one.name in names}
