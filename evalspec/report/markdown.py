"""A run in Markdown, short enough for the summary of a CI step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from evalspec.errors import RecordError
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Verdict
from evalspec.evidence.visible import visible
from evalspec.evidence.words import plural, short_digest
from evalspec.report.aside import Aside, asides
from evalspec.report.checks import LEADS, TITLES, dimensions
from evalspec.report.names import shorten
from evalspec.report.next_steps import Step, next_steps
from evalspec.report.page import cautions
from evalspec.report.reproduce import took, when
from evalspec.report.requirements import RequirementRow, requirement_rows
from evalspec.report.unasked import TITLE, suspicions
from evalspec.report.words import NOT_JUDGED, WORST_FIRST, badge, label

LIMIT = 60_000
ROWS_LIMIT = 50_000
MAX_LINES = 30
MAX_CELL = 400
STATES = {"not_run": "NOT RUN", "invalid": "NOT JUDGED", "error": "ERROR"}

_SPECIAL = re.compile(r"([\\`*\[\]~|$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")


def markdown(record: Record, verdict: Verdict | None = None) -> str:
    """The run as Markdown: verdict, what weakens it, requirements worst first, one line per dimension.

    Args:
        record: The run.
        verdict: What was decided of it; default: what the record holds.

    Returns:
        Less than 60,000 bytes of UTF-8; where requirements are left out, it says how many and how they ended.

    Raises:
        RecordError: There is no verdict.
    """
    verdict = verdict_of(record, verdict)
    rows = requirement_rows(record, verdict)
    parts = [
        _top(record, verdict),
        _steps(record, verdict, rows),
        _unasked(record),
        _weakened(record, verdict, rows),
        _dimensions(record, rows),
        _table(rows),
        _not_tested(record),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    return text.encode()[: LIMIT - 1].decode(errors="ignore")


def verdict_of(record: Record, verdict: Verdict | None) -> Verdict:
    """The verdict given, or the record's own.

    Raises:
        RecordError: There is neither.
    """
    found = verdict or record.verdict
    if found is None:
        raise RecordError(
            f"the record of {record.spec!r} holds no verdict; run `evalspec report` on its folder to make one"
        )
    return found


def escape(text: str, limit: int = MAX_CELL) -> str:
    """Text from data as Markdown that shows it and does nothing else, on one line."""
    plain = shorten(" ".join(visible(text).split()), limit)
    plain = plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("://", ":&#47;&#47;")
    plain = _SPECIAL.sub(r"\\\1", plain)
    return re.sub(r"^(\d*)([#+.)-])(?=\s|$)", r"\1\\\2", plain).replace("@", "&#64;")


def prose(text: str, limit: int = MAX_CELL) -> str:
    """As `escape`, but what stands between a pair of backticks stays code."""
    parts = shorten(text, limit).split("`")
    if len(parts) % 2 == 0:
        return escape(text, limit)
    return "".join(code(part) if index % 2 else _spaced(part) for index, part in enumerate(parts))


def _spaced(text: str) -> str:
    made = escape(text)
    return made and (" " if text[:1].isspace() else "") + made + (" " if text[-1:].isspace() else "")


def code(text: str) -> str:
    """Text from data as code, on one line."""
    plain = shorten(" ".join(visible(text).split()), MAX_CELL).replace("`", "'")
    if "\\|" in plain:
        # In a table the backslash would be taken for one that stands before the next, and the cell would end here.
        return escape(text)
    plain = plain.replace("|", "\\|")
    return f"`{plain}`" if plain else ""


def _top(record: Record, verdict: Verdict) -> str:
    facts = [
        code(record.spec),
        f"subject {code(short_digest(record.subject))}",
        f"profile {code(record.profile.name)}" if record.profile is not None else "",
        escape(when(record.started)),
        took(record),
    ]
    order: dict[str, int] = {name: index for index, name in enumerate(WORST_FIRST)}
    ranked = sorted(verdict.counts.items(), key=lambda item: order.get(item[0], len(order)))
    counts = ", ".join(f"{count} {escape(' '.join(map(label, name.split())))}" for name, count in ranked if count)
    lines = [
        f"## {escape(verdict.headline)}",
        prose(verdict.reason, 1_000),
        " · ".join(fact for fact in facts if fact),
        counts,
    ]
    return "\n\n".join(line for line in lines if line)


def _steps(record: Record, verdict: Verdict, rows: Sequence[RequirementRow]) -> str:
    """Things to do, as the page has them."""
    found = next_steps(record, verdict, rows)
    lines = [_step(number, step) for number, step in enumerate(found.steps, 1)]
    lines += [f"{found.more} more are in the table."] if found.more else []
    return "### What to do\n\n" + "\n".join(lines) if lines else ""


def _step(number: int, step: Step) -> str:
    why = f" *{escape(step.why)}*" if step.why else ""
    owner = f" Owner: {escape(step.owner)}." if step.owner else ""
    checks = ", ".join(escape(check) for _, check in step.targets)
    title = f"{'Warning: ' if step.warns else ''}{escape(step.title)}"
    # What others wrote may hold markup and half of a pair of backticks: nothing of it is code then.
    text = escape(step.text) if "<" in step.text else prose(step.text)
    return f"{number}. **{title}** ({checks}). {text}{why}{owner}"


def _unasked(record: Record) -> str:
    lines = [
        prose(one.sentence) + (f". To decide it:\n\n{_indented(one.suggestion)}" if one.suggestion else "")
        for one in suspicions(record)
    ]
    return f"### {TITLE}\n\n" + _list(lines) if lines else ""


def _indented(text: str) -> str:
    """A block of code inside an item of a list; indented, it can't be ended from within."""
    return "\n".join(f"      {visible(line)}" for line in text.splitlines())


