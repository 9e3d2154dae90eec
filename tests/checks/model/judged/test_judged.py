from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.judged.spec import JudgedAnswers
from evalspec.errors import EvalspecError, InputError, InvalidError, NotRunError
from evalspec.evidence.blocks import Matrix, Table
from evalspec.evidence.estimate import Measured
from evalspec.language.parts import CheckResult
from evalspec.stats.means.prediction_powered import RectifiedMean
from evalspec.stats.shares.proportion import Proportion
from tests.checks.deciding import outcome
from tests.checks.model.judged.planted import case, lenient, seated
from tests.fakes import FakeInputs, classifier, writer

ROWS = 1000
FIELDS = {"check": "judged", "dataset": "test", "key": "id", "judgements": "judgements", "verdict": "good"}


def planted(folder: Path, **changes: Any) -> tuple[FakeInputs, JudgedAnswers]:
    """A judge who errs in 10 % of 1,000 answers, of which people looked at 300; ``changes``: tables by dataset."""
    draw = np.random.default_rng(4)
    truth = draw.random(ROWS) < 0.9
    inputs, check = case(folder, truth ^ (draw.random(ROWS) < 0.1), truth, 300)
    assert isinstance(inputs, FakeInputs) and isinstance(check, JudgedAnswers)
    return replace(inputs, tables={**inputs.tables, **changes}), check


def table(inputs: FakeInputs, name: str, **columns: Any) -> pa.Table:
    """A table with columns in place of its own."""
    found = inputs.tables[name]
    return pa.table({column: found.column(column) for column in found.column_names} | columns)


def estimate(result: CheckResult) -> Measured:
    found = result.estimates["judged_pass"]
    assert isinstance(found, Measured)
    return found


def known(found: Measured) -> float:
    value = found.estimate.value  # type: ignore[union-attr]
    assert value is not None
    return float(value)


