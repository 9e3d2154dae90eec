"""Times that a server tells while it is waited for: in each answer, or by counters before and after some queries."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.language.abilities import ReportsTiming, ServerTiming
from evalspec.measure.probes import ProbeResult
from evalspec.measure.servable import Servable, streamed_by

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANSWERS, COUNTERS, STREAM = "answers", "counters", "stream"
TRIES, PAUSE_S = 40, 0.005
"""A server may count a request after it has answered it: its counters are read again for so long."""
UNREAD = 5
"""Of what can't be read, so many examples are kept."""


@dataclass(slots=True)
class _Entry:
    """Times of one query, or of each of some queries.

    Args:
        told: As means of a query.
        waited_ns: For a query, by our clock.
        sent: Requests of all of these queries.
        counted: Requests that the server speaks of.
    """

    told: ServerTiming
    waited_ns: float
    sent: int
    counted: int


class Listener:
    """Hears nothing; see `listen`."""

    def __init__(self) -> None:
        self._unread: dict[str, None] = {}

    def begin(self) -> None:
        """Queries are about to be divided into their stages."""

    def heard(self, outputs: Any, waited_ns: float) -> None:
        """One query was.

        Args:
            outputs: What the stage gave in which the server was waited for.
            waited_ns: How long that took.
        """

    def stretch(self) -> None:
        """Some queries were."""

    def found(self) -> ProbeResult:
        """Times that were heard.

        Returns:
            Text ``told``: names of what the server did. Series ``told_ns:NAME`` of each, shape (k,), NaN where nothing
            was said, and of the same length ``told_wait_ns``, ``told_total_ns``, ``told_requests_sent`` and
            ``told_requests_counted``: one for each query, or of means over stretches of queries, as fact ``told_by``
            says (``answers``, ``stream``, ``counters``). Text ``told_unread``: examples of what can't be read.
        """
        return ProbeResult(texts={"told_unread": tuple(self._unread)} if self._unread else {})

    def read(self, told: ServerTiming) -> ServerTiming:
        """The same; what of it can't be read is kept."""
        for words in told.unread:
            if len(self._unread) < UNREAD:
                self._unread.setdefault(words)
        return told


class _Speaking(Listener):
    by = ""

    def __init__(self, rows: ReportsTiming) -> None:
        super().__init__()
        self._rows = rows
        self._entries: list[_Entry] = []
        self._served: list[tuple[Any, float]] = []

    def heard(self, outputs: Any, waited_ns: float) -> None:
        """Kept, and looked at later, since what is done between two queries slows the second one."""
        self._served.append((outputs, waited_ns))

    def _taken(self) -> list[tuple[ServerTiming, float]]:
        """Times told of the queries of a stretch, and how long each was waited for."""
        served, self._served = self._served, []
        return [(self._rows.told(outputs), waited_ns) for outputs, waited_ns in served]

    def found(self) -> ProbeResult:
        entries = self._entries
        names = tuple(dict.fromkeys(name for one in entries for name in one.told.parts_ns))
        series = {
            f"told_ns:{name}": _numbers([_said(one.told, one.told.parts_ns.get(name, 0.0)) for one in entries])
            for name in names
        }
        series |= {
            "told_total_ns": _numbers([one.told.total_ns for one in entries]),
            "told_wait_ns": _numbers([one.waited_ns for one in entries]),
            "told_requests_sent": _numbers([one.sent for one in entries]),
            "told_requests_counted": _numbers([one.counted for one in entries]),
        }
        return ProbeResult(facts={"told_by": self.by}, series=series, texts={**super().found().texts, "told": names})


class _ByAnswers(_Speaking):
    """Each answer tells of its own request."""

    by = ANSWERS

    def stretch(self) -> None:
        for told, waited_ns in self._taken():
            self._entries.append(_Entry(self.read(told), waited_ns, told.requests, told.requests))


class _ByStream(_ByAnswers):
    """Each answer comes in pieces, whose times tell of it; its header may tell more."""

    by = STREAM


class _ByCounters(_Speaking):
    """Counters tell of all requests, ours and those of others: read before and after each stretch of queries."""

    by = COUNTERS

    def __init__(self, rows: ReportsTiming) -> None:
        super().__init__(rows)
        self._before = ServerTiming(0, {})

    def begin(self) -> None:
        """The counters are read once they stand still: what was sent before is counted by then."""
        self._before = self._counted()
        for _ in range(TRIES):
            time.sleep(PAUSE_S)
            last, self._before = self._before, self._counted()
            if last.requests == self._before.requests:
                break

    def stretch(self) -> None:
        taken = self._taken()
        if not taken:
            return
        sent = sum(told.requests for told, _ in taken)
        after = self._counted()
        for _ in range(TRIES):
            if after.requests - self._before.requests >= sent:
                break
            time.sleep(PAUSE_S)
            after = self._counted()
        told = _each(self._before, after, len(taken))
        waited_ns = float(np.mean([waited for _, waited in taken]))
        self._entries.append(_Entry(told, waited_ns, sent, told.requests))
        self._before = after

    def _counted(self) -> ServerTiming:
        return self.read(self._rows.counted() or ServerTiming(0, {}))


def listen(rows: Servable, outputs: Any) -> Listener:
    """A listener of what is asked; one that hears nothing where nobody speaks, or in process.

    Answers are listened to where they speak, since they tell of each query, and counters otherwise.

    Args:
        rows: What is asked.
        outputs: What the stage gave in which a server is waited for, of a query that was served to warm up.
    """
    silent = Listener()
    if not isinstance(rows, ReportsTiming):
        return silent
    if silent.read(rows.told(outputs)).says_something:
        return _ByAnswers(rows) if streamed_by(rows) is None else _ByStream(rows)
    counted = rows.counted()
    if counted is not None and silent.read(counted).says_something:
        return _ByCounters(rows)
    return silent


def _each(before: ServerTiming, after: ServerTiming, queries: int) -> ServerTiming:
    """Times counted in between, for each query; nothing where counters went backwards, as after a restart."""
    parts = {name: (ns - before.parts_ns.get(name, 0.0)) / queries for name, ns in after.parts_ns.items()}
    requests = after.requests - before.requests
    if requests < 0 or not all(ns >= 0 for ns in parts.values()):
        return ServerTiming(requests, {})
    total = None
    if after.total_ns is not None and before.total_ns is not None:
        total = (after.total_ns - before.total_ns) / queries
    return ServerTiming(requests, parts, total)


def _said(told: ServerTiming, ns: float) -> float | None:
    """A part that an answer does not name took no time, if the answer names others."""
    return ns if told.says_something else None


def _numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
