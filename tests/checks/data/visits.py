"""Visits of patients, rows of a crossing, and a benchmark: what `leakage`, `coverage` and `saturation` look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.checks.data.coverage.spec import Coverage
from evalspec.checks.data.leakage.spec import Leakage
from evalspec.checks.data.saturation.spec import Saturation
from evalspec.language.parts import Check
from tests.fakes import FakeInputs, classifier

HOUR = np.timedelta64(1, "h")
TRAINED, TESTED = 900, 600


def visits(rows: int, first: int, day: str, seed: int) -> pa.Table:
    """Visits, three to a patient and one an hour; the code is written when the diagnosis is known."""
    rng = np.random.default_rng(seed)
    ill = rng.random(rows) < 0.4
    number = np.arange(rows)
    return pa.table(
        {
            "patient": pa.array([f"P{one}" for one in first + number // 3], pa.string()),
            "visited": pa.array((np.datetime64(day) + number * HOUR).astype("datetime64[us]")),
            "line": first * 3 + number,
            "age": rng.normal(50, 15, rows) + 5 * ill,
            "site": pa.array(rng.choice(["north", "south"], rows), pa.string()),
            "code": rng.integers(0, 50, rows),
            "ill": pa.array(np.where(ill, "yes", "no"), pa.string()),
        }
    )


def changed(table: pa.Table, **columns: Any) -> pa.Table:
    """The same rows with some columns replaced or added."""
    for name, values in columns.items():
        values = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values)
        if name in table.column_names:
            table = table.set_column(table.column_names.index(name), name, values)
        else:
            table = table.append_column(name, values)
    return table


def hospital(folder: Path, flaw: str = "", rows: int = TESTED, **fields: Any) -> tuple[FakeInputs, Check]:
    """Training up to the middle of February, a test set of new patients from June on; and one flaw of these.

    Args:
        folder: For evidence.
        flaw: ``patients`` or ``order`` (of five test rows), ``mixed`` (lines at random), ``labels`` (seven training
            rows come again with the other label), ``code`` (it tells the diagnosis), or nothing.
        rows: Of the test set.
        fields: Of the check.
    """
    train, test = visits(TRAINED, 0, "2026-01-01", 1), visits(rows, 1000, "2026-06-01", 2)
    if flaw == "patients":
        test = changed(test, patient=["P7"] * 5 + test["patient"].to_pylist()[5:])
    elif flaw == "order":
        test = changed(
            test, visited=pa.chunked_array([*train["visited"].slice(3, 5).chunks, *test["visited"].slice(5).chunks])
        )
    elif flaw == "mixed":
        lines = np.random.default_rng(3).permutation(TRAINED + rows)
        train, test = changed(train, line=lines[:TRAINED]), changed(test, line=lines[TRAINED:])
    elif flaw == "labels":
        again = train.slice(20, 7)
        other = ["no" if one == "yes" else "yes" for one in again["ill"].to_pylist()]
        own = {name: test[name].slice(0, 7) for name in ("patient", "visited", "line")}
        test = pa.concat_tables([changed(again, ill=other, **own), test.slice(7)])
    elif flaw == "code":
        train, test = (changed(one, code=_telling(one, seed)) for seed, one in ((4, train), (5, test)))
    inputs = FakeInputs(folder, tables={"train": train, "test": test}, labels={"train": "ill", "test": "ill"})
    given: dict[str, Any] = {
        "check": "leakage", "train": ["train"], "test": "test", "group": "patient", "time": "visited", "index": "line",
        "require": [
            "group_overlap == 0", "time_overlap == 0", "entity_time_overlap == 0", "index_overlap == 0",
            "conflicting_labels == 0", "target_leakage <= 0.9",
        ],
    }  # fmt: skip
    return inputs, Leakage.model_validate(given | fields)


def _telling(table: pa.Table, seed: int) -> np.ndarray:
    """Codes below 20 stand for the diagnosis; one in two hundred is wrong."""
    rng = np.random.default_rng(seed)
    ill = np.array(table["ill"].to_pylist()) == "yes"
    ill ^= rng.random(len(ill)) < 0.005
    return np.where(ill, rng.integers(0, 20, len(ill)), rng.integers(20, 50, len(ill)))


def crossing(
    folder: Path, *, dark: float = 0.3, fraud: float = 0.2, north: float = 0.6, rows: int = 3000, lux: bool = True,
    **fields: Any,
) -> tuple[FakeInputs, Check]:  # fmt: skip
    """Pictures of a crossing by day and night; traffic is dark in three of ten, and north in six."""
    rng = np.random.default_rng(6)

    def sample(count: int, dark: float, north: float) -> dict[str, Any]:
        return {
            "lux": np.where(rng.random(count) < dark, rng.uniform(0, 10, count), rng.uniform(20, 900, count)),
            "site": pa.array(np.where(rng.random(count) < north, "north", "south"), pa.string()),
            "seen": pa.array(np.where(rng.random(count) < fraud, "bicycle", "car"), pa.string()),
        }

    test = pa.table(sample(rows, dark, north))
    tables = {"test": test if lux else test.drop_columns(["lux"]), "traffic": pa.table(sample(rows, 0.3, 0.6))}
    inputs = FakeInputs(folder, tables=tables, labels={"test": "seen", "traffic": "seen"})
    given: dict[str, Any] = {
        "check": "coverage", "dataset": "test", "conditions": [{"name": "night", "where": "lux < 10"}], "by": ["site"],
        "population": "traffic",
        "require": [
            "missing_conditions == 0", "slices_too_small == 0", "smallest_slice(night) >= 200 rows",
            "class_imbalance <= 10x", "representation_gap <= 5 pp",
        ],
    }  # fmt: skip
    return inputs, Coverage.model_validate(given | fields)


def benchmark(
    folder: Path, wrong: float, rows: int = 4000, collected: str = "2026-05-01", **fields: Any
) -> tuple[FakeInputs, Check]:
    """Ten digits, of which the model misses an exact share."""
    truth = np.arange(rows) % 10
    said = np.where(np.arange(rows) < round(wrong * rows), (truth + 1) % 10, truth)
    shares = np.full((rows, 10), 0.01)
    shares[np.arange(rows), said] = 0.91
    inputs = FakeInputs(
        folder, tables={"test": pa.table({"digit": truth})}, labels={"test": "digit"},
        origins={"test": {"collected": collected}}, answers={("test", "candidate"): classifier(shares, truth)},
    )  # fmt: skip
    given: dict[str, Any] = {
        "check": "saturation", "dataset": "test", "predictions": "candidate",
        "require": ["headroom >= 1 pp", "interval_width <= 2 pp", "data_age <= 365 days"],
    }  # fmt: skip
    return inputs, Saturation.model_validate(given | fields)
