"""What the checks that time share: names, counts and durations. No numpy: validation reads it."""

from __future__ import annotations

PERCENTILES: dict[str, float] = {
    "latency_p50": 0.5,
    "latency_p90": 0.9,
    "latency_p95": 0.95,
    "latency_p99": 0.99,
    "latency_p99_9": 0.999,
}
BATCHES = 20
"""Batches in each process at the least."""
WARMUP_S = 0.5
ALONE_S = 1.0
"""Each process is measured at least so long: slow spells of the machine are then many, not one."""
BLOCK_S = 1.0
"""Each block of a comparison lasts at least so long."""
START_S = 3.0
"""A guess at how long a process takes to start, for the plan."""


def batch_part(size: int) -> str:
    """What a batch size is called in a requirement."""
    return f"batch {size}"
