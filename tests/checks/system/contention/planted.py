"""Planted defects of `contention`, each with its clean twin."""

from __future__ import annotations

from tests.checks.planting import Planted
from tests.checks.system.bottlenecks import neighbours

PLANTED = (
    Planted(
        "contention",
        "contention_ratio",
        "contention_ratio(p50) <= 1.5x",
        lambda f: neighbours(f, 1.1),
        lambda f: neighbours(f, 2.5),
        lambda f, n: neighbours(f, 1.1, n),
        "two and a half times as slow beside others",
    ),
)
