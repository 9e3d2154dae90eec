"""`quality` of several answers to a question: `pass_at` and `pass_all` by hand, questions as what is counted."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.quality.spec import Quality
from evalspec.evidence.estimate import ComparisonParts, Estimate, Parts
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult, Model
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, writer


def check(*require: str, **fields: Any) -> Quality:
    fields.setdefault("report_only", not require)
    return Quality.model_validate(
        {"check": "quality", "dataset": "test", "query": "asked", "require": list(require), **fields}
    )


def said(right: np.ndarray, **fields: Any) -> Predictions:
    return writer(["yes" if one else "no" for one in right], ["yes"] * len(right), **fields)


def run(folder: Path, asked: Quality, query: np.ndarray, *answers: Predictions) -> CheckResult:
    found = {("test", one.model): one for one in answers}
    tables = {"test": pa.table({"asked": query, "label": ["yes"] * len(query)})}
    return asked.run(FakeInputs(evidence=folder, tables=tables, labels={"test": "label"}, answers=found))


def part(result: CheckResult, metric: str, k: str) -> Estimate:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    one = found.parts[k]
    assert isinstance(one, Estimate)
    return one


def samples(questions: int, each: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Questions in any order, and whether each answer is right."""
    rng = np.random.default_rng(seed)
    query = rng.permutation(np.repeat(np.arange(questions), each))
    return query, rng.random(len(query)) < rng.beta(2, 1, questions)[query]


@pytest.mark.parametrize("k", [1, 2, 5])
def test_it_is_the_mean_over_questions_of_all_ways_to_draw(k: int, tmp_path: Path) -> None:
    query, right = samples(30, 5)
    result = run(tmp_path, check(top_k=[k]), query, said(right))
    own = [right[query == one] for one in range(30)]
    drawn = [[answers[list(some)] for some in combinations(range(5), k)] for answers in own]
    at = np.mean([np.mean([some.any() for some in one]) for one in drawn])
    every = np.mean([np.mean([some.all() for some in one]) for one in drawn])
    assert part(result, "pass_at", str(k)).value == pytest.approx(at)
    assert part(result, "pass_all", str(k)).value == pytest.approx(every)
    assert part(result, "pass_at", str(k)).n == 30


def test_eight_answers_to_a_question_are_one(tmp_path: Path) -> None:
    """100 questions leave open what 800 show, with as many answers."""
    rng = np.random.default_rng(4)
    asked = check("pass_at(1) >= 85 %")
    for questions, expected in ((100, "INCONCLUSIVE"), (800, "PASS")):
        query = np.repeat(np.arange(questions), 800 // questions)
        easy = rng.permutation(np.arange(questions) < 0.88 * questions)
        result = run(tmp_path, asked, query, said(easy[query]))
        assert part(result, "pass_at", "1").value == pytest.approx(0.88)
        assert outcome(result, asked.requirements[0]) == expected


def test_a_question_with_too_few_answers_leaves_no_value(tmp_path: Path) -> None:
    query, right = samples(30, 5)
    result = run(tmp_path, check("pass_at(5) >= 10 %"), query[:-1], said(right[:-1]))
    why = result.missing["pass_at(5)"]
    assert why.startswith("1 question of ") and why.endswith(" has fewer than 5 answers")
    assert part(result, "pass_at", "4").value is not None


def test_clusters_of_questions_are_what_is_counted(tmp_path: Path) -> None:
    query, right = samples(400, 2)
    alone = part(run(tmp_path, check(), query, said(right)), "pass_at", "2")
    grouped = part(run(tmp_path, check(), query, said(right, clusters=query // 4)), "pass_at", "2")
    assert grouped.value == alone.value
    assert "over 100 clusters" in grouped.method


def test_models_are_paired_by_question(tmp_path: Path) -> None:
    query, right = samples(400, 4)
    other = dataclasses.replace(said(right), model="baseline")
    result = run(tmp_path, check("pass_all(2) >= baseline - 1 pp"), query, said(right), other)
    compared = result.comparisons["pass_all", "baseline"]
    assert isinstance(compared, ComparisonParts)
    assert compared.parts["2"].difference(1.0, -0.01).value == 0.0


@pytest.mark.parametrize(
    ("sentence", "fields", "words"),
    [
        ("pass_all(none) >= 50 %", {}, "k is a whole number of at least 1"),
        ("pass_at(3) >= 99 %", {}, "20 rows"),
    ],
)
def test_a_requirement_that_can_not_be_decided_is_refused(sentence: str, fields: dict[str, Any], words: str) -> None:
    asked = check(sentence, **fields)
    why = asked.check_requirement(asked.requirements[0], {"test": 20})
    assert why is not None and words in why


@pytest.mark.parametrize(
    ("sentence", "several", "words"),
    [
        ("pass_at(3) >= 50 %", 1, "pass_at needs several answers to a question: `query:`, the column that says which"),
        ("pass_at(3) >= 50 %", 2, "pass_at(3) needs 3 samples of each row, and `generate` asks for 2"),
        ("pass_at(3) >= 50 %", 3, None),
        ("exact_match >= 50 %", 1, None),
    ],
)
def test_what_the_model_is_not_asked_for_is_said(sentence: str, several: int, words: str | None) -> None:
    class Sampled(Model):
        @property
        def samples(self) -> int:
            return several

    asked = check(sentence, query=None)
    why = asked.missing_from(asked.requirements[0], Sampled(kind="sampled"))
    assert why is None if words is None else why is not None and words in why


def test_texts_without_questions_have_none_of_it(tmp_path: Path) -> None:
    query, right = samples(30, 5)
    result = run(tmp_path, check(query=None), query, said(right))
    assert not {"pass_at", "pass_all"} & set(result.estimates)
