"""The suite of wrong labels: its files are what the script makes, and its checks fail for what was planted."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.labels.spec import Labels
from evalspec.evidence.estimate import Parts
from evalspec.language.parts import Check, CheckResult
from evalspec.loading import load
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs, classifier

SUITE = Path(__file__).resolve().parents[2] / "suites" / "labels"
EXPECTED = {
    "label_error_rate": "FAIL",
    "label_error_concentration": "FAIL",
    "slices_too_small": "PASS",
    "estimated_label_errors": "PASS",
    "kappa": "PASS",
}
FAMILY = 4
"""Blocking requirements that are decided from a sample: Holm asks the strictest of one of them."""


@pytest.fixture
def make_labels(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SUITE))
    return importlib.import_module("make_labels")


def test_files_have_their_digests_and_are_small(make_labels: ModuleType) -> None:
    assert make_labels.main(["--check"]) == 0
    assert sum(path.stat().st_size for path in SUITE.iterdir() if path.is_file()) < 2**20


def test_the_table_is_what_the_script_makes(make_labels: ModuleType, tmp_path: Path) -> None:
    make_labels.make_data(tmp_path)
    assert pq.read_table(tmp_path / "test.parquet").equals(pq.read_table(SUITE / "test.parquet"))


def results(folder: Path) -> dict[str, tuple[Check, CheckResult]]:
    table, said = pq.read_table(SUITE / "test.parquet"), pq.read_table(SUITE / "predictions.parquet")
    assert table["id"].equals(said["id"])
    shares = np.stack([said[f"p_{digit}"].to_numpy() for digit in range(10)], axis=1)
    inputs = FakeInputs(
        folder, tables={"test": table}, labels={"test": "digit"},
        slices={("dark", "test"): table["lux"].to_numpy() < 100},
        answers={("test", "candidate"): classifier(shares, table["digit"].to_numpy())},
    )  # fmt: skip
    checks = [one for one in load(SUITE / "evalspec.yaml").checks if one.dimension == "data"]
    return {one.name: (one, one.run(inputs)) for one in checks}


def test_it_fails_for_the_planted_reasons_and_for_no_other(tmp_path: Path) -> None:
    found = results(tmp_path)
    decided = {}
    for check, result in found.values():
        for requirement in check.requirements:
            strict = EXPECTED[requirement.metric] == "FAIL"
            decided[requirement.metric] = outcome(result, requirement, 1 - 0.05 / FAMILY if strict else 0.95)
    assert decided == EXPECTED
    check, result = found["labels"]
    assert isinstance(check, Labels)
    concentration = result.estimates["label_error_concentration"]
    assert isinstance(concentration, Parts)
    values = {name: getattr(part, "value", None) or 0.0 for name, part in concentration.parts.items()}
    # Nines in the dark are called 4: none of the other slices is near it.
    assert max(values, key=lambda name: values[name]) == "digit=4 & dark"
    assert sorted(values.values())[-1] > 2 * sorted(values.values())[-2]
