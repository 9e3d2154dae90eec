"""The check `answers`: what counts as a fault, and what beside another model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.answers.loops import loops, words
from evalspec.checks.model.answers.spec import WrittenAnswers
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Estimate
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult
from tests.fakes import FakeInputs, classifier, writer
from tests.stats.simulated import SIDES, allowed


def measured(folder: Path, *answers: Predictions, **fields: object) -> CheckResult:
    """The check on these answers, the candidate's first."""
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table({"row": np.arange(answers[0].n)})},
        answers={("test", one.model): one for one in answers},
    )  # fmt: skip
    return WrittenAnswers.model_validate({"check": "answers", "dataset": "test", **fields}).run(inputs)


def share(result: CheckResult, metric: str) -> float | None:
    found = result.estimates[metric]
    assert isinstance(found, Estimate)
    return found.value


@pytest.mark.parametrize("reason", ["length", "LENGTH", "max_tokens", "model_length"])
def test_reasons_that_say_that_the_text_was_cut(tmp_path: Path, reason: str) -> None:
    result = measured(tmp_path, writer(["a", "b", "c", "d"], None, finish_reasons=[reason, "stop", "eos", "stop"]))
    assert share(result, "truncated") == 0.25


def test_without_a_reason_nothing_is_said_of_cut_texts(tmp_path: Path) -> None:
    result = measured(tmp_path, writer(["a", ""], None), require=["truncated <= 2 %"])
    assert "truncated" not in result.estimates
    assert "finish_reason" in result.missing["truncated"]
    assert share(result, "empty") == 0.5


def test_white_space_is_nothing(tmp_path: Path) -> None:
    result = measured(tmp_path, writer(["", " \n\t", "\u3000", "a"], None))
    assert share(result, "empty") == 0.75


def test_texts_without_an_answer_are_counted_where_a_place_is_named(tmp_path: Path) -> None:
    assert share(measured(tmp_path, writer(["#### 1", "1"], None, extracted=["1", None])), "unparsed") == 0.5
    assert "answer:" in measured(tmp_path, writer(["#### 1", "1"], None)).missing["unparsed"]


LINE = "one two three four five six seven eight nine ten "


@pytest.mark.parametrize(
    ("text", "circles"),
    [
        (LINE * 4, True),
        (LINE * 3 + "one two three four five six seven eight nine", False),
        ("Well: " + LINE * 4 + "and so on", True),
        ("no " * 32, True),
        ("no " * 31, False),
        ("yes no " * 16, True),
        ("One, TWO three: four five six; seven eight! nine ten? " + LINE * 3, True),
        (" ".join(f"{LINE} {index}" for index in range(8)), False),
        (" ".join(str(index) for index in range(400)), False),
        ("我不知道你在说什么。" * 4, True),
        ("", False),
    ],
    ids=["four times", "not quite", "inside", "one word", "31", "two words", "marks", "apart", "count", "han", "empty"],
)
def test_a_loop_is_eight_words_four_times_in_a_row(text: str, circles: bool) -> None:
    assert loops(text) is circles


