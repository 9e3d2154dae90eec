"""`quality` of lists: its numbers against scikit-learn's and by hand; ties, queries that do not count, clusters."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError
from sklearn.metrics import ndcg_score

from evalspec.checks.model.quality.spec import Quality
from evalspec.errors import InputError
from evalspec.evidence.blocks import Histogram, Table
from evalspec.evidence.estimate import ComparisonParts, Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, NeedRows
from tests.fakes import FakeInputs, classifier, regressor
from tests.stats.simulated import RESAMPLED, bounded, p_values, wrong_claims


def check(*require: str, **fields: Any) -> Quality:
    fields.setdefault("report_only", not require)
    return Quality.model_validate(
        {"check": "quality", "dataset": "test", "query": "asked", "require": list(require), **fields}
    )


def run(folder: Path, asked: Quality, query: Any, *answers: Predictions) -> CheckResult:
    table = pa.table({"asked": query, "relevance": np.zeros(answers[0].n)})
    found = {("test", one.model): one for one in answers}
    return asked.run(FakeInputs(evidence=folder, tables={"test": table}, labels={"test": "relevance"}, answers=found))


def part(result: CheckResult, metric: str, k: str | None = None) -> Estimate:
    found = result.estimates[metric]
    if isinstance(found, Parts):
        assert k is not None
        one = found.parts[k]
        assert isinstance(one, Estimate)
        return one
    assert isinstance(found, Estimate)
    return found


def graded(lists: int, seed: int = 1, noise: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Queries of 3 to 12 rows in any order, their relevance from 0 to 3, and scores without a tie."""
    rng = np.random.default_rng(7)
    query = rng.permutation(np.repeat(np.arange(lists), rng.integers(3, 13, lists)))
    truth = np.minimum(rng.poisson(0.6, len(query)), 3).astype(float)
    return query, truth, truth + np.random.default_rng(seed).normal(0, noise, len(query))


def by_hand(query: np.ndarray, truth: np.ndarray, scores: np.ndarray, k: int) -> dict[str, float]:
    found: dict[str, list[float]] = {"ndcg": [], "mrr": [], "recall_at": [], "hit_rate": []}
    for one in np.unique(query):
        inside = query == one
        relevance = truth[inside][np.argsort(-scores[inside])]
        if not relevance.any():
            continue
        found["ndcg"].append(ndcg_score([truth[inside]], [scores[inside]], k=k))
        found["mrr"].append(1 / (1 + int(np.argmax(relevance > 0))))
        found["recall_at"].append((relevance[:k] > 0).sum() / (relevance > 0).sum())
        found["hit_rate"].append(float((relevance[:k] > 0).any()))
    return {name: float(np.mean(values)) for name, values in found.items()}


@pytest.mark.parametrize("k", [1, 3, 50])
def test_agrees_with_scikit_learn_and_with_lists_taken_one_by_one(tmp_path: Path, k: int) -> None:
    query, truth, scores = graded(150)
    result = run(tmp_path, check(top_k=[k]), query, regressor(scores, truth))
    for metric, expected in by_hand(query, truth, scores, k).items():
        found = part(result, metric, None if metric == "mrr" else str(k))
        assert found.value == pytest.approx(expected, abs=1e-12)
    left = sum(not truth[query == one].any() for one in range(150))
    assert left and part(result, "mrr").n == 150 - left
    assert any(f"{left} of 150 queries have no relevant row" in note for note in result.notes)
    assert result.conditions["queries"] == 150 - left


def test_of_classes_the_positive_ones_probability_ranks(tmp_path: Path) -> None:
    query, truth, scores = graded(60)
    share = 1 / (1 + np.exp(-scores))
    answers = classifier(np.stack([1 - share, share], axis=1), (truth > 0).astype(int), classes=("no", "yes"))
    result = run(tmp_path, check(), query, answers)
    assert part(result, "ndcg", "5").value == pytest.approx(by_hand(query, truth > 0, scores, 5)["ndcg"], abs=1e-12)
    assert part(result, "accuracy").n == len(query)
    three = classifier(np.full((6, 3), 1 / 3), np.arange(6) % 3)
    assert "positive" in run(tmp_path, check("mrr >= 10 %"), np.zeros(6), three).missing["mrr"]


def test_ties_count_against_the_model(tmp_path: Path) -> None:
    query, truth = np.repeat(np.arange(4), 5), np.tile([0.0, 1.0, 0.0, 0.0, 1.0], 4)
    result = run(tmp_path, check(top_k=[3, 4]), query, regressor(np.zeros(20), truth))
    assert part(result, "mrr").value == pytest.approx(1 / 4)
    assert part(result, "hit_rate", "3").value == 0.0
    assert part(result, "recall_at", "4").value == pytest.approx(0.5)
    assert any("in 4 of 4 queries rows of other relevance have the same score" in note for note in result.notes)


def test_what_has_no_value_says_so(tmp_path: Path) -> None:
    query = np.repeat(np.arange(3), 2)
    nothing = run(tmp_path, check("mrr >= 10 %"), query, regressor(np.arange(6.0), np.zeros(6)))
    assert "no query of dataset 'test' has a relevant row" in nothing.missing["mrr"]
    below = run(tmp_path, check("ndcg(5) >= 10 %"), query, regressor(np.arange(6.0), np.arange(6.0) - 1))
    assert "below 0" in below.missing["ndcg(5)"]
    labels = dataclasses.replace(classifier(np.eye(2)[[0, 1, 0, 1, 0, 1]], [0, 1, 0, 1, 0, 0]), probabilities=None)
    assert "probabilities" in run(tmp_path, check("mrr >= 10 %"), query, labels).missing["mrr"]
    with pytest.raises(InputError, match="empty in 1 row"):
        run(tmp_path, check(), ["a", None, "b", "b", "c", "c"], regressor(np.arange(6.0), np.ones(6)))
    with pytest.raises(InputError, match="needs words or numbers"):
        run(tmp_path, check(), [["a"]] * 6, regressor(np.arange(6.0), np.ones(6)))


