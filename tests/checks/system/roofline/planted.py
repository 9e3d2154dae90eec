"""Planted defects of `roofline`, each with its clean twin."""

from __future__ import annotations

from tests.checks.planting import Planted
from tests.checks.system.bottlenecks import under_the_roof

PLANTED = (
    Planted(
        "roofline",
        "roof_fraction",
        "roof_fraction >= 30 %",
        lambda f: under_the_roof(f, 0.6),
        lambda f: under_the_roof(f, 0.05),
        lambda f, n: under_the_roof(f, 0.6, n),
        "a twentieth of the roof",
    ),
)
