"""Planted defects of `contamination`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.contamination.spec import Contamination
from tests.checks.data.leakage.leaks import paraphrased, photographed, rekeyed, remembered
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _leak(folder: Path, copied: int, blur: float, rows: int = 600) -> Case:
    """Pictures of noise; some of the test set stand in the training set, as they are or a little changed."""
    rng = np.random.default_rng(4)
    train, test = rng.random((600, 64)), rng.random((rows, 64))
    test[:copied] = np.clip(train[:copied] + blur * rng.normal(size=(copied, 64)), 0, 1)
    tables = {
        name: pa.table({"pixels": pa.FixedSizeListArray.from_arrays(pixels.ravel(), 64), "y": np.zeros(len(pixels))})
        for name, pixels in (("train", train), ("test", test))
    }
    inputs = FakeInputs(evidence=folder, tables=tables, labels={"train": "y", "test": "y"})
    check = Contamination.model_validate(
        {
            "check": "contamination", "train": ["train"], "test": "test",
            "require": ["exact_duplicates == 0", "near_duplicates <= 0.5 %"],
        }
    )  # fmt: skip
    return inputs, check


def _quoted(folder: Path, quoted: int, rows: int = 200) -> Case:
    """Texts of 40 words; some of the test set are quoted, by 20 words, in the middle of longer training texts."""
    rng = np.random.default_rng(14)
    train, test = (rng.integers(100_000, 999_999, (count, 40)).tolist() for count in (200, rows))
    for row in range(quoted):
        train[row] = [*train[row][:25], *test[row][10:30], *train[row][25:]]
    tables = {
        name: pa.table({"text": pa.array([" ".join(map(str, words)) for words in texts], pa.string())})
        for name, texts in (("train", train), ("test", test))
    }
    check = Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "require": ["ngram_overlap <= 1 %"]}
    )
    return FakeInputs(evidence=folder, tables=tables), check


PLANTED = (
    Planted(
        "contamination",
        "exact_duplicates",
        "exact_duplicates == 0",
        lambda f: _leak(f, 0, 0.0),
        lambda f: _leak(f, 5, 0.0),
        lambda f, n: _leak(f, 0, 0.0, n),
        "5 test pictures were trained on",
    ),
    Planted(
        "contamination",
        "near_duplicates",
        "near_duplicates <= 0.5 %",
        lambda f: _leak(f, 0, 0.0),
        lambda f: _leak(f, 30, 0.005),
        lambda f, n: _leak(f, 0, 0.0, n),
        "30 test pictures were trained on, with noise",
    ),
    Planted(
        "contamination",
        "near_duplicates",
        "near_duplicates <= 1 %",
        lambda f: photographed(f, 0),
        lambda f: photographed(f, 6),
        lambda f, n: photographed(f, 0, n),
        "6 test pictures are brightened training pictures",
    ),
    Planted(
        "contamination",
        "clean_score_change",
        "clean_score_change <= 1 pp",
        lambda f: remembered(f, 1, 0.9, "clean_score_change <= 1 pp"),
        lambda f: remembered(f, 200, 0.7, "clean_score_change <= 1 pp"),
        lambda f, n: remembered(f, 1, 0.9, "clean_score_change <= 1 pp", n),
        "a third of the test rows was trained on",
    ),
    Planted(
        "contamination",
        "clean_score",
        "clean_score >= 85 %",
        lambda f: remembered(f, 1, 0.9, "clean_score >= 85 %"),
        lambda f: remembered(f, 400, 0.7, "clean_score >= 85 %"),
        lambda f, n: remembered(f, 1, 0.9, "clean_score >= 85 %", n),
        "90 % right, of the rows it has not seen 70 %",
    ),
    Planted(
        "contamination",
        "embedding_neighbours",
        "embedding_neighbours <= 1 %",
        lambda f: paraphrased(f, 0),
        lambda f: paraphrased(f, 10),
        lambda f, n: paraphrased(f, 0, n),
        "10 test rows say what training rows say",
    ),
    Planted(
        "contamination",
        "shared_keys",
        "shared_keys == 0",
        lambda f: rekeyed(f, 0),
        lambda f: rekeyed(f, 3),
        lambda f, n: rekeyed(f, 0, n),
        "three patients are in training too, measured again",
    ),
    Planted(
        "contamination",
        "ngram_overlap",
        "ngram_overlap <= 1 %",
        lambda f: _quoted(f, 0),
        lambda f: _quoted(f, 6),
        lambda f, n: _quoted(f, 0, n),
        "6 test texts are quoted in longer training texts",
    ),
)
