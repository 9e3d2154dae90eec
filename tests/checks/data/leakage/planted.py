"""Planted defects of `leakage`, each with its clean twin."""

from __future__ import annotations

from tests.checks.data.visits import hospital
from tests.checks.planting import Planted

PLANTED = (
    Planted(
        "leakage",
        "group_overlap",
        "group_overlap == 0",
        hospital,
        lambda f: hospital(f, "patients"),
        lambda f, n: hospital(f, rows=n),
        "a patient of training in five test rows",
    ),
    Planted(
        "leakage",
        "time_overlap",
        "time_overlap == 0",
        hospital,
        lambda f: hospital(f, "order"),
        lambda f, n: hospital(f, rows=n),
        "five test rows from the time of training",
    ),
    Planted(
        "leakage",
        "index_overlap",
        "index_overlap == 0",
        hospital,
        lambda f: hospital(f, "mixed"),
        lambda f, n: hospital(f, rows=n),
        "lines were divided at random",
    ),
    Planted(
        "leakage",
        "conflicting_labels",
        "conflicting_labels == 0",
        hospital,
        lambda f: hospital(f, "labels"),
        lambda f, n: hospital(f, rows=n),
        "seven rows come again with the other label",
    ),
    Planted(
        "leakage",
        "target_leakage",
        "target_leakage <= 0.9",
        hospital,
        lambda f: hospital(f, "code"),
        lambda f, n: hospital(f, rows=n),
        "a code that is written when the diagnosis is known",
    ),
)