def _weakened(record: Record, verdict: Verdict, rows: Sequence[RequirementRow]) -> str:
    lines = [_aside(one) for one in asides(record, rows)] + [prose(line) for line in cautions(record, verdict)]
    return "### Caveats\n\n" + _list(lines) if lines else ""


def _aside(one: Aside) -> str:
    return f"**{one.word}** {code(one.of)}: {escape(one.why)} {escape(one.by)}"


def _list(lines: Sequence[str]) -> str:
    shown = [f"- {line}" for line in lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        shown.append(f"- and {len(lines) - MAX_LINES:,} more in the report")
    return "\n".join(shown)


def _dimensions(record: Record, rows: Sequence[RequirementRow]) -> str:
    lines = []
    for dimension in dimensions(record):
        title = TITLES[dimension]
        blocking = [row for row in rows if row.dimension == dimension and row.blocking]
        checks = [check for check in record.checks if check.dimension == dimension]
        if not checks:
            lines.append(f"**{title}**: no check in this spec.")
            continue
        ended = [f"{check.id} {STATES[check.status]}" for check in checks if check.status != "measured"]
        counts = {status: sum(row.decision.status == status for row in blocking) for status in WORST_FIRST}
        found = [f"{count} {badge(status).word}" for status, count in counts.items() if count]
        words = ", ".join(found) or "nothing here can block"
        more = f"; {escape(', '.join(ended))}" if ended else ""
        lines.append(f"**{title}** ({plural(len(checks), 'check')}): {words}{more}. {LEADS[dimension]}")
    return "### Dimensions\n\n" + _list(lines)


def _table(rows: Sequence[RequirementRow]) -> str:
    if not rows:
        return "### Requirements\n\nThe record holds no requirement."
    head = ["| Status | Requirement | Value | Needs | n | |", "| --- | --- | --- | --- | ---: | --- |"]
    lines, size = [], 0
    for row in rows:
        line = _line(row)
        size += len(line.encode()) + 1
        if size > ROWS_LIMIT:
            break
        lines.append(line)
    left = rows[len(lines) :]
    text = "### Requirements, worst first\n\n" + "\n".join(head + lines)
    if left:
        held = sum(row.holds for row in left)
        text += f"\n\n{len(left):,} more are in the report; {held:,} of them PASS."
    return text


def _line(row: RequirementRow) -> str:
    status = f"**{escape(str(row.badge))}**" if not row.holds else escape(str(row.badge))
    said = [prose(row.said)]
    if row.why:
        said.append(f"*Why it matters:* {escape(row.why)}")
    if row.owner:
        said.append(f"*Owner:* {escape(row.owner)}")
    name = f"{code(row.sentence)}<br>{escape(row.check)}"
    n = f"{row.n:,}" if row.n else ""
    value = escape(row.value)
    if row.doubtful and value:
        value = f"~~{value}~~<br>{NOT_JUDGED}"
    cells = (status, name, value, escape(row.needs), n, " ".join(part for part in said if part))
    return f"| {' | '.join(cells)} |"


def _not_tested(record: Record) -> str:
    return "### Not tested\n\n" + _list([prose(line) for line in record.not_tested]) if record.not_tested else ""
