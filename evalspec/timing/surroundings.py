"""Surroundings of a timed run: what else went on in the machine meanwhile, as far as telemetry tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.reasons import BySurroundings, Cause, EasedOff, Reason
from evalspec.measure.telemetry import THROTTLED, readings, reasons
from evalspec.timing import device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

EVERY_S = 0.5
"""Between two readings."""
OTHERS_NOTED, OTHERS_VOID = 0.10, 0.75
"""Share of all processors that other work uses: told from here on; void from here on, however many are left."""
FREE_BESIDE = 1.0
"""Processors that must be left beside those of the model's threads: for the harness, and what the system does."""
OTHERS_MAY, OTHERS_MAY_SHARE = 1.5, 0.25
"""Processors, and share of all, that others may use even where the model has threads for all of them."""
STEAL_NOTED, STEAL_VOID = 0.01, 0.10
GPU_OTHERS_VOID = 0.10
"""Share of time in which kernels of others run on the model's GPU: it is taken from the model, as stolen time is."""
CLOCK_FALL = 0.10
EASED_OFF, EASED_IN = 0.15, 0.8
"""Share of all processors by which other work fell from the first half of a process to the second; of the processes."""
TAKEN = ("cpu_others_share", "cpu_steal_share", "gpu_others_share")
_CLOCKS = (("gpu_sm_clock_mhz", "GPU"), ("cpu_clock_mhz", "processor"))


@dataclass(frozen=True)
class Surroundings:
    """Findings of telemetry.

    Args:
        invalid: Why nothing was measured properly, or None.
        throttled: What slowed down by itself, in words; empty: nothing that could be seen.
        notes: For the reader.
    """

    invalid: BySurroundings | None
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
    disturbances = [_others(samples), _stolen(samples), _on_the_gpu(samples)]
    notes += [note for note, _ in disturbances if note]
    throttled = _throttled(samples)
    if throttled:
        notes.append(_sentence(throttled))
    void = next((void for _, void in disturbances if void), None)
    return Surroundings(None if void is None else _reason(void, samples), throttled, tuple(notes))


def _reason(void: Reason, samples: Sequence[Samples]) -> BySurroundings:
    """Reason for a disturbance; one that eased off in most processes may have hidden latency that rises."""
    fell = [any(_fall(one, name) > EASED_OFF for name in TAKEN) for one in samples]
    if sum(fell) < EASED_IN * len(fell):
        return BySurroundings(void, void.cause)
    return EasedOff(f"{void}, and it eased off meanwhile, which can hide that the system grows slower", void.cause)


def _fall(samples: Samples, name: str) -> float:
    """Fall of a share from the first half of a process's readings to the second."""
    shares = readings(samples.telemetry, name)[1]
    half = len(shares) // 2
    return float(shares[:half].mean() - shares[-half:].mean()) if half else 0.0


def most_of_others(processors: float, threads: float) -> float:
    """Processors that other work may use before it voids a timing.

    The model's threads and one processor more must stay free, since what others use beyond that they take from the
    model: on a machine with many processors a neighbour may be large, as long as it leaves room. Where the model has
    threads for nearly all of them there is never room, and nothing on a usual machine would be valid: there others may
    use a quarter, or one and a half of a few, which the notes tell of. Never more than three quarters: caches and
    memory are shared, and clocks fall.

    Args:
        processors: Of the machine.
        threads: Of the model.
    """
    room = processors - threads - FREE_BESIDE
    return min(OTHERS_VOID * processors, max(room, OTHERS_MAY, OTHERS_MAY_SHARE * processors))


def _others(samples: Sequence[Samples]) -> tuple[str, Reason | None]:
    """Note and reason for void: work of other processes."""
    share = _mean(samples, "cpu_others_share")
    if share is None or share <= OTHERS_NOTED:
        return "", None
    text = f"other processes used {100 * share:.0f} % of this machine's processor time meanwhile"
    if share > OTHERS_VOID:
        return _sentence(text), Reason(f"{text}, more than {100 * OTHERS_VOID:.0f} %", Cause.OTHER_WORK)
    processors = _mean(samples, "processor_count")
    if processors is None:
        return _sentence(text), None
    threads = max((_threads(one) for one in samples), default=1.0)
    most = most_of_others(processors, threads)
    if share * processors <= most:
        return _sentence(text), None
    return _sentence(text), Reason(
        f"{text}, {share * processors:.1f} of {processors:.0f} processors, and the model has {threads:.0f} "
        f"thread{'' if threads == 1 else 's'}: others may use {most:.1f} of them",
        Cause.OTHER_WORK,
    )


