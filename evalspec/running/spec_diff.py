"""Changes in what a run asks since an earlier one: from both records, and from the specs that lie beside them."""

from __future__ import annotations

from pathlib import Path

from evalspec.errors import SpecError
from evalspec.evidence.record import AskedOtherwise, Record
from evalspec.language.registry import DIMENSIONS, Registry, discover
from evalspec.language.yaml import Value, read_file
from evalspec.lineage.spec_diff import asked_otherwise, settings_otherwise
from evalspec.running.folders import BASELINES

SPEC_FILE = "spec.yaml"


def otherwise(first: Path, before: Record, second: Path, after: Record) -> tuple[AskedOtherwise, ...]:
    """Everything that the later run asks otherwise, as far as this is written down.

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
    registry = discover()
    specs = spec_beside(first, registry), spec_beside(second, registry)
    return (*asked_otherwise(before, after, run), *settings_otherwise(*specs, run))


def since_before(
    last: tuple[Path, Record] | None, blessed: tuple[Path, Record] | None, folder: Path, record: Record
) -> tuple[AskedOtherwise, ...]:
    """Changes in what a run asks since the one before it, and where it still asks less than the last one blessed.

    Without the second, a loosened threshold would be reported once, and no more when the same run is made again.

    Args:
        last: Folder and record of the last decided run of the spec; None: none was kept.
        blessed: Of the last one that was blessed; None: none was.
        folder: Of this run.
        record: Of this run.
    """
    earlier = last or blessed
    changes = () if earlier is None else otherwise(*earlier, folder, record)
    if last is None or blessed is None:
        return changes
    told = {(one.of, one.direction) for one in changes}
    more = otherwise(*blessed, folder, record)
    return (*changes, *(one for one in more if one.direction != "tightened" and (one.of, one.direction) not in told))


def spec_beside(folder: Path, registry: Registry) -> Value:
    """The spec beside a record as it was run, without fields that repeat a default; None where none can be read.

    Args:
        folder: Of the record.
        registry: The kinds of check there are.
    """
    try:
        spec = read_file(folder / SPEC_FILE, SPEC_FILE)[1].value
    except SpecError:
        return None
    if not isinstance(spec, dict):
        return None
    listed = {name: many for name in DIMENSIONS if isinstance(many := spec.get(name), list)}
    return {**spec, **{name: [_set(one, registry) for one in many] for name, many in listed.items()}}


def _set(entry: Value, registry: Registry) -> Value:
    """Fields of a check that are not its defaults."""
    if not isinstance(entry, dict):
        return entry
    try:
        fields = registry.check(str(entry.get("check"))).model_fields
    except SpecError:
        return entry
    kept = {key for key in entry if key in ("check", "id") or key not in fields or fields[key].default != entry[key]}
    return {key: value for key, value in entry.items() if key in kept}
