"""Folders of runs: ``reports/<spec name>/<time>-<short digest>/``, ``latest`` pointing to the newest."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from evalspec.errors import NotRunError, RecordError, SpecError, WriteError
from evalspec.evidence.record import ModelRecord, PreviousRun, Record
from evalspec.running.files import Journal, make_folder
from evalspec.version import __version__

LATEST = "latest"
JOURNAL = "journal.jsonl"
RECORD = "record.json"
INPUTS = "inputs"
"""In the folder of a run: what a program handed over in memory."""
BASELINES = "baselines"
"""Beside a spec: the folder of the runs that were blessed."""


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
            raise _unwritable(folder, "a file is in its way") from None
        except OSError as error:
            raise _unwritable(folder, error.strerror or str(error)) from error
        return folder
    raise AssertionError("there is always a next number")


def _unwritable(folder: Path, reason: str) -> WriteError:
    return WriteError(f"the folder {folder} can't be made: {reason}; name another place with --output")


def claim(folder: Path) -> Journal:
    """Make a folder, or take an empty one, for a new run; of several processes that try at once one gets it.

    Returns:
        Its journal, held.

    Raises:
        SpecError: It holds something already, or belongs to another run.
        WriteError: It can't be made.
    """
    journal = Journal(folder / JOURNAL)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _taken(folder)
    make_folder(folder)
    if not journal.create():
        raise _taken(folder)
    if any(path.name != JOURNAL for path in folder.iterdir()):
        # Somebody else wrote there after it was looked at.
        journal.path.unlink(missing_ok=True)
        journal.let_go()
        raise _taken(folder)
    return journal


def _taken(folder: Path) -> SpecError:
    return SpecError(f"--output {folder} is not empty; name another folder, or pass --resume to continue its run")


def discard(journal: Journal, *, keep: bool) -> None:
    """Remove what a refused run has written, and let its folder go.

    Args:
        journal: Of it, held, in a folder which was empty or not there before.
        keep: The folder itself stays.
    """
    folder = journal.path.parent
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path != journal.path:
            path.unlink(missing_ok=True)
    # The last: as long as it is there nobody else takes the folder.
    journal.path.unlink(missing_ok=True)
    journal.let_go()
    if not keep:
        with contextlib.suppress(OSError):
            folder.rmdir()


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


def find_unfinished(output: Path | None, root: Path, spec: str, digest: str, profile: str | None = None) -> Journal:
    """The newest run of this spec and its profile, word for word the same, that has no end in its journal.

    Returns:
        Its journal, held.

    Raises:
        RecordError: There is none, or another process is at it.
    """
    folders = [output] if output is not None else sorted((root / "reports" / spec).glob("2*"), reverse=True)
    for folder in folders:
        journal = Journal(folder / JOURNAL)
        if not _unfinished(journal, digest, profile):
            continue
        if not journal.hold():
            raise RecordError(
                f"the run in {folder} is still in progress; wait for it, or stop it before you use --resume"
            )
        if _unfinished(journal, digest, profile):
            return journal
        # It has ended between the look and the lock.
        journal.let_go()
    where = f"{output}" if output is not None else f"{root / 'reports' / spec} (--output names another folder)"
    told = " and its profile, as they are" if profile else ", as it reads"
    raise RecordError(
        f"there is no unfinished run of this spec{told} now, in {where}; leave out --resume to start a new one, "
        "or use --remeasure RUN to measure again what a finished run could not measure on a busy machine"
    )


def _unfinished(journal: Journal, digest: str, profile: str | None) -> bool:
    events = journal.read()
    begun = next((event for event in events if event["event"] == "start"), None)
    same = begun is not None and (begun.get("spec"), begun.get("profile")) == (digest, profile)
    return same and not any(event["event"] == "end" for event in events)


def folder_of(run: Path) -> Path:
    """The folder of a run, also where its record was named."""
    return run.parent if run.name == RECORD and run.is_file() else run


def read_record(folder: Path) -> Record:
    """The record of a run.

    Raises:
        RecordError: There is none, or it can't be read.
    """
    path = folder / RECORD if folder.is_dir() else folder
    try:
        return Record.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"{folder} holds no record.json ({error.strerror}); name the folder of a run") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise RecordError(f"{path} is not a record that this version can read: {_unlike(error)}") from error


def _unlike(error: ValidationError | UnicodeDecodeError) -> str:
    """Reason why a file is no record, in words."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    first = error.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(one) for one in first["loc"])
    if place == "version":
        return f"its version is {first['input']!r}, and this is evalspec {__version__}; a newer version may read it"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{f'{place}: ' if place else ''}{first['msg']}{more}"


