"""Defects that `evalspec selftest` plants in kills. No numpy: the spec names them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evalspec.language.defects import Defect

if TYPE_CHECKING:
    from evalspec.language.inputs import Probe

AWAY = ("healthy_s", "first_token_s")
TIMES = (1.5, 10.0, 1000.0)


@dataclass(frozen=True)
class LongerAway(Defect):
    """A server is away so many times as long after each kill."""

    model: str
    times: float

    def probe(self, probe: Probe) -> Probe:
        """Findings of this model."""
        if probe.model != self.model:
            return probe
        longer = {name: probe.series[name] * self.times for name in AWAY if name in probe.series}
        return replace(probe, series={**probe.series, **longer})


@dataclass(frozen=True)
class NothingAnswered(Defect):
    """Nothing that comes after a kill is answered."""

    model: str

    def probe(self, probe: Probe) -> Probe:
        """Findings of this model."""
        import numpy as np

        from evalspec.language.inputs import FAILED

        if probe.model != self.model or "outcome" not in probe.series:
            return probe
        lost = np.where(probe.series["end_s"] >= 0, float(FAILED), probe.series["outcome"])
        return replace(probe, series={**probe.series, "outcome": lost})


def kill_defects(model: str) -> Iterator[Defect]:
    """Defects of a server that is killed, mildest first of each kind."""
    for times in TIMES:
        yield LongerAway(f"{model} is away {times:g} times as long", model, times)
    yield NothingAnswered(f"{model} answers nothing after a kill", model)
