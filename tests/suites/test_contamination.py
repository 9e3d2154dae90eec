"""The suite `contamination`: NOT READY for what was planted, and for nothing else."""

from __future__ import annotations

import importlib
import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

SUITE = Path(__file__).resolve().parents[2] / "suites" / "contamination"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from evalspec.language.parts import Access
    from evalspec.loading import load
    from evalspec.planning import plan
    from evalspec.running.options import Options, default_limits
    from evalspec.running.runner import run

    class Silent:
        def step(self, text: str) -> None:
            pass

        def progress(self, done: float, total: float, what: str) -> None:
            pass

    output = tmp_path_factory.mktemp("contamination") / "run"
    options = Options(access=Access(folder=SUITE), output=output, limits=default_limits())
    _, made = run(plan(load(SUITE / "evalspec.yaml")), options, Silent())
    return made


@pytest.mark.proof
def test_not_ready_for_what_was_planted(run_folder: Path) -> None:
    record = json.loads((run_folder / "record.json").read_text(encoding="utf-8"))
    assert (record["verdict"]["word"], record["verdict"]["exit_code"]) == ("NOT READY", 1)
    statuses = {one["name"]: one["status"] for one in record["verdict"]["decisions"]}
    assert statuses == {
        "contamination/exact_duplicates": "FAIL",
        "contamination/near_duplicates": "FAIL",
        "contamination/ngram_overlap": "FAIL",
        "contamination/clean_score_change": "FAIL",
        "quality/accuracy": "INVALID",
    }
    tests = {test["name"]: test for check in record["checks"] for test in check["tests"]}
    assert tests["contamination/exact_duplicates"]["value"] == 40
    assert tests["contamination/near_duplicates"]["value"] == pytest.approx(10.0)
    assert tests["contamination/ngram_overlap"]["value"] == pytest.approx(18.0)
    # Without the questions that it has read, the score is below what was asked for.
    assert tests["quality/accuracy"]["value"] - tests["contamination/clean_score_change"]["value"] / 100 < 0.72
    assert tests["quality/accuracy"]["lower"] > 0.72


@pytest.mark.proof
def test_every_planted_row_is_found_as_what_it_is_and_no_other(run_folder: Path) -> None:
    planted = pq.read_table(SUITE / "test.parquet")["planted"].to_pylist()
    (evidence,) = run_folder.glob("**/duplicates-contamination.parquet")
    found = Counter((row["kind"], planted[row["test_row"]]) for row in pq.read_table(evidence).to_pylist())
    assert found == {
        ("exact", "exact"): 40, ("near", "near"): 60, ("span", "span"): 80, ("span", "exact"): 40, ("span", "near"): 60,
    }  # fmt: skip
    # Told in other words, and not to be found by words.
    assert planted.count("paraphrase") == 20


def test_files_are_what_the_script_makes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(SUITE))
    script = importlib.import_module("make_contamination")
    assert script.main(["--check"]) == 0
    script.make(tmp_path)
    for name in script.FILES:
        # Contents, not bytes: another version of pyarrow may write the same rows otherwise.
        assert pq.read_table(tmp_path / name).equals(pq.read_table(SUITE / name)), name
    assert sum((SUITE / name).stat().st_size for name in script.FILES) < 2**20
