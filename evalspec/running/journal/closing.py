"""The end of a run: its record, and in its journal all that the record says, with the digests of what was written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from evalspec.errors import RecordError
from evalspec.evidence.record import Record
from evalspec.loading import PROFILE_FILE
from evalspec.running.files import Journal, sha256_of, write_atomically
from evalspec.running.folders import RECORD
from evalspec.version import __version__

JOURNAL = "journal.jsonl"
ENDS = ("end", "interrupted")
"""Events that close a run; one that was interrupted may be gone on with."""
OF_A_CHECK = ("check", "final")
"""Events that hold the record of a check; of several the last holds."""
KEPT = ("spec.yaml", PROFILE_FILE)
"""Files of its spec that a run keeps, whose digests its journal holds beside that of the record."""


def write_record(record: Record, folder: Path, journal: Journal) -> None:
    """Write ``record.json``; the journal takes all of it that it has not yet, but for the verdict, which follows.

    Args:
        record: Of the run.
        folder: Of the run.
        journal: Of the run, with a line for each check that was measured or tried.

    Raises:
        WriteError: One of them can't be written.
    """
    written = {event.get("id"): event.get("record") for event in journal.read() if event["event"] in OF_A_CHECK}
    for check in record.checks:
        # What became of a check after its line: it was voided at the end, or was never reached.
        if (said := check.model_dump(mode="json")) != written.get(check.id):
            journal.write("final", id=check.id, record=said)
    text = record.model_dump_json(indent=1) + "\n"
    write_atomically(folder / RECORD, text)
    digests = {name: sha256_of(folder / name) for name in KEPT if (folder / name).is_file()}
    journal.write(
        "interrupted" if record.interrupted else "end",
        verdict=record.verdict.word if record.verdict else None,
        rule=record.verdict.rule if record.verdict else None,
        record=json.loads(record.model_dump_json(exclude={"checks", "verdict"})),
        checks=[check.id for check in record.checks],
        digests={RECORD: hashlib.sha256(text.encode()).hexdigest(), **digests},
    )


def check_as_written(folder: Path) -> None:
    """Hold the record of a run against the digest that its journal has of it.

    Args:
        folder: Of a run that has ended.

    Raises:
        RecordError: It is another one. A journal that holds no digest, such as an older one, says nothing.
    """
    journal = Journal(folder / JOURNAL)
    ends = [event for event in journal.read() if event["event"] in ENDS]
    digests = ends[-1].get("digests") if ends else None
    noted = digests.get(RECORD) if isinstance(digests, dict) else None
    if noted is not None and noted != sha256_of(folder / RECORD):
        raise RecordError(
            f"{RECORD} in {folder} is not what the run wrote; `evalspec verify {folder}` says what else differs"
        )


def note_pages(folder: Path, digests: dict[str, str]) -> None:
    """Have the journal of a run hold the digests of its pages, where it doesn't hold these already.

    Args:
        folder: Of the run; one without a journal, such as a baseline, gets none.
        digests: File: sha256 of its bytes.

    Raises:
        WriteError: It can't be written.
    """
    journal = Journal(folder / JOURNAL)
    if not journal.path.is_file():
        return
    before = [event.get("digests") for event in journal.read() if event["event"] == "pages"]
    if not before or before[-1] != digests:
        journal.write("pages", evalspec=__version__, digests=digests)
