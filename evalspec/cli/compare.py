"""``evalspec compare``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspec.cli._output import AllowOutside, Json, echo, echo_json

if TYPE_CHECKING:
    from evalspec.records.compare import RequirementChange, RunComparison
    from evalspec.records.flips import Flips

NOTHING = 2
"""No requirement could be compared."""


def command(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the earlier run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the later run.")],
    ratio: Annotated[
        float, typer.Option("--ratio", min=0.0, help="Percent by which a timing and its like must change to count.")
    ] = 3.0,
    points: Annotated[
        float, typer.Option("--points", min=0.0, help="Percentage points by which a fraction must change to count.")
    ] = 0.5,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
) -> None:
    """Show what changed from one run to another, with intervals; refuse what is not comparable and say why.

    Exit codes: 0 no regression is shown, 1 one is, 2 nothing could be compared.
    """
    from evalspec.records.compare import Smallest, compare

    found = compare(first, second, Smallest(ratio=ratio / 100.0, points=points / 100.0), allow_outside=allow_outside)
    if as_json:
        echo_json(_plain(found))
    else:
        for line in _lines(found):
            echo(line)
    raise typer.Exit(1 if found.regressions else 0 if found.comparable else NOTHING)


def _lines(found: RunComparison) -> list[str]:
    counts = Counter(row.word for row in found.rows)
    lines = [f"verdict: {found.verdicts[0]}, then {found.verdicts[1]}"]
    lines += [f"note: {note}" for note in found.notes]
    lines += [", ".join(f"{count} {word}" for word, count in counts.items()) or "no requirement in either run", ""]
    for row in found.rows:
        lines += _row(row)
    for one in found.flips:
        lines.append(_flips(one))
    others = _asked(found)
    if others:
        lines += ["", "asked otherwise by the later run:", *(f"  {line}" for line in others)]
    if found.differs:
        lines += ["", "also different between the runs:"]
        lines += [f"  {name}: {old}, then {new}" for name, old, new in found.differs]
    level = f"{100.0 * (1.0 - found.alpha):.4g} %"
    lines += ["", f"Intervals of changes hold at {level} each side, so that all of them hold together."]
    return lines


def _asked(found: RunComparison) -> list[str]:
    """Changes of what is asked that do not stand beside their requirement already."""
    from evalspec.lineage.spec_diff import words

    beside = {row.name for row in found.rows if row.notes}
    return [words(one) for one in found.asked if one.of not in beside]


def _row(row: RequirementChange) -> list[str]:
    status = row.after if row.before == row.after else f"{row.before or 'absent'}, then {row.after or 'absent'}"
    said = "; ".join(part for part in (row.values, row.change) if part)
    lines = [f"{row.word:<16} {row.name} [{status}]" + (f": {said}" if said else "")]
    return lines + [f"{'':<16} {note}" for note in row.notes]


def _flips(one: Flips) -> str:
    from evalspec.records.flips import SHOWN

    start = f"rows of {one.dataset} by {one.model}: {one.changed:,} of {one.rows:,} answered otherwise"
    if one.fixed is None or one.broken is None:
        return f"{start} ({one.why})"
    listed = ", ".join(str(row) for row in one.broken[:SHOWN])
    more = ", ..." if len(one.broken) > SHOWN else ""
    rows = f" (rows {listed}{more}, counted from 0)" if one.broken else ""
    return f"{start}, {len(one.fixed):,} fixed, {len(one.broken):,} broken{rows}"


def _plain(found: RunComparison) -> dict[str, Any]:
    return {
        "verdicts": list(found.verdicts),
        "alpha": found.alpha,
        "notes": list(found.notes),
        "requirements": [
            {"name": row.name, "word": row.word, "before": row.before, "after": row.after, "values": row.values,
             "change": row.change, "notes": list(row.notes)}
            for row in found.rows
        ],
        "rows": [
            {"dataset": one.dataset, "model": one.model, "rows": one.rows, "changed": one.changed,
             "fixed": one.fixed, "broken": one.broken, "why": one.why}
            for one in found.flips
        ],
        "asked": [one.model_dump(exclude={"run"}) for one in found.asked],
        "differs": [{"field": name, "before": old, "after": new} for name, old, new in found.differs],
    }  # fmt: skip
