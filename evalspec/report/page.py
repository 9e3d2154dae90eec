"""The readiness report: one HTML page that needs nothing beside itself."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.evidence.notes import limit_line
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import Status, Verdict
from evalspec.evidence.visible import visible
from evalspec.evidence.words import plural
from evalspec.report.aside import asides
from evalspec.report.checks import limits, sections
from evalspec.report.holistic import together
from evalspec.report.names import breakable
from evalspec.report.next_steps import next_steps
from evalspec.report.profile import profile_view
from evalspec.report.reproduce import reproduction
from evalspec.report.requirements import RequirementRow, requirement_rows
from evalspec.report.top import top_of
from evalspec.report.unasked import suspicions
from evalspec.report.words import WORST_FIRST, badge

MANY = 3
"""A note that so many requirements share is said once."""

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@dataclass(frozen=True, slots=True)
class RequirementGroup:
    """Rows of the requirements table under one heading. ``once`` are notes of many of them, with how many."""

    title: str
    rows: tuple[RequirementRow, ...]
    once: tuple[tuple[str, int], ...] = ()

    def own(self, row: RequirementRow) -> tuple[str, ...]:
        """Notes of a row that are not said once for all."""
        said = {note for note, _ in self.once}
        return tuple(note for note in row.notes if note not in said)


@dataclass(frozen=True, slots=True)
class Untested:
    """Parts that were left out, and by kind of check what it cannot show: (id, kind, limits)."""

    lines: tuple[str, ...]
    limits: tuple[tuple[str, str, str], ...]


def render(record: Record, verdict: Verdict) -> str:
    """The report of a run as one HTML document.

    It loads nothing, needs no script to be read, and its Content-Security-Policy lets nothing run but its own
    script, known by its hash. Everything that came from data is escaped.

    Args:
        record: The run.
        verdict: What was decided of it; the page shows this one, whatever ``record.verdict`` says.

    Returns:
        The document, to be written as UTF-8.
    """
    rows = requirement_rows(record, verdict)
    groups = _groups(rows)
    parts = sections(record, rows)
    style, script = template_text("style.css"), template_text("script.js")
    return (
        environment()
        .get_template("page.html")
        .render(
            record=record,
            verdict=verdict,
            top=top_of(record, verdict, rows),
            next=next_steps(record, verdict, rows),
            groups=groups,
            said_once={note for group in groups for note, _ in group.once},
            row_count=len(rows),
            statuses=[
                (badge(status, blocking=any(row.blocking for row in among)), _counted(status, rows))
                for status in WORST_FIRST
                if (among := [row for row in rows if row.decision.status == status])
            ],
            asides=asides(record, rows),
            profile=profile_view(record, parts),
            cautions=cautions(record, verdict),
            unasked=suspicions(record),
            sections=parts,
            together=together(record, rows, parts),
            untested=untested(record),
            repeat=reproduction(record),
            style=style,
            script=script,
            policy=content_policy(style, script),
            confidence=f"{100 * record.policy.confidence:g} %",
        )
    )


def _counted(status: Status, rows: Sequence[RequirementRow]) -> str:
    """Requirements with a status, those that only warn apart: ``3``, ``3 + 1 warning``."""
    warn = sum(row.decision.status == status and not (row.blocking or row.decision.waived) for row in rows)
    block = sum(row.decision.status == status for row in rows) - warn
    return " + ".join([str(block)] * bool(block or not warn) + [plural(warn, "warning")] * bool(warn))


def plain_page(template: str, **values: object) -> str:
    """A page about several runs as one HTML document: it loads nothing and has no script.

    Args:
        template: Its file.
        values: For the template, beside style and policy.
    """
    style = template_text("style.css") + template_text("trends.css")
    return environment().get_template(template).render(style=style, policy=content_policy(style), **values)


def cautions(record: Record, verdict: Verdict) -> tuple[str, ...]:
    """Everything that makes the verdict weaker than it reads, each once; what is set aside has its own list."""
    shown = {waiver.caution for waiver in record.waivers}
    shown |= {line for one in record.without for line in (one.caution, one.ended)}
    found = [line for line in verdict.weakened if line not in shown]
    said = " ".join(found).lower()
    only = ", ".join(record.only)
    own = (
        (
            record.draft,
            "draft",
            "A draft: everything was tried on a few rows and queries, to see that it runs; never READY.",
        ),
        (bool(only), "only", f"Only a part was run: {only}; never READY."),
        (record.interrupted, "interrupted", "The run was interrupted; what was measured until then is shown."),
        (record.subject is None, "subject", "The subject is not shown: no digest says which artifact this is about."),
    )
    found += [text for holds, word, text in own if holds and word not in said]
    ids = {check.id for check in record.checks}
    return tuple(dict.fromkeys(_begun(line, ids) for line in found))


def _begun(line: str, ids: Set[str]) -> str:
    """As a sentence begins; one that begins with the id of a check keeps it, since people look for it in the spec."""
    return line if line.partition(" ")[0].rstrip(":") in ids else line[:1].upper() + line[1:]


def untested(record: Record) -> Untested:
    """Parts that were not tested: what the run left out, and beside each kind of check what it cannot show."""
    told = limits(record)
    said = {limit_line(*one) for one in told}
    return Untested(
        tuple(line for line in record.not_tested if line not in said),
        tuple((anchor, kind, text) for (kind, text), anchor in told.items()),
    )


def _groups(rows: tuple[RequirementRow, ...]) -> tuple[RequirementGroup, ...]:
    """The table's groups, in the order of the rows."""
    named = (
        ("Blocking", [row for row in rows if row.blocking and not row.holds]),
        ("Waived", [row for row in rows if row.decision.waived and not row.holds]),
        ("Warnings (do not block)", [row for row in rows if not (row.blocking or row.decision.waived or row.holds)]),
        ("Met", [row for row in rows if row.holds]),
    )
    return tuple(RequirementGroup(title, tuple(found), _once(found)) for title, found in named if found)


