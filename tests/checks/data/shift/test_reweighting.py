"""What a shift does to a score: known truth, and when nothing can be said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift import classifier as shift_classifier
from evalspec.checks.data.shift.classifier import Pool
from evalspec.checks.data.shift.reweighting import (
    Consequence,
    consequence,
    reweigh,
    row_scores,
    unlike_rows,
    with_answers,
)
from evalspec.checks.data.shift.spec import Shift
from evalspec.evidence.blocks import Table
from evalspec.language.inputs import Predictions
from evalspec.scoring.scored_rows import Undefined, scored
from evalspec.tables.columns import ColumnPair, Side
from tests.fakes import FakeInputs, classifier, regressor, tagger


def world(n: int, seed: int, dark: float) -> tuple[pa.Table, Predictions]:
    """Two columns; in the dark a model is right less often: 0.6 + 0.38 / (1 + exp(-(lux + 1) / 0.5))."""
    rng = np.random.default_rng(seed)
    lux, age = rng.normal(-dark, 1, n), rng.normal(0, 1, n)
    sure = 0.6 + 0.38 / (1 + np.exp(-2 * (lux + 1)))
    truth = rng.integers(0, 2, n)
    said = np.where(rng.random(n) < sure, truth, 1 - truth)
    shares = np.where(said[:, None] == [0, 1], sure[:, None], 1 - sure[:, None])
    return pa.table({"lux": lux, "age": age, "label": truth}), classifier(shares, truth)


def told(folder: Path, n: int, dark: float, *, labelled: bool = True, **fields: object) -> Consequence:
    sides = {"test": world(n, 1, 0.0), "traffic": world(n, 2, dark)}
    inputs = FakeInputs(
        folder,
        tables={name: table for name, (table, _) in sides.items()},
        labels={"test": "label", **({"traffic": "label"} if labelled else {})},
        answers={(name, "candidate"): replace(said, dataset=name) for name, (_, said) in sides.items()},
    )
    check = Shift.model_validate(
        {"check": "shift", "reference": "test", "current": "traffic", "predictions": "candidate", **fields}
    )
    return consequence(check, inputs, pool_of(sides["test"][0], sides["traffic"][0]), "no classifier")


def pool_of(first: pa.Table, second: pa.Table) -> Pool:
    values = np.concatenate([np.stack([t["lux"].to_numpy(), t["age"].to_numpy()], axis=1) for t in (first, second)])
    rows = np.arange(len(first)), np.arange(len(second))
    return Pool(values, np.arange(len(values)), False, ("lux", "age"), np.zeros(2, dtype=bool), rows)


def test_a_score_that_falls_in_the_dark(tmp_path: Path) -> None:
    """The true change: mean of the chance to be right under N(0, 1) and under N(-0.7, 1)."""
    x = np.random.default_rng(0).normal(size=1_000_000)
    right = 0.6 + 0.38 / (1 + np.exp(-2 * (np.stack((x, x - 0.7)) + 1)))
    true = float(right[0].mean() - right[1].mean())
    found = told(tmp_path, 2000, 0.7)
    assert found.change is not None and found.change.value == pytest.approx(true, abs=0.02)
    lower, upper = (found.change.bound(0.95, side) for side in ("lower", "upper"))  # type: ignore[arg-type]
    assert lower < true < upper and lower > 0.01  # type: ignore[operator]
    table = found.blocks[0]
    assert isinstance(table, Table)
    rows = {str(row[0]): row[1] for row in table.rows}
    assert rows["accuracy reweighted to traffic"] == pytest.approx(rows["accuracy measured on traffic"], abs=0.03)
    assert rows["of them effective"] < rows["rows of test"] == 2000  # type: ignore[operator]
    assert "would be 0.7" in found.notes[0]


def test_a_score_that_stays(tmp_path: Path) -> None:
    found = told(tmp_path, 1500, 0.0, labelled=False)
    assert found.change is not None and found.change.p_value(0.03, "upper") < 0.01  # type: ignore[operator]
    assert "measured on traffic" not in str(found.blocks)


def test_no_bound_where_there_is_nothing_alike(tmp_path: Path) -> None:
    found = told(tmp_path, 800, 5.0)
    assert found.change is not None and found.change.bound(0.95, "upper") is None
    assert "next to none of" in found.change.method
    table = found.blocks[0]
    assert isinstance(table, Table) and "next to none of" in table.caption


def test_when_there_is_none(tmp_path: Path) -> None:
    assert "name one, `predictions: candidate`" in told(tmp_path, 100, 0.0, predictions=None).why
    assert "macro_f1 is not a mean over rows" in told(tmp_path, 100, 0.0, metric="macro_f1").why
    assert "log_loss is not a fraction" in told(tmp_path, 100, 0.0, metric="log_loss").why
    rows, said = world(100, 1, 0.0)
    check = Shift(reference="test", current="traffic", predictions="candidate")
    bare = FakeInputs(tmp_path, tables={"test": rows}, answers={("test", "candidate"): said})
    assert "test has no label" in consequence(check, bare, None, "").why
    assert consequence(check, replace(bare, labels={"test": "label"}), None, "no classifier").why == "no classifier"


def test_scores_of_rows(tmp_path: Path) -> None:
    said = tagger([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    inputs = FakeInputs(tmp_path, answers={("test", "candidate"): said})
    rows = scored(inputs, "test", "candidate")
    assert row_scores("subset_accuracy", rows).tolist() == [1.0, 0.0]
    # Smaller is better: the change keeps its sense.
    assert row_scores("hamming_loss", rows).tolist() == [0.0, 0.5]
    values = FakeInputs(tmp_path, answers={("test", "candidate"): regressor([1.0, 2.0], [1.0, 1.0])})
    with pytest.raises(Undefined, match="this metric needs"):
        row_scores("accuracy", scored(values, "test", "candidate"))


def test_how_sure_the_model_is_counts_as_a_column() -> None:
    (first, ours), (second, theirs) = world(50, 1, 0.0), world(50, 2, 1.0)
    seen = with_answers(pool_of(first, second), [ours, theirs])
    assert seen.names == ("lux", "age", "confidence") and seen.values.shape == (100, 3)
    assert ours.probabilities is not None
    assert seen.values[:50, 2] == pytest.approx(ours.probabilities.max(axis=1))


def kinds(n: int, seed: int, new: float) -> tuple[ColumnPair, Pool, np.ndarray, float]:
    """Nineteen kinds, of which the model knows 90 %, and one in the current data alone, of which it knows none."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 19, n), np.where(rng.random(n) < new, 19, rng.integers(0, 19, n))]
    sides = [Side(one.astype(np.str_), np.arange(n), np.zeros(n, dtype=bool)) for one in codes]
    column = ColumnPair("kind", "kind", "category", *sides)
    unlike = unlike_rows([column], (n, n))
    assert (unlike == (codes[1] == 19)).all()
    pool = Pool(
        np.concatenate(codes)[:, None].astype(float), np.arange(2 * n), False, ("kind",), np.ones(1, dtype=bool),
        (np.arange(n), np.arange(n)), unlike,
    )  # fmt: skip
    return column, pool, (rng.random(n) < 0.9).astype(float), 0.9 * new


