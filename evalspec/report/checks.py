"""The checks of a record as the sections System, Model and Data show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evalspec.evidence.blocks import Interval, Intervals, Reference
from evalspec.evidence.frozen import is_number
from evalspec.evidence.record import CheckRecord, Dimension, EvidenceFile, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_number
from evalspec.evidence.words import plural
from evalspec.evidence.written import as_written, block_as_written, written_units
from evalspec.report.charts.blocks import BlockView, block_view, forest
from evalspec.report.charts.tables import cell
from evalspec.report.claims import Doubts, claim_sentence
from evalspec.report.clean import clean_notes
from evalspec.report.doubts import doubted
from evalspec.report.names import anchors, measured_quantity, quantity
from evalspec.report.requirements import SIGNS, RequirementRow, by_check
from evalspec.report.words import STATUS_WORDS, WORST_FIRST, Badge, badge, cause, check_badge, duration, worst

MAX_PARTS = 6
CHARTS = ("chart", "forest", "bars", "beside", "matrix")
"""Blocks that are drawn."""

TITLES: dict[Dimension, str] = {"system": "System", "model": "Model", "data": "Data"}
LEADS: dict[Dimension, str] = {
    "system": "What serves it: speed, load, memory, energy.",
    "model": "The model itself: how accurate, how certain, and for whom.",
    "data": "Test data: clean, complete, representative.",
}


@dataclass(frozen=True, slots=True)
class CheckLayout:
    """Blocks of a check by where they stand.

    Args:
        lead: Beside its head; None: there is none that fits.
        shown: Below it.
        folded: In a fold, open on paper.
        numbers: A table has the numbers, so that they need not stand by themselves.
    """

    lead: BlockView | None
    shown: tuple[BlockView, ...]
    folded: tuple[BlockView, ...]
    numbers: bool

    @property
    def folded_titles(self) -> str:
        """Names of what is folded."""
        return ", ".join(dict.fromkeys(block.title for block in self.folded))

    @property
    def blocks(self) -> tuple[BlockView, ...]:
        """All of them."""
        return (*(() if self.lead is None else (self.lead,)), *self.shown, *self.folded)


@dataclass(frozen=True, slots=True)
class CheckView:
    """One check as it is read."""

    anchor: str
    id: str
    kind: str
    badge: Badge
    summary: str
    reason: str
    rows: tuple[RequirementRow, ...]
    about: tuple[tuple[str, str], ...]
    measured: tuple[tuple[str, str, bool], ...]
    doubt: str
    more: int
    layout: CheckLayout
    notes: tuple[str, ...]
    limits: str
    evidence: tuple[tuple[str, str], ...]
    owner: str
    claim: str


@dataclass(frozen=True, slots=True)
class Section:
    """One dimension with its checks. ``badge`` is the worst of its blocking requirements; None: it has none."""

    anchor: str
    title: str
    lead: str
    badge: Badge | None
    count: str
    checks: tuple[CheckView, ...]


def sections(record: Record, rows: Sequence[RequirementRow]) -> tuple[Section, ...]:
    """System, Model and Data, in this order or that of the profile; one without a check says so."""
    grouped = by_check(rows)
    ids = dict(
        zip(
            (id(check) for check in record.checks), anchors("check", (check.id for check in record.checks)), strict=True
        )
    )
    doubts = {check.id: doubted(check, grouped.get(check.id, ())) for check in record.checks}
    return tuple(_section(dimension, record, grouped, ids, doubts) for dimension in dimensions(record))


def dimensions(record: Record) -> tuple[Dimension, ...]:
    """The dimensions in the order of the report: that of the profile, else system, model, data."""
    return tuple(TITLES) if record.profile is None else record.profile.dimensions


def in_order(record: Record, checks: Iterable[CheckRecord]) -> list[CheckRecord]:
    """Checks as the profile orders their kinds; those that it does not name come last, as the spec has them."""
    order = () if record.profile is None else record.profile.order
    places = {kind: index for index, kind in enumerate(order)}
    return sorted(checks, key=lambda check: places.get(check.check, len(order)))


def _section(
    dimension: Dimension,
    record: Record,
    grouped: Mapping[str, tuple[RequirementRow, ...]],
    ids: Mapping[int, str],
    doubts: Doubts,
) -> Section:
    checks = in_order(record, (check for check in record.checks if check.dimension == dimension))
    views = tuple(_check(record, check, grouped.get(check.id, ()), ids[id(check)], doubts) for check in checks)
    rows = [row for check in checks for row in grouped.get(check.id, ())]
    status = worst(row.decision.status for row in rows if row.blocking)
    count = _counts(rows) if checks else "not tested"
    return Section(dimension, TITLES[dimension], LEADS[dimension], badge(status) if status else None, count, views)


def _counts(rows: Sequence[RequirementRow]) -> str:
    """Requirements of a dimension by how they ended: ``1 failed, 3 not judged, 2 met; 1 waived``."""
    blocking = [row.decision.status for row in rows if row.blocking]
    waived = sum(row.decision.waived for row in rows)
    warned = sum(not (row.blocking or row.decision.waived or row.holds) for row in rows)
    words = [f"{blocking.count(status)} {STATUS_WORDS[status]}" for status in WORST_FIRST if status in blocking]
    if len(words) == 1 and set(blocking) == {"PASS"}:
        words = [f"all {len(blocking)} met" if len(blocking) > 1 else "1 met"]
    words += [f"{waived} waived"] if waived else []
    words += [plural(warned, "warning")] if warned else []
    return ", ".join(words) or "nothing required"


def _check(
    record: Record, check: CheckRecord, rows: tuple[RequirementRow, ...], anchor: str, doubts: Doubts
) -> CheckView:
    units = written_units(check)
    drawn = tuple(block_view(block_as_written(block, units)) for block in check.blocks)
    labels = [{row.label for row in block.rows} for block in check.blocks if isinstance(block, Intervals)]
    parts = tuple(forest(_parts(as_written(test))) for test in check.tests if _worth_drawing(test, labels))
    measured = _measured(check, doubts[check.id])
    return CheckView(
        anchor=anchor,
        id=check.id,
        kind=check.check if check.check != check.id else "",
        badge=check_badge(check, (row.badge for row in rows)),
        summary=check.summary,
        reason=check.reason or "",
        rows=rows,
        about=_about(check),
        measured=measured,
        doubt=_doubt(check, rows, doubts[check.id]),
        more=len(check.measured) - len(measured),
        layout=_layout((*drawn, *parts), folded=_is_met(check, rows) and not doubts[check.id]),
        notes=(*clean_notes(record, check), *check.notes),
        limits=limits(record).get((check.check, check.cannot_show), ""),
        evidence=_files(check),
        owner=check.owner or "",
        claim=claim_sentence(record, check, doubts),
    )


def limits(record: Record) -> dict[tuple[str, str], str]:
    """Limits of the checks, each once: (kind of check, limits), and its id."""
    told = list(dict.fromkeys((check.check, check.cannot_show) for check in record.checks if check.cannot_show))
    return dict(zip(told, anchors("limits", (kind for kind, _ in told)), strict=True))


def _is_met(check: CheckRecord, rows: Sequence[RequirementRow]) -> bool:
    """Nothing of a check calls for attention."""
    return check.status == "measured" and all(row.holds for row in rows)


def _layout(blocks: Sequence[BlockView], *, folded: bool) -> CheckLayout:
    """Of a check that is met one chart is shown; of another one all charts and examples, and its tables are folded."""
    charts = [block for block in blocks if block.kind in CHARTS]
    lead = next((block for block in (*charts, *blocks) if not _is_wide(block)), None)
    if not folded:
        shown = [block for block in blocks if block.kind != "table" or not charts]
        # Charts stand in pairs: the odd one stands beside the head.
        if sum(not _is_wide(block) for block in shown) % 2 == 0:
            lead = None
    else:
        shown = [lead] if lead is not None else list(blocks[:1])
    rest = tuple(block for block in blocks if not any(block is one for one in shown))
    others = tuple(block for block in shown if block is not lead)
    return CheckLayout(lead, others, rest, numbers=any(block.kind == "table" for block in blocks))


def _is_wide(block: BlockView) -> bool:
    return block.kind == "examples" or bool(getattr(block, "wide", False))


def _files(check: CheckRecord) -> tuple[tuple[str, str], ...]:
    """Files of evidence and what they hold; of many that hold alike things the first."""
    alike: dict[str, list[EvidenceFile]] = {}
    for file in check.evidence:
        alike.setdefault(file.what, []).append(file)
    entries = []
    for what, files in alike.items():
        rows = sum(file.rows for file in files)
        more = "" if len(files) == 1 else f" and {len(files) - 1} more like it"
        entries.append((files[0].path, f"{more} {plural(rows, 'row')}: {what}" if rows else f"{more} {what}"))
    return tuple((path, text.strip()) for path, text in entries)


def _doubt(check: CheckRecord, rows: Sequence[RequirementRow], doubts: Collection[str]) -> str:
    """Why nothing that this check measured is to be trusted; empty: something of it is, or nothing was measured."""
    if not check.measured or set(doubts) != set(check.measured):
        return ""
    reasons: dict[str, str] = {}
    for row in rows:
        if row.doubtful and row.decision.reason:
            reasons.setdefault(cause(row.decision), row.decision.reason)
    return check.reason or "; ".join(reasons.values()) or "none of its requirements can be judged"


def _about(check: CheckRecord) -> tuple[tuple[str, str], ...]:
    """Facts that the numbers hold for: models, datasets, conditions, what became of the rows."""
    models = [
        *(name for name in check.models if name not in check.baseline_models),
        *(f"{name} (compared with)" for name in check.baseline_models),
    ]
    counts = check.counts
    planned = f" of {counts.attempted:,}" if counts.used <= counts.attempted else f", {counts.attempted:,} asked for"
    lost = [f"{count:,} {word}" for count, word in ((counts.dropped, "dropped"), (counts.errored, "errored")) if count]
    used = f"{counts.used:,}{planned}" + (f" ({', '.join(lost)})" if lost else "") if counts.attempted else ""
    entries = [
        ("model", ", ".join(models)),
        ("dataset", ", ".join(check.datasets)),
        *((name.replace("_", " "), cell(value).text) for name, value in check.conditions.items() if value is not None),
        ("used", used),
        ("took", duration(check.duration_s) if check.duration_s else ""),
    ]
    return tuple((name, value) for name, value in entries if value)


def _measured(check: CheckRecord, doubts: Collection[str]) -> tuple[tuple[str, str, bool], ...]:
    """Measured values, and whether each is in doubt; of values by part only a few, for the blocks show them better."""
    parts = [name for name in check.measured if "(" in name]
    hidden = set(parts[MAX_PARTS:])
    entries = []
    for name, value in check.measured.items():
        if name in hidden:
            continue
        text = measured_quantity(check, name) if is_number(value) else cell(value).text
        entries.append((name, text, name in doubts and value is not None))
    return tuple(entries)


def _worth_drawing(test: Test, labels: Sequence[set[str]]) -> bool:
    """Parts that no block of the check shows already."""
    parts = {part.part for part in test.parts}
    return len(parts) > 1 and not any(parts <= shown for shown in labels)


def _parts(test: Test) -> Intervals:
    rows = tuple(
        Interval(label=part.part, value=part.value, lower=part.lower, upper=part.upper, n=part.n or None)
        for part in test.parts
    )
    needed = "" if test.must_hold is None else f"At least {test.must_hold} of {len(test.parts)} must hold. "
    # A share of parts has a threshold of its own, which is none of theirs.
    limit = () if test.part_unit else (_needs(test),)
    unit = test.part_unit or test.unit
    return Intervals(
        title=f"{test.sentence}, by part",
        caption=f"{needed}Bounds of each part by itself.",
        unit=unit,
        rows=rows,
        references=limit,
    )


def _needs(test: Test) -> Reference:
    label = f"needs {SIGNS[test.op]} {quantity(test.threshold, test.unit)}"
    return Reference(label=label, value=test.threshold, axis="x", says_value=True)


def size_words(size: int | None) -> str:
    """Bytes for people: ``145 KiB``."""
    if size is None:
        return ""
    for unit, scale in (("GiB", 1024.0**3), ("MiB", 1024.0**2), ("KiB", 1024.0)):
        if size >= scale:
            return f"{format_number(round(size / scale, 1))} {unit}"
    return f"{size} B"
