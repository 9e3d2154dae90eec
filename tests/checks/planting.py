"""What planted defects are made of: clean inputs that a check passes, and the same with a defect that it must fail.

Those of a check stand in the ``planted.py`` of its folder here, as `PLANTED`; `test_contract.py` holds each of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.model.quality.spec import Quality
from evalspec.language.inputs import Inputs
from evalspec.language.parts import Check
from tests.fakes import FakeInputs, classifier

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


def fraud(folder: Path, found: float, rows: int = 4000) -> Case:
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


def every() -> tuple[Planted, ...]:
    """All planted defects: those of each check's folder."""
    root = Path(__file__).parent
    modules = (
        importlib.import_module(".".join(["tests", "checks", *path.relative_to(root).with_suffix("").parts]))
        for path in sorted(root.glob("*/*/planted.py"))
    )
    return tuple(one for module in modules for one in module.PLANTED)
