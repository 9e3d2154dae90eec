"""``evalspec compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evalspec.cli._output import AllowOutside, Json, echo, echo_json, echo_text
from evalspec.cli._pages import check_page, report_link, write_page

if TYPE_CHECKING:
    from evalspec.lineage.run_comparison import RequirementChange, RunComparison

NOTHING = 2
"""No requirement could be compared."""


def command(
    first: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of the earlier run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the later run.")],
    ratio: Annotated[
        float,
        typer.Option("--ratio", min=0.0, help="Percent by which timings, memory and energy must change to count."),
    ] = 3.0,
    points: Annotated[
        float, typer.Option("--points", min=0.0, help="Percentage points by which a fraction must change to count.")
    ] = 0.5,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for a comment on a change.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE.html", help="Write a page that links to both reports.")
    ] = None,
    allow_outside: AllowOutside = False,
    as_json: Json = False,
) -> None:
    """Show what changed from one run to another, with intervals; refuse what is not comparable and say why.

    Exit codes: 0 no regression is shown, 1 one is, 2 nothing could be compared.
    """
    from evalspec.records.compare import Smallest, compare

    if output is not None:
        check_page(output)
    found = compare(first, second, Smallest(ratio=ratio / 100.0, points=points / 100.0), allow_outside=allow_outside)
    if output is not None:
        _write(found, output, first, second)
    if as_json:
        echo_json(_plain(found))
    elif markdown:
        from evalspec.report.comparison import comparison_markdown

        echo_text(comparison_markdown(found))
    else:
        for line in _lines(found):
            echo(line)
        if output is not None:
            echo(f"comparison: {output}")
    raise typer.Exit(1 if found.regressions else 0 if found.comparable else NOTHING)


def _write(found: RunComparison, output: Path, first: Path, second: Path) -> None:
    from evalspec.report.comparison import comparison_page

    write_page(output, comparison_page(found, (report_link(output, first), report_link(output, second))))


def _lines(found: RunComparison) -> list[str]:
    from evalspec.lineage.run_comparison import count_words
    from evalspec.lineage.spec_diff import words
    from evalspec.report.comparison import flip_words, levels

    lines = [f"verdict: {found.verdicts[0]}, then {found.verdicts[1]}"]
    lines += [f"note: {note}" for note in found.notes]
    lines += [count_words(found.rows), ""]
    for row in found.rows:
        lines += _row(row)
    lines += [flip_words(one) for one in found.flips]
    if found.asked_elsewhere:
        lines += ["", "the later run requires something else:", *(f"  {words(one)}" for one in found.asked_elsewhere)]
    if found.differs:
        lines += ["", "also different between the runs:"]
        lines += [f"  {name}: {old}, then {new}" for name, old, new in found.differs]
    lines += ["", levels(found)]
    return lines


def _row(row: RequirementChange) -> list[str]:
    from evalspec.report.comparison import status_words

    said = "; ".join(part for part in (row.values, row.change) if part)
    lines = [f"{row.word:<16} {row.name} [{status_words(row)}]" + (f": {said}" if said else "")]
    return lines + [f"{'':<16} {note}" for note in row.notes]


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
