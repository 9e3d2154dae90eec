"""Head of the page: verdict, the model that it is about, what there is to say in one sentence, the closest call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from evalspec.evidence.digits import decimals_for
from evalspec.evidence.record import ModelRecord, Record
from evalspec.evidence.test import Test, side_to_pass
from evalspec.evidence.verdict import Status, Verdict
from evalspec.evidence.words import and_list, plural, short_digest, verb
from evalspec.report.names import plain_name, quantity, upper_first
from evalspec.report.reproduce import took, when
from evalspec.report.requirements import RequirementRow
from evalspec.report.since import since_previous
from evalspec.report.words import NOT_JUDGED, WORD_TONES, WORST_FIRST, Badge, badge

COUNTED: dict[Status, tuple[str, str]] = {
    "FAIL": ("fails", "fail"),
    "ERROR": ("crashed", "crashed"),
    "INVALID": (f"is {NOT_JUDGED}", f"are {NOT_JUDGED}"),
    "NOT_RUN": ("was not run", "were not run"),
    "INCONCLUSIVE": ("is inconclusive", "are inconclusive"),
    "PASS": ("is met", "are met"),
}


@dataclass(frozen=True, slots=True)
class StatusShare:
    """How many requirements ended so, and where the bar shows it; what blocks nothing is counted beside the bar."""

    badge: Badge
    count: int
    start: float
    width: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Top:
    """The top of the page.

    Args:
        word: Of the verdict.
        rest: What it does not cover.
        tone: Its colour and shape.
        about: File of the model, its digest, commit of the repository, time: (name, value).
        reason: One sentence.
        closest: Requirement that was met with the smallest margin, in one sentence; empty: there is none.
        since: Sentences on what changed since the run before.
        shares: Requirements by how they ended.
    """

    word: str
    rest: str
    tone: str
    about: tuple[tuple[str, str], ...]
    reason: str
    closest: str
    since: tuple[str, ...]
    shares: tuple[StatusShare, ...]


def top_of(record: Record, verdict: Verdict, rows: Sequence[RequirementRow]) -> Top:
    """Head of the page of a run."""
    words = [_beside(verdict, rows)]
    warned = sum(1 for row in rows if not (row.blocking or row.decision.waived or row.holds))
    words.append(f"with {plural(warned, 'warning')}" if warned else "")
    return Top(
        word=verdict.word,
        rest=", ".join(word for word in words if word),
        tone=WORD_TONES[verdict.word],
        about=_about(record),
        reason=summary(verdict, rows),
        closest=closest_call(record, rows) if verdict.word == "READY" else "",
        since=since_previous(record, verdict),
        shares=_shares(rows),
    )


def _beside(verdict: Verdict, rows: Sequence[RequirementRow]) -> str:
    """Text beside the word: what of its headline the sentence below does not count."""
    if _counts_blocking(verdict, rows):
        waived = sum(1 for row in rows if row.decision.waived)
        return f"{waived:,} waived" if waived else ""
    rest = verdict.headline.removeprefix(verdict.word).strip()
    return rest[1:-1] if rest.startswith("(") and rest.endswith(")") else rest


def _counts_blocking(verdict: Verdict, rows: Sequence[RequirementRow]) -> bool:
    """The sentence below the word counts the requirements that block; else it is the verdict's own reason."""
    return verdict.word != "READY" and any(row.blocking and row.decision.status != "PASS" for row in rows)


def summary(verdict: Verdict, rows: Sequence[RequirementRow]) -> str:
    """One sentence on the requirements that block: ``3 of 13 requirements fail, 3 are not judged and 7 are met``.

    Where nothing that blocks is behind the verdict (a draft, a part of a spec), it is the verdict's own reason.
    """
    if not _counts_blocking(verdict, rows):
        return verdict.reason
    blocking = [row.decision.status for row in rows if row.blocking]
    counts = {status: blocking.count(status) for status in WORST_FIRST}
    if len(blocking) == 1:
        return f"The blocking requirement {verb(1, *COUNTED[blocking[0]])}."
    parts: list[str] = []
    for status, count in counts.items():
        if count:
            of = f" of {plural(len(blocking), 'blocking requirement')}" if not parts else ""
            parts.append(f"{count:,}{of} {verb(count, *COUNTED[status])}")
    return f"{and_list(parts)}."


