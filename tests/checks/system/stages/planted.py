"""Planted defects of `stages`, each with its clean twin."""

from __future__ import annotations

from tests.checks.planting import Planted
from tests.checks.system.bottlenecks import parsed

PLANTED = (
    Planted(
        "stages",
        "stage_share",
        "stage_share(inference) >= 50 %",
        lambda f: parsed(f, 1.0),
        lambda f: parsed(f, 12.0),
        lambda f, n: parsed(f, 1.0, n),
        "parsing takes twice as long as inference",
    ),
)
