"""What else went on in the machine while something was timed, as far as telemetry tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

EVERY_S = 0.5
"""Between two readings."""
OTHERS_NOTED, OTHERS_VOID = 0.10, 0.75
"""Share of all processors that other work uses: told from here on; void from here on."""
STEAL_NOTED, STEAL_VOID = 0.01, 0.10
CLOCK_FALL = 0.10
_CLOCKS = (("gpu_sm_clock_mhz", "GPU"), ("cpu_clock_mhz", "processor"))


@dataclass(frozen=True)
class Surroundings:
    """What telemetry says.

    Args:
        invalid: Why nothing was measured properly, or None.
        throttled: What slowed down by itself, in words; empty: nothing that could be seen.
        notes: For the reader.
    """

    invalid: str | None
    throttled: str
    notes: tuple[str, ...]


def surroundings(samples: Sequence[Samples]) -> Surroundings:
    """Other work, stolen time, throttling and falling clocks.

    Other work and stolen time void a measurement when there is much of them. Throttling is what the system does by
    itself under load, so it is told and never voids anything.

    Args:
        samples: Their telemetry may be missing.
    """
    notes: list[str] = []
    invalid: str | None = None
    others, stolen = (_mean(samples, name) for name in ("cpu_others_share", "cpu_steal_share"))
    for share, noted, void, what in (
        (others, OTHERS_NOTED, OTHERS_VOID, "other processes used"),
        (stolen, STEAL_NOTED, STEAL_VOID, "the hypervisor took"),
    ):
        if share is None or share <= noted:
            continue
        text = f"{what} {share:.0%} of this machine's processor time meanwhile"
        notes.append(f"{text[0].upper()}{text[1:]}.")
        if share > void:
            invalid = invalid or f"{text}, more than {void:.0%}"
    throttled = _throttled(samples)
    if throttled:
        notes.append(f"{throttled[0].upper()}{throttled[1:]}.")
    return Surroundings(invalid, throttled, tuple(notes))


def _throttled(samples: Sequence[Samples]) -> str:
    """What throttled, or whose clock fell."""
    from evalspec.measure.telemetry import THROTTLED, reasons

    masks = _readings(samples, "gpu_throttle_reasons").astype(np.int64)
    slowed = masks & THROTTLED
    if (slowed > 0).any():
        union = int(np.bitwise_or.reduce(slowed))
        return f"the GPU throttled ({', '.join(reasons(union))}) in {(slowed > 0).mean():.0%} of readings"
    for one in samples:
        counts = _series(one, "cpu_throttle_count")
        if len(counts) > 1 and counts[-1] > counts[0]:
            return f"the processor throttled {counts[-1] - counts[0]:.0f} times (too hot)"
    for name, what in _CLOCKS:
        for one in samples:
            clocks = _series(one, name)
            tenth = len(clocks) // 10
            if tenth < 1:
                continue
            first, last = float(np.median(clocks[: 2 * tenth])), float(np.median(clocks[-2 * tenth :]))
            if first > 0 and last < (1.0 - CLOCK_FALL) * first:
                return f"the clock of the {what} fell from {first:,.0f} to {last:,.0f} MHz"
    return ""


def _mean(samples: Sequence[Samples], name: str) -> float | None:
    found = _readings(samples, name)
    return float(found.mean()) if len(found) else None


def _readings(samples: Sequence[Samples], name: str) -> NDArray[np.float64]:
    return np.concatenate([_series(one, name) for one in samples] or [np.empty(0)])


def _series(one: Samples, name: str) -> NDArray[np.float64]:
    if one.telemetry is None or name not in one.telemetry.series:
        return np.empty(0)
    found = one.telemetry.series[name]
    return found[np.isfinite(found)]
