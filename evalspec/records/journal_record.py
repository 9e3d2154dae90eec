"""A record as the journal of its run has it, and the digests that the journal holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalspec.running.files import Journal
from evalspec.running.journal.closing import ENDS, JOURNAL, OF_A_CHECK

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JournaledRecord:
    """Record of a run as its journal tells it.

    Args:
        events: All up to the end of the run.
        record: The record as JSON; of a journal that holds none, as much of it as its lines say.
        whole: It is the whole record, but for the verdict.
        rule: Version of the rule that gave the verdict, of a whole one.
        digests: File of the run: sha256 of its bytes.
        pages: What it holds of the pages; None: that none were written.
        broken: Why it is no journal that follows from its own lines; None: it is.
        skipped: What it does not hold.
    """

    events: tuple[Event, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False
    rule: Any = None
    digests: Mapping[str, str] = field(default_factory=dict)
    pages: Event | None = None
    broken: str | None = None
    skipped: str | None = None

    def observed(self, model: str, check: str, pairs: Set[tuple[str, str]]) -> Iterator[Mapping[str, Any]]:
        """Facts observed when a model answered, and when a check ran it.

        Args:
            model: The model.
            check: The check.
            pairs: (dataset, model) of the answers that it reads.
        """
        for event in self.events:
            if (
                event["event"] == "predictions"
                and (event.get("dataset"), model) in pairs
                and event.get("model") == model
            ):
                yield _mapping(event.get("observed"))
            elif event["event"] == "check" and event.get("id") == check:
                yield _mapping(_mapping(event.get("observed")).get(model))

    def broken_parts(self, what: str) -> set[str]:
        """Names of the datasets, or of the models, that could not be read."""
        return {
            str(event.get("name")) for event in self.events if event["event"] == "broken" and event.get("what") == what
        }


def journaled(folder: Path) -> JournaledRecord:
    """Read the journal of a run.

    Args:
        folder: Of the run.
    """
    journal = Journal(folder / JOURNAL)
    events = journal.read()
    if not events:
        return JournaledRecord(
            skipped=f"what only the journal of a run says, such as its times: {JOURNAL} is not there"
        )
    pages = next((event for event in reversed(events) if event["event"] == "pages"), None)
    last = next((index for index in reversed(range(len(events))) if events[index]["event"] in ENDS), len(events))
    kept = tuple(events[: last + 1])
    line = journal.unchained()
    broken = None if line is None else f"line {line} does not follow the line before it: a line was changed or removed"
    checks = {str(event.get("id")): _mapping(event.get("record")) for event in kept if event["event"] in OF_A_CHECK}
    end = events[last] if last < len(events) else {}
    said = end.get("record")
    if isinstance(said, dict):
        order = end.get("checks")
        listed = [checks.get(str(name), {}) for name in order] if isinstance(order, list) else []
        record = said | {"checks": listed}
        return JournaledRecord(kept, record, True, end.get("rule"), _mapping(end.get("digests")), pages, broken)
    start = next((event for event in reversed(kept) if event["event"] == "start"), None)
    if start is None or "evalspec" in start:
        part = "began" if start is None else "ended"
        return JournaledRecord(kept, broken=broken or f"it does not say how the run {part}", pages=pages)
    return JournaledRecord(
        kept,
        {"started": start.get("time"), "draft": start.get("draft"), "checks": list(checks.values())},
        broken=broken,
        skipped="the environment, the counts of earlier runs and whatever else its journal does not state: the "
        "journal of this run has no digest of record.json and of its pages",
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    """Mapping that a line should hold; empty where the line was made otherwise."""
    return value if isinstance(value, dict) else {}
