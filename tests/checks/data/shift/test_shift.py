"""`shift`: planted shifts turn the test red, a clean twin stays green."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift.classifier import Pool, make_pool, tell_apart
from evalspec.checks.data.shift.spec import Shift
from evalspec.errors import InputError
from evalspec.evidence.blocks import Bars, Histogram, Intervals
from evalspec.evidence.estimate import Estimate, Measured, Parts
from evalspec.language.parts import CheckResult, NeedRows, SpecNames
from evalspec.language.requirement import Requirement
from evalspec.tables.columns import compare_columns
from tests.fakes import FakeInputs, p_values

DRIFTED = Requirement("drifted_columns <= 10 %", "drifted_columns", None, "<=", 0.10, "fraction")
AUC = Requirement("c2st_auc <= 0.60", "c2st_auc", None, "<=", 0.60, "fraction")


def below(p: float | None, level: float) -> bool:
    return p is not None and p < level


def table(
    n: int, seed: int, *, darker: float = 0.0, missing: float = 0.02, sites: tuple[float, float] = (0.5, 0.5)
) -> pa.Table:
    rng = np.random.default_rng(seed)
    pixels = rng.normal(0, 1, (n, 16)) - darker
    return pa.table(
        {
            "lux": rng.normal(100 - 30 * darker, 30, n),
            "age": pa.array(rng.normal(40, 10, n), mask=rng.random(n) < missing),
            "site": rng.choice(["north", "south"], n, p=sites),
            "pixels": pa.FixedSizeListArray.from_arrays(pixels.ravel(), 16),
            "flag": rng.random(n) < 0.3,
            "digit": rng.integers(0, 10, n),
        }
    )


def run(reference: pa.Table, current: pa.Table, folder: Path, **fields: object) -> CheckResult:
    inputs = FakeInputs(
        folder, tables={"test": reference, "traffic": current}, labels={"test": "digit", "traffic": "digit"}
    )
    check = Shift.model_validate({"check": "shift", "reference": "test", "current": "traffic", **fields})
    return check.run(inputs)


def parts(result: CheckResult, metric: str) -> Parts:
    found = result.estimates[metric]
    assert isinstance(found, Parts)
    return found


def test_equal_populations_pass_and_shifted_ones_fail(tmp_path: Path) -> None:
    clean = run(table(1500, 1), table(1500, 2), tmp_path, require=(DRIFTED,), warn=(AUC,))
    p_pass, p_fail = p_values(clean, DRIFTED)
    assert p_pass is not None and p_pass < 0.05 and p_fail is not None and p_fail > 0.5
    p_pass, _ = p_values(clean, AUC)
    assert p_pass is not None and p_pass < 0.01
    shifted = run(
        table(1500, 1), table(1500, 3, darker=1.0, sites=(0.2, 0.8)), tmp_path, require=(DRIFTED,), warn=(AUC,)
    )
    assert below(p_values(shifted, DRIFTED)[1], 0.01)
    assert below(p_values(shifted, AUC)[1], 1e-6)


def test_each_column_has_its_distance(tmp_path: Path) -> None:
    result = run(table(1500, 1), table(1500, 3, darker=1.0, sites=(0.2, 0.8)), tmp_path)
    distances = parts(result, "shift").parts
    assert list(distances) == ["lux", "age", "site", "pixels:mean", "pixels:sd", "flag"]
    values = {name: one.value or 0.0 for name, one in distances.items()}
    # Two normals a deviation apart: 2 Phi(0.5) - 1 = 0.383; sites move by 0.3.
    assert values["lux"] == pytest.approx(0.383, abs=0.05)
    assert values["site"] == pytest.approx(0.3, abs=0.05)
    assert values["pixels:mean"] > 0.9
    assert max(values["age"], values["pixels:sd"], values["flag"]) < 0.08
    lux = Requirement("shift(lux) <= 0.1", "shift", "lux", "<=", 0.1, "score")
    assert below(p_values(result, lux, part="lux")[1], 1e-6)


def test_missing_cells_are_a_shift_of_their_own(tmp_path: Path) -> None:
    result = run(table(1500, 1), table(1500, 2, missing=0.15), tmp_path)
    missing = parts(result, "missingness_shift").parts
    assert list(missing) == ["lux", "age", "site", "pixels", "flag"]
    required = Requirement("missingness_shift(age) <= 5 pp", "missingness_shift", "age", "<=", 0.05, "fraction")
    assert below(p_values(result, required, part="age")[1], 0.001)
    assert below(p_values(result, required, part="lux")[0], 1e-6)
    # They are left out of the distance.
    assert (parts(result, "shift").parts["age"].value or 0) < 0.06


@pytest.mark.proof
def test_wasserstein_is_in_reference_deviations(tmp_path: Path) -> None:
    result = run(table(1500, 1), table(1500, 3, darker=1.0), tmp_path, distance="wasserstein")
    assert parts(result, "shift").parts["lux"].value == pytest.approx(1.0, abs=0.12)


def test_a_joint_shift_that_no_column_shows_is_found_by_the_classifier(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    a = rng.normal(0, 1, 2000)
    together = pa.table({"x": a, "y": a + 0.3 * rng.normal(0, 1, 2000)})
    apart = pa.table({"x": rng.normal(0, 1, 2000), "y": rng.normal(0, np.sqrt(1.09), 2000)})
    result = run(together, apart, tmp_path, require=(DRIFTED,), warn=(AUC,))
    assert below(p_values(result, DRIFTED)[0], 0.05)
    assert below(p_values(result, AUC)[1], 1e-6)


def test_a_classifier_that_could_not_find_the_tolerance_passes_nothing(tmp_path: Path) -> None:
    strict = Requirement("c2st_auc <= 0.52", "c2st_auc", None, "<=", 0.52, "fraction")
    result = run(table(300, 1), table(300, 2), tmp_path, warn=(strict,))
    found = result.estimates["c2st_auc"]
    assert isinstance(found, Measured) and found.withhold is not None
    assert "planted shift with an AUC of 0.52 was not found" in found.withhold
    generous = run(table(1500, 1), table(1500, 2), tmp_path, warn=(AUC,)).estimates["c2st_auc"]
    assert isinstance(generous, Measured) and generous.withhold is None


@pytest.mark.parametrize("tolerance", [0.6, 0.75])
def test_the_planted_shift_has_the_size_it_says(tolerance: float) -> None:
    """In the column in which it is planted, ranks alone have the tolerance's AUC."""
    from scipy.stats import rankdata

    from evalspec.checks.data.shift.classifier import _plant

    rng = np.random.default_rng(6)
    values = rng.normal(0, 1, (8000, 1))
    pool = Pool(values, np.arange(8000), False, ("x",), np.array([False]))
    rows, shifted, units, held = _plant(pool, tolerance, rng)
    ranks = rankdata(rows[:, 0])
    m, n = shifted.sum(), (~shifted).sum()
    auc = (ranks[shifted].sum() - m * (m + 1) / 2) / (m * n)
    assert auc == pytest.approx(tolerance, abs=0.02)
    assert not set(units[held]) & set(units[~held])
    assert not set(units[shifted]) & set(units[~shifted])


