"""`agreement`: raters who agree, who don't, who are silent, and who say what is not a category."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evalspec.checks.data.agreement.spec import Agreement
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Matrix, Table
from evalspec.evidence.estimate import Estimate
from evalspec.language.parts import CheckResult
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

WORDS = np.array(["bad", "good", "fair"])


def check(*raters: str, **fields: object) -> Agreement:
    return Agreement.model_validate({"check": "agreement", "dataset": "test", "raters": raters or ("a", "b"), **fields})


def run(folder: Path, asked: Agreement, clusters: np.ndarray | None = None, **columns: object) -> CheckResult:
    inputs = FakeInputs(
        folder, tables={"test": pa.table(columns)}, cluster_of={} if clusters is None else {"test": clusters}
    )
    return asked.run(inputs)


def value(result: CheckResult, metric: str) -> float | None:
    found = result.estimates[metric]
    assert isinstance(found, Estimate)
    return found.value


def guessed(n: int, careful: float, raters: int = 2, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 3, n)
    return np.where(rng.random((raters, n)) < careful, true, rng.integers(0, 3, (raters, n)))


def test_categories_are_matched_by_what_they_say(tmp_path: Path) -> None:
    numbers = guessed(100, 0.9)
    same = run(tmp_path, check(), a=numbers[0], b=numbers[1])
    mixed = run(tmp_path, check(), a=[str(one) for one in numbers[0]], b=numbers[1].astype(np.float64))
    assert value(same, "kappa") == value(mixed, "kappa")


def test_blank_cells_and_nan_are_no_ratings(tmp_path: Path) -> None:
    said = [WORDS[one] for one in guessed(100, 0.9)[0]]
    blank = ["", *said[1:]]
    result = run(tmp_path, check(), a=said, b=blank)
    assert result.counts.dropped == 1
    assert any("fewer than two raters" in note for note in result.notes)
    assert value(result, "kappa") == 1.0
    result = run(tmp_path, check(), a=[1.0] * 50 + [2.0] * 50, b=[float("nan")] + [1.0] * 49 + [2.0] * 50)
    assert result.counts.used == 99


def test_an_order_counts_only_where_it_is_asked_for(tmp_path: Path) -> None:
    rated = guessed(300, 0.8)
    words = {name: WORDS[one] for name, one in zip("ab", rated, strict=True)}
    with pytest.raises(InputError, match="`weights: linear` needs an order, and 'bad' is a rating"):
        run(tmp_path, check(weights="linear"), **words)
    with pytest.raises(InputError, match="`level: interval` needs numbers, and 'bad' is a rating"):
        run(tmp_path, check(level="interval"), **words)
    with pytest.raises(InputError, match="the rating 'fair' is not in `order:`"):
        run(tmp_path, check(level="ordinal", order=["bad", "good"]), **words)
    ordered = run(tmp_path, check(level="ordinal", weights="quadratic", order=["bad", "fair", "good"]), **words)
    places = np.array([0, 2, 1])[rated]
    numbers = run(tmp_path, check(level="ordinal", weights="quadratic"), a=places[0], b=places[1])
    for metric in ("kappa", "alpha"):
        assert value(ordered, metric) == value(numbers, metric)


def test_one_category_only_is_a_sentence_and_no_number(tmp_path: Path) -> None:
    result = run(tmp_path, check(require=["kappa >= 0.5"]), a=["cat"] * 60, b=["cat"] * 60)
    assert result.estimates == {}
    assert result.missing["alpha"].startswith("every rating is 'cat'")
    assert outcome(result, the(check(require=["kappa >= 0.5"]), "kappa >= 0.5")) == "MISSING"


def test_a_silent_rater_leaves_alpha(tmp_path: Path) -> None:
    rated = guessed(100, 0.9)
    nothing = pa.nulls(100, pa.string())
    result = run(tmp_path, check("a", "b", "c"), a=rated[0], b=rated[1], c=nothing)
    assert result.missing["kappa"].startswith("c judged no row; leave that column out")
    assert value(result, "alpha") is not None
    assert any(note == "c judged no row." for note in result.notes)
    result = run(tmp_path, check(), a=rated[0], b=pa.nulls(100))
    assert "no row was judged by two raters" in result.missing["alpha"]


def test_raters_without_a_common_row(tmp_path: Path) -> None:
    first, second = [1, None] * 40, [None, 2] * 40
    result = run(tmp_path, check(), a=first, b=second)
    assert set(result.missing) == {"kappa", "alpha"}
    third = run(tmp_path, check("a", "b", "c"), a=[1, 2] * 40, b=[1, None] * 40, c=[None, 2] * 40)
    assert "take alpha, which allows gaps" in third.missing["kappa"]
    assert value(third, "alpha") == 1.0


def test_what_is_no_category_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no rating in a, b"):
        run(tmp_path, check(), a=pa.nulls(5), b=pa.nulls(5))
    with pytest.raises(InputError, match="not one category a row"):
        run(tmp_path, check(), a=[[1], [2]], b=[1, 2])
    with pytest.raises(InputError, match="holds inf, which is not a category"):
        run(tmp_path, check(), a=[1.0, float("inf")], b=[1.0, 2.0])
    with pytest.raises(InputError, match=r"has no column 'b'.*did you mean"):
        run(tmp_path, check(), a=[1, 2], B=[1, 2])


def test_many_numbers_have_an_alpha_and_no_kappa(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    true = rng.normal(size=300)
    result = run(tmp_path, check(level="interval"), a=true, b=true + 0.1 * rng.normal(size=300))
    assert "too many for kappa" in result.missing["kappa"]
    assert (value(result, "alpha") or 0.0) > 0.9


def test_clusters_count_as_one(tmp_path: Path) -> None:
    rated = np.repeat(guessed(60, 0.8), 4, axis=1)
    alone = run(tmp_path, check(), a=rated[0], b=rated[1]).estimates["kappa"]
    together = run(tmp_path, check(), np.repeat(np.arange(60), 4), a=rated[0], b=rated[1]).estimates["kappa"]
    assert isinstance(alone, Estimate) and isinstance(together, Estimate)
    assert (together.bound(0.95, "lower") or 0.0) < (alone.bound(0.95, "lower") or 0.0)


def test_who_differs_from_whom_on_what_is_shown_and_written(tmp_path: Path) -> None:
    said = guessed(200, 0.95, 3)
    said[2, :40] = (said[2, :40] + 1) % 3
    columns = dict(zip("abc", said, strict=True)) | {"x": np.arange(200)}
    result = run(tmp_path, check("a", "b", "c"), **columns)
    blocks = {block.title: block for block in result.blocks}
    raters = blocks["Raters"]
    assert isinstance(raters, Table)
    agrees = {str(row[0]): float(row[2] or 0.0) for row in raters.rows}
    assert min(agrees, key=lambda name: agrees[name]) == "c"
    pairs = blocks["Who agrees with whom"]
    assert isinstance(pairs, Matrix)
    assert pairs.values[0][1] > pairs.values[0][2]
    examples = blocks["Rows on which raters differ"]
    assert isinstance(examples, Examples)
    assert len(examples.examples) == 12 < examples.total
    assert examples.examples[0].fields["a"] in ("0", "1", "2")
    written = pq.read_table(tmp_path / result.evidence[0][0])
    assert written["rater 3: c"].to_pylist() == [str(one) for one in said[2]]
    two = {block.title: block for block in run(tmp_path, check(), a=said[0], b=said[1]).blocks}
    mixed = two["Which categories are mixed up"]
    assert isinstance(mixed, Matrix)
    assert (mixed.row_label, mixed.column_label) == ("a", "b")
    assert mixed.values[0][1] == float(((said[0] == 0) & (said[1] == 1)).sum())
    quiet = run(tmp_path, check("a", "b", "c", show_examples=False), **columns)
    assert not any(isinstance(block, Examples) for block in quiet.blocks)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"raters": ["a", "a"]}, "rater 'a' is listed twice"),
        ({"raters": ["a"]}, "at least 2 items"),
        ({"order": ["x", "y"]}, "`order:` says nothing"),
        ({"order": ["x", "y"], "level": "ratio"}, "takes numbers as they are"),
        ({"order": ["x", "x"], "level": "ordinal"}, "'x' is listed twice in `order`"),
        ({"weights": "cubic"}, "Input should be 'none', 'linear' or 'quadratic'"),
        ({"model": "candidate"}, "agreement checks data only"),
    ],
)
def test_fields_that_make_no_sense_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Agreement.model_validate({"check": "agreement", "dataset": "test", "raters": ["a", "b"], **fields})


def test_what_can_never_pass_is_said() -> None:
    with pytest.raises(ValidationError, match="can never pass: no sample can show it"):
        check(require=["kappa >= 1"])
    agreement = check(require=["alpha >= 0.8"])
    (one,) = agreement.requirements
    assert "19 rows are too few" in str(agreement.check_requirement(one, {"test": 19}))
    assert agreement.check_requirement(one, {"test": 20}) is None