def _once(rows: Sequence[RequirementRow]) -> tuple[tuple[str, int], ...]:
    """Notes that many rows share."""
    counts = Counter(note for row in rows for note in row.notes)
    return tuple((note, count) for note, count in counts.items() if count >= MANY)


def content_policy(style: str, script: str | None = None) -> str:
    """The Content-Security-Policy: this style, this script or none, pictures from the page itself, nothing else."""
    hashes = {"script": "'none'"}
    for name, text in (("style", style), *(() if script is None else (("script", script),))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        hashes[name] = f"'sha256-{digest}'"
    return (
        f"default-src 'none'; script-src {hashes['script']}; style-src {hashes['style']}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Templates in which everything that comes from data is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from evalspec.report.compiled_templates import CompiledTemplates

    def finalize(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    here = Path(__file__)
    made = Environment(
        loader=PackageLoader("evalspec.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
        bytecode_cache=CompiledTemplates(here.with_name("templates") / "__pycache__", here.read_bytes()),
    )
    made.filters["ticks"] = _ticks
    made.filters["breaks"] = _breaks
    made.filters["trusted"] = Markup
    return made


def _breaks(text: str) -> Markup:
    """A long name that is not broken in the middle of a word where a column is narrow."""
    from markupsafe import Markup

    return Markup("<wbr>").join(breakable(text))


def _ticks(text: str) -> Markup:
    """Text in which `this` is code."""
    from markupsafe import Markup, escape

    parts = visible(text).split("`")
    if len(parts) % 2 == 0:
        return escape(visible(text))
    marked = [Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)]
    return Markup("").join(marked)


def template_text(name: str) -> str:
    """A file of the templates as it is."""
    return resources.files("evalspec.report").joinpath("templates", name).read_text(encoding="utf-8")