def test_equal_rows_are_not_told_apart_and_shuffled_columns_name_the_giveaway() -> None:
    columns, _ = compare_columns(table(800, 1), table(800, 2, darker=1.0), ["lux", "age", "site"])
    rng = np.random.default_rng(0)
    told = tell_apart(make_pool(columns, (800, 800), (None, None), rng), 0.6, 0.95, rng)
    assert max(told.gain, key=lambda name: told.gain[name]) == "lux"
    assert told.rows == 800
    same, _ = compare_columns(table(800, 1), table(800, 2), ["lux", "age", "site"])
    told = tell_apart(make_pool(same, (800, 800), (None, None), rng), 0.6, 0.95, rng)
    assert told.auc.value == pytest.approx(0.5, abs=0.06)


def test_few_rows_have_no_classifier(tmp_path: Path) -> None:
    result = run(table(80, 1), table(500, 2), tmp_path)
    assert "100 are needed" in result.missing["c2st_auc"]


def test_copies_of_rows_need_their_clusters(tmp_path: Path) -> None:
    reference, current = table(150, 1), table(150, 2)
    copies = pa.concat_tables([current] * 10)
    inputs = FakeInputs(
        tmp_path,
        tables={"test": reference, "traffic": copies},
        labels={"test": "digit", "traffic": "digit"},
        cluster_of={"traffic": np.tile(np.arange(150), 10)},
    )
    result = Shift(reference="test", current="traffic").run(inputs)
    naive = run(reference, copies, tmp_path)
    wide, narrow = (parts(one, "shift").parts["lux"] for one in (result, naive))
    assert wide.value == narrow.value
    plain = parts(run(reference, current, tmp_path), "shift").parts["lux"]
    bounds = [one.bound(0.95, "upper") for one in (wide, narrow, plain) if isinstance(one, Estimate)]
    assert bounds[0] == pytest.approx(bounds[2], abs=0.01)
    assert bounds[1] is not None and bounds[0] is not None and bounds[0] > bounds[1] + 0.02


