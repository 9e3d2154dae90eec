"""Checkpoints: how often to write them, and what they and failures cost."""

from __future__ import annotations

import math


def checkpoint_interval(write_s: float, between_failures_s: float) -> float:
    """Seconds between checkpoints with which the least time is lost.

    Args:
        write_s: To write one, while the training waits.
        between_failures_s: Mean time between failures.

    References:
        Young (1974), CACM 17(9); Daly (2006), FGCS 22, which adds terms that matter where writing takes a large part of
        the time between failures.
    """
    return math.sqrt(2.0 * write_s * between_failures_s)


def lost_share(write_s: float, between_failures_s: float, interval_s: float | None = None) -> float:
    """Share of a training's time that goes into checkpoints and into steps that are done again.

    Args:
        write_s: As in `checkpoint_interval`.
        between_failures_s: Likewise.
        interval_s: Seconds between checkpoints; None: the best.
    """
    every = checkpoint_interval(write_s, between_failures_s) if interval_s is None else interval_s
    return write_s / every + every / (2.0 * between_failures_s)
