"""Planted defects of `shift`, each with its clean twin."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.shift.spec import Shift
from tests.checks.planting import Case, Planted, confident
from tests.fakes import FakeInputs, classifier


def _traffic(folder: Path, darker: float, rows: int = 3000) -> Case:
    """Two samples of three columns; in one of them the light may have changed."""
    rng = np.random.default_rng(9)
    tables = {
        name: pa.table(
            {
                "lux": rng.normal(100 - by, 30, rows),
                "age": rng.normal(40, 10, rows),
                "site": rng.choice(["north", "south"], rows),
                "digit": rng.integers(0, 10, rows),
            }
        )
        for name, by in (("test", 0.0), ("traffic", darker))
    }
    inputs = FakeInputs(evidence=folder, tables=tables, labels={"test": "digit", "traffic": "digit"})
    check = Shift.model_validate(
        {
            "check": "shift", "reference": "test", "current": "traffic",
            "require": ["drifted_columns <= 10 %", "c2st_auc <= 0.60"],
        }
    )  # fmt: skip
    return inputs, check


def _darkened(folder: Path, dark: float, camera: float = 0.0, rows: int = 1200) -> Case:
    """Two samples with a model's answers and embeddings: in the dark it is less sure, and less often right."""
    tables, answers = {}, {}
    for seed, (name, by, new) in enumerate((("test", 0.0, 0.0), ("traffic", dark, camera))):
        rng = np.random.default_rng(seed)
        lux, truth = rng.normal(-by, 1.0, rows), rng.integers(0, 2, rows)
        sure = 0.6 + 0.39 / (1.0 + np.exp(-2.0 * (lux + 1.0)))
        maker = np.where(rng.random(rows) < new, "new", rng.choice(["north", "south"], rows))
        said = classifier(confident(truth, rng.random(rows) < sure, 2), truth, dataset=name)
        shares = np.where(np.equal.outer(said.predicted, [0, 1]), sure[:, None], 1.0 - sure[:, None])
        embeddings = np.stack((lux + 0.3 * rng.normal(size=rows), *rng.normal(size=(3, rows))), axis=1)
        tables[name] = pa.table({"lux": lux, "camera": maker, "label": truth})
        answers[name, "candidate"] = replace(said, probabilities=shares, embeddings=embeddings.astype(np.float32))
    inputs = FakeInputs(evidence=folder, tables=tables, labels=dict.fromkeys(tables, "label"), answers=answers)
    check = {
        "check": "shift", "reference": "test", "current": "traffic", "predictions": "candidate",
        "embedding": "candidate",
        "require": [
            "unseen_categories <= 5 %", "prediction_shift(confidence) <= 0.1", "reweighted_score_change <= 4 pp",
            "embedding_shift <= 0.65",
        ],
    }  # fmt: skip
    return inputs, Shift.model_validate(check)


PLANTED = (
    Planted(
        "shift",
        "drifted_columns",
        "drifted_columns <= 10 %",
        lambda f: _traffic(f, 0.0),
        lambda f: _traffic(f, 40.0),
        lambda f, n: _traffic(f, 0.0, n),
        "it has become darker",
    ),
    Planted(
        "shift",
        "c2st_auc",
        "c2st_auc <= 0.60",
        lambda f: _traffic(f, 0.0),
        lambda f: _traffic(f, 40.0),
        lambda f, n: _traffic(f, 0.0, n),
        "a classifier tells the darker rows",
    ),
    Planted(
        "shift",
        "unseen_categories",
        "unseen_categories <= 5 %",
        lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 0.0, camera=0.2),
        lambda f, n: _darkened(f, 0.0, rows=n),
        "a camera that is new",
    ),
    Planted(
        "shift",
        "prediction_shift",
        "prediction_shift(confidence) <= 0.1",
        lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0),
        lambda f, n: _darkened(f, 0.0, rows=n),
        "answers are less sure in the dark",
    ),
    Planted(
        "shift",
        "reweighted_score_change",
        "reweighted_score_change <= 4 pp",
        lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0),
        lambda f, n: _darkened(f, 0.0, rows=n),
        "what it gets wrong is more frequent",
    ),
    Planted(
        "shift",
        "embedding_shift",
        "embedding_shift <= 0.65",
        lambda f: _darkened(f, 0.0),
        lambda f: _darkened(f, 1.0),
        lambda f, n: _darkened(f, 0.0, rows=n),
        "embeddings lie elsewhere in the dark",
    ),
)
