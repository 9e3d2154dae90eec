"""For each kind of check: clean inputs that it passes, and the same with a defect that it must fail.

Whoever adds a check adds a row (or more) to `PLANTED`; `test_contract.py` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.quality import Quality
from evalspec.checks.model.slices import Slices
from evalspec.language.inputs import Inputs
from evalspec.language.parts import Check
from tests.fakes import FakeInputs, classifier, regressor

Case = tuple[Inputs, Check]


@dataclass(frozen=True)
class Planted:
    """One defect.

    Args:
        kind: Kind of the check.
        metric: What the requirement is about.
        sentence: A requirement of both checks: holds on the clean inputs, is violated on the planted ones.
        clean: From a folder for evidence to inputs and check.
        planted: The same with the defect.
        small: From a folder and a number of rows (queries), 0 included, to the clean case cut down to so many.
        what: The defect.
    """

    kind: str
    metric: str
    sentence: str
    clean: Callable[[Path], Case]
    planted: Callable[[Path], Case]
    small: Callable[[Path, int], Case]
    what: str

    @property
    def name(self) -> str:
        """Its id in pytest."""
        return f"{self.kind}: {self.what}"


def confident(truth: np.ndarray, right: np.ndarray, classes: int, sure: float = 0.9) -> np.ndarray:
    """Probabilities, shape (n, C), of a model that says the true class where ``right``, else the next one."""
    said = np.where(right, truth, (truth + 1) % classes)
    shares = np.full((len(truth), classes), (1 - sure) / (classes - 1))
    shares[np.arange(len(truth)), said] = sure
    return shares


def _fraud(folder: Path, found: float, rows: int = 4000) -> Case:
    """5 % fraud, of which the model finds a share; its accuracy is above 95 % either way."""
    truth = (np.arange(rows) % 20 == 0).astype(np.int64)
    order = np.cumsum(truth) - 1
    right = np.where(truth == 1, order < found * truth.sum(), True)
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"amount": np.arange(rows), "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(confident(truth, right, 2), truth, classes=("legitimate", "fraud"))},
    )
    check = Quality.model_validate(
        {"check": "quality", "dataset": "test", "require": ["accuracy >= 90 %", "recall(fraud) >= 80 %"]}
    )
    return inputs, check


def _minutes(folder: Path, bias: float, rows: int = 1000) -> Case:
    """Waiting times in minutes, with a constant error beside the noise."""
    rng = np.random.default_rng(5)
    truth = rng.gamma(4.0, 5.0, rows)
    values = truth + rng.normal(0.0, 2.0, rows) + bias
    inputs = FakeInputs(
        evidence=folder,
        tables={"test": pa.table({"load": rng.random(rows), "wait": truth})},
        labels={"test": "wait"},
        answers={("test", "candidate"): regressor(values, truth, label_unit="min")},
    )
    return inputs, Quality.model_validate({"check": "quality", "dataset": "test", "require": ["mae <= 3"]})


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


PLANTED: tuple[Planted, ...] = (
    Planted(
        "quality", "recall", "recall(fraud) >= 80 %", lambda f: _fraud(f, 0.9), lambda f: _fraud(f, 0.1),
        lambda f, n: _fraud(f, 0.9, n), "9 frauds in 10 are missed, at 95 % accuracy",
    ),
    Planted(
        "quality", "mae", "mae <= 3", lambda f: _minutes(f, 0.0), lambda f: _minutes(f, 6.0),
        lambda f, n: _minutes(f, 0.0, n), "6 minutes too late, always",
    ),
    Planted(
        "slices", "worst_accuracy", "worst_accuracy >= 85 %", lambda f: _dark(f, 0.95), lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n), "60 % right in the dark under 95 % overall",
    ),
    Planted(
        "slices", "accuracy", "accuracy(dark) >= 85 %", lambda f: _dark(f, 0.95), lambda f: _dark(f, 0.6),
        lambda f, n: _dark(f, 0.95, n), "a named slice of 60 %",
    ),
)  # fmt: skip