def _stolen(samples: Sequence[Samples]) -> tuple[str, Reason | None]:
    """Note and reason for void: time that the hypervisor gave to others."""
    share = _mean(samples, "cpu_steal_share")
    if share is None or share <= STEAL_NOTED:
        return "", None
    text = f"the hypervisor took {100 * share:.0f} % of this machine's processor time meanwhile"
    void = Reason(f"{text}, more than {100 * STEAL_VOID:.0f} %", Cause.STOLEN_TIME)
    return _sentence(text), void if share > STEAL_VOID else None


def _on_the_gpu(samples: Sequence[Samples]) -> tuple[str, Reason | None]:
    """Note and reason for void: processes of others on the GPU that the model runs on."""
    on_it = [one for one in samples if _may_be_on_gpu(one)]
    seen = _readings(on_it, "gpu_others_count")
    if not len(seen) or not seen.max():
        return "", None
    share = _mean(on_it, "gpu_others_share")
    used = "" if share is None else f", whose kernels ran in {100 * share:.0f} % of the time"
    text = f"up to {seen.max():.0f} other process{'' if seen.max() == 1 else 'es'} had the model's GPU meanwhile{used}"
    void = share is not None and share > GPU_OTHERS_VOID
    reason = Reason(f"{text}, more than {100 * GPU_OTHERS_VOID:.0f} %", Cause.SHARED_GPU)
    return _sentence(text), reason if void else None


def _throttled(samples: Sequence[Samples]) -> str:
    """Device that throttled, or whose clock fell, in words; empty: none."""
    on_gpu = [one for one in samples if _may_be_on_gpu(one)]
    slowed = np.concatenate([device.slowed(one.telemetry, device.GPU)[1] for one in on_gpu] or [np.empty(0, bool)])
    if slowed.any():
        masks = _readings(on_gpu, device.GPU.throttle).astype(np.int64) & THROTTLED
        return f"the GPU throttled ({', '.join(reasons(masks))}) in {100 * slowed.mean():.0f} % of readings"
    for one in samples:
        if device.slowed(one.telemetry, device.CPU)[1].any():
            counts = _readings([one], device.CPU.throttle)
            return f"the processor throttled {counts[-1] - counts[0]:.0f} times (too hot)"
    for name, what in _CLOCKS:
        for one in on_gpu if what == "GPU" else samples:
            fell = _fell(_readings([one], name))
            if fell is not None:
                return f"the clock of the {what} fell from {fell[0]:,.0f} to {fell[1]:,.0f} MHz"
    return ""


def _fell(clocks: NDArray[np.float64]) -> tuple[float, float] | None:
    """Clock at the start and at the end, where it is lower by much."""
    tenth = len(clocks) // 10
    if tenth < 1:
        return None
    first, last = float(np.median(clocks[: 2 * tenth])), float(np.median(clocks[-2 * tenth :]))
    return (first, last) if first > 0 and last < (1.0 - CLOCK_FALL) * first else None


def _may_be_on_gpu(one: Samples) -> bool:
    """True if the model runs on a GPU, or at an unknown place: a server's."""
    return one.details.get("device") != "cpu"


def _threads(one: Samples) -> float:
    """Threads of the model; 1 where their number is unknown."""
    threads = one.details.get("threads")
    return float(threads) if isinstance(threads, int | float) and threads >= 1 else 1.0


def _mean(samples: Sequence[Samples], name: str) -> float | None:
    values = _readings(samples, name)
    return float(values.mean()) if len(values) else None


def _readings(samples: Sequence[Samples], name: str) -> NDArray[np.float64]:
    return np.concatenate([readings(one.telemetry, name)[1] for one in samples] or [np.empty(0)])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
