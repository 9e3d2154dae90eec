"""Defects of what was timed or found out of one model: slower, failing, more memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect, share_of
from evalspec.language.inputs import FAILED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Cells, Probe, Samples
    from evalspec.language.streams import Streams


@dataclass(frozen=True)
class Slower(Defect):
    """Each query takes so many times as long. Where queries are sent at fixed times, those stay."""

    model: str
    times: float

    def samples(self, samples: Samples) -> Samples:
        """Those of this model, stretched."""
        import numpy as np

        if samples.model != self.model:
            return samples
        if samples.details.get("kind") == "open_loop":
            longer = np.round((samples.end_ns - samples.sent_ns) * (self.times - 1)).astype(np.int64)
            first = samples.first_ns
            return replace(
                samples, end_ns=samples.end_ns + longer, first_ns=None if first is None else first + longer,
                streams=self._streams(samples, samples.sent_ns),
            )  # fmt: skip
        stretched = {
            name: np.round(value * self.times).astype(np.int64)
            for name in ("intended_ns", "sent_ns", "end_ns", "first_ns")
            if (value := getattr(samples, name)) is not None
        }
        telemetry = samples.telemetry
        if telemetry is not None:
            times_ns = np.round(telemetry.times_ns * self.times).astype(np.int64)
            telemetry = replace(telemetry, times_ns=times_ns)
        streams = self._streams(samples, stretched["sent_ns"])
        return replace(samples, telemetry=telemetry, streams=streams, **stretched)

    def _streams(self, samples: Samples, sent_ns: NDArray[np.int64]) -> Streams | None:
        """Pieces of answers, each so many times as late after its query was sent."""
        import numpy as np

        streams = samples.streams
        if streams is None:
            return None
        count = np.diff(streams.offsets)
        late_ns = (streams.piece_ns - np.repeat(samples.sent_ns, count)) * self.times
        return replace(streams, piece_ns=np.repeat(sent_ns, count) + np.round(late_ns).astype(np.int64))


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
class FewerTokens(Defect):
    """Each answer has so small a share of its tokens, in as many pieces."""

    model: str
    share: float

    def samples(self, samples: Samples) -> Samples:
        """Those of this model that were streamed."""
        import numpy as np

        streams = samples.streams
        if samples.model != self.model or streams is None:
            return samples

        def fewer(counts: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.where(counts > 0, np.maximum(1, np.round(counts * self.share)), counts).astype(np.int64)

        few = replace(
            streams, usage_tokens=fewer(streams.usage_tokens), counted_tokens=fewer(streams.counted_tokens),
            first_tokens=np.minimum(streams.first_tokens, 1),
        )  # fmt: skip
        return replace(samples, streams=few)


@dataclass(frozen=True)
class CachedPrompts(Defect):
    """A server knows the whole of each prompt from before, and says so."""

    model: str

    def samples(self, samples: Samples) -> Samples:
        """Those of this model that were streamed."""
        streams = samples.streams
        if samples.model != self.model or streams is None:
            return samples
        return replace(samples, streams=replace(streams, cached_tokens=streams.prompt_tokens))


@dataclass(frozen=True)
class OtherCounts(Defect):
    """A server reports so many times the tokens that its answers have."""

    model: str
    times: int

    def samples(self, samples: Samples) -> Samples:
        """Those of this model that were streamed and counted by a tokenizer."""
        import numpy as np

        streams = samples.streams
        if samples.model != self.model or streams is None:
            return samples
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
            if isinstance(value, bool) or not isinstance(value, int | float):
                return value
            return type(value)(value * self.times)

        return {name: one(value) for name, value in cells.items()}
