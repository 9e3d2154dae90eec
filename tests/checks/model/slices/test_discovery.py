"""Weak slices that nobody named: found on one half, confirmed on the other, as often as is said and no oftener."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.slices.binning import Cuts, cut, shortest
from evalspec.checks.model.slices.discovery import Losses, halved, searched
from evalspec.checks.model.slices.spec import Discover, Slices
from evalspec.errors import InputError
from evalspec.evidence.blocks import Table, Text
from evalspec.evidence.estimate import Measured
from evalspec.language.inputs import Predictions
from evalspec.language.parts import CheckResult
from evalspec.language.where import mask, parse_where
from evalspec.language.yaml import read_text
from evalspec.scoring.scores import Estimators
from evalspec.stats.drift.weak_slices import Planted, WeakSlices
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.checks.test_contract import well_formed
from tests.fakes import FakeInputs, classifier, regressor
from tests.stats.simulated import rarely

ROWS = 3000
RNG = np.random.default_rng(0)
X = RNG.normal(size=ROWS)
DAYS = RNG.integers(0, 400, ROWS)
COLUMNS: dict[str, pa.Array] = {
    "numbers": pa.array(X),
    "single precision": pa.array(X.astype("f4")),
    "with NaN": pa.array(np.where(X > 1, np.nan, X)),
    "with infinities": pa.array(np.where(X > 1, np.inf, np.where(X < -1, -np.inf, X))),
    "mostly zero": pa.array(np.maximum(X, 0)),
    "counts": pa.array(RNG.poisson(3, ROWS)),
    "large": pa.array(RNG.integers(-(10**15), 10**15, ROWS)),
    "unsigned": pa.array(RNG.integers(0, 5, ROWS).astype("u8")),
    "decimal": pa.array([Decimal(int(100 * x)) / 100 for x in X]),
    "date": pa.array([dt.date(2026, 1, 1) + dt.timedelta(int(day)) for day in DAYS]),
    "time": pa.array(np.datetime64("2026-01-01", "us") + (1e9 * X).astype("m8[us]")),
    "zoned": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(1000 * x)) for x in X]),
    "text": pa.array(RNG.choice(["it's", 'a "b"', "<b>", "x\ny", "`q`", "é", "\\"], ROWS)),
    "rare": pa.array([f"r{i}" if i % 3 == 0 else "ab"[i % 2] for i in range(ROWS)]),
    "truth": pa.array([None if i % 7 == 0 else i % 2 == 0 for i in range(ROWS)]),
    "dictionary": pa.array(["a", "b", "c"] * (ROWS // 3)).dictionary_encode(),
    "view": pa.array(["a", "b", "c"] * (ROWS // 3)).cast(pa.string_view()),
    "class": pa.array(X),
    "two words": pa.array(X),
}


def cuts_of(name: str, values: Any, share: float = 0.05) -> Cuts:
    found = cut(name, pa.table({name: values}).column(0), share)
    assert isinstance(found, Cuts), found
    return found


@pytest.mark.parametrize("name", COLUMNS)
def test_each_slice_is_what_its_where_says(name: str) -> None:
    table = pa.table({name: COLUMNS[name]})
    found = cuts_of(name, COLUMNS[name])
    count = len(found.wheres)
    assert count == len(found.axis.slices) > 1
    for index in {*range(0, count, max(1, count // 40)), count - 1}:
        rows = mask(table, parse_where(found.wheres[index])).inside
        np.testing.assert_array_equal(rows, found.axis.inside(index), err_msg=found.wheres[index])
    fine = {tuple(one) for one in found.axis.slices.tolist()}
    assert all(tuple(one[found.axis.merged].tolist()) in fine for one in found.axis.coarse)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("a`b", pa.array(X), "its name can't be used in a `where`"),
        ("none", pa.nulls(ROWS), "no row has a value"),
        ("nan", pa.array(np.full(ROWS, np.nan)), "no row has a value"),
        ("same", pa.array([1] * ROWS), "all rows have the same value"),
        ("id", pa.array([f"i{i}" for i in range(ROWS)]), "none of its 3,000 values has 75 rows"),
        ("list", pa.array([[1]] * ROWS), "it holds list<item: int64>"),
    ],
)
def test_a_column_that_can_not_be_cut_says_why(name: str, values: pa.Array, words: str) -> None:
    assert cut(name, pa.table({name: values}).column(0), 0.05) == f"column {name!r} is not searched: {words}"


def test_rare_categories_are_pooled_and_missing_ones_are_a_slice() -> None:
    assert list(cuts_of("rare", COLUMNS["rare"]).wheres) == ["rare == 'b'", "rare == 'a'", "rare not in ['b', 'a']"]
    assert cuts_of("truth", COLUMNS["truth"]).wheres[-1] == "truth is None"
    assert cuts_of("with NaN", COLUMNS["with NaN"]).wheres[-1] == "`with NaN` is None"
    ids = pa.array([None if i % 2 else f"i{i}" for i in range(ROWS)])
    assert cuts_of("id", ids).wheres[-1] == "id is None"


def test_ranges_follow_the_share() -> None:
    assert cuts_of("x", COLUMNS["numbers"], 0.05).axis.slices.shape[1] == 80
    assert cuts_of("x", COLUMNS["numbers"], 0.2).axis.slices.shape[1] == 20
    sizes = np.bincount(cuts_of("x", COLUMNS["numbers"], 0.05).axis.codes)
    assert (sizes.min(), sizes.max()) == (ROWS // 80, ROWS // 80 + 1)
    assert "x == 0.0" in list(cuts_of("x", COLUMNS["mostly zero"]).wheres)


@pytest.mark.parametrize(
    ("below", "at", "expected"),
    [(0.1234, 0.1301, 0.13), (-2.71, -2.69, -2.7), (99.0, 101.0, 100.0), (1.0, float("inf"), 3.0), (0.0, 1e-7, 1e-7)],
)
def test_limits_have_few_digits(below: float, at: float, expected: float) -> None:
    assert shortest(below, at) == pytest.approx(expected)
    assert below < shortest(below, at) <= at


def check(require: list[str], **fields: Any) -> Slices:
    fields.setdefault("discover", {"columns": ["site", "lux", "label"]})
    return Slices.model_validate(
        {"check": "slices", "dataset": "test", "require": require, "report_only": not require, **fields}
    )


def scene(rows: int, weaker: float, seed: int = 0) -> tuple[dict[str, Any], Predictions, np.ndarray]:
    """90 % right, but less in the west where it is dark."""
    rng = np.random.default_rng(seed)
    site, lux = rng.choice(["north", "east", "west"], rows), rng.gamma(2.0, 100.0, rows)
    truth = rng.integers(0, 2, rows)
    inside = (site == "west") & (lux < 120)
    right = rng.random(rows) < np.where(inside, 0.9 - weaker, 0.9)
    return {"site": site, "lux": lux, "label": truth}, classifier(confident(truth, right, 2), truth), inside


def run(folder: Path, asked: Slices, table: dict[str, Any], candidate: Predictions, seed: int = 7) -> CheckResult:
    inputs = FakeInputs(
        evidence=folder, tables={"test": pa.table(table)}, labels={"test": "label"},
        answers={("test", "candidate"): candidate}, seed=seed,
    )  # fmt: skip
    result = asked.run(inputs)
    well_formed(result)
    return result


def block(result: CheckResult, title: str) -> Any:
    return next(one for one in result.blocks if one.title == title)


def test_a_weak_slice_is_found_confirmed_and_can_be_pasted(tmp_path: Path) -> None:
    table, candidate, inside = scene(20_000, 0.2)
    asked = check(["weak_slices <= 0"])
    result = run(tmp_path, asked, table, candidate)
    assert outcome(result, asked.require[0]) == "FAIL"
    pasted = block(result, "To be watched from now on")
    entries = read_text("\n".join(row[0] for row in pasted.rows), "pasted").value
    assert isinstance(entries, list) and len(entries) == 1
    entry = entries[0]
    assert isinstance(entry, dict) and entry["name"] == "weak_1"
    rows = mask(pa.table(table), parse_where(str(entry["where"]))).inside
    assert (rows & inside).sum() >= 0.8 * (rows | inside).sum()
    # Named, it is a slice like any other, scored on all rows.
    line = block(result, "Slices that nobody named").rows[0]
    assert line[:2] == (entry["where"], "yes")
    assert line[2] + line[3] == rows.sum()
    accuracy = np.mean(np.argmax(candidate.probabilities, axis=1)[rows] == table["label"][rows])
    assert line[4] == pytest.approx(accuracy, abs=0.03)
    assert line[5] < line[4] < line[6]
    assert line[8] == pytest.approx(100 * (line[7] - line[4]))


def test_an_even_model_passes_where_the_search_would_have_found_something(tmp_path: Path) -> None:
    asked = check(["weak_slices <= 0"])
    table, candidate, _ = scene(40_000, 0.0)
    result = run(tmp_path, asked, table, candidate)
    assert outcome(result, asked.require[0]) == "PASS"
    text = block(result, "What the search can find").text
    assert text.startswith("A slice of 5 % of the rows whose accuracy is 10 pp worse would be found in 99 % of runs")
    assert result.counts.used == 40_000


def test_a_search_among_few_rows_decides_nothing_and_says_how_many_it_takes(tmp_path: Path) -> None:
    asked = check(["weak_slices <= 0"])
    table, candidate, _ = scene(2000, 0.0)
    result = run(tmp_path, asked, table, candidate)
    assert outcome(result, asked.require[0]) == "INCONCLUSIVE"
    found = result.estimates["weak_slices"]
    assert isinstance(found, WeakSlices)
    assert "rows find it in 95 %" in found.method
    wider = check(["weak_slices <= 0"], discover={"columns": ["site", "lux"], "share": "40 %", "gap": "20 pp"})
    assert outcome(run(tmp_path, wider, table, candidate), wider.require[0]) == "PASS"


def test_the_halves_share_no_row_and_no_cluster() -> None:
    losses = Losses("accuracy", np.zeros(1000), np.arange(1000), True, np.repeat(np.arange(100), 10))
    half = halved(losses, np.random.default_rng(1))
    assert half.sum() == 500
    assert not set(losses.clusters[half]) & set(losses.clusters[~half])  # type: ignore[index]  # there are some
    free = halved(Losses("accuracy", np.zeros(1001), np.arange(1001), True, None), np.random.default_rng(1))
    assert free.sum() == 500


def test_what_one_half_brings_up_is_scored_on_the_other_alone() -> None:
    """Wrong in one half only: nothing is confirmed, whatever that half says."""
    rng = np.random.default_rng(4)
    site = rng.integers(0, 10, 8000)
    cuts = [cuts_of("site", pa.array([f"s{one}" for one in site]))]
    half = rng.random(8000) < 0.5
    values = np.where((site == 3) & half, 1.0, (rng.random(8000) < 0.1).astype(float))
    losses = Losses("accuracy", values, np.arange(8000), True, None)
    found = searched(losses, cuts, half, Discover(columns=("any",)), 0.0, Estimators(1, 0.002))
    assert found[0].where == "site == 's3'" and found[0].p > 0.05
    assert found[0].inside.value == pytest.approx(values[~half & (site == 3)].mean())
    assert found[0].rest.value == pytest.approx(values[~half & (site != 3)].mean())


def test_clustered_rows_take_more(tmp_path: Path) -> None:
    asked = check(["weak_slices <= 0"], discover={"columns": ["site"]})
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(1500), 20)
    truth = rng.integers(0, 2, 30_000)
    right = np.repeat(rng.beta(1.8, 0.2, 1500), 20) > rng.random(30_000)
    table = {"site": np.repeat(rng.choice(["a", "b", "c"], 1500), 20), "label": truth}
    probabilities = confident(truth, right, 2)
    free = run(tmp_path, asked, table, classifier(probabilities, truth))
    tied = run(tmp_path, asked, table, classifier(probabilities, truth, clusters=clusters))
    first, second = free.estimates["weak_slices"], tied.estimates["weak_slices"]
    assert isinstance(first, WeakSlices) and isinstance(second, WeakSlices)
    assert first.planted.design_effect == 1.0 and second.planted.design_effect > 4.0
    assert second.power < first.power


def test_a_regression_is_searched_by_its_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    rows = 20_000
    hour, truth = rng.integers(0, 24, rows), rng.normal(20, 5, rows)
    night = hour >= 22
    asked = check(["weak_slices <= 0"], discover={"columns": ["hour"]})
    table = {"hour": hour, "label": truth}
    for worse, expected in ((1.0, "PASS"), (2.0, "FAIL")):
        values = truth + rng.normal(0, np.where(night, worse, 1.0))
        result = run(tmp_path, asked, table, regressor(values, truth))
        assert outcome(result, asked.require[0]) == expected
    line = block(result, "Slices that nobody named").rows[0]
    assert line[0] == "hour >= 22" and line[4] == pytest.approx(2 * line[7], rel=0.2)


def test_losses_of_which_few_rows_carry_the_mean_do_not_pass(tmp_path: Path) -> None:
    """A slice is 2.5 times as bad as the rest, and its mean has no bound: found, and neither shown nor excluded."""
    rng, rows = np.random.default_rng(9), 8000
    site, truth = rng.choice(["a", "b", "c", "d"], rows, p=[0.1, 0.3, 0.3, 0.3]), rng.normal(20, 5, rows)
    errors = rng.lognormal(0.0, 1.5, rows) * np.where(site == "a", 3.0, 1.0)
    asked = check(["weak_slices <= 0"], discover={"columns": ["site"], "factor": 2.5, "share": "10 %"})
    result = run(tmp_path, asked, {"site": site, "label": truth}, regressor(truth + errors, truth))
    assert outcome(result, asked.require[0]) == "INCONCLUSIVE"
    found = result.estimates["weak_slices"]
    assert isinstance(found, WeakSlices)
    assert found.power == 0.0 and found.planted.fewest > 400
    assert replace(found.planted, fewest=200).power(rows, 0.05) > 0.95


def test_a_mean_without_a_bound_is_no_evidence() -> None:
    """One loss carries the slice's mean on the confirming half."""
    rng = np.random.default_rng(10)
    site = rng.integers(0, 4, 8000)
    half = np.arange(8000) % 2 == 0
    values = rng.random(8000)
    values[(site == 2) & half] += 3.0
    values[np.flatnonzero((site == 2) & ~half)[0]] = 1e5
    losses = Losses("mae", values, np.arange(8000), False, None)
    cuts = [cuts_of("site", pa.array([f"s{one}" for one in site]))]
    found = searched(losses, cuts, half, Discover(columns=("any",)), 0.0, Estimators(1, 0.002))
    assert found[0].where == "site == 's2'" and found[0].p is None


