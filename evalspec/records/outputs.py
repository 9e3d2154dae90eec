"""The files beside a record, and the lines that a terminal shows of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import RecordError
from evalspec.evidence.names import asked_of, owner_of
from evalspec.evidence.record import Record
from evalspec.evidence.test import Test, holds
from evalspec.evidence.units import format_quantity
from evalspec.evidence.verdict import Decision, Status, Verdict
from evalspec.evidence.words import plural
from evalspec.evidence.written import as_written
from evalspec.running.files import sha256_of, write_atomically
from evalspec.running.folders import RECORD
from evalspec.running.journal.closing import JOURNAL, note_pages
from evalspec.running.subjects import CheckEnd
from evalspec.version import __version__

ORDER = (130, 2, 1, 4, 3, 141, 0)
"""Of several exit codes the first in this order holds."""
UNMEASURED: dict[str, Status] = {"not_run": "NOT_RUN", "invalid": "INVALID", "error": "ERROR"}
"""Status of a check that was not measured: that of its requirements."""
ENDED = {"not_run": "not run", "invalid": "void", "error": "crashed"}
PAGES = {"report.html": "html", "junit.xml": "junit", "summary.md": "markdown"}
"""File beside a record: its form of the report."""
SHOWN = 40
"""Requirements that a terminal shows; the report has all."""


def worst(codes: Iterable[int]) -> int:
    """The exit code of several runs."""
    return min(codes, key=ORDER.index, default=0)


def verdict_of(record: Record) -> Verdict:
    """The verdict that a record ends with.

    Raises:
        RecordError: It has none.
    """
    if record.verdict is None:
        raise RecordError("the record has no verdict: its run did not end")
    return record.verdict


def read_decided(folder: Path) -> Record:
    """The record of a run whose verdict is what its own tests give.

    Raises:
        RecordError: It can't be read, has no verdict, or its verdict was changed.
    """
    from evalspec.running.folders import read_record

    record = read_record(folder)
    check_decided(record, folder)
    return record


def check_decided(record: Record, folder: Path) -> None:
    """Stop where a verdict is not what the record's own tests give.

    Args:
        record: The record.
        folder: Where it lies, for the message.

    Raises:
        RecordError: It has no verdict, or its verdict was changed.
    """
    from evalspec.verdict import decide

    again = decide(record)
    stated = verdict_of(record)
    if stated.rule == again.rule and _outcome(stated) != _outcome(again):
        differs = sorted({name for name, _ in set(_outcome(stated)) ^ set(_outcome(again))})
        made = record.evalspec
        by = (
            ""
            if made == __version__
            else f", or evalspec {made}, which made it, decided differently from {__version__}"
        )
        raise RecordError(
            f"the record in {folder} was changed{by}: its tests do not give its verdict ({', '.join(differs[:5])}); "
            "evalspec verify says where"
        )


def _outcome(verdict: Verdict) -> list[tuple[str, str]]:
    """Outcome of a verdict, whatever its sentences are."""
    ended = [(one.name, f"{one.status} {one.blocking} {one.waived}") for one in verdict.decisions]
    return [("the verdict", f"{verdict.word} {verdict.exit_code}"), *ended]


def pages(record: Record) -> dict[str, str]:
    """File beside a record: what stands in it, made from the record alone.

    Raises:
        RecordError: The record has no verdict.
    """
    return {name: render_one(record, form) for name, form in PAGES.items()}


def write_reports(record: Record, folder: Path) -> None:
    """``report.html``, ``junit.xml`` and ``summary.md`` beside the record, and their digests into its journal.

    Raises:
        RecordError: The record has no verdict.
        WriteError: One of them can't be written.
    """
    made = pages(record)
    for name, text in made.items():
        write_atomically(folder / name, text)
    note_pages(folder, {name: hashlib.sha256(text.encode()).hexdigest() for name, text in made.items()})


def check_line(end: CheckEnd) -> tuple[Status | None, str]:
    """Status of a check that has just ended, as far as it can be known by itself, and what is said of it.

    Returns:
        ``FAIL`` for a violation whatever comes, ``PASS`` where all that blocks holds, ``INCONCLUSIVE`` in between; None
        for what was measured in a draft, which decides nothing.
    """
    record = end.record
    if record.status != "measured":
        return UNMEASURED[record.status], f"{record.id}: {record.reason}"
    status: Status = "FAIL" if end.violated else "PASS" if end.met else "INCONCLUSIVE"
    tests = [test for test in record.tests if test.severity == "require"] or list(record.tests)
    shown = min(tests, key=lambda test: _rank(test, status), default=None)
    more = f" and {plural(len(tests) - 1, 'requirement')} more" if len(tests) > 1 else ""
    said = record.id if shown is None else f"{record.id}: {_value(shown)}, needs {_needs(shown)}{more}"
    return None if end.draft else status, said


def _rank(test: Test, status: Status) -> float:
    """Order in which tests speak for their check: the one that is worst first."""
    p = test.p_fail if status == "FAIL" else test.p_pass
    missed = test.exact and test.value is not None and not holds(test.op, test.value, test.threshold)
    return -1.0 if missed else (p if status == "FAIL" else -p) if p is not None else 0.0


def _needs(test: Test) -> str:
    from evalspec.report.requirements import SIGNS

    test = as_written(test)
    return f"{SIGNS[test.op]} {format_quantity(test.threshold, test.unit)}"


@dataclass(frozen=True, slots=True)
class TerminalLine:
    """A line that a terminal shows after a run.

    Args:
        text: What it says.
        status: Of the requirement that it is about; empty: it is about none.
        note: ``warn`` or ``waived``; empty: it blocks.
        word: The verdict's, in the line that says it.
    """

    text: str
    status: str = ""
    note: str = ""
    word: str = ""


def say(record: Record, folder: Path) -> list[TerminalLine]:
    """Lines that a terminal shows after a run."""
    verdict = verdict_of(record)
    report = TerminalLine(f"report: {_from_here(folder / 'report.html')}")
    lines = [TerminalLine(f"{record.spec}: {verdict.headline}", word=verdict.word), TerminalLine(f"  {verdict.reason}")]
    if record.draft:
        return [*lines, *map(TerminalLine, _tried(record)), report]
    lines += map(TerminalLine, _unasked(record))
    lines += [TerminalLine(f"  ! {line}") for line in verdict.weakened]
    asked = Counter(asked_of(one.name) for one in verdict.decisions)
    lines += [_line(one, asked) for one in verdict.decisions[:SHOWN]]
    if len(verdict.decisions) > SHOWN:
        lines.append(TerminalLine(f"  ... and {len(verdict.decisions) - SHOWN} more in the report"))
    return [*lines, *map(TerminalLine, _steps(record, verdict, folder)), report]


def _steps(record: Record, verdict: Verdict, folder: Path) -> Iterator[str]:
    """Things to do, as on the page: last, where a reader of a terminal looks first."""
    from evalspec.report.next_steps import next_steps

    found = next_steps(record, verdict, run=str(_from_here(folder)))
    if found.steps:
        yield "What to do"
    yield from (f"  {number}  {step.line}" for number, step in enumerate(found.steps, 1))
    if found.more:
        yield f"  and {found.more} more in the report"


def _unasked(record: Record) -> Iterator[str]:
    """Suspicions of the screens, each with the requirement that would decide it."""
    for one in () if record.screens is None else record.screens.suspicions:
        yield f"  Also found: {one.sentence}"
        yield from (f"      {line}" for line in one.suggestion.splitlines())


def _tried(record: Record) -> Iterator[str]:
    """Fate of each check of a draft: that it ran, and on what, or why it did not."""
    for check in record.checks:
        if check.status != "measured":
            yield f"  {ENDED[check.status]:<8} {check.id}: {check.reason}"
            continue
        found = [_value(test) for test in check.tests]
        yield f"  {'ran':<8} {check.id}" + (f": {', '.join(found)}" if found else "")


def _value(test: Test) -> str:
    name, test = test.asked, as_written(test)
    if test.value is None:
        return f"{name} has no value ({test.missing or 'too little to tell'})"
    return f"{name} {format_quantity(test.value, test.unit)}"


def _line(decision: Decision, asked: Counter[str]) -> TerminalLine:
    """One requirement; with its check where another check is asked the same."""
    note = "waived" if decision.waived else "" if decision.blocking else "warn"
    whose = f"{owner_of(decision.name)}: " if asked[asked_of(decision.name)] > 1 else ""
    return TerminalLine(f"{whose}{decision.sentence}", decision.status, note)


def _from_here(path: Path) -> Path:
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def render_one(record: Record, form: str, folder: Path | None = None) -> str:
    """One form of the report: ``html``, ``markdown``, ``junit``, ``attestation``, ``monitoring`` or ``model_card``.

    Args:
        record: Of the run.
        form: The form.
        folder: Of the run, or its record: an attestation holds the digests of what lies there; None: it holds none.

    Raises:
        RecordError: The record has no verdict, or nothing that a model card may tell.
    """
    from evalspec.report import attestation, junit, markdown, model_card, monitoring, render

    if form in ("markdown", "junit"):
        return (markdown if form == "markdown" else junit)(record)
    if form == "attestation":
        return attestation(record, verdict_of(record), {} if folder is None else _digests(folder))
    decided = {"html": render, "monitoring": monitoring, "model_card": model_card}
    return decided[form](record, verdict_of(record))


def _digests(folder: Path) -> dict[str, str]:
    """Record, journal and pages of a run, as far as they are there: sha256 of each."""
    places = [folder / name for name in (RECORD, JOURNAL, *PAGES)] if folder.is_dir() else [folder]
    return {path.name: sha256_of(path) for path in places if path.is_file()}


def newest_record(named: Path | None, root: Path, spec: str) -> Record | None:
    """The record that was named, or that of the newest whole run of a spec, or None.

    Raises:
        RecordError: The named one can't be read.
    """
    from evalspec.running.folders import read_record, records_in

    if named is not None:
        return read_record(named)
    whole = (one for one in records_in(root / "reports" / spec) if not (one.draft or one.only or one.interrupted))
    return next(whole, None)
