"""Planted defects of `precision`, each with its clean twin."""

from __future__ import annotations

from tests.checks.planting import Planted
from tests.checks.system.bottlenecks import operators

PLANTED = (
    Planted(
        "precision",
        "operator_coverage",
        "operator_coverage == 100 %",
        lambda f: operators(f, "cuda:0", "int8"),
        lambda f: operators(f, "cpu", "int8"),
        lambda f, n: operators(f, "cuda:0", "int8", n),
        "one operator fell back to the CPU",
    ),
    Planted(
        "precision",
        "precision_coverage",
        "precision_coverage >= 95 %",
        lambda f: operators(f, "cuda:0", "int8"),
        lambda f: operators(f, "cuda:0", "float32"),
        lambda f, n: operators(f, "cuda:0", "int8", n),
        "a third of the operations stayed in fp32",
    ),
)
