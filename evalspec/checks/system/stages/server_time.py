"""Times that a server tells, held against how long it was waited for: one stage becomes several."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Probe

    Series = Mapping[str, NDArray[np.float64]]

TRANSFER, REST, INFERENCE, DECODE = "transfer", "server_other", "inference", "decode"
SAME = {"infer": INFERENCE, "compute_infer": INFERENCE}
"""What servers call what is `inference` of every other kind of model."""
STREAM, PREFILL = "stream", "prefill"
BY = {
    "answers": "its header Server-Timing",
    STREAM: "the pieces of its answers",
    "counters": "its counters (statistics of the Open Inference Protocol)",
}
ENTRIES = {"answers": "answers", STREAM: "answers", "counters": "readings of its counters"}
HOW = (
    "a server can tell what it does, by a header Server-Timing (queue;dur=1.2, infer;dur=4.5, in ms) or by the "
    "statistics of the Open Inference Protocol"
)
TRIMMED = 0.1
TOLD, TOTAL, WAITED = "told_ns:", "told_total_ns", "told_wait_ns"
SENT, COUNTED = "told_requests_sent", "told_requests_counted"
_OTHER = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True)
class WaitStages:
    """The stages that a wait for a server is made of.

    Args:
        waits: The stage in which it is waited for; None: nobody is.
        names: Those that take its place, in order; empty: it stays one.
        series_ns: Of each process: stage: shape (k,).
        means: Each number is a mean over several queries.
        by: How it is told, in words.
        notes: For the reader.
    """

    waits: str | None = None
    names: tuple[str, ...] = ()
    series_ns: tuple[Series, ...] = ()
    means: bool = False
    by: str = ""
    notes: list[str] = field(default_factory=list)

    def in_place(self, names: Sequence[str]) -> tuple[str, ...]:
        """All stages, with these in the place of the one."""
        if not self.names:
            return tuple(names)
        return tuple(one for name in names for one in (self.names if name == self.waits else (name,)))


def typical(times: NDArray[np.float64]) -> float:
    """Mean without the fastest and the slowest tenth.

    One query that was put off the processor for milliseconds would else be worth hundreds of others, in whatever stage
    it happened.

    Args:
        times: shape (q,), at least one.
    """
    cut = int(TRIMMED * len(times))
    return float(np.sort(times)[cut : len(times) - cut].mean())


def apart(probes: Sequence[Probe], stages: Sequence[str]) -> WaitStages:
    """Stages of the wait as the server tells them, if it can be believed; otherwise one, with the reason.

    Args:
        probes: One per process, at least one.
        stages: Our own, in order.
    """
    waits = next(iter(probes[0].texts.get("waits", ())), None)
    if waits is None:
        return WaitStages()
    notes = _unread(probes)
    whole = f"`{waits}` is all from sending a request to having its answer, the network included"
    ways = {one.facts.get("told_by") for one in probes}
    if ways == {None}:
        return WaitStages(waits, notes=[f"{whole}; {HOW}.", *notes])
    way = str(next(iter(ways)))
    why_not = _why_not(probes, way) if len(ways) == 1 else "it reported times in some processes only"
    if why_not is None:
        left = (
            PREFILL if way == STREAM and not any(PREFILL in one.texts.get("told", ()) for one in probes) else TRANSFER
        )
        split, why_no_total = _split(probes, [*stages, left, REST], left)
        why_not = _too_much(split, left)
    if why_not is not None:
        said = f"{whole}: what the server says of its own time is not used, since {why_not}."
        return WaitStages(waits, notes=[said, *notes])
    names = tuple(split[0])
    said = f"The server reports {', '.join(names[:-1])} by {BY[way]}; `{left}` is what is left of the wait for it."
    if way == STREAM:
        said = _of_stream(names, left)
    notes = [said, *why_no_total, *_negative(split, ENTRIES[way], left), *notes]
    return WaitStages(waits, names, tuple(split), way == "counters", BY[way], notes)


def _of_stream(names: Sequence[str], left: str) -> str:
    """Sentence on the stages of a streamed answer: which are by our clock, and which the server tells."""
    header = [name for name in names[:-1] if name != DECODE]
    told = f"; {', '.join(header)} by its header Server-Timing" if header else ""
    rest = "all before it, the server's waiting and the network included" if left == PREFILL else "what is left"
    return f"`{DECODE}` is from the first piece of an answer to its end, by our clock{told}; `{left}` is {rest}."


def _unread(probes: Sequence[Probe]) -> list[str]:
    """Note that some of its times can't be read."""
    words = list(dict.fromkeys(text for one in probes for text in one.texts.get("told_unread", ())))
    if not words:
        return []
    more = "" if len(words) <= 3 else ", and more"
    return [f"The server says of its time what can't be read, and is left out: {', '.join(words[:3])}{more}."]