def test_rows_unlike_the_reference_are_taken_at_their_worst() -> None:
    """Nothing of the reference tells how the model does on a new kind, so the bound has to allow for the worst."""
    missed = 0
    for seed in range(2):
        _, pool, scores, truth = kinds(2000, seed, 0.04)
        upper = reweigh(pool, scores, np.random.default_rng(seed)).change.bound(0.95, "upper")
        missed += upper is None or upper < truth
    assert missed == 0


def test_a_new_group_of_numbers_is_unlike_the_reference() -> None:
    rng = np.random.default_rng(1)
    n = 2000
    x = np.concatenate((rng.normal(size=n), np.where(rng.random(n) < 0.04, rng.normal(4, 0.3, n), rng.normal(size=n))))
    pool = Pool(x[:, None], np.arange(2 * n), False, ("x",), np.zeros(1, dtype=bool), (np.arange(n), np.arange(n)))
    found = reweigh(pool, (rng.random(n) < 0.9).astype(float), rng)
    upper = found.change.bound(0.95, "upper")
    assert 0.025 < found.unlike < 0.05 and upper is not None and upper > 0.036


def test_a_rare_category_that_became_frequent_moves_the_score() -> None:
    """One of thirty, from 1 % to 12 %, on which the model is wrong: weights are balanced on it."""
    rng = np.random.default_rng(2)
    n, most = 3000, np.full(29, 1 / 29)
    codes = [rng.choice(30, n, p=[*((1 - rare) * most), rare]) for rare in (0.01, 0.12)]
    pool = Pool(
        np.concatenate(codes)[:, None].astype(float), np.arange(2 * n), False, ("kind",), np.ones(1, dtype=bool),
        (np.arange(n), np.arange(n)),
    )  # fmt: skip
    scores = np.where(codes[0] == 29, 0.0, rng.random(n) < 0.9)
    found = reweigh(pool, scores, rng)
    weights = found.weights[codes[0] == 29]
    assert weights.sum() / n == pytest.approx((codes[1] == 29).mean(), abs=1e-3)
    assert found.change.value == pytest.approx(0.11 * 0.9, abs=0.02)


