"""Defects of what was timed or found out of one model: slower, failing, more memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.evidence.frozen import is_number
from evalspec.language.defects import Defect, share_of
from evalspec.language.timings import FAILED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell, Cells
    from evalspec.language.inputs import Probe, Samples
    from evalspec.language.streams import Streams


@dataclass(frozen=True)
class Slower(Defect):
    """A share of the queries takes so many times as long. Where queries are sent at fixed times, those stay.

    Where all of them do, everything else that the process did meanwhile takes as many times as long.
    """

    model: str
    times: float
    share: float = 1.0

    def samples(self, samples: Samples) -> Samples:
        """Those of this model, stretched."""
        import numpy as np

        if samples.model != self.model:
            return samples
        if samples.details.get("kind") == "open_loop" or self.share < 1.0:
            late = share_of(len(samples.ok), self.share)
            longer = np.round(np.where(late, samples.end_ns - samples.sent_ns, 0) * (self.times - 1)).astype(np.int64)
            return _delayed(samples, longer, self._pieces(samples, longer))
        stretched = {
            name: np.round(value * self.times).astype(np.int64)
            for name in ("intended_ns", "sent_ns", "end_ns", "first_ns")
            if (value := getattr(samples, name)) is not None
        }
        telemetry = samples.telemetry
        if telemetry is not None:
            times_ns = np.round(telemetry.times_ns * self.times).astype(np.int64)
            telemetry = replace(telemetry, times_ns=times_ns)
        streams = samples.streams
        if streams is not None:
            count = np.diff(streams.offsets)
            after_ns = (streams.piece_ns - np.repeat(samples.sent_ns, count)) * self.times
            at_ns = np.repeat(stretched["sent_ns"], count) + np.round(after_ns).astype(np.int64)
            streams = replace(streams, piece_ns=at_ns)
        return replace(samples, telemetry=telemetry, streams=streams, **stretched)

    def _pieces(self, samples: Samples, longer: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """How much later each piece of an answer comes: the further into it, the more."""
        import numpy as np

        if samples.streams is None:
            return None
        whole = np.maximum(samples.end_ns - samples.sent_ns, 1)
        count = np.diff(samples.streams.offsets)
        after = (samples.streams.piece_ns - np.repeat(samples.sent_ns, count)) / np.repeat(whole, count)
        later: NDArray[np.int64] = np.round(after * np.repeat(longer, count)).astype(np.int64)
        return later


class SlowTail(Slower):
    """Few of the queries take so many times as long: percentiles tell it, a median does not."""


@dataclass(frozen=True)
class OfStreams(Defect):
    """Something wrong with the streamed answers of one model; timings of others, and of whole answers, stay."""

    model: str

    def samples(self, samples: Samples) -> Samples:
        streams = samples.streams
        return samples if samples.model != self.model or streams is None else self.streamed(samples, streams)

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        """Timings of one process, all of whose answers were streamed."""
        raise NotImplementedError


@dataclass(frozen=True)
class LaterFirst(OfStreams):
    """The first token of each answer takes so many times as long, and the rest comes after it as it did."""

    times: float

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        import numpy as np

        count = np.diff(streams.offsets)
        first_ns = np.zeros(len(count), dtype=np.int64)
        first_ns[count > 0] = streams.piece_ns[streams.offsets[:-1][count > 0]] - samples.sent_ns[count > 0]
        later = np.round(first_ns * (self.times - 1)).astype(np.int64)
        return _delayed(samples, later, np.repeat(later, count))


@dataclass(frozen=True)
class LongerGap(OfStreams):
    """One gap in each answer is so long that the rest takes so many times as long: the one in its middle."""

    times: float

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        import numpy as np

        starts, count = streams.offsets[:-1], np.diff(streams.offsets)
        some = count > 1
        spent_ns = np.zeros(len(count), dtype=np.int64)
        spent_ns[some] = streams.piece_ns[(starts + count - 1)[some]] - streams.piece_ns[starts[some]]
        longer = np.round(spent_ns * (self.times - 1)).astype(np.int64)
        place = np.arange(len(streams.piece_ns)) - np.repeat(starts, count)
        after = place >= np.repeat(np.maximum(1, count // 2), count)
        return _delayed(samples, longer, np.where(after, np.repeat(longer, count), 0))


@dataclass(frozen=True)
class SlowerTokens(OfStreams):
    """Every token after the first takes as long as the next, and so many times what they took on average."""

    times: float

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        import numpy as np

        starts, count = streams.offsets[:-1], np.diff(streams.offsets)
        some = count > 1
        first_ns, gap_ns = np.zeros(len(count)), np.zeros(len(count))
        first_ns[count > 0] = streams.piece_ns[starts[count > 0]]
        gap_ns[some] = (streams.piece_ns[(starts + count - 1)[some]] - first_ns[some]) / (count[some] - 1)
        place = np.arange(len(streams.piece_ns)) - np.repeat(starts, count)
        at_ns = np.repeat(first_ns, count) + place * np.repeat(gap_ns * self.times, count)
        longer = np.round(gap_ns * (self.times - 1) * np.maximum(count - 1, 0)).astype(np.int64)
        return _delayed(samples, longer, np.round(at_ns - streams.piece_ns).astype(np.int64))


def _delayed(samples: Samples, longer: NDArray[np.int64], pieces: NDArray[np.int64] | None) -> Samples:
    """Queries that end later; where each is sent after the one before, those that follow are sent later as well.

    Args:
        samples: As they were.
        longer: shape (q,), ns that each query takes more.
        pieces: shape (p,), ns that each piece of an answer comes later after its query was sent; None: as its end.
    """
    import numpy as np

    waits = np.zeros(len(longer), dtype=np.int64)
    if samples.details.get("kind") != "open_loop":
        order = np.argsort(samples.sent_ns, kind="stable")
        waits[order] = np.cumsum(longer[order]) - longer[order]
    first, streams, telemetry = samples.first_ns, samples.streams, samples.telemetry
    if streams is not None and pieces is not None:
        at_ns = streams.piece_ns + np.repeat(waits, np.diff(streams.offsets)) + pieces
        streams = replace(streams, piece_ns=at_ns)
    if telemetry is not None and len(longer) and waits.any():
        times_ns = telemetry.times_ns * (1.0 + float(longer.sum()) / max(1.0, float(samples.end_ns.max())))
        telemetry = replace(telemetry, times_ns=np.round(times_ns).astype(np.int64))
    return replace(
        samples, intended_ns=samples.intended_ns + waits, sent_ns=samples.sent_ns + waits,
        end_ns=samples.end_ns + waits + longer, first_ns=None if first is None else first + waits + longer,
        streams=streams, telemetry=telemetry,
    )  # fmt: skip


@dataclass(frozen=True)
class Failing(Defect):
    """A share of the queries gets no answer."""

    model: str
    share: float

    def samples(self, samples: Samples) -> Samples:
        """Those of this model, some of them failed."""
        import numpy as np

        if samples.model != self.model:
            return samples
        lost = share_of(len(samples.ok), self.share)
        outcome = None if samples.outcome is None else np.where(lost, FAILED, samples.outcome)
        return replace(samples, ok=samples.ok & ~lost, outcome=outcome)


@dataclass(frozen=True)
class FewerTokens(OfStreams):
    """Each answer has so small a share of its tokens, in as many pieces."""

    share: float

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        import numpy as np

        def fewer(counts: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.where(counts > 0, np.maximum(1, np.round(counts * self.share)), counts).astype(np.int64)

        few = replace(
            streams, usage_tokens=fewer(streams.usage_tokens), counted_tokens=fewer(streams.counted_tokens),
            first_tokens=np.minimum(streams.first_tokens, 1),
        )  # fmt: skip
        return replace(samples, streams=few)


@dataclass(frozen=True)
class CachedPrompts(OfStreams):
    """A server knows the whole of each prompt from before, and says so."""

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        return replace(samples, streams=replace(streams, cached_tokens=streams.prompt_tokens))


@dataclass(frozen=True)
class OtherCounts(OfStreams):
    """A server reports so many times the tokens that its answers have."""

    times: int

    def streamed(self, samples: Samples, streams: Streams) -> Samples:
        import numpy as np

        more = np.where(streams.counted_tokens > 0, self.times * streams.counted_tokens + 2, streams.usage_tokens)
        return replace(samples, streams=replace(streams, usage_tokens=more))


@dataclass(frozen=True)
class MoreOf(Defect):
    """Each number that was found out of the model is so many times what it was: sizes, seconds, watts."""

    model: str
    times: float

    def samples(self, samples: Samples) -> Samples:
        """The counters that were read of the machine meanwhile."""
        told = samples.telemetry
        if told is None or samples.model != self.model:
            return samples
        series = {name: values * self.times for name, values in told.series.items()}
        return replace(samples, telemetry=replace(told, series=series))

    def probe(self, probe: Probe) -> Probe:
        """Findings of processes."""
        if probe.model != self.model:
            return probe
        series = {name: values * self.times for name, values in probe.series.items()}
        return replace(probe, facts=self._more(probe.facts), series=series)

    def facts(self, model: str, facts: Cells) -> Cells:
        """Facts of the model."""
        return self._more(facts) if model == self.model else facts

    def _more(self, cells: Cells) -> Cells:
        def one(value: Cell) -> Cell:
            if not is_number(value):
                return value
            return type(value)(value * self.times)

        return {name: one(value) for name, value in cells.items()}


class LessOf(MoreOf):
    """Each is a part of what it was."""


@dataclass(frozen=True)
class OneMore(MoreOf):
    """One of those numbers is, by its place among them in the order of their names; counters stay."""

    rank: str

    def samples(self, samples: Samples) -> Samples:
        """As they are."""
        return samples

    def probe(self, probe: Probe) -> Probe:
        """Findings of processes: a fact or a series."""
        if probe.model != self.model:
            return probe
        name = self._chosen((*_numbers(probe.facts), *probe.series))
        if not name:
            return probe
        facts = {**probe.facts, **self._more({name: probe.facts[name]})} if name in probe.facts else probe.facts
        series = {**probe.series, name: probe.series[name] * self.times} if name in probe.series else probe.series
        return replace(probe, facts=facts, series=series)

    def facts(self, model: str, facts: Cells) -> Cells:
        """Facts of the model."""
        name = self._chosen(_numbers(facts))
        return {**facts, **self._more({name: facts[name]})} if model == self.model and name in facts else facts

    def _chosen(self, names: tuple[str, ...]) -> str:
        return sorted(names)[int(self.rank) - 1] if int(self.rank) <= len(names) else ""


def _numbers(facts: Cells) -> tuple[str, ...]:
    return tuple(name for name, value in facts.items() if is_number(value))


@dataclass(frozen=True)
class OtherWords(Defect):
    """A share of the words of a list that a process found out is another word; lists go by the order of names."""

    model: str
    share: float
    rank: str

    def probe(self, probe: Probe) -> Probe:
        """Findings of processes."""
        import numpy as np

        names, place = sorted(probe.texts), int(self.rank) - 1
        if probe.model != self.model or place >= len(names):
            return probe
        words = probe.texts[names[place]]
        changed = np.where(share_of(len(words), self.share), "other", np.array(words, dtype=object))
        return replace(probe, texts={**probe.texts, names[place]: tuple(map(str, changed))})