def test_every_category_of_half_the_share_is_looked_at_by_itself(tmp_path: Path) -> None:
    """200 stores of half a per cent each; one is much worse."""
    rng, rows = np.random.default_rng(12), 60_000
    store, truth = np.arange(rows) % 200, rng.integers(0, 2, rows)
    right = rng.random(rows) < np.where(store == 137, 0.2, 0.95)
    asked = check(["weak_slices <= 0"], discover={"columns": ["store"], "share": "0.5 %", "gap": "60 pp"})
    table = {"store": [f"store {one}" for one in store], "label": truth}
    result = run(tmp_path, asked, table, classifier(confident(truth, right, 2), truth))
    assert outcome(result, asked.require[0]) == "FAIL"
    assert block(result, "Slices that nobody named").rows[0][0] == "store == 'store 137'"


def test_what_the_search_can_not_see_keeps_it_from_pass(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(13), 60_000
    truth = rng.integers(0, 2, rows)
    even = classifier(confident(truth, rng.random(rows) < 0.95, 2), truth)
    places = {
        "x": rng.random(rows),
        # Half of the rows have one of 80 names, the other half names of their own.
        "name": [f"a name of some length {i % 80}" if i % 2 else f"{i}" for i in range(rows)],
        "site": rng.choice(["a", "b"], rows),
    }
    expected = {
        "x": "120 ranges are too wide for slices of 0.5 %",
        "name": "30,000 rows of it is too long for a `where`",
    }
    for column in places:
        fields = {"columns": [column], "share": "0.5 %", "gap": "80 pp"}
        asked = check(["weak_slices <= 0"], discover=fields)
        result = run(tmp_path, asked, {column: places[column], "label": truth}, even)
        assert outcome(result, asked.require[0]) == ("PASS" if column == "site" else "INCONCLUSIVE")
        assert expected.get(column, "") in " ".join(result.notes)
    assert not cuts_of("x", pa.array(places["x"]), 0.01).unseen
    assert not cuts_of("x", pa.array(np.arange(rows) % 100), 0.005).unseen


def test_recall_is_searched_among_the_rows_of_its_class(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = 20_000
    site, truth = rng.choice(["a", "b", "c", "d"], rows), rng.integers(0, 2, rows)
    right = np.where((truth == 1) & (site == "b"), rng.random(rows) < 0.6, rng.random(rows) < 0.95)
    asked = check(["weak_slices <= 0"], discover={"columns": ["site", "class"], "metric": "recall"})
    result = run(tmp_path, asked, {"site": site, "label": truth}, classifier(confident(truth, right, 2), truth))
    assert outcome(result, asked.require[0]) == "FAIL"
    line = block(result, "Slices that nobody named").rows[0]
    assert line[0] == "site == 'b'" and line[2] + line[3] == ((truth == 1) & (site == "b")).sum()


def test_what_is_not_searched_passes_nothing(tmp_path: Path) -> None:
    """20,000 rows of one column would do; of two more that were asked for nothing is known. A violation stays one."""
    rng = np.random.default_rng(9)
    n = 20_000
    truth = rng.integers(0, 2, n)
    table = {"ok": rng.choice(["a", "b", "c"], n), "uid": [f"u{i}" for i in range(n)], "lst": [[1]] * n, "label": truth}
    for accuracy_of_a, decided in ((0.95, ("PASS", "INCONCLUSIVE")), (0.5, ("FAIL", "FAIL"))):
        right = rng.random(n) < np.where(table["ok"] == "a", accuracy_of_a, 0.95)
        for columns, expected in zip((["ok"], ["ok", "uid", "lst"]), decided, strict=True):
            asked = check(["weak_slices <= 0"], discover={"columns": columns})
            result = run(tmp_path, asked, table, classifier(confident(truth, right, 2), truth))
            assert outcome(result, asked.require[0]) == expected
    found = result.estimates["weak_slices"]
    assert isinstance(found, Measured) and found.withhold is not None
    assert "column 'lst' is not searched: it holds list<" in found.withhold and "column 'uid'" in found.withhold


def test_bad_input_gives_reasons(tmp_path: Path) -> None:
    table, candidate, _ = scene(400, 0.0)
    asked = check(["weak_slices <= 0"], discover={"columns": ["site", "none", "id", "<b>"]})
    odd = {**table, "none": pa.nulls(400), "id": [f"{i}" for i in range(400)], "<b>": ["</td>", "a"] * 200}
    result = run(tmp_path, asked, odd, candidate)
    assert "column 'none' is not searched: no row has a value" in result.notes
    assert outcome(result, asked.require[0]) == "INCONCLUSIVE"
    unknown = check(["weak_slices <= 0"], discover={"columns": ["sites"]})
    with pytest.raises(InputError, match="'sites' is not a column") as caught:
        run(tmp_path, unknown, table, candidate)
    assert caught.value.problem.remedy == "did you mean 'site'?"
    nothing = check(["weak_slices <= 0"], discover={"columns": ["none"]})
    found = run(tmp_path, nothing, odd, candidate)
    assert outcome(found, nothing.require[0]) == "INCONCLUSIVE"
    errors = check(["weak_slices <= 0"], discover={"columns": ["site"], "metric": "mae"})
    assert "needs" in run(tmp_path, errors, table, candidate).missing["weak_slices"]


@pytest.mark.parametrize("right", [True, False], ids=["all right", "all wrong"])
def test_a_model_that_is_always_right_or_always_wrong_has_no_weak_slice(right: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    truth = rng.integers(0, 2, 30_000)
    table = {"site": rng.choice(["a", "b"], 30_000), "lux": rng.random(30_000), "label": truth}
    asked = check(["weak_slices <= 0"])
    result = run(tmp_path, asked, table, classifier(confident(truth, np.full(30_000, right), 2), truth))
    assert not [one for one in result.blocks if isinstance(one, Table) and one.title == "Slices that nobody named"]
    assert [one.title for one in result.blocks if isinstance(one, Text)] == ["What the search can find"]
    assert outcome(result, the(asked, "weak_slices <= 0")) == ("PASS" if right else "INCONCLUSIVE")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"columns": []}, "columns"),
        ({"columns": ["a", "a"]}, "'a' is listed twice in `discover`"),
        ({"columns": ["a"], "metric": "mae", "gap": "5 pp"}, "`gap` does not fit mae"),
        ({"columns": ["a"], "metric": "recall", "factor": 2}, "`factor` does not fit recall"),
        ({"columns": ["a"], "gap": 5}, "5 has no unit"),
        ({"columns": ["a"], "share": "60 %"}, "share"),
        ({"columns": ["a"], "factor": 1}, "factor"),
    ],
)
def test_fields_that_make_no_sense_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Discover.model_validate(fields)


