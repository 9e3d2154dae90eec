"""Two runs side by side, as Markdown for a comment and as one HTML page that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.evidence.words import in_percent, plural
from evalspec.lineage.run_comparison import (
    ChangeWord,
    Flips,
    NamedFile,
    RequirementChange,
    RunComparison,
    RunSide,
    count_words,
)
from evalspec.lineage.spec_diff import words
from evalspec.report.markdown import LIMIT, code, escape, prose
from evalspec.report.page import plain_page
from evalspec.report.reproduce import when
from evalspec.report.words import DASH, WORD_TONES, Badge, label

MOST_ROWS = 60
"""Requirements that a comment shows of one kind; the page has all."""
MOST_FLIPS = 20
NO_VERDICT = "not-run"
"""Tone of a run that has no verdict."""
TITLES: dict[ChangeWord, str] = {
    "regression": "Regressions",
    "not comparable": "Not comparable",
    "changed": "Changed",
    "no change shown": "No change shown",
    "improvement": "Improvements",
    "same": "The same",
}
TONES: dict[ChangeWord, str] = {
    "regression": "fail", "not comparable": "invalid", "changed": "inconclusive", "no change shown": "not-run",
    "improvement": "pass", "same": "not-run",
}  # fmt: skip
OPEN: tuple[ChangeWord, ...] = ("regression", "changed", "improvement")
"""Kinds of change that a comment shows unfolded."""


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Requirements of which the same became."""

    word: ChangeWord
    title: str
    tone: str
    rows: tuple[RequirementChange, ...]


@dataclass(frozen=True, slots=True)
class SideView:
    """One run on the page; ``link`` leads to its report, or is empty."""

    title: str
    badge: Badge
    reason: str
    facts: tuple[str, ...]
    link: str


def comparison_markdown(found: RunComparison) -> str:
    """The comparison as Markdown, short enough for a comment: regressions first.

    Returns:
        Less than 60,000 bytes of UTF-8.
    """
    before, after = found.sides
    parts = [
        f"### {_headline(found)}",
        f"{_side(after)}, compared with {_side(before)}.",
        "\n".join(f"- {prose(note)}" for note in found.notes),
        f"**{count_words(found.rows)}**",
        *(_section(group) for group in _groups(found)),
        "\n".join(f"- {_flips(one)}" for one in found.flips if one.changed or one.why),
        _listed("What the spec requires differently", [prose(words(one)) for one in found.asked_elsewhere]),
        _listed("What else is different", _different(found)),
        escape(levels(found)),
    ]
    text = "\n\n".join(part for part in parts if part) + "\n"
    return text.encode()[: LIMIT - 1].decode(errors="ignore")


def comparison_page(found: RunComparison, links: tuple[str, str] = ("", "")) -> str:
    """The comparison as one HTML document. It loads nothing and has no script.

    Args:
        found: The comparison.
        links: From the page to the reports of the earlier and the later run; empty: there is none.

    Returns:
        The document, to be written as UTF-8.
    """
    after = found.sides[1]
    return plain_page(
        "comparison.html",
        found=found,
        tone=WORD_TONES.get(after.word, NO_VERDICT),
        headline=_headline(found),
        counts=count_words(found.rows),
        sides=[_view(*one) for one in zip(("Earlier run", "Later run"), found.sides, links, strict=True)],
        groups=_groups(found),
        flips=[flip_words(one) for one in found.flips],
        asked=[words(one) for one in found.asked_elsewhere],
        files=[_other_file(*one) for one in found.other_files],
        differs=found.other_circumstances,
        levels=levels(found),
        dash=DASH,
        status=status_words,
    )


def levels(found: RunComparison) -> str:
    """The level that the intervals of the changes hold at."""
    return (
        f"Each bound of a change is at {in_percent(1.0 - found.alpha)}, so that all of them together have "
        "the confidence of the spec."
    )


def flip_words(one: Flips) -> str:
    """Rows that a model answered differently, in words."""
    start = f"{one.model} on {one.dataset}: {one.changed:,} of {plural(one.rows, 'row')} answered differently"
    if one.fixed is None or one.broken is None:
        return f"{start} ({one.why})"
    listed = ", ".join(str(row) for row in one.broken[:MOST_FLIPS])
    more = f" and {len(one.broken) - MOST_FLIPS:,} more" if len(one.broken) > MOST_FLIPS else ""
    rows = f" (rows {listed}{more}, counted from 0)" if one.broken else ""
    return f"{start}, {len(one.fixed):,} fixed, {len(one.broken):,} broken{rows}"