@pytest.mark.proof
@pytest.mark.slow
def test_error_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cross-fitted from one column of four values; the classifier counts, so that many samples can be gone through."""

    class Counted:
        def __init__(self, rows: np.ndarray, side: np.ndarray) -> None:
            kinds = rows[:, 0].astype(int)
            self.chance = (np.bincount(kinds[side], minlength=4) + 1) / (np.bincount(kinds, minlength=4) + 2)

        def predict_proba(self, rows: np.ndarray) -> np.ndarray:
            chance = self.chance[rows[:, 0].astype(int)]
            return np.stack((1 - chance, chance), axis=1)

    def expected(pool: Pool, rows: np.ndarray, scores: np.ndarray, others: np.ndarray, rng: object) -> np.ndarray:
        kinds = rows[:, 0].astype(int)
        means = (np.bincount(kinds, weights=scores, minlength=4) + 0.8) / (np.bincount(kinds, minlength=4) + 1)
        return np.asarray(means[others[:, 0].astype(int)])

    monkeypatch.setattr(shift_classifier, "fit", lambda pool, rows, side, rng, settings: Counted(rows, side))
    monkeypatch.setattr("evalspec.checks.data.shift.reweighting._expected", expected)
    shares = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.2, 0.25, 0.3, 0.25])
    right = np.array([0.95, 0.9, 0.8, 0.6])
    truth = float(shares[0] @ right - shares[1] @ right)
    rng, missed = np.random.default_rng(11), []
    for _ in range(300):
        kinds = [rng.choice(4, 500, p=p) for p in shares]
        pool = Pool(
            np.concatenate(kinds)[:, None].astype(float), np.arange(1000), False, ("x",), np.zeros(1, dtype=bool),
            (np.arange(500), np.arange(500)),
        )  # fmt: skip
        found = reweigh(pool, (rng.random(500) < right[kinds[0]]).astype(float), rng).change
        limits = [found.bound(level, side) for level in (0.95, 0.998) for side in ("lower", "upper")]  # type: ignore[arg-type]
        missed.append([limits[0] > truth, limits[1] < truth, limits[2] > truth, limits[3] < truth])  # type: ignore[operator]
    # Two standard errors of 300 samples beside what is allowed.
    assert (np.mean(missed, axis=0) <= [0.085, 0.085, 0.013, 0.013]).all()
