"""Defects that `evalspec selftest` plants in kills. No numpy: the spec names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.language.defects import TIMES, Defect

if TYPE_CHECKING:
    from evalspec.language.inputs import Probe

FIRST = "first_token_s"
AWAY = ("healthy_s", FIRST)


@dataclass(frozen=True)
class LongerAway(Defect):
    """A server is away so many times as long after each kill."""

    model: str
    times: float

    def probe(self, probe: Probe) -> Probe:
        """Findings of this model."""
        if probe.model != self.model:
            return probe
        return _longer(probe, AWAY, self.times)


@dataclass(frozen=True)
class LaterAnswer(Defect):
    """A server is healthy again when it was, and gives its first token so many times as late."""

    model: str
    times: float

    def probe(self, probe: Probe) -> Probe:
        """Findings of this model."""
        return _longer(probe, (FIRST,), self.times) if probe.model == self.model else probe


def _longer(probe: Probe, names: tuple[str, ...], times: float) -> Probe:
    longer = {name: probe.series[name] * times for name in names if name in probe.series}
    return replace(probe, series={**probe.series, **longer})


@dataclass(frozen=True)
class MoreLost(Defect):
    """So many times as many queries come after a kill, and none of them is answered; the server is back when it was."""

    model: str
    times: float

    def probe(self, probe: Probe) -> Probe:
        """Findings of this model."""
        import numpy as np

        from evalspec.language.timings import FAILED

        if probe.model != self.model or "outcome" not in probe.series:
            return probe
        after = probe.series["end_s"] >= 0
        places = np.repeat(np.arange(len(after)), np.where(after, int(self.times), 1))
        series = {
            name: values[places] if len(values) == len(after) else values for name, values in probe.series.items()
        }
        series["outcome"] = np.where(after[places], float(FAILED), series["outcome"])
        return replace(probe, series=series)


def kill_defects(model: str) -> Iterator[Defect]:
    """Defects of a server that is killed, mildest first of each kind."""
    for times in TIMES:
        yield LongerAway(f"{model} is away {times:g} times as long", model, times)
    for times in TIMES:
        yield LaterAnswer(f"{model} is healthy in time and answers {times:g} times as late", model, times)
    yield MoreLost(f"{model} answers nothing after a kill", model, 1.0)
    for times in TIMES[1:]:
        yield MoreLost(f"{model} loses {times:g} times as many queries as come after a kill", model, times)