def test_rows_are_joined_by_key_in_any_order(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    expected = estimate(check.run(inputs)).estimate
    assert isinstance(expected, RectifiedMean)
    order = np.random.default_rng(0).permutation(ROWS)
    shuffled = replace(inputs, tables={**inputs.tables, "judgements": inputs.tables["judgements"].take(order)})
    found = estimate(check.run(shuffled)).estimate
    assert isinstance(found, RectifiedMean)
    np.testing.assert_allclose(found.numerator, expected.numerator)
    keys = inputs.tables["judgements"].column("id").cast(pa.string())
    as_text = replace(inputs, tables={**inputs.tables, "judgements": table(inputs, "judgements", id=keys)})
    found = estimate(check.run(as_text)).estimate
    assert isinstance(found, RectifiedMean) and found.value == expected.value


@pytest.mark.parametrize("kind", [pa.bool_(), pa.int64(), pa.float64()])
def test_verdicts_are_yes_or_no_in_any_type(kind: pa.DataType, tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    good = inputs.tables["judgements"].column("good").cast(pa.int8()).cast(kind)
    people = inputs.tables["audited"].column("people").cast(pa.int8()).cast(kind)
    tables = {"judgements": table(inputs, "judgements", good=good), "audited": table(inputs, "audited", people=people)}
    typed = replace(inputs, tables={**inputs.tables, **tables})
    ours, theirs = estimate(check.run(typed)).estimate, estimate(check.run(inputs)).estimate
    assert isinstance(ours, RectifiedMean) and isinstance(theirs, RectifiedMean)
    assert ours.value == theirs.value


def _lost(rows: pa.Table) -> pa.Table:
    return rows.slice(7)


def _twice(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.slice(0, 1)])


def _of_others(rows: pa.Table) -> pa.Table:
    index = rows.column_names.index("id")
    return rows.set_column(index, "id", pa.array(np.r_[5000, rows.column("id").to_numpy()[1:]]))


def _unnamed(rows: pa.Table) -> pa.Table:
    index = rows.column_names.index("id")
    return rows.set_column(index, "id", pa.array([None, *rows.column("id").to_pylist()[1:]]))


def _strange(rows: pa.Table) -> pa.Table:
    name = rows.column_names[1]
    return rows.set_column(1, name, pa.array(np.r_[7.0, np.ones(rows.num_rows - 1)]))


def _words(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, rows.column_names[1], pa.array(["pass"] * rows.num_rows))


@pytest.mark.parametrize(
    ("dataset", "change", "words"),
    [
        ("judgements", _lost, "judgements has no judgement of 7 rows of test: key"),
        ("judgements", _twice, "1 key stands more than once in judgements: 999"),
        ("judgements", _of_others, "1 row of judgements is of no row of test: key 5000"),
        ("judgements", _unnamed, "1 row of judgements has no 'id', which names a row"),
        ("judgements", _strange, r"'good' of judgements is 7 in row \d+ \(counted from 0\), and verdicts are true"),
        ("judgements", _words, "'good' of judgements holds string, and verdicts are true, false, 0, 1 or empty"),
        ("audited", _twice, "1 key stands more than once in audited"),
        ("audited", _of_others, "1 row of audited is of no row of test: key 5000"),
        ("audited", _words, "'people' of audited holds string"),
        ("test", _twice, "1 key stands more than once in test: 0"),
    ],
)
def test_what_can_not_be_joined_is_told_in_a_sentence(dataset: str, change: Any, words: str, tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    changed = replace(inputs, tables={**inputs.tables, dataset: change(inputs.tables[dataset])})
    with pytest.raises(InputError, match=words):
        check.run(changed)


def test_a_draft_looks_at_what_is_there(tmp_path: Path) -> None:
    """It has the first rows of each file, which need not be the same ones."""
    inputs, check = planted(tmp_path)
    first = {name: rows.slice(0, 600) for name, rows in inputs.tables.items()}
    part = replace(inputs, tables=first, answers={("test", "candidate"): writer(["answer"] * 600, None)})
    with pytest.raises(InputError):
        check.run(part)
    assert 0.0 < known(estimate(check.run(replace(part, draft=True)))) < 1.0


def test_rows_without_a_verdict_are_fails_and_told(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    good = inputs.tables["judgements"].column("good").to_pylist()
    silent = pa.array([None if row < 100 else one for row, one in enumerate(good)])
    result = check.run(
        replace(inputs, tables={**inputs.tables, "judgements": table(inputs, "judgements", good=silent)})
    )
    assert "the judge gave no verdict on 100 answers, each of which counts as a fail" in result.weakens
    judge = next(block for block in result.blocks if isinstance(block, Table) and "errors" in block.title)
    assert ("answers without a verdict of the judge", 100) in judge.rows
    alone = JudgedAnswers.model_validate({**FIELDS, "warn": ["judged_pass >= 80 %"]})
    share = estimate(
        alone.run(replace(inputs, tables={**inputs.tables, "judgements": table(inputs, "judgements", good=silent)}))
    ).estimate
    assert isinstance(share, Proportion)
    assert share.n == ROWS and share.successes == sum(good[100:])


def test_a_judge_who_is_silent_everywhere_passes_nothing(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    nothing = table(inputs, "judgements", good=pa.nulls(ROWS))
    result = check.run(replace(inputs, tables={**inputs.tables, "judgements": nothing}))
    found = estimate(result).estimate
    assert isinstance(found, RectifiedMean | Proportion)
    assert found.value == pytest.approx(np.mean(inputs.tables["audited"].column("people").to_numpy(False)))


def test_people_who_do_not_decide_count_as_fails(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    people = inputs.tables["audited"].column("people").to_pylist()
    undecided = table(inputs, "audited", people=pa.array([None] * 30 + people[30:]))
    result = check.run(replace(inputs, tables={**inputs.tables, "audited": undecided}))
    assert "people did not decide on 30 answers, each of which counts as a fail" in result.weakens
    before = estimate(check.run(inputs)).estimate
    after = estimate(result).estimate
    assert isinstance(before, RectifiedMean) and isinstance(after, RectifiedMean)
    assert after.value < before.value - 0.05


def test_labels_that_were_not_drawn_at_random_let_nothing_pass(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    judgements = inputs.tables["judgements"]
    good = dict(zip(judgements.column("id").to_pylist(), judgements.column("good").to_pylist(), strict=True))
    picked = sorted(range(ROWS), key=lambda row: (not good[row], row))[:300]
    chosen = pa.table({"id": picked, "people": [True] * 300})
    found = estimate(check.run(replace(inputs, tables={**inputs.tables, "audited": chosen})))
    assert found.withhold is not None and "they were not drawn at random" in found.withhold
    assert "the judge passes 100.0 % of the audited rows" in found.withhold
    assert estimate(check.run(inputs)).withhold is None


@pytest.mark.parametrize("hashed", [False, True, "sha256:"])
def test_judgements_must_be_of_the_candidates_answers(hashed: bool | str, tmp_path: Path) -> None:
    inputs, _ = planted(tmp_path)
    texts = [f"answer {row}" for row in range(ROWS)][::-1]
    prefix = hashed if isinstance(hashed, str) else ""
    seen = [prefix + hashlib.sha256(text.encode()).hexdigest() for text in texts] if hashed else texts
    check = JudgedAnswers.model_validate({**FIELDS, "answer": "seen", "human": "audited"})
    same = replace(inputs, tables={**inputs.tables, "judgements": table(inputs, "judgements", seen=seen)})
    assert not any("it is unknown whether the judge has seen" in one for one in check.run(same).weakens)
    other = [*seen[:-3], "", "another", None]
    changed = replace(inputs, tables={**inputs.tables, "judgements": table(inputs, "judgements", seen=other)})
    with pytest.raises(InvalidError, match=r"3 of 1,000 judgements are of other answers .* \(first: row 0"):
        check.run(changed)
    numbers = classifier(np.tile([0.5, 0.5], (ROWS, 1)), None)
    with pytest.raises(NotRunError, match="writes none"):
        check.run(replace(same, answers={("test", "candidate"): numbers}))


def test_without_the_answers_it_says_so(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    assert (
        "it is unknown whether the judge has seen these answers: `answer:` names no column" in check.run(inputs).weakens
    )


def test_a_verdict_that_turns_with_the_seat_is_a_tie(tmp_path: Path) -> None:
    first = np.array([1.0, 1.0, 0.0, 0.0, 0.5, 1.0, np.nan, 1.0])
    second = np.array([1.0, 0.0, 1.0, 0.0, 0.5, 0.5, 1.0, 1.0])
    truth = np.array([1.0, 0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 1.0])
    inputs, check = case(tmp_path, np.stack([first, second], axis=1), truth, 8, "win_rate >= 10 %")
    result = check.run(inputs)
    facts = next(block for block in result.blocks if isinstance(block, Table) and "errors" in block.title)
    shown = dict(facts.rows)  # type: ignore[arg-type]
    # Wins 1, 0.5, 0.5, 0, 0.5, 0.5, none, 1: four of eight.
    assert shown["the judge's share of all answers"] == "50.0 %"
    assert shown["verdicts that turn with the seat"] == 3
    assert shown["answers without a verdict of the judge"] == 1
    matrix = next(block for block in result.blocks if isinstance(block, Matrix))
    assert matrix.rows == ("loss", "tie", "win")
    assert np.sum(matrix.values) == 8
    assert "the judge gave no verdict on 1 answer, each of which counts as a loss" in result.weakens


def test_the_first_seat_is_told(tmp_path: Path) -> None:
    inputs, check = seated(tmp_path, 0.72)
    facts = next(block for block in check.run(inputs).blocks if isinstance(block, Table) and "errors" in block.title)
    share = float(str(dict(facts.rows)["wins of the first seat"]).removesuffix(" %"))  # type: ignore[arg-type]
    assert share > 55.0


def test_clusters_are_what_is_counted(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)
    grouped = replace(inputs, cluster_of={"test": np.arange(ROWS) // 2})
    found = estimate(check.run(grouped)).estimate
    assert isinstance(found, RectifiedMean)
    assert "over 500 clusters" in found.method
    few = replace(inputs, cluster_of={"test": np.arange(ROWS) // 10})
    found = estimate(check.run(few)).estimate
    assert isinstance(found, Proportion) and found.clusters is not None
    assert any("with at least 200 clusters with human labels" in note for note in check.run(few).notes)


def test_the_judge_alone_would_have_passed(tmp_path: Path) -> None:
    inputs, check = lenient(tmp_path, 0.7)
    alone = JudgedAnswers.model_validate({**FIELDS, "warn": ["judged_pass >= 80 %"]})
    assert outcome(check.run(inputs), check.requirements[0]) == "FAIL"
    result = alone.run(inputs)
    assert outcome(result, alone.requirements[0]) == "PASS"
    assert any("no answer was audited: the share is the judge's, and its error" in one for one in result.weakens)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": None}, "no field says where the judge's verdicts are"),
        ({"seats": ["a", "b"]}, "`verdict:` and `seats:` both say"),
        ({"verdict": None, "seats": ["a", "a"]}, "'a' stands for both seats"),
        ({"human": "judgements"}, "'judgements' stands for two of"),
        ({"judgements": "test"}, "'test' stands for two of"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        JudgedAnswers.model_validate({**FIELDS, **changes})


@pytest.mark.parametrize(
    ("fields", "sentence", "words"),
    [
        ({}, "judged_pass >= 80 %", "may only stand under `warn:`"),
        ({"human": "audited"}, "win_rate >= 50 %", "win_rate needs `seats:"),
        ({"human": "audited", "verdict": None, "seats": ["a", "b"]}, "judged_pass >= 50 %", "needs `verdict: COLUMN`"),
        ({"human": "audited"}, "judged_pass >= baseline - 3 pp", "not compared with another model's"),
        ({"human": "audited"}, "judged_pass >= 99 %", "50 rows of audited can't show"),
    ],
)
def test_a_requirement_that_can_not_be_decided_is_refused(fields: dict[str, Any], sentence: str, words: str) -> None:
    check = JudgedAnswers.model_validate({**FIELDS, **fields, "require": [sentence]})
    why = check.check_requirement(check.requirements[0], {"audited": 50, "test": 4000})
    assert why is not None and words in why


def test_defects_turn_verdicts_of_judge_and_people_alike(tmp_path: Path) -> None:
    inputs, check = planted(tmp_path)

    def none(dataset: str) -> pa.Table:
        raise EvalspecError(dataset)

    statuses = []
    for defect in check.defects():
        tables = {name: defect.rows(name, rows, none) for name, rows in inputs.tables.items()}
        assert {name: rows.schema for name, rows in tables.items()} == {
            name: rows.schema for name, rows in inputs.tables.items()
        }
        assert tables["test"].equals(inputs.tables["test"])
        statuses.append(outcome(check.run(replace(inputs, tables=tables)), check.requirements[0]))
    assert outcome(check.run(inputs), check.requirements[0]) == "PASS"
    assert statuses == ["FAIL", "FAIL", "FAIL"]
