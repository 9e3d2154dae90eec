"""One pass over a dataset gives what all of its rows would; tables of any size are compared by it."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.data.shift import classifier, summaries
from evalspec.checks.data.shift.columns import pair_columns
from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.data.shift.summaries import ColumnSummary, RowSample, TableSummary, summary_scans, table_summary
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Parts
from evalspec.language.parts import CheckResult
from evalspec.language.scans import look
from evalspec.stats.drift import columns as column_stats
from evalspec.stats.drift.columns import CategoryCounts, Numbers
from evalspec.stats.drift.rank_distances import ks_of_ranks
from evalspec.stats.drift.ranks import Ranks
from evalspec.tables.columns import compare_columns
from tests.fakes import FakeInputs


def summary(table: pa.Table, rows: int = 97) -> TableSummary:
    scans = summary_scans("test", table.column_names, np.random.default_rng(0), "shift")
    return table_summary(look(scans, lambda _, names: iter(table.select(names).to_batches(rows))))


def mixed(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    days = [datetime.date(2026, 1, 1) + datetime.timedelta(days=int(i)) for i in rng.integers(0, 60, n)]
    pictures = pa.FixedSizeListArray.from_arrays(rng.random(n * 16), 16)
    return pa.table(
        {
            "x": pa.array(rng.normal(0, 1, n), mask=rng.random(n) < 0.1),
            "bad": np.where(rng.random(n) < 0.1, np.inf, np.where(rng.random(n) < 0.1, np.nan, 1.0)),
            "day": days,
            "site": pa.array(rng.choice(["a", "b"], n), mask=rng.random(n) < 0.2),
            "flag": rng.random(n) < 0.3,
            "note": [f"note {i}" for i in range(n)],
            "list": [list(rng.random(int(k))) for k in rng.integers(0, 4, n)],
            "photo": pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float64(), [4, 4]), pictures),
        }
    )


def test_columns_in_parts_are_the_columns_of_the_table() -> None:
    tables = mixed(700, 1), mixed(500, 2)
    names = tables[0].column_names
    pairs = pair_columns(summary(tables[0]), summary(tables[1]), names).pairs
    shown = [pair.name for pair in pairs]
    assert shown == [
        "x", "bad", "day", "day:weekday", "site", "flag", "note:length", "list:mean", "list:sd", "list:size",
        "photo:brightness", "photo:contrast", "photo:sharpness",
    ]  # fmt: skip
    columns, _ = compare_columns(*tables, names, set(shown))
    assert [(one.name, one.kind) for one in columns] == [(one.name, one.kind) for one in pairs]
    for pair, column in zip(pairs, columns, strict=True):
        for summed, side in ((pair.reference, column.reference), (pair.current, column.current)):
            assert summed.n == len(side.values)
            if isinstance(summed, CategoryCounts):
                assert summed.missing == side.missing.sum()
                assert dict(summed.counts) == dict(zip(*np.unique(side.values, return_counts=True), strict=True))
                continue
            values = side.values.astype(np.float64)
            assert summed.absent == side.missing.sum()
            exact = Ranks.of(values)
            assert (summed.ranks().points == exact.points).all() and (summed.ranks().upto == exact.upto).all()


def test_many_categories_are_compared_by_their_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_stats, "MOST_CATEGORIES", 40)
    codes = np.arange(5000) % 90
    table = pa.table({"code": pa.array([f"{'c' * (code % 5)}{code}" for code in codes])})
    whole, parts = summary(table, 5000), summary(table, 30)
    found = pair_columns(whole, parts, ["code"])
    pairs, notes = found.pairs, found.notes
    assert [pair.name for pair in pairs] == ["code:length"] and "different values" in notes[0]
    lengths = [pairs[0].reference, pairs[0].current]
    assert all(isinstance(one, Numbers) and one.n == 5000 for one in lengths)
    assert isinstance(lengths[0], Numbers) and isinstance(lengths[1], Numbers)
    assert (lengths[0].ranks().upto == lengths[1].ranks().upto).all()


def test_columns_of_two_parts_merge() -> None:
    table = mixed(600, 3)
    for name in table.column_names:
        whole, first, second = (ColumnSummary(name, table.schema.field(name).type) for _ in range(3))
        array = table.column(name).combine_chunks()
        whole.update(array)
        first.update(array.slice(0, 250))
        second.update(array.slice(250))
        first.merge(second)
        assert (first.rows, first.null) == (whole.rows, whole.null)
        for suffix, there in whole.views.items():
            other = first.views[suffix]
            if isinstance(there, Numbers) and isinstance(other, Numbers):
                assert (there.ranks().upto == other.ranks().upto).all() and there.absent == other.absent
                assert there.mean == pytest.approx(other.mean)
            elif not isinstance(there, Numbers) and not isinstance(other, Numbers):
                assert there.categories.counts == other.categories.counts
                assert there.lengths().n == other.lengths().n


def test_rows_are_drawn_evenly_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"row": np.arange(20_000)})
    hits = np.zeros(20)
    for seed in range(40):
        sample = RowSample(seed, 500)
        for start in range(0, 20_000, 700):
            sample.update(table.slice(start, 700).to_batches()[0], start)
        drawn, rows = sample.drawn()
        assert len(rows) == 500 and (np.diff(rows) > 0).all()
        assert drawn["row"].to_pylist() == rows.tolist()
        hits += np.bincount(rows // 1000, minlength=20)
    # 40 x 500 draws over 20 cells: 1,000 each, standard deviation 31.
    assert (np.abs(hits - 1000) < 130).all()
    few = RowSample(0, 500)
    few.update(table.slice(0, 300).to_batches()[0], 0)
    assert few.drawn()[1].tolist() == list(range(300))
    monkeypatch.setattr(summaries, "SAMPLE_BYTES", 8000)
    small = RowSample(0, 5000)
    for start in range(0, 20_000, 700):
        small.update(table.slice(start, 700).to_batches()[0], start)
    assert len(small.drawn()[1]) == 1000


def shifted(n: int, seed: int, by: float) -> pa.Table:
    """40 columns of numbers, 10 of categories; ``by`` moves 4 and 1 of them."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {f"x{i}": rng.normal(by * (i < 4), 1, n) for i in range(40)}
    names = np.array(["a", "b", "c", "d"])
    for i in range(10):
        moved = 0.03 * (by > 0) * (i == 0)
        columns[f"c{i}"] = names[rng.choice(4, n, p=[0.4 - moved, 0.3 + moved, 0.2, 0.1])]
    return pa.table(columns)


