"""Disturbance of a run by what went on beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

OTHERS_VOID = 0.75
"""Share of all processors beyond which other work always spoils a run: caches and memory are shared."""
OTHERS_MAY_SHARE = 0.25
"""Share that others may use even where the run would take all processors, or no machine would be quiet enough."""
ROOM_SHARE = 0.9
"""Share of what the run left, which others may use: where they take all of it, the run may have had less than it
wanted."""
STEAL_VOID = 0.10
GPU_OTHERS_VOID = 0.10
"""Share of time in which kernels of others run on a GPU of the run: it is taken from the run, as stolen time is."""


def disturbance(told: Mapping[str, Any]) -> str | None:
    """Words on what spoiled a run; None: nothing did, or nobody can tell here.

    Args:
        told: Processors, how many of them the run used, and the shares of all that others used and that were stolen;
            and the share of time in which others used its GPU, where that is known.
    """
    on_gpu = told.get("gpu_others_share")
    if on_gpu is not None and on_gpu > GPU_OTHERS_VOID:
        return (
            f"kernels of other processes ran in {100 * on_gpu:.0f} % of the time on a GPU of the run: they may in "
            f"{100 * GPU_OTHERS_VOID:.0f} %"
        )
    others, processors, stolen = told["others_share"], told["processors"], told["steal_share"]
    if others is None or processors is None:
        return None
    room = max(0.0, float(processors) - float(told["own"]))
    most = min(OTHERS_VOID * processors, max(OTHERS_MAY_SHARE * processors, ROOM_SHARE * room))
    if others * processors > most:
        return (
            f"other processes used {others * processors:.1f} of this machine's {processors:.0f} processors meanwhile, "
            f"and the run {float(told['own']):.1f}: they may use {most:.1f}"
        )
    if stolen is not None and stolen > STEAL_VOID:
        return f"the hypervisor took {100 * stolen:.0f} % of this machine's processor time meanwhile"
    return None
