"""Sound made worse: noise, loudness, a late start. A row is one recording, shape (n, length), in -1..1 here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Sounds = NDArray[np.float64]
    Corrupt = Callable[[Sounds, int, np.random.Generator], Sounds]

SIGNAL_TO_NOISE_DB = (30.0, 20.0, 15.0, 10.0, 5.0)
GAIN_DB = (3.0, 6.0, 9.0, 12.0, 18.0)
SHIFTED = (0.02, 0.05, 0.1, 0.15, 0.25)


def audio_noise(sounds: Sounds, severity: int, rng: np.random.Generator) -> Sounds:
    """Add white noise at a stated signal-to-noise ratio, for each recording by its own power."""
    power = (sounds**2).mean(axis=1, keepdims=True)
    sd = np.sqrt(power * 10.0 ** (-SIGNAL_TO_NOISE_DB[severity - 1] / 10.0))
    return np.asarray(sounds + sd * rng.standard_normal(sounds.shape))


def gain(sounds: Sounds, severity: int, rng: np.random.Generator) -> Sounds:
    """Make each recording louder or quieter, at random; `Material` clips what is too loud."""
    way = rng.choice(np.array([-1.0, 1.0]), size=(len(sounds), 1))
    return np.asarray(sounds * 10.0 ** (way * GAIN_DB[severity - 1] / 20.0))


def time_shift(sounds: Sounds, severity: int, rng: np.random.Generator) -> Sounds:
    """Shift each recording to begin later or earlier, at random; silence fills the gap."""
    length = sounds.shape[1]
    steps = max(1, round(SHIFTED[severity - 1] * length))
    late = rng.random(len(sounds)) < 0.5
    moved = np.zeros_like(sounds)
    moved[late, steps:] = sounds[late, : length - steps]
    moved[~late, : length - steps] = sounds[~late, steps:]
    return moved


SOUNDS: dict[str, Corrupt] = {"audio_noise": audio_noise, "gain": gain, "time_shift": time_shift}
