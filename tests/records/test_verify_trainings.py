"""A run about logs of trainings is made again where the logs are gone, and where they changed it is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.stories.telling import command
from tests.trainings.logs import write_mllogs
from tests.trainings.mlperf import TYCHE_8, write_rcps

SPEC = """
evalspec: 1
name: logs
trainings:
  recipe: {kind: mllog, path: "logs/result_*.txt", seeds: 10}
  reference: {kind: rcp, path: rcps.json, epoch: 1}
system:
  - {check: time_to_accuracy, training: recipe, target: eval_accuracy <= 3.3, report: [mlperf],
     require: [time_to_accuracy_p50 <= 90 min], warn: [samples_to_accuracy_p50 <= 1.05x reference]}
"""


def differences(folder: Path) -> list[str]:
    done = command("verify", str(folder / "reports" / "logs" / "latest"))
    return [one for one in done.output.splitlines() if one and not one.startswith("same:")]


@pytest.mark.proof
def test_a_run_needs_no_logs_to_be_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TYCHE_8.write(tmp_path / "logs")
    write_rcps(tmp_path / "rcps.json")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    assert command("run", "evalspec.yaml").exit_code == 0
    evidence = tmp_path / "reports" / "logs" / "latest" / "evidence"
    assert pq.read_table(evidence / "rows-recipe.parquet").num_rows == 20
    assert differences(tmp_path) == []
    shutil.move(tmp_path / "logs", tmp_path / "elsewhere")
    (tmp_path / "rcps.json").unlink()
    assert differences(tmp_path) == []
    table = pq.read_table(evidence / "rows-recipe.parquet")
    pq.write_table(table.slice(0, 18), evidence / "rows-recipe.parquet")
    assert any("rows-recipe.parquet" in one for one in differences(tmp_path))
    pq.write_table(table, evidence / "rows-recipe.parquet", compression="zstd")
    write_mllogs(tmp_path / "logs", [70.0 + n for n in range(10)])
    assert any("dataset recipe: its rows are not those that were measured" in one for one in differences(tmp_path))
