"""Planted defects of `coverage`, each with its clean twin."""

from __future__ import annotations

from tests.checks.data.visits import crossing
from tests.checks.planting import Planted

PLANTED = (
    Planted(
        "coverage",
        "missing_conditions",
        "missing_conditions == 0",
        crossing,
        lambda f: crossing(f, dark=0.0),
        lambda f, n: crossing(f, rows=n),
        "no picture by night",
    ),
    Planted(
        "coverage",
        "slices_too_small",
        "slices_too_small == 0",
        crossing,
        lambda f: crossing(f, dark=0.01),
        lambda f, n: crossing(f, rows=n),
        "thirty pictures by night",
    ),
    Planted(
        "coverage",
        "class_imbalance",
        "class_imbalance <= 10x",
        crossing,
        lambda f: crossing(f, fraud=0.01),
        lambda f, n: crossing(f, rows=n),
        "one bicycle to 99 cars",
    ),
    Planted(
        "coverage",
        "representation_gap",
        "representation_gap <= 5 pp",
        crossing,
        lambda f: crossing(f, north=0.9),
        lambda f, n: crossing(f, rows=n),
        "nine pictures in ten from one site, six in traffic",
    ),
)
