"""Next steps, for the top of the page: what keeps the verdict from READY, put together by its cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from evalspec.evidence.names import asked_of
from evalspec.evidence.profile import PROFILE
from evalspec.evidence.verdict import Status
from evalspec.report.names import shorten
from evalspec.report.requirements import RequirementRow
from evalspec.report.words import Badge, badge, cause

MOST = 5
"""Steps that are shown; the others stand in the table."""
MOST_NAMED = 2
"""Requirements of one step that are written out."""
LENGTH = 220
TOO_CLOSE = 20
"""Beyond so many times the present n, more data is not the answer."""

ABOVE = "for the reason above"

VERBS: dict[Status, str] = {
    "FAIL": "Mend",
    "ERROR": "Repair",
    "INVALID": "Measure again",
    "NOT_RUN": "Make it measurable",
    "INCONCLUSIVE": "Look into",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do.

    Args:
        badge: Of the requirements that it is about.
        verb: What to do.
        targets: (anchor of the first requirement, name) of each check that it is about.
        count: Requirements, where they are more than one.
        text: What is wrong, in one sentence without an end.
        owner: Who is asked; empty: nobody is named, or several are.
    """

    badge: Badge
    verb: str
    targets: tuple[tuple[str, str], ...]
    count: int
    text: str
    owner: str


@dataclass(frozen=True, slots=True)
class Next:
    """The steps, and how many are left out."""

    steps: tuple[Step, ...]
    more: int


def next_steps(rows: Sequence[RequirementRow], said: str) -> Next:
    """Steps to take, worst first: requirements that block and do not hold, then warnings that do not hold.

    Those of one check that are violated are one step; so are those that have one cause, whatever their check.

    Args:
        rows: All requirements, worst first.
        said: The reason of the verdict, which stands above: it is not said again.
    """
    blocking = [row for row in rows if row.blocking and not row.holds]
    warned = [row for row in rows if not (row.blocking or row.decision.waived or row.holds)]
    # What blocks for the same cause is to be done anyway; a check that lacks two things is changed for each.
    causes = {cause(row.decision) for row in blocking if row.decision.reason and row.check != PROFILE}
    left = [row for row in warned if not row.decision.reason or cause(row.decision) not in causes]
    steps = [_step(group, said) for group in (*_groups(blocking), *_groups(left))]
    return Next(tuple(steps[:MOST]), max(0, len(steps) - MOST))


def _groups(rows: Iterable[RequirementRow]) -> list[list[RequirementRow]]:
    groups: dict[tuple[str, ...], list[RequirementRow]] = {}
    for row in rows:
        status, reason = row.decision.status, row.decision.reason or ""
        violated = str(row.decision.looks_violated)
        key = (
            (status, "", cause(row.decision))
            if status != "FAIL" and reason
            else (status, row.check, _more(row), violated)
        )
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _step(group: Sequence[RequirementRow], said: str) -> Step:
    first = group[0]
    owners = {row.owner for row in group}
    targets = dict.fromkeys(row.check for row in group)
    anchors = {row.check: row.anchor for row in reversed(group)}
    text = _text(group)
    return Step(
        badge=badge(first.decision.status, "" if first.blocking else "warns"),
        verb=_verb(first),
        targets=tuple((anchors[check], check) for check in targets),
        count=len(group) if len(group) > 1 else 0,
        text=ABOVE if text in said else shorten(text, LENGTH),
        owner=owners.pop() if len(owners) == 1 else "",
    )


def _verb(row: RequirementRow) -> str:
    if not row.blocking:
        return "Look at"
    if row.decision.looks_violated:
        return VERBS["FAIL"]
    if row.test is None and row.check == PROFILE:
        return "Change or set aside" if row.decision.reason else "Add or set aside"
    if row.unread:
        return "Mend the data, then judge again"
    if row.decision.status == "INCONCLUSIVE" and _more(row) == "data":
        return "Measure more"
    return VERBS.get(row.decision.status, "Look at")


def _more(row: RequirementRow) -> str:
    """Word on whether more data would decide it: ``data``, ``close`` (too close to the threshold); empty: unknown."""
    test = row.test
    if row.decision.status != "INCONCLUSIVE" or row.decision.looks_violated or test is None:
        return ""
    if not test.times_to_decide:
        return ""
    return "data" if test.times_to_decide <= TOO_CLOSE else "close"


def _text(group: Sequence[RequirementRow]) -> str:
    first = group[0]
    if first.test is None and first.check == PROFILE:
        names = ", ".join(asked_of(row.name) for row in group)
        return f"{names}: {first.decision.reason}" if first.decision.reason else names
    reason = first.decision.reason
    if reason and first.decision.status != "FAIL":
        return reason
    said = [_short(row) for row in group[:MOST_NAMED]]
    left = len(group) - len(said)
    return "; ".join(said) + (f"; and {left:,} more" if left else "")


def _short(row: RequirementRow) -> str:
    """A requirement in a few words: ``accuracy 0.93, needs ≥ 0.95``."""
    metric = asked_of(row.name) or row.sentence
    if not row.value:
        return row.sentence
    text = f"{metric} {row.value}, needs {row.needs}"
    test = row.test
    more = _more(row)
    if more == "data" and test is not None:
        unit, now = f" {test.to_decide}" if test.to_decide else "", test.to_decide_now
        return f"{text}; about {test.n_to_decide:,}{unit} would decide it, {now or test.n:,} were measured"
    return f"{text}; too close for more data to decide" if more == "close" else text