def test_requirements_are_held_against_the_spec() -> None:
    plain = Quality.model_validate({"check": "quality", "dataset": "test", "require": ["ndcg(5) >= 10 %"]})
    told = plain.check_requirement(plain.requirements[0], {})
    assert told is not None and told.startswith("ndcg needs `query:`")
    odd = check("hit_rate(x) >= 10 %")
    told = odd.check_requirement(odd.requirements[0], {})
    assert told is not None and "k is a whole number" in told
    assert check("mrr >= 10 %").check_requirement(check("mrr >= 10 %").requirements[0], {}) is None
    assert NeedRows("test", ("asked",), label=True) in check(show_examples=False).needs()
    with pytest.raises(ValidationError):
        check("mrr(5) >= 10 %")


def test_bounds_are_over_queries_and_clusters_of_them(tmp_path: Path) -> None:
    query, truth, scores = graded(300)

    def width(answers: Predictions, metric: str, k: str | None) -> float:
        one = part(run(tmp_path, check(metrics=["mrr", "ndcg", "hit_rate"]), query, answers), metric, k)
        low, high = one.bound(0.95, "lower"), one.bound(0.95, "upper")
        assert low is not None and high is not None and one.value is not None and low < one.value < high
        return high - low

    plain = regressor(scores, truth)
    own = dataclasses.replace(plain, clusters=query)
    every = dataclasses.replace(plain, clusters=np.arange(len(query)))
    for metric, k in (("mrr", None), ("ndcg", "5"), ("hit_rate", "5")):
        assert width(own, metric, k) == pytest.approx(width(plain, metric, k), rel=1e-6)
        assert width(every, metric, k) == pytest.approx(width(plain, metric, k), rel=1e-6)
    # Queries that share a user: 150 clusters are too few for BCa of a mean, and Gaffke's bound is a little wider.
    shared = part(run(tmp_path, check(), query, dataclasses.replace(plain, clusters=query // 2)), "mrr")
    alone = part(run(tmp_path, check(), query, plain), "mrr")
    low, without = shared.bound(0.95, "lower"), alone.bound(0.95, "lower")
    assert low is not None and without is not None and low < without


def test_a_comparison_is_paired_by_query(tmp_path: Path) -> None:
    query, truth, scores = graded(400)
    _, _, worse = graded(400, seed=2, noise=1.5)
    asked = check("ndcg(5) >= old", "hit_rate(3) >= old - 1 pp", "mrr >= old", metrics=["mrr"])
    result = run(tmp_path, asked, query, regressor(scores, truth), regressor(worse, truth, model="old"))
    found = result.comparisons["ndcg", "old"]
    assert isinstance(found, ComparisonParts)
    apart = found.parts["5"].difference(1.0, 0.0)
    new, old = by_hand(query, truth, scores, 5), by_hand(query, truth, worse, 5)
    assert apart.value == pytest.approx(new["ndcg"] - old["ndcg"], abs=1e-12)
    assert apart.bound(0.95, "lower") is not None
    whole = result.comparisons["mrr", "old"]
    assert not isinstance(whole, ComparisonParts) and whole.baseline_value == pytest.approx(old["mrr"], abs=1e-12)


def test_blocks_show_ranks_and_queries(tmp_path: Path) -> None:
    query, truth, scores = graded(100)
    result = run(tmp_path, check(), [f"q{one}" for one in query], regressor(scores, truth))
    bars = next(b for b in result.blocks if isinstance(b, Histogram) and b.title.startswith("Rank"))
    assert sum(bars.counts["queries"]) == part(result, "mrr").n
    table = next(b for b in result.blocks if isinstance(b, Table) and b.title == "Queries to look at")
    name, rows, relevant, rank = table.rows[0]
    inside = query == int(str(name)[1:])
    assert (rows, relevant) == (inside.sum(), (truth[inside] > 0).sum())
    assert rank == 1 + np.argmax((truth[inside] > 0)[np.argsort(-scores[inside])])
    hidden = run(tmp_path, check(show_examples=False), query, regressor(scores, truth))
    assert not any(b.title == "Queries to look at" for b in hidden.blocks)
    without = Quality.model_validate({"check": "quality", "dataset": "test", "report_only": True})
    assert not any(b.title.startswith("Rank") for b in run(tmp_path, without, query, regressor(scores, truth)).blocks)


@pytest.mark.slow
def test_bounds_of_reciprocal_ranks_err_no_more_often_than_allowed() -> None:
    """200 queries, most of which have the relevant row first: the mean is skewed."""
    from evalspec.stats.means.mean import mean

    def ranks(rng: np.random.Generator, n: int) -> np.ndarray:
        return 1.0 / np.minimum(rng.geometric(0.7, n) + 5 * (rng.random(n) < 0.1), 50)

    truth = float(ranks(np.random.default_rng(1), 4_000_000).mean())
    rng = np.random.default_rng(2)
    found = [p_values(mean(ranks(rng, 200)), truth) for _ in range(2_000)]
    errors = wrong_claims(found)
    assert (errors <= RESAMPLED).all(), errors
    assert bounded(found) > 0.98