@lru_cache
def columns(rows: int) -> tuple[pa.Table, tuple[Cuts, ...], dict[str, np.ndarray]]:
    """Ten columns, five of numbers and five of categories, and slices of a twentieth of the rows."""
    rng = np.random.default_rng(rows)
    raw: dict[str, Any] = {f"x{i}": rng.normal(size=rows) for i in range(5)}
    codes = {count: rng.integers(0, count, rows) for count in (2, 4, 5, 10, 20)}
    table = pa.table(raw | {f"c{count}": [f"v{one}" for one in code] for count, code in codes.items()})
    rank = {name: np.argsort(np.argsort(raw[name])) / rows for name in ("x0", "x1")}
    weak = {
        "a category": codes[20] == 3,
        "a range": (rank["x0"] >= 0.413) & (rank["x0"] < 0.463),
        "two categories": (codes[4] == 1) & (codes[5] == 2),
        "a category and a range": (codes[4] == 2) & (rank["x0"] >= 0.8),
        "two ranges": (rank["x0"] < 0.2236) & (rank["x1"] >= 0.7764),
    }
    return table, tuple(cuts_of(name, table[name].combine_chunks()) for name in table.column_names), weak


def once(rows: int, inside: np.ndarray, gap: float, tolerance: float, rng: np.random.Generator) -> WeakSlices:
    """One run, whose confirmed slices are in ``what``."""
    _, cuts, _ = columns(rows)
    values = (rng.random(rows) < np.where(inside, 0.1 + gap, 0.1)).astype(np.float64)
    losses = Losses("accuracy", values, np.arange(rows), True, None)
    found = searched(losses, cuts, halved(losses, rng), Discover(columns=("any",)), tolerance, Estimators(0, 0.002))
    planted = Planted(0.05, gap, tolerance, np.sqrt((0.1 + gap) * (0.9 - gap)), 0.3, len(cuts), True)
    made = WeakSlices(tuple(one.p for one in found), rows, planted, "", 0.95)
    return WeakSlices(made.p_values, rows, planted, "\n".join(found[i].where for i in made.confirmed(0.95)), 0.95)


