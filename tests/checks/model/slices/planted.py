"""Planted defects of `slices`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.slices.spec import Slices
from tests.checks.planting import Case, Planted, confident
from tests.fakes import FakeInputs, classifier


def _dark(folder: Path, right_in_dark: float, rows: int = 4000) -> Case:
    """95 % right overall; in the dark, one row in ten, as right as asked."""
    number = np.arange(rows)
    dark = number % 10 == 0
    truth = (number // 10) % 3
    share = np.where(dark, right_in_dark, (0.95 - 0.1 * right_in_dark) / 0.9)
    # A row is right when its rank inside its group is below the share: exact counts, spread over classes.
    rank = np.where(dark, number // 10, number - number // 10)
    size = np.where(dark, max(1, int(dark.sum())), max(1, int((~dark).sum())))
    right = ((rank * 37) % size) < share * size
    inputs = FakeInputs(
        evidence=folder,
        tables={
            "test": pa.table(
                {"lux": np.where(dark, 5, 500), "site": np.array(["lab", "field"])[number % 2], "label": truth}
            )
        },
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 3), truth)},
        slices={("dark", "test"): dark},
    )
    check = Slices.model_validate(
        {
            "check": "slices", "dataset": "test", "by": ["dark", "site"], "min_n": 60,
            "require": ["worst_accuracy >= 85 %", "accuracy(dark) >= 85 %", "slices_too_small == 0"],
        }
    )  # fmt: skip
    return inputs, check


def _sites(folder: Path, fields: Mapping[str, object], bad: Mapping[str, float], rows: int = 24_000) -> Case:
    """95 % right, but for rows of some site, of some users (three in ten), or where it is dark at the west site."""
    rng = np.random.default_rng(12)
    site, user = rng.choice(["north", "south", "west"], rows), rng.integers(0, 60, rows)
    lux, truth = rng.gamma(2.0, 100.0, rows), rng.integers(0, 2, rows)
    worse = {"south": site == "south", "users": user < 18, "dark west": (site == "west") & (lux < 110)}
    share = np.full(rows, 0.95)
    for what, right in bad.items():
        share = np.where(worse[what], right, share)
    right = rng.random(rows) < share
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"site": site, "user": user, "lux": lux, "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth)},
    )
    return inputs, Slices.model_validate({"check": "slices", "dataset": "test", **fields})


def _disparate(folder: Path, south: float, rows: int = 24_000) -> Case:
    """A site against the site it is held against."""
    sentences = ["accuracy_disparity(site=south) <= 5 pp", "slices_too_small == 0"]
    fields = {"by": ["site"], "reference": "site=north", "require": sentences}
    return _sites(folder, fields, {"south": south}, rows)


def _users(folder: Path, some: float, rows: int = 24_000) -> Case:
    """Some users are served worse than the rest."""
    return _sites(folder, {"groups": "user", "require": ["accuracy_p10 >= 85 %"]}, {"users": some}, rows)


def _hidden(folder: Path, dark_west: float, rows: int = 24_000) -> Case:
    """A corner that nobody named."""
    fields = {"discover": {"columns": ["site", "lux", "user"]}, "require": ["weak_slices <= 0"]}
    return _sites(folder, fields, {"dark west": dark_west}, rows)


PLANTED = (
    Planted(
        "slices",
        "worst_accuracy",
        "worst_accuracy >= 85 %",
        lambda f: _dark(f, 0.95),
        lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n),
        "60 % right in the dark under 95 % overall",
    ),
    Planted(
        "slices",
        "accuracy",
        "accuracy(dark) >= 85 %",
        lambda f: _dark(f, 0.95),
        lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n),
        "a named slice of 60 %",
    ),
    Planted(
        "slices",
        "accuracy_disparity",
        "accuracy_disparity(site=south) <= 5 pp",
        lambda f: _disparate(f, 0.95),
        lambda f: _disparate(f, 0.85),
        lambda f, n: _disparate(f, 0.95, n),
        "one site is 10 points behind another",
    ),
    Planted(
        "slices",
        "accuracy_p10",
        "accuracy_p10 >= 85 %",
        lambda f: _users(f, 0.95),
        lambda f: _users(f, 0.7),
        lambda f, n: _users(f, 0.95, n),
        "three users in ten get 70 % under 87 % overall",
    ),
    Planted(
        "slices",
        "weak_slices",
        "weak_slices <= 0",
        lambda f: _hidden(f, 0.95),
        lambda f: _hidden(f, 0.75),
        lambda f, n: _hidden(f, 0.95, n),
        "75 % in the dark at one site, which no slice names",
    ),
)