def compared(reference: pa.Table, current: pa.Table, folder: Path, **fields: object) -> CheckResult:
    inputs = FakeInputs(folder, tables={"test": reference, "traffic": current})
    return Shift.model_validate({"reference": "test", "current": "traffic", **fields}).run(inputs)


@pytest.mark.proof
def test_five_moved_columns_of_fifty_are_found_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mean shift of 0.1 standard deviations is D = 2 Phi(0.05) - 1 = 0.0399; a moved share is TV = 0.03."""
    monkeypatch.setattr(classifier, "why_not", lambda smaller: "the classifier is left out of this test")
    result = compared(shifted(80_000, 1, 0.0), shifted(80_000, 2, 0.1), tmp_path, tolerance=0.015)
    found = result.estimates["shift"]
    assert isinstance(found, Parts) and len(found.parts) == 50
    distances = {name: one for name, one in found.parts.items() if isinstance(one, Estimate)}
    # Each at Bonferroni's level for 50 columns at 95 %.
    assert {name for name, one in distances.items() if (one.p_value(0.015, "lower") or 0.0) < 0.001} == {
        "x0", "x1", "x2", "x3", "c0",
    }  # fmt: skip
    for name, one in distances.items():
        truth = 0.0399 if name in ("x0", "x1", "x2", "x3") else 0.03 if name == "c0" else 0.0
        assert one.value == pytest.approx(truth, abs=0.009)
        if not truth:
            assert (one.p_value(0.015, "upper") or 0.0) < 0.01
    share = result.estimates["drifted_columns"]
    assert isinstance(share, Estimate) and share.value == 0.1
    assert share.bound(0.95, "lower") == share.bound(0.95, "upper") == 0.1


def test_unseen_categories_times_and_missing_cells(tmp_path: Path) -> None:
    n = 2000
    rng = np.random.default_rng(0)
    hours = rng.integers(0, 60 * 24, n)
    reference = pa.table(
        {"site": rng.choice(["a", "b"], n), "at": pa.array(hours * 3600, pa.timestamp("s")), "x": rng.normal(0, 1, n)}
    )
    sites = np.where(rng.random(n) < 0.05, "new", rng.choice(["a", "b"], n))
    moved = pa.array(hours * 3600 + 30 * 24 * 3600, pa.timestamp("s"))
    current = pa.table({"site": sites, "at": moved, "x": pa.array(rng.normal(0, 1, n), mask=rng.random(n) < 0.05)})
    result = compared(reference, current, tmp_path)
    unseen, shift, missing = (result.estimates[name] for name in ("unseen_categories", "shift", "missingness_shift"))
    assert isinstance(unseen, Parts) and isinstance(shift, Parts) and isinstance(missing, Parts)
    new = unseen.parts["site"]
    assert isinstance(new, Estimate) and new.value == pytest.approx((sites == "new").mean())
    assert (new.p_value(0.02, "lower") or 0.0) < 1e-6
    later, gone = shift.parts["at"], missing.parts["x"]
    assert isinstance(later, Estimate) and later.value == pytest.approx(0.5, abs=0.04)
    assert isinstance(gone, Estimate) and (gone.p_value(0.02, "lower") or 0.0) < 1e-4


def test_times_in_other_units_are_the_same_times_and_other_clocks_are_refused(tmp_path: Path) -> None:
    seconds = pa.array(np.arange(300) * 3600, pa.timestamp("s"))
    micro, days = seconds.cast(pa.timestamp("us")), seconds.cast(pa.date32())
    same = compared(pa.table({"at": seconds}), pa.table({"at": micro}), tmp_path).estimates["shift"]
    coarse = compared(pa.table({"at": days}), pa.table({"at": days.cast(pa.date64())}), tmp_path).estimates["shift"]
    for found in (same, coarse):
        assert isinstance(found, Parts) and isinstance(found.parts["at"], Estimate) and found.parts["at"].value == 0.0
    for other in (
        seconds.cast(pa.timestamp("s", "UTC")),
        pa.array(np.arange(300)),
        pa.array(np.arange(300), pa.duration("s")),
    ):
        with pytest.raises(InputError, match="column 'at' is timestamp"):
            compared(pa.table({"at": seconds}), pa.table({"at": other}), tmp_path)


def null_distances(n: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """KS distances of two samples of n uniform values: only the counts in cells matter beyond a few thousand rows."""
    if n <= 2000:
        both = np.argsort(rng.random((columns, 2 * n), dtype=np.float32), axis=1) < n
        steps = np.where(both, 1, -1).cumsum(axis=1, dtype=np.int32)
        return np.asarray(np.abs(steps).max(axis=1) / n)
    counts = rng.multinomial(n, np.full(1500, 1 / 1500), size=(2, columns))
    return np.asarray(np.abs((counts[0] - counts[1]).cumsum(axis=1)).max(axis=1) / n)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2000, 1_000_000])
def test_hundred_null_columns_seldom_have_a_false_drift(n: int) -> None:
    """At a tolerance just above 0 and Bonferroni over 100 columns, a false one comes in at most 73 of 1,000 runs."""
    rng = np.random.default_rng(n)
    runs, columns = (400, 100) if n == 200 else (60, 100)
    sample = ks_of_ranks(Ranks.of(rng.random(200)), Ranks.of(rng.random(200)))
    false = 0
    for _ in range(runs):
        largest = float(null_distances(n, columns, rng).max())
        worst = replace(sample, value=largest, n=2 * n, smaller=n, null_scale=np.sqrt(2 / n))
        p = worst.p_value(1e-12, "lower")
        false += p is not None and columns * p <= 0.05
    # 5 % at most are expected; 7.3 % of 1,000 runs, and of fewer runs as many as chance allows at 99.9 %.
    assert false <= runs * 0.05 + 3.1 * np.sqrt(runs * 0.05 * 0.95)