def test_blocks(tmp_path: Path) -> None:
    result = run(table(500, 1), table(900, 3, darker=1.0, sites=(0.2, 0.8)), tmp_path)
    forest = next(block for block in result.blocks if isinstance(block, Intervals))
    assert forest.rows[0].label == "pixels:mean" and forest.references[0].value == 0.1
    histogram = next(block for block in result.blocks if isinstance(block, Histogram))
    assert set(histogram.counts) == {"test", "traffic"}
    # Both sides are shown by 1,000 rows, whatever their sizes.
    assert all(sum(counts) == pytest.approx(1000, abs=15) for counts in histogram.counts.values())
    assert any(isinstance(block, Bars) and block.title == "What the classifier uses" for block in result.blocks)


def test_kinds_of_columns() -> None:
    n = 120
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=i % 28) for i in range(n)]
    rows = pa.table(
        {
            "day": days,
            "stamp": pa.array([datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)] * n, pa.timestamp("us", "UTC")),
            "coded": pa.array([f"c{i % 3}" for i in range(n)]).dictionary_encode(),
            "note": [f"a note with number {i}" for i in range(n)],
            "nested": [[[1.0, float(i)], [2.0, 3.0]] for i in range(n)],
            "uneven": [[] if i == 0 else None if i == 1 else [1.0] * (i % 4 + 1) for i in range(n)],
            "gone": pa.nulls(n),
            "blob": [b"x"] * n,
        }
    )
    columns, skipped = compare_columns(rows, rows, rows.column_names)
    kinds = {column.name: column.kind for column in columns}
    assert kinds == {
        "day": "number", "stamp": "number", "coded": "category", "note:length": "number", "nested:mean": "number",
        "nested:sd": "number", "nested:size": "number", "uneven:mean": "number", "uneven:sd": "number",
        "uneven:size": "number", "gone": "category",
    }  # fmt: skip
    assert len(skipped) == 1 and "'blob' (binary)" in skipped[0]
    by_name = {column.name: column for column in columns}
    assert by_name["nested:mean"].reference.values[4] == pytest.approx((1 + 4 + 2 + 3) / 4)
    assert by_name["nested:sd"].reference.values[4] == pytest.approx(np.std([1, 4, 2, 3]))
    assert by_name["uneven:mean"].reference.missing[:3].tolist() == [True, True, False]
    assert by_name["gone"].reference.missing.all()


def test_a_column_that_is_all_missing_on_one_side_has_no_distance(tmp_path: Path) -> None:
    rows = table(300, 1)
    emptied = table(300, 2).set_column(0, "lux", pa.nulls(300, pa.float64()))
    result = run(rows, emptied, tmp_path)
    lux = parts(result, "shift").parts["lux"]
    assert lux.value is None
    assert (parts(result, "missingness_shift").parts["lux"].value or 0) == 1.0
    p_pass, _ = p_values(result, DRIFTED)
    assert p_pass is None or p_pass > 0.05


def test_columns_must_be_on_both_sides_and_alike(tmp_path: Path) -> None:
    rows = table(200, 1)
    with pytest.raises(InputError, match="dataset traffic has no column 'lux'"):
        run(rows, rows.drop_columns(["lux"]), tmp_path)
    texts = rows.set_column(0, "lux", pa.array(["a"] * 200))
    with pytest.raises(InputError, match="'lux' is double in the reference and string in the current"):
        run(rows, texts, tmp_path)
    with pytest.raises(InputError, match="traffic has no rows"):
        run(rows, rows.slice(0, 0), tmp_path)
    with pytest.raises(InputError, match="no column that can be compared"):
        blob = pa.table({"blob": [b"x"] * 60})
        run(blob, blob, tmp_path)