def closest_call(record: Record, rows: Sequence[RequirementRow]) -> str:
    """Requirement whose bound lies nearest to its limit, measured by the way from its value to the limit.

    Args:
        record: The run.
        rows: Its requirements.

    Returns:
        One sentence with the margin in the unit of the requirement; empty: none was decided by a bound.
    """
    checks = {check.id: check for check in record.checks}
    found = [
        (margin, row.test, row.check)
        for row in rows
        if row.blocking and row.holds and row.test is not None
        if (margin := _margin(row.test)) is not None
    ]
    if not found:
        return ""
    (_, left), test, check = min(found, key=lambda one: one[0])
    bound = test.bound_to_pass
    assert bound is not None
    decimals = decimals_for(test)
    side = side_to_pass(test.op)
    unit = "pp" if test.unit == "%" else test.unit
    return (
        f"{upper_first(plain_name(checks.get(check), test))}: {side} bound "
        f"{quantity(bound, test.unit, decimals)}, limit {quantity(test.threshold, test.unit)}, "
        f"{quantity(left, unit, decimals)} to spare."
    )


def _margin(test: Test) -> tuple[float, float] | None:
    """Distance from the bound to the limit, as a share of that from the value, and in the unit; None: no bound."""
    bound = test.bound_to_pass
    if test.exact or bound is None or test.value is None or test.value == test.threshold:
        return None
    left = abs(test.threshold - bound)
    return left / abs(test.threshold - test.value), left


def _about(record: Record) -> tuple[tuple[str, str], ...]:
    model = subject_model(record)
    facts = record.environment.facts
    commit = str(facts.get("git_commit") or "")[:7]
    changed = " and changes" if facts.get("git_changed") else ""
    entries = (
        ("Model", "" if model is None else _model(model)),
        (
            "Digest",
            short_digest(record.subject)
            + (" (declared, not verified)" if model is not None and model.digest_stated else ""),
        ),
        ("Commit", f"{commit}{changed}" if commit else ""),
        ("Run", when(record.started)),
        ("Took", took(record)),
        ("Profile", record.profile.name if record.profile is not None else ""),
    )
    return tuple((name, value) for name, value in entries if value)


def _model(model: ModelRecord) -> str:
    """File or folder of a model, or its name in the spec; and how it ran, as far as that was seen."""
    if not model.path:
        return f"{model.name} (the spec names no file)"
    name = PurePosixPath(model.path).name + ("/" if model.files > 1 else "")
    precision = f" in {model.precision_observed}" if model.precision_observed else ""
    device = f" on {model.device_observed}" if model.device_observed else ""
    return f"{name}, run{precision}{device}" if precision or device else name


def subject_model(record: Record) -> ModelRecord | None:
    """The model that a run is about; None: it is not shown which one that is, or it is about data alone."""
    return next((one for one in record.models if one.digest is not None and one.digest == record.subject), None)


def _shares(rows: Sequence[RequirementRow]) -> tuple[StatusShare, ...]:
    shares, start = [], 0.0
    blocking = [row.decision.status for row in rows if row.decision.blocking]
    for status in WORST_FIRST:
        if count := blocking.count(status):
            width = 100 * count / len(blocking)
            shares.append(StatusShare(badge(status), count, round(start, 2), round(width, 2)))
            start += width
    for note, others in (
        ("waived", [row.decision.status for row in rows if row.decision.waived]),
        ("warning", [row.decision.status for row in rows if not (row.decision.blocking or row.decision.waived)]),
    ):
        shares += [
            StatusShare(badge(status, blocking=False), others.count(status), 0, 0, note)
            for status in WORST_FIRST
            if status in others
        ]
    return tuple(shares)
