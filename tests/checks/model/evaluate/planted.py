"""Planted defects of `evaluate`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

from evalspec.checks.model.evaluate.spec import Evaluate
from tests.checks.planting import Case, Planted, fraud

COST = """
import datasets
import evaluate


class Cost(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        pairs = zip(predictions, references)
        total = sum((5.0 if truth == 1 else 1.0) for said, truth in pairs if said != truth)
        return {"cost": float(total / len(references))}
"""


def _cost(folder: Path, found: float, rows: int = 4000) -> Case:
    """A missed fraud costs 5, a false alarm 1: a module of the team's own."""
    (folder / "cost.py").write_text(COST)
    inputs, _ = fraud(folder, found, rows)
    check = {"check": "evaluate", "dataset": "test", "modules": {"cost": "cost.py"}, "require": ["score(cost) <= 0.1"]}
    return inputs, Evaluate.model_validate(check)


PLANTED = (
    Planted(
        "evaluate",
        "score",
        "score(cost) <= 0.1",
        lambda f: _cost(f, 0.9),
        lambda f: _cost(f, 0.1),
        lambda f, n: _cost(f, 0.9, n),
        "9 frauds in 10 are missed, at 5 each",
    ),
)
