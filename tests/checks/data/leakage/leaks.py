"""Test sets that training has seen, in ways that equal values don't show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.language.inputs import Inputs
from evalspec.language.parts import Check
from evalspec.sources.reading.arrays import array_column
from tests.fakes import FakeInputs, classifier

Case = tuple[Inputs, Check]


def _check(sentence: str, **fields: object) -> Contamination:
    asked = {"check": "contamination", "train": ["train"], "test": "test", "require": [sentence], **fields}
    return Contamination.model_validate(asked)


def _rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({"id": 10_000 * seed + np.arange(n), "a": rng.random(n), "b": rng.random(n), "y": np.arange(n) % 2})


def remembered(folder: Path, copies: int, right: float, sentence: str, rows: int = 600) -> Case:
    """Some test rows are copied from training, and the model is right on all of those; on the others less often."""
    train, test = _rows(900, 1), _rows(rows, 2)
    test = pa.concat_tables([train.slice(0, min(copies, rows)), test.slice(min(copies, rows))])
    truth = np.arange(rows) % 2
    hit = (np.arange(rows) < copies) | (np.arange(rows) % 100 < 100 * right)
    shares = np.full((rows, 2), 0.1)
    shares[np.arange(rows), np.where(hit, truth, 1 - truth)] = 0.9
    inputs = FakeInputs(
        folder, tables={"train": train, "test": test}, labels={"train": "y", "test": "y"},
        answers={("test", "candidate"): classifier(shares, truth)},
    )  # fmt: skip
    return inputs, _check(sentence, column=["a", "b"], tolerance=0.0, predictions="candidate")


def rekeyed(folder: Path, shared: int, rows: int = 200) -> Case:
    """Patients of the training set in the test set, measured again: the key is the same and nothing else."""
    train, test = _rows(300, 1), _rows(rows, 2)
    keys = np.where(np.arange(rows) < shared, train.column("id").to_numpy()[:rows], test.column("id").to_numpy())
    tables = {"train": train, "test": test.set_column(0, "id", pa.array(keys))}
    inputs = FakeInputs(folder, tables=tables, labels={"train": "y", "test": "y"})
    return inputs, _check("shared_keys == 0", column=["a", "b"], key="id")


def paraphrased(folder: Path, meant: int, rows: int = 200) -> Case:
    """Test rows that say the same as training rows in other words: only the embeddings know."""
    rng = np.random.default_rng(3)
    vectors = {"train": rng.normal(size=(300, 16)), "test": rng.normal(size=(rows, 16))}
    vectors["test"][:meant] = vectors["train"][:meant] + 0.1 * vectors["test"][:meant]
    answers = {}
    for name, one in vectors.items():
        said = classifier(np.full((len(one), 2), 0.5), None, dataset=name, model="embedder")
        answers[name, "embedder"] = replace(said, embeddings=one.astype(np.float32))
    tables = {"train": _rows(300, 1), "test": _rows(rows, 2)}
    inputs = FakeInputs(folder, tables=tables, labels={"train": "y", "test": "y"}, answers=answers)
    return inputs, _check("embedding_neighbours <= 1 %", column=["a", "b"], embedding="embedder")


def scenery(n: int, seed: int, side: int = 48) -> np.ndarray:
    """Grey pictures of few soft shapes, shape (n, side, side)."""
    rng = np.random.default_rng(seed)
    waves = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.fftfreq(side))
    waves[0, 0] = 1.0
    layers = np.fft.ifft2(np.fft.fft2(rng.normal(size=(n, side, side))) / waves**1.2).real
    layers /= layers.std(axis=(1, 2), keepdims=True) if n else 1.0
    return np.clip(128 + 45 * layers, 0, 255).astype(np.uint8)


def photographed(folder: Path, again: int, rows: int = 60) -> Case:
    """Pictures of the training set brightened and given more contrast, which changes every value."""
    train, test = scenery(80, 1), scenery(rows, 2)
    test[:again] = np.clip(1.2 * train[:again].astype(np.float64) + 10, 0, 255)
    tables = {
        name: pa.table({"image": array_column(one, "pictures"), "y": np.zeros(len(one))})
        for name, one in (("train", train), ("test", test))
    }
    inputs = FakeInputs(folder, tables=tables, labels={"train": "y", "test": "y"})
    return inputs, _check("near_duplicates <= 1 %")