def leads_there(found: WeakSlices, inside: np.ndarray, rows: int) -> bool:
    """A confirmed slice holds half of the weak rows at least, and a third of its own rows are weak (overall: 5 %)."""
    for where in filter(None, found.what.split("\n")):
        held = mask(columns(rows)[0], parse_where(where)).inside
        both = (held & inside).sum()
        if both >= 0.5 * inside.sum() and both >= held.sum() / 3:
            return True
    return False


@pytest.mark.proof
@pytest.mark.slow
def test_without_a_weak_slice_one_is_seen_in_at_most_41_of_500_runs() -> None:
    """At a tolerance of 0, where every slice lies on the threshold; the check's own tolerance leaves fewer."""
    rng = np.random.default_rng(11)
    none = np.zeros(5000, dtype=bool)
    assert rarely((once(5000, none, 0.1, 0.0, rng).value > 0 for _ in range(500)), 41 / 500, 500) <= 41 / 500


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("rows", "gap"), [(20_000, 0.10), (10_000, 0.15)])
@pytest.mark.parametrize(
    ("kind", "runs", "least"),
    [
        ("a category", 80, 0.95),
        ("a range", 80, 0.95),
        ("two categories", 40, 0.8),
        ("a category and a range", 40, 0.8),
        ("two ranges", 40, 0.8),
    ],
)
def test_a_weak_slice_of_a_twentieth_is_found(rows: int, gap: float, kind: str, runs: int, least: float) -> None:
    rng = np.random.default_rng(rows)
    inside = columns(rows)[2][kind]
    found = [once(rows, inside, gap, 0.1 * gap, rng) for _ in range(runs)]
    assert np.mean([leads_there(one, inside, rows) for one in found]) >= least
    # And something is confirmed as often as is stated, within three standard errors.
    stated = float(np.mean([one.power for one in found]))
    assert np.mean([one.value > 0 for one in found]) >= stated - 3 * np.sqrt(stated * (1 - stated) / runs)
