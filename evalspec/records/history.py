"""The history of a spec, from the records on disk; an index beside them only saves the time to read them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evalspec.errors import RecordError, SpecError, did_you_mean
from evalspec.evidence.words import and_list
from evalspec.language.registry import discover
from evalspec.language.yaml import read_file
from evalspec.lineage.history import History, PastRun, past_run, trends
from evalspec.records import history_index as index
from evalspec.records.outputs import read_decided, verdict_of
from evalspec.running.folders import RECORD, run_folders
from evalspec.running.spec_diff import SPEC_FILE, spec_beside


def history(runs: Path, spec: str | None = None, *, last: int | None = None) -> History:
    """The runs in a folder, oldest first, and each requirement over them.

    What is told is what the records say; the index beside them, ``.history.sqlite``, is made anew where it is stale,
    damaged or gone, and done without where it can't be written.

    Args:
        runs: The folder that holds the folders of the runs.
        spec: Runs of this spec only; None: there must be only one.
        last: So many of the newest runs; None: all.

    Raises:
        RecordError: No run is there, or runs of several specs are.
    """
    if not runs.is_dir():
        raise RecordError(f"there is no folder {runs}; name the folder that holds the runs")
    found, unread = _read(runs)
    names = sorted({one.spec for one in found})
    if spec is None and len(names) > 1:
        raise RecordError(
            f"{runs} holds runs of several specs: {', '.join(names)}; name one: evalspec history SPEC --runs {runs}"
        )
    mine = [one for one in found if spec is None or one.spec == spec]
    if not mine:
        what = f"no run of {spec}" if spec is not None and found else "no run whose record can be read"
        others = f"; it has runs of {and_list(names)}" if names else ""
        reasons = f": {unread[0][0]}: {unread[0][1]}" if unread else ""
        raise RecordError(f"{runs} holds {what}{others}{reasons}")
    mine.sort(key=lambda one: (one.started, one.run))
    whole = [one for one in mine if not one.draft]
    if not whole:
        raise RecordError(f"{runs} holds only drafts, and a draft decides nothing")
    shown = tuple(whole if last is None else whole[-last:])
    return History(
        spec=shown[-1].spec,
        runs=shown,
        trends=trends(shown),
        earlier=len(whole) - len(shown),
        drafts=len(mine) - len(whole),
        unread=unread,
    )


def find_runs(where: Path, root: Path) -> Path:
    """The folder that holds the runs which a user means.

    Args:
        where: A spec file, a run, a folder of runs, or a folder that holds ``reports``.
        root: Where the spec's runs land: the folder that holds ``reports``.

    Raises:
        RecordError: There are no runs, or those of several specs.
        SpecError: The file is no spec.
    """
    if where.is_file() and where.name != RECORD:
        folder = root / "reports" / spec_name(where)
        if not (folder.is_dir() and run_folders(folder)):
            raise RecordError(f"there is no run of {where} in {folder}; `evalspec run {where}` makes one")
        return folder
    if not where.exists():
        raise RecordError(f"there is no {where}; name a spec, a run, or a folder of runs")
    where = where.resolve() if where.is_dir() else where.resolve().parent
    if (where / RECORD).is_file():
        return where.parent
    if run_folders(where):
        return where
    reports = where / "reports" if (where / "reports").is_dir() else where
    specs = [one for one in sorted(reports.iterdir()) if one.is_dir() and run_folders(one)]
    if len(specs) == 1:
        return specs[0]
    if specs:
        names = ", ".join(one.name for one in specs)
        raise RecordError(f"{reports} holds runs of several specs: {names}; name one of these folders")
    raise RecordError(f"there is no run in {where}; `evalspec run SPEC` makes one")


def spec_name(path: Path) -> str:
    """Name that a spec file gives itself; nothing else of it need be right.

    Raises:
        SpecError: It is no YAML, or has no name.
    """
    name = read_file(path, str(path))[1].find(["name"])
    if name is None or not isinstance(name.content, str):
        raise SpecError(f"{path} has no `name:`, so it is not a spec; name a spec, a run, or a folder of runs")
    return name.content


def _read(runs: Path) -> tuple[list[PastRun], tuple[tuple[str, str], ...]]:
    """Outcome of every record, and those that could not be read with the reason."""
    known = index.load(runs)
    entries: dict[str, index.IndexEntry] = {}
    found: list[PastRun] = []
    unread: list[tuple[str, str]] = []
    registry = discover()
    for folder in run_folders(runs):
        try:
            stamp = index.stamp_of(folder / RECORD, folder / SPEC_FILE)
            one = _kept(known.get(folder.name), stamp)
            if one is None:
                record = read_decided(folder)
                one = past_run(record, verdict_of(record), folder.name, spec_beside(folder, registry))
                entries[folder.name] = index.IndexEntry(stamp, one.model_dump_json())
            else:
                entries[folder.name] = known[folder.name]
            found.append(one)
        except RecordError as error:
            unread.append((folder.name, str(error)))
        except OSError as error:
            unread.append((folder.name, f"its record can't be read: {error.strerror or error}"))
    if entries != known:
        index.save(runs, entries)
    return found, tuple(sorted(unread))


def _kept(entry: index.IndexEntry | None, stamp: str) -> PastRun | None:
    if entry is None or entry.stamp != stamp:
        return None
    try:
        return PastRun.model_validate_json(entry.text)
    except ValidationError:
        return None


def only(found: History, requirements: Sequence[str]) -> History:
    """A history of these requirements only; none named: of all.

    Raises:
        RecordError: No run asked for one of them.
    """
    names = [trend.name for trend in found.trends]
    for name in requirements:
        if name not in names:
            near = did_you_mean(name, names)
            raise RecordError(
                f"no run of {found.spec} asks for {name!r}; " + (near or f"its requirements: {', '.join(names)}")
            )
    kept = tuple(trend for trend in found.trends if trend.name in requirements)
    return replace(found, trends=kept) if requirements else found


def to_json(found: History) -> dict[str, Any]:
    """A history for machines."""
    return {
        "spec": found.spec,
        "runs": [one.model_dump(mode="json", exclude={"points", "spec"}) for one in found.runs],
        "requirements": [
            {
                "name": trend.name,
                "points": [
                    {
                        "run": run.run,
                        **place.point.model_dump(mode="json", exclude={"name"}),
                        "not_comparable": place.breaks or None,
                        "notes": list(place.notes),
                    }
                    for run, place in zip(found.runs, trend.places, strict=True)
                    if place.point is not None
                ],
            }
            for trend in found.trends
        ],
        "earlier": found.earlier,
        "drafts": found.drafts,
        "unread": [{"run": run, "why": why} for run, why in found.unread],
    }