def _plainly(said: list[str]) -> bool:
    """The definition, word by word."""
    return any(
        said[at : at + long] * 4 == said[at : at + 4 * long]
        for long in range(8, len(said) // 4 + 1)
        for at in range(len(said) - 4 * long + 1)
    )


def test_loops_are_found_as_the_definition_says() -> None:
    draw = np.random.default_rng(3)
    found = []
    for _ in range(300):
        block = draw.integers(0, 3, draw.integers(1, 14)).astype(str).tolist()
        text = " ".join([*draw.integers(0, 3, 9).astype(str), *(block * int(draw.integers(1, 9))), "end"])
        assert loops(text) is _plainly(words(text))
        found.append(loops(text))
    assert 0.1 < np.mean(found) < 0.9


def test_lengths_are_of_tokens_where_both_models_tell_them(tmp_path: Path) -> None:
    count = 300
    ours = writer(["a b"] * count, None, tokens=np.arange(count) % 7 + 3)
    theirs = writer(["a b c d"] * count, None, model="baseline", tokens=np.arange(count) % 5 + 1)
    silent = writer(["a b c d"] * count, None, model="baseline")
    asked = {"require": ["length_ratio <= 1.2x baseline"]}
    by_tokens, by_words = measured(tmp_path, ours, theirs, **asked), measured(tmp_path, ours, silent, **asked)
    assert ours.tokens is not None and theirs.tokens is not None
    expected = ours.tokens.sum() / theirs.tokens.sum()
    for result, value, unit in ((by_tokens, expected, "tokens"), (by_words, 0.5, "words")):
        comparison = result.comparisons["length_ratio", "baseline"]
        ratio = comparison.ratio()
        assert ratio is not None and ratio.value == pytest.approx(value)
        assert comparison.difference(1.0, 0.0).value == pytest.approx(value - 1.0)
        assert result.conditions["length beside baseline"] == unit


@pytest.mark.proof
@pytest.mark.parametrize("rows", [200, 1000])
def test_bounds_of_a_ratio_of_lengths_hold(tmp_path: Path, rows: int) -> None:
    """Answers of both models go with the question; one in thirty of the candidate's is a loop to the last token."""
    rng = np.random.default_rng(rows)
    truth = (1.2 * 60.0 * 29 / 30 + 1000 / 30) / 60.0
    wrong = np.zeros(4)
    for _ in range(150):
        theirs = rng.gamma(4.0, 15.0, rows)
        ours = np.where(rng.random(rows) < 1 / 30, 1000.0, 1.2 * theirs * rng.gamma(9.0, 1 / 9.0, rows))
        result = measured(
            tmp_path, writer(["a"] * rows, None, tokens=np.round(ours)),
            writer(["a"] * rows, None, model="baseline", tokens=np.round(theirs)),
            require=["length_ratio <= 1.2x baseline"],
        )  # fmt: skip
        ratio = result.comparisons["length_ratio", "baseline"].ratio()
        assert ratio is not None
        bounds = [ratio.bound(level, side) for level in (0.95, 0.998) for side in SIDES]
        wrong += [limit is not None and (limit > truth, limit < truth)[at % 2] for at, limit in enumerate(bounds)]
    assert (wrong / 150 <= allowed(150)).all()


def test_a_share_beside_another_models_is_paired(tmp_path: Path) -> None:
    ours = writer(["", "a", "a", "a"] * 100, None)
    theirs = writer(["", "", "a", "a"] * 100, None, model="baseline")
    result = measured(tmp_path, ours, theirs, require=["empty <= baseline + 2 pp", "truncated <= baseline + 2 pp"])
    assert result.comparisons["empty", "baseline"].difference(1.0, 0.02).value == pytest.approx(-0.25)
    assert "finish_reason" in result.missing["truncated vs baseline"]


def test_rows_of_a_cluster_are_not_taken_for_independent(tmp_path: Path) -> None:
    texts = ["", *["a"] * 9] * 40
    alone = measured(tmp_path, writer(texts, None)).estimates["empty"]
    texts = ([""] * 10 + ["a"] * 90) * 4
    together = measured(tmp_path, writer(texts, None, clusters=np.arange(400) // 10)).estimates["empty"]
    assert isinstance(alone, Estimate) and isinstance(together, Estimate)
    first, second = alone.bound(0.95, "upper"), together.bound(0.95, "upper")
    assert first is not None and second is not None and second > first + 0.05


def test_the_report_says_why_texts_end_and_shows_some(tmp_path: Path) -> None:
    result = measured(tmp_path, writer(["", "a" * 999, "b"], None, finish_reasons=["stop", "length", "stop"]))
    titles = {block.title: block for block in result.blocks}
    table, shown = titles["Why texts end"], titles["Answers with a fault"]
    assert isinstance(table, Table) and table.rows == (("stop", 2), ("length", 1))
    assert isinstance(shown, Examples)
    assert [one.fields["fault"] for one in shown.examples] == ["truncated", "empty"]
    assert all(len(one.text or "") < 400 for one in shown.examples)


def test_models_that_write_nothing_are_not_judged(tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="texts"):
        measured(tmp_path, classifier(np.eye(2), [0, 1]))


@pytest.mark.parametrize(
    ("sentence", "rows", "words_of_it"),
    [
        ("length_ratio <= 1.2x", 1000, "baseline"),
        ("length_ratio <= 1.2x baseline", 150, "200"),
        ("truncated <= 2 %", 100, "149"),
        ("truncated <= 2 %", 149, None),
        ("empty <= baseline + 1 pp", 100, "needed"),
    ],
)
def test_what_can_never_be_shown_is_said_before(sentence: str, rows: int, words_of_it: str | None) -> None:
    check = WrittenAnswers.model_validate({"check": "answers", "dataset": "test", "require": [sentence]})
    said = check.check_requirement(check.require[0], {"test": rows})
    assert said is None if words_of_it is None else words_of_it in (said or "")