def records_in(reports: Path, pattern: str = "2*", *, but: Path | None = None) -> Iterator[Record]:
    """Readable records of the runs of a spec, newest first; see `runs_in`."""
    return (record for _, record in runs_in(reports, pattern, but=but))


def runs_in(reports: Path, pattern: str = "2*", *, but: Path | None = None) -> Iterator[tuple[Path, Record]]:
    """Folders of the runs of a spec and their records, newest first, as far as they can be read.

    Args:
        reports: The folder that holds the spec's runs.
        pattern: What their folders are called.
        but: The folder of a run to leave out.
    """
    for folder in run_folders(reports, pattern):
        if folder == but:
            continue
        try:
            yield folder, read_record(folder)
        except RecordError:
            continue


def run_folders(reports: Path, pattern: str = "*") -> list[Path]:
    """Folders that hold a record, the last by name first; without ``latest``, which only links to one of them."""
    folders = sorted((path.parent for path in reports.glob(f"{pattern}/record.json")), reverse=True)
    return [folder for folder in folders if not folder.is_symlink()]


@dataclass(frozen=True, slots=True)
class Earlier:
    """Decided runs that came before a run.

    Args:
        runs: On a test set of it, of any subject.
        of_subject: Of these, of its subject.
        last: Folder and record of the last one of the same spec, on whatever rows; None: there is none.
    """

    runs: int
    of_subject: int
    last: tuple[Path, Record] | None


def earlier_runs(folder: Path, root: Path, record: Record) -> Earlier:
    """Decided runs before this one (run-until-green is visible).

    Args:
        folder: Of this run.
        root: The folder that holds ``reports``: runs of every spec in it count, whatever the spec is called now.
        record: Of this run.
    """
    judged = _judged_on(record)
    gone_on = {(one.started, record.spec_digest) for one in record.continues}
    specs = {path for path in (root / "reports").glob("*") if path.is_dir()} - {folder.parent}
    runs = of_subject = 0
    last: tuple[Path, Record] | None = None
    for place, other in itertools.chain(*(runs_in(spec) for spec in specs), runs_in(folder.parent, "*", but=folder)):
        # What this run goes on from decided nothing of what was measured again.
        if other.started > record.started or (other.started, other.spec_digest) in gone_on or not _decided(other):
            continue
        if judged & _judged_on(other):
            runs += 1
            of_subject += record.subject is not None and other.subject == record.subject
        newer = last is None or (last[1].started, last[0].name) < (other.started, place.name)
        if other.spec == record.spec and newer:
            last = place, other
    return Earlier(runs, of_subject, last)


def previous_run(last: tuple[Path, Record] | None) -> PreviousRun | None:
    """Facts that a record keeps of the decided run before it; None: there was none.

    Args:
        last: Its folder and its record.
    """
    if last is None or last[1].verdict is None:
        return None
    place, record = last
    assert record.verdict is not None
    return PreviousRun(
        run=place.name,
        started=record.started,
        word=record.verdict.word,
        subject=record.subject,
        statuses={one.name: one.status for one in record.verdict.decisions},
    )


def last_blessed(folder: Path, record: Record) -> tuple[Path, Record] | None:
    """The last blessed run of a spec: what a run is held against where none before it has been kept.

    Args:
        folder: Of the spec.
        record: Of this run.
    """
    kept = [
        (place, other)
        for place, other in runs_in(folder / BASELINES, "*")
        if other.spec == record.spec and other.started <= record.started and _decided(other)
    ]
    return max(kept, key=lambda one: (one[1].started, one[0].name), default=None)


def _decided(record: Record) -> bool:
    part = record.draft or record.only or record.interrupted
    return not part and record.verdict is not None and record.verdict.word != "ERROR"


def _judged_on(record: Record) -> set[str]:
    """Digests of the datasets that models were judged on; without such, one for all of them together."""
    names = {name for check in record.checks if check.dimension == "model" for name in check.datasets}
    if not names:
        return {" ".join(sorted(one.digest for one in record.datasets))}
    return {one.digest for one in record.datasets if one.name in names}


def timings_of(folder: Path | None, models: Mapping[str, ModelRecord]) -> Path | None:
    """Folder of the run whose raw timings are used, made sure of; None: they are measured.

    Args:
        folder: As the caller named it.
        models: Of this run, by name.

    Raises:
        NotRunError: They are of another subject.
    """
    if folder is not None:
        before = {model.name: model.digest for model in read_record(folder).models}
        if any(before.get(name) != model.digest for name, model in models.items()):
            raise NotRunError(f"the timings in {folder.name} are of other models")
    return folder
