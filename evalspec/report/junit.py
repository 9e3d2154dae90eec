"""A run as JUnit XML, one test case per requirement, for CI systems that draw such files."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.verdict import Verdict
from evalspec.evidence.visible import visible
from evalspec.report.markdown import verdict_of
from evalspec.report.next_steps import next_steps
from evalspec.report.requirements import RequirementRow, by_check, requirement_rows
from evalspec.report.unasked import suspicions
from evalspec.report.words import NOT_JUDGED


def junit(record: Record, verdict: Verdict | None = None) -> str:
    """The run as JUnit XML.

    A blocking requirement that is not PASS is a failure whose type is its status (INCONCLUSIVE is skipped where the
    policy allows it and nothing looks violated); ERROR is an error; what is waived or only warns is skipped. A check
    without a requirement that crashed has an error of its own. The seconds of a check are shared evenly among its
    cases: it is measured once for all of them.

    Args:
        record: The run.
        verdict: What was decided of it; default: what the record holds.

    Raises:
        RecordError: There is no verdict.
    """
    verdict = verdict_of(record, verdict)
    grouped = by_check(requirement_rows(record, verdict))
    root = ElementTree.Element("testsuites", name=visible(record.spec))
    known = [check.id for check in record.checks]
    for check in record.checks:
        _suite(root, record, check, grouped.get(check.id, ()))
    homeless = [row for check, rows in grouped.items() if check not in known for row in rows]
    if homeless:
        _fill(ElementTree.SubElement(root, "testsuite", name="spec"), "spec", homeless, record)
    _properties(root, record, verdict)
    for suite in root.iter("testsuite"):
        _count(suite, suite)
    _count(root, root)
    root.set("time", seconds(sum(check.duration_s for check in record.checks)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def seconds(time: float) -> str:
    """Seconds as the format writes them."""
    return f"{time:.3f}"


def _suite(root: ElementTree.Element, record: Record, check: CheckRecord, rows: Sequence[RequirementRow]) -> None:
    place = f"{check.dimension}.{visible(check.id)}"
    suite = ElementTree.SubElement(
        root, "testsuite", name=place, time=seconds(check.duration_s), timestamp=visible(record.started)
    )
    _fill(suite, place, rows, record, check.duration_s)
    if not rows and check.status != "measured":
        case = ElementTree.SubElement(
            suite, "testcase", classname=place, name=visible(check.id), time=suite.attrib["time"]
        )
        kind = "error" if check.status == "error" else "skipped"
        outcome = ElementTree.SubElement(case, kind, message=visible(check.reason or check.status))
        if kind == "error":
            outcome.set("type", "ERROR")


def _fill(
    suite: ElementTree.Element, place: str, rows: Sequence[RequirementRow], record: Record, took: float = 0.0
) -> None:
    names = [row.name for row in rows]
    for row in rows:
        name = row.name if names.count(row.name) == 1 else f"{row.name}: {row.sentence}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=place, name=visible(name), time=seconds(took / len(rows))
        )
        _outcome(case, row, record)
        ElementTree.SubElement(case, "system-out").text = visible(_details(row))


def _outcome(case: ElementTree.Element, row: RequirementRow, record: Record) -> None:
    """Fill a case with what it carries beside its name; a PASS carries nothing."""
    status = row.decision.status
    said = visible(row.said or row.sentence)
    if status == "ERROR":
        ElementTree.SubElement(case, "error", type=status, message=said)
    elif row.holds:
        return
    elif not row.blocking:
        why = "waived" if row.decision.waived else "warn"
        ElementTree.SubElement(case, "skipped", message=f"{why}, {status}: {said}")
    elif status == "INCONCLUSIVE" and record.policy.inconclusive == "allow" and not row.decision.looks_violated:
        ElementTree.SubElement(case, "skipped", message=f"allowed, {status}: {said}")
    else:
        ElementTree.SubElement(case, "failure", type=status, message=said).text = visible(_reasons(row))


def _reasons(row: RequirementRow) -> str:
    lines = [
        row.decision.reason or "",
        f"Why it matters: {row.why}" if row.why else "",
        f"Owner: {row.owner}" if row.owner else "",
    ]
    return "\n".join(line for line in lines if line)


def _details(row: RequirementRow) -> str:
    parts = [
        f"{row.badge}: {row.sentence}",
        row.said,
        f"value {row.value}{f', {NOT_JUDGED}' if row.doubtful else ''}" if row.value else "",
        f"interval {row.interval}" if row.interval else "",
        f"n {row.n}" if row.n else "",
        row.basis,
        *row.notes,
    ]
    return "\n".join(part for part in parts if part)


def _properties(root: ElementTree.Element, record: Record, verdict: Verdict) -> None:
    """The verdict stands in the first suite: the format has no place for it at the root."""
    suite = root.find("testsuite")
    if suite is None:
        suite = ElementTree.SubElement(root, "testsuite", name="spec")
    properties = ElementTree.Element("properties")
    suite.insert(0, properties)
    steps = next_steps(record, verdict).steps
    facts = {
        "verdict": verdict.word,
        "headline": verdict.headline,
        "reason": verdict.reason,
        "subject": record.subject or "not shown",
    }
    if record.profile is not None:
        facts["profile"] = record.profile.name
    facts |= {f"what to do {number}": step.line for number, step in enumerate(steps, 1)}
    facts |= {f"not asked for: {one.screen}({one.subject})": one.sentence for one in suspicions(record)}
    for name, value in facts.items():
        ElementTree.SubElement(properties, "property", name=visible(name), value=visible(value))


def _count(target: ElementTree.Element, within: ElementTree.Element) -> None:
    counts = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, tag in counts.items():
        target.set(name, str(len(within.findall(f".//{tag}"))))