def status_words(row: RequirementChange) -> str:
    """Status in both runs: ``PASS, now FAIL``."""
    before, after = label(row.before), label(row.after)
    if before == after:
        return before
    return f"{before or 'not asked'}, now {after or 'not asked'}"


def _headline(found: RunComparison) -> str:
    before, after = (side.word or "no verdict" for side in found.sides)
    return f"{after}, as before" if before == after else f"{after}, was {before}"


def _groups(found: RunComparison) -> list[ChangeGroup]:
    return [
        ChangeGroup(word, title, TONES[word], rows)
        for word, title in TITLES.items()
        if (rows := tuple(row for row in found.rows if row.word == word))
    ]


def _side(side: RunSide) -> str:
    commit = f" at commit {code(side.commit)}" if side.commit else ""
    return f"{code(side.spec)} of {escape(when(side.started))}{commit}"


def _view(title: str, side: RunSide, link: str) -> SideView:
    word = side.word or "no verdict"
    facts = [when(side.started), *((f"commit {side.commit}",) if side.commit else ())]
    facts += [f"{one.name}: {one.file}" for one in side.models]
    shown = Badge(word, word, WORD_TONES.get(side.word, NO_VERDICT))
    return SideView(f"{title} of {side.spec}", shown, side.reason, tuple(facts), link)


def _section(group: ChangeGroup) -> str:
    """A table of a group; what is neither better nor worse is folded away."""
    if group.word in OPEN:
        return f"#### {group.title} ({len(group.rows):,})\n\n{_table(group.word, group.rows)}"
    worse = tuple(row for row in group.rows if row.is_worse)
    rest = tuple(row for row in group.rows if not row.is_worse)
    parts = []
    if worse:
        parts.append(f"#### {group.title}, with a worse status ({len(worse):,})\n\n{_table(group.word, worse)}")
    if rest:
        title = f"{group.title} ({len(rest):,})"
        parts.append(f"<details><summary>{title}</summary>\n\n{_table(group.word, rest)}\n\n</details>")
    return "\n\n".join(parts)


def _table(word: ChangeWord, rows: tuple[RequirementChange, ...]) -> str:
    if word == "not comparable":
        lines = ["| Requirement | Status | Why not |", "| --- | --- | --- |"]
    else:
        lines = ["| Requirement | Status | Before | Now | Change |", "| --- | --- | ---: | ---: | --- |"]
    for row in rows[:MOST_ROWS]:
        first = (_name(row), escape(status_words(row)))
        if word == "not comparable":
            cells: tuple[str, ...] = (*first, _notes(row, row.plain or row.change))
        else:
            cells = (*first, escape(row.value_before), escape(row.value_after), _notes(row, row.change))
        lines.append(f"| {' | '.join(cells)} |")
    left = len(rows) - MOST_ROWS
    return "\n".join(lines) + (f"\n\nand {left:,} more" if left > 0 else "")


def _name(row: RequirementChange) -> str:
    return f"{code(row.sentence)}<br>{escape(row.name)}" if row.sentence else escape(row.name)


def _notes(row: RequirementChange, first: str) -> str:
    return "<br>".join(prose(text) for text in (first, *row.notes) if text)


def _flips(one: Flips) -> str:
    return prose(flip_words(one), 600)


def _different(found: RunComparison) -> list[str]:
    files = [
        f"{kind} {code(name)}: {escape(said)}" for kind, name, said in (_other_file(*one) for one in found.other_files)
    ]
    return files + [f"{escape(name)}: {escape(old)}, now {escape(new)}" for name, old, new in found.other_circumstances]


def _other_file(kind: str, before: NamedFile, after: NamedFile) -> tuple[str, str, str]:
    """Kind and name of a model or dataset that is another one, and what was and is its file."""
    if before.file == after.file:
        return kind, after.name, f"{after.file} has changed"
    return kind, after.name, f"{before.file}, now {after.file}"


def _listed(title: str, lines: Sequence[str]) -> str:
    if not lines:
        return ""
    listed = "\n".join(f"- {line}" for line in lines)
    return f"<details><summary>{title} ({len(lines)})</summary>\n\n{listed}\n\n</details>"
