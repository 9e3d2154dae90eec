"""Changes since the decided run before this one, as far as the record knows it."""

from __future__ import annotations

from collections.abc import Iterator

from evalspec.evidence.record import PreviousRun, Record
from evalspec.evidence.verdict import Verdict
from evalspec.evidence.words import first_of, plural, short_digest, verb
from evalspec.report.reproduce import when

MOST = 3
"""Requirements that are named of those that changed."""


def since_previous(record: Record, verdict: Verdict) -> tuple[str, ...]:
    """Sentences on the run before and on what is otherwise now; none where the record knows of no such run.

    Args:
        record: The run.
        verdict: What was decided of it.
    """
    before = record.previous
    if before is None:
        return _runs(record)
    return (f"{before.word} on {when(before.started)}.", *_changes(record, verdict, before))


def _runs(record: Record) -> tuple[str, ...]:
    """Sentence on earlier runs of a record that knows their number alone."""
    if not record.earlier_runs:
        return ()
    runs, own = record.earlier_runs, record.earlier_of_subject
    if own == runs:
        which = "all of this model" if runs > 1 else "of this model"
    else:
        none = "none of them" if runs > 1 else "not"
        which = f"{own} of them of this model" if own else f"{none} of this model"
    return (f"{plural(runs, 'run')} before on this test set, {which}.",)


def _changes(record: Record, verdict: Verdict, before: PreviousRun) -> Iterator[str]:
    if before.subject is not None and record.subject is not None:
        same = before.subject == record.subject
        yield "Same model." if same else f"Another model: {short_digest(before.subject)[:7]} was judged then."
    now = {one.name: one.status for one in verdict.decisions}
    both = [name for name in now if name in before.statuses]
    met = [name for name in both if now[name] == "PASS" != before.statuses[name]]
    lost = [name for name in both if now[name] != "PASS" == before.statuses[name]]
    if lost:
        yield f"No longer met: {first_of(lost, most=MOST)}."
    if met:
        yield f"Met now: {first_of(met, most=MOST)}."
    if not lost and not met:
        yield "Every requirement has the same result as then."
    asked = record.asked_otherwise
    if asked:
        names = first_of(list(dict.fromkeys(one.of for one in asked)), most=MOST)
        yield f"{len(asked)} {verb(len(asked), 'thing is', 'things are')} requested differently: {names}."
