"""What a run asks otherwise than an earlier one: from both records, and from the specs that lie beside them."""

from __future__ import annotations

from pathlib import Path

from evalspec.errors import SpecError
from evalspec.evidence.otherwise import asked_otherwise, settings_otherwise
from evalspec.evidence.record import AskedOtherwise, Record
from evalspec.language.yaml import Value, read_file
from evalspec.run.folders import BASELINES

SPEC_FILE = "spec.yaml"


def otherwise(first: Path, before: Record, second: Path, after: Record) -> tuple[AskedOtherwise, ...]:
    """Everything that the later run asks otherwise, as far as it is written down.

    Args:
        first: Folder of the earlier run.
        before: Its record.
        second: Folder of the later run.
        after: Its record.
    """
    if before.spec_digest == after.spec_digest and before.profile == after.profile:
        return ()
    place = first.resolve()
    run = f"{BASELINES}/{place.name}" if place.parent.name == BASELINES else place.name
    return (*asked_otherwise(before, after, run), *settings_otherwise(_spec(first), _spec(second), run))


def _spec(folder: Path) -> Value:
    """The spec beside a record, as it was run; None: there is none that can be read."""
    try:
        return read_file(folder / SPEC_FILE, SPEC_FILE)[1].value
    except SpecError:
        return None