def _why_not(probes: Sequence[Probe], way: str) -> str | None:
    """Why it is not about our queries, or not about all of them."""
    silent = sum(int(np.isnan(np.array(_said(one))).any(axis=0).sum()) for one in probes)
    entries = sum(len(one.series[WAITED]) for one in probes)
    sent, counted = (int(sum(np.nansum(one.series[name]) for one in probes)) for name in (SENT, COUNTED))
    if counted > sent:
        return f"it counted {counted:,} requests while {sent:,} were sent, so others use it too"
    if counted < sent:
        return f"it counted {counted:,} of the {sent:,} requests that were sent"
    if silent or not entries:
        return f"{silent:,} of {entries:,} {ENTRIES[way]} held no times"
    return None


def _said(probe: Probe) -> list[NDArray[np.float64]]:
    """All times in it."""
    return [values for name, values in probe.series.items() if name.startswith(TOLD)] or [probe.series[TOTAL]]


def _split(
    probes: Sequence[Probe], taken: Sequence[str], left_is: str
) -> tuple[list[dict[str, NDArray[np.float64]]], list[str]]:
    """Of each process: stage: its times, in order; and what is to be said of the total.

    Args:
        probes: One per process.
        taken: Names of other stages.
        left_is: What is left of the wait is called.
    """
    raw = tuple(dict.fromkeys(name for one in probes for name in one.texts.get("told", ())))
    none = [np.zeros(len(one.series[WAITED])) for one in probes]
    told = {name: [one.series.get(TOLD + name, zero) for one, zero in zip(probes, none, strict=True)] for name in raw}
    # What never took any time is no stage: there is nothing to gain, and nothing that varies.
    told = {name: found for name, found in told.items() if any(one.any() for one in found)}
    sums = [sum((told[name][place] for name in told), zero) for place, zero in enumerate(none)]
    rest, why_not = _rest(probes, sums)
    named = dict(zip(told, stage_names(tuple(told), taken), strict=True))
    split = []
    for place, one in enumerate(probes):
        found = {named[name]: told[name][place] for name in told}
        left = one.series[WAITED] - sums[place]
        if rest is not None:
            found[REST], left = rest[place], left - rest[place]
        split.append({**found, left_is: left})
    return split, why_not


def _rest(
    probes: Sequence[Probe], sums: Sequence[NDArray[np.float64]]
) -> tuple[list[NDArray[np.float64]] | None, list[str]]:
    """Rest of the server's total beside its parts, in each process; None: it gives no total, or a wrong one."""
    rest = [one.series[TOTAL] - parts for one, parts in zip(probes, sums, strict=True)]
    if any(np.isnan(one).any() for one in rest) or not any(one.any() for one in rest):
        return None, []
    if min(typical(one) for one in rest) < 0:
        return None, ["What the server calls its total is less than its parts add up to, and is left out."]
    return rest, []


def stage_names(told: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Names of the parts that a server tells of, as stages.

    Args:
        told: As it calls them, each once.
        taken: Names of other stages: a part of such a name begins with ``server_``.

    Returns:
        Unlike names; letters that would need quotes in a requirement are underscores.
    """
    names: list[str] = []
    for one in told:
        name = SAME.get(one, _OTHER.sub("_", one))
        name = f"server_{name}" if name in taken else name
        count = 1
        numbered = name
        while numbered in names or numbered in taken:
            count += 1
            numbered = f"{name}_{count}"
        names.append(numbered)
    return names


def _too_much(split: Sequence[Series], left_is: str) -> str | None:
    """Reason to disbelieve a server that claims to have taken longer than it was waited for."""
    if list(split[0]) == [left_is]:
        return "all of its times are 0"
    for found in split:
        left = typical(found[left_is])
        if left < 0:
            waited = sum(typical(series) for series in found.values())
            added = (waited - left) / 1e6
            return f"its times add up to {added:.3g} ms a query, and it was waited for {waited / 1e6:.3g} ms"
    return None


def _negative(split: Sequence[Series], what: str, left_is: str) -> list[str]:
    """Note that it does so in some queries, as rounded times may."""
    over = sum(int((found[left_is] < 0).sum()) for found in split)
    if not over:
        return []
    entries = sum(len(found[left_is]) for found in split)
    return [
        f"In {over:,} of {entries:,} {what} the server's times add up to more than the wait; they count as they are."
    ]
