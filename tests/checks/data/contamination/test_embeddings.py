from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.contamination.embeddings import EmbeddingDetector
from evalspec.errors import InputError
from evalspec.language.inputs import Predictions
from tests.checks.data.asking import asked, looked
from tests.fakes import FakeInputs, classifier


def embedded(vectors: np.ndarray, dataset: str) -> Predictions:
    answers = classifier(np.full((len(vectors), 2), 0.5), None, dataset=dataset, model="embedder")
    return replace(answers, embeddings=vectors.astype(np.float32))


def detector(folder: Path, train: np.ndarray, test: np.ndarray, similarity: float = 0.95) -> EmbeddingDetector:
    tables = {name: pa.table({"x": np.arange(len(v))}) for name, v in (("train", train), ("test", test))}
    answers = {(name, "embedder"): embedded(v, name) for name, v in (("train", train), ("test", test))}
    inputs = FakeInputs(folder, tables=tables, answers=answers)
    made = EmbeddingDetector(inputs, asked(tables["test"], ["x"]), "embedder", similarity)
    looked(made, tables["train"])
    return made


def clouds() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(500, 12)), rng.normal(size=(200, 12))
    test[:20] = 2.0 * train[250:270] + 0.05 * test[:20]
    return train, test


def test_neighbours_in_training_are_found_and_shown(tmp_path: Path) -> None:
    made = detector(tmp_path, *clouds())
    (level,) = made.levels()
    assert np.flatnonzero(level.rows).tolist() == list(range(20))
    assert level.train_row["train"][:20].tolist() == list(range(250, 270))
    assert (level.train_row["train"][20:] == -1).all() and np.isnan(level.closeness["train"][20:]).all()
    pairs = made.pairs()
    assert len(pairs) == 8
    cosines = [pair.test.fields["cosine"] for pair in pairs]
    assert all(isinstance(one, float) and one > 0.99 for one in cosines)
    for pair in pairs:
        assert pair.train.title == f"train, row {pair.train_row}"
        assert pair.train.fields["x"] == pair.train_row == pair.test.fields["x"] + 250  # type: ignore[operator]


def test_the_chance_level_is_that_of_test_rows_among_themselves(tmp_path: Path) -> None:
    train, test = clouds()
    test[100:110] = test[110:120] * 1.5
    made = detector(tmp_path, train, test)
    assert made.chance == pytest.approx(20 / 200)
    assert "10 % have such a neighbour" in made.levels()[0].method
    table = made.table()
    assert [row[:3] for row in table.rows] == [("train", 500, 10.0), ("test itself", 200, 10.0)]
    assert table.rows[1][3] == pytest.approx(1e6 * 20 / (200 * 199))


def test_embeddings_that_all_point_one_way_have_a_chance_level_of_one(tmp_path: Path) -> None:
    """A model whose cosines are all above 0.95 says nothing at 0.95: the reader must see that."""
    train, test = (one + 40.0 for one in clouds())
    made = detector(tmp_path, train, test)
    assert made.levels()[0].rows.all()
    assert made.chance == 1.0
    assert made.notes == (
        "100 % of the rows of test have a neighbour inside test: if these are not copies, "
        "raise `embedding_similarity:` (here 0.95).",
    )


def test_a_row_without_direction_has_no_neighbour(tmp_path: Path) -> None:
    train, test = clouds()
    train[0], test[50] = 0.0, 0.0
    made = detector(tmp_path, train, test)
    assert made.notes == ("1 row of test has an embedding of zeros, without neighbours.",)
    assert not made.levels()[0].rows[50]


def test_a_model_without_embeddings_is_refused(tmp_path: Path) -> None:
    tables = {"test": pa.table({"x": [1, 2]})}
    answers = {("test", "embedder"): classifier(np.full((2, 2), 0.5), None, model="embedder")}
    inputs = FakeInputs(tmp_path, tables=tables, answers=answers)
    with pytest.raises(InputError, match="no embeddings"):
        EmbeddingDetector(inputs, asked(tables["test"], ["x"]), "embedder", 0.9)
