"""Planted defects of `saturation`, each with its clean twin."""

from __future__ import annotations

from tests.checks.data.visits import benchmark
from tests.checks.planting import Planted

PLANTED = (
    Planted(
        "saturation",
        "headroom",
        "headroom >= 1 pp",
        lambda f: benchmark(f, 0.03),
        lambda f: benchmark(f, 0.002),
        lambda f, n: benchmark(f, 0.03, n),
        "99.8 % is solved",
    ),
    Planted(
        "saturation",
        "interval_width",
        "interval_width <= 2 pp",
        lambda f: benchmark(f, 0.03),
        lambda f: benchmark(f, 0.03, 600),
        lambda f, n: benchmark(f, 0.03, n),
        "600 rows tell no gain of two points",
    ),
    Planted(
        "saturation",
        "data_age",
        "data_age <= 365 days",
        lambda f: benchmark(f, 0.03),
        lambda f: benchmark(f, 0.03, collected="2019-05-01"),
        lambda f, n: benchmark(f, 0.03, n),
        "data of 2019",
    ),
)