@pytest.mark.parametrize(
    ("requirement", "rows", "needed"),
    [
        (DRIFTED, 100, "136"),
        (Requirement("shift(lux) <= 0.05", "shift", "lux", "<=", 0.05, "score"), 400, "542"),
        (Requirement("shift(lux) <= 0.9", "shift", "lux", "<=", 0.9, "score"), 30, "50"),
        (Requirement("c2st_auc <= 0.5", "c2st_auc", None, "<=", 0.5, "fraction"), 10_000, "above 0.5"),
    ],
)
def test_what_can_never_pass_is_refused(requirement: Requirement, rows: int, needed: str) -> None:
    check = Shift(reference="test", current="traffic")
    message = check.check_requirement(requirement, {"test": rows, "traffic": rows})
    assert message is not None and needed in message


def test_a_stricter_policy_needs_more_rows() -> None:
    # 2 (2.326 / 0.2)^2 = 270.6
    check = Shift(reference="test", current="traffic")
    assert "271" in (check.check_requirement(DRIFTED, {"test": 270, "traffic": 270}, 0.99) or "")
    assert check.check_requirement(DRIFTED, {"test": 271, "traffic": 271}, 0.99) is None


def test_the_smallest_n_that_is_let_through_can_pass() -> None:
    from evalspec.stats.drift.distances import ks_distance

    check = Shift(reference="test", current="traffic")
    assert check.check_requirement(DRIFTED, {"test": 136, "traffic": 136}) is None
    p = ks_distance(np.arange(136.0), np.arange(136.0)).p_value(0.1, "upper")
    assert p is not None and p <= 0.05
    p = ks_distance(np.arange(135.0), np.arange(135.0)).p_value(0.1, "upper")
    assert p is not None and p > 0.05


def test_names_and_needs() -> None:
    check = Shift(reference="test", current="test", columns=("lux",))
    names = SpecNames(models=("candidate",), datasets=("test", "traffic"), slices=())
    assert "two datasets" in (check.check_names(names) or "")
    check = Shift(reference="test", current="traffic", columns=("lux",))
    assert check.check_names(names) is None
    assert check.needs() == (NeedRows("test", ("lux",)), NeedRows("traffic", ("lux",)))


def test_the_same_seed_gives_the_same_numbers(tmp_path: Path) -> None:
    one, other = (run(table(300, 1), table(300, 2), tmp_path).estimates["c2st_auc"] for _ in range(2))
    assert isinstance(one, Measured) and isinstance(other, Measured)
    assert one.estimate == other.estimate


def test_a_column_that_names_rows_is_no_shift(tmp_path: Path) -> None:
    def rows(first: int) -> pa.Table:
        return pa.table({"id": np.arange(first, first + 400), "height": np.arange(400) % 20 + 0.5})

    result = run(rows(0), rows(400), tmp_path)
    assert set(parts(result, "shift").parts) == {"height"}
    assert any("'id' has another value in each row of test and of traffic" in note for note in result.notes)
    named = run(rows(0), rows(400), tmp_path, columns=("id", "height"))
    assert set(parts(named, "shift").parts) == {"id", "height"}
    # In one of the two it names no row.
    again = run(rows(0), rows(400).set_column(0, "id", [np.arange(400) // 2]), tmp_path)
    assert set(parts(again, "shift").parts) == {"id", "height"}


def test_infinite_numbers_are_in_no_distance_and_keep_it_from_passing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (2, 1000))
    values[1, :400] = np.inf
    tables = [pa.table({"amount": one, "age": rng.normal(0, 1, 1000)}) for one in values]
    found = run(tables[0], tables[1], tmp_path)
    drifted, amount = found.estimates["drifted_columns"], parts(found, "shift").parts["amount"]
    assert isinstance(drifted, Measured) and isinstance(amount, Measured)
    assert drifted.withhold == amount.withhold == "infinite numbers in 'amount' (400 of traffic) are in no distance"
    assert not isinstance(parts(found, "shift").parts["age"], Measured)
    assert any("Infinite numbers in 'amount'" in note for note in found.notes)


@pytest.mark.parametrize(("fields", "wrong"), [({"tolerance": 15}, True), ({"tolerance": 1}, True),
                                               ({"tolerance": 0.15}, False),
                                               ({"tolerance": 15, "distance": "wasserstein"}, False)])  # fmt: skip
def test_a_tolerance_that_holds_whatever_the_rows_are(fields: dict[str, object], wrong: bool) -> None:
    given = {"check": "shift", "reference": "a", "current": "b", "report_only": True} | fields
    said = Shift.model_validate(given).check_names(SpecNames(models=(), datasets=("a", "b"), slices=()))
    assert (said is not None and "a distance is within 0..1" in said) == wrong
