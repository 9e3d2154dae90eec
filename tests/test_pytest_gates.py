"""``pytest --evalspec``: red and green for the requirements of a spec, and nothing at all without the option."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parent.parent
PLUGIN = "evalspec.pytest_plugin"
ALONE = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""With the plug-in by its name: an installed distribution would bring it once more."""
SPEC = """
evalspec: 1
name: NAME
policy: {screens: off}
models:
  candidate:
    kind: predictions
    files: {test: said.parquet}
    outputs: {label: said}
    classes: [a, b]
    artifact: sha256:1111111111111111111111111111111111111111111111111111111111111111
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
model:
  - check: quality
    dataset: test
    require: [accuracy >= 80 %, recall(a) >= 80 %]
    warn: [recall(b) >= 90 %]
waivers:
  - {of: quality/recall(a), why: Known., owner: me@shop.org, expires: 2126-01-01}
"""


def gate(folder: Path, name: str, wrong: int) -> Path:
    """A spec whose model has the first so many rows of a wrong, of 200 of each class."""
    folder.mkdir(parents=True)
    truth = np.repeat(["a", "b"], 200)
    said = truth.copy()
    said[:wrong] = "b"
    pq.write_table(pa.table({"id": np.arange(400), "y": truth}), folder / "test.parquet")
    pq.write_table(pa.table({"id": np.arange(400), "said": said}), folder / "said.parquet")
    path = folder / "evalspec.yaml"
    path.write_text(SPEC.replace("NAME", name).lstrip())
    return path


def pytest_on(folder: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and words of a pytest of its own, as strict as ours."""
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers --strict-config\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-v", "-ra", *arguments]
    done = subprocess.run(command, cwd=folder, env=ALONE, capture_output=True, text=True, check=False, timeout=280)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.proof
def test_a_requirement_is_an_item_and_nothing_unknown_passes(tmp_path: Path) -> None:
    gate(tmp_path / "gate" / "red", "red", 140)
    (tmp_path / "gate" / "notes.yaml").write_text("title: no spec\n")
    (tmp_path / "gate" / "test_own.py").write_text("def test_own():\n    pass\n")
    code, said = pytest_on(tmp_path, "--evalspec", "gate", "--evalspec-output", "runs")
    assert code == 1, said
    for line in (
        "gate/red/evalspec.yaml::quality/accuracy FAILED",
        "gate/red/evalspec.yaml::quality/recall(a) SKIPPED (waived",
        "gate/red/evalspec.yaml::quality/recall(b) PASSED",
        "gate/red/evalspec.yaml::verdict FAILED",
        "gate/test_own.py::test_own PASSED",
    ):
        assert line in said
    assert "FAIL quality/accuracy: accuracy 65" in said and "Traceback" not in said
    assert "notes.yaml" not in said
    page = tmp_path / "runs" / "gate-red-evalspec" / "report.html"
    assert page.is_file() and f"evalspec: {page}" in said
    # Of a spec that is kept with its run nothing is collected, and a spec that is wrong says where.
    (tmp_path / "gate" / "red" / "evalspec.yaml").write_text(
        SPEC.replace("NAME", "red").replace("accuracy >=", "acuracy >=")
    )
    code, said = pytest_on(tmp_path, "--evalspec", "gate/red", "runs", "--collect-only", "-q")
    assert code == 2, said
    assert "unknown metric 'acuracy'" in said and "did you mean 'accuracy'" in said
    assert "runs/" not in said


@pytest.mark.proof
def test_a_green_gate_and_processes_of_xdist_that_share_one_run(tmp_path: Path) -> None:
    gate(tmp_path / "gate", "shared", 30)
    code, said = pytest_on(tmp_path, "--evalspec", "gate", "-p", "xdist.plugin", "-n", "3")
    assert code == 0, said
    assert "4 passed" in said or "3 passed" in said
    assert len(list((tmp_path / "reports" / "shared").glob("2*"))) == 1


@pytest.mark.proof
def test_what_may_not_run_or_crashes_is_an_error(tmp_path: Path) -> None:
    path = gate(tmp_path / "gate", "own", 0)
    own = "  - {check: python, function: 'own.py:fails', dataset: test, require: [fails <= 1 %]}\nwaivers:"
    path.write_text(path.read_text().replace("waivers:", own))
    (tmp_path / "gate" / "own.py").write_text("def fails(rows):\n    return rows['nothing']\n")
    code, said = pytest_on(tmp_path, "--evalspec", "gate", "-k", "fails")
    assert code == 1 and "1 error" in said and "--trust" in said, said
    code, said = pytest_on(tmp_path, "--evalspec", "gate", "-k", "fails", "--evalspec-trust")
    assert code == 1 and "1 error" in said and "KeyError" in said, said


def test_without_the_option_nothing_is_imported_or_collected(tmp_path: Path) -> None:
    gate(tmp_path / "gate", "green", 0)
    program = (
        "import sys, pytest\n"
        f"code = pytest.main(['-p', '{PLUGIN}', '-p', 'no:cacheprovider', '--collect-only', 'gate'])\n"
        "loaded = [name for name in sys.modules if name.startswith('evalspec')]\n"
        "print(int(code), sorted(loaded))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=ALONE, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == f"5 {sorted(['evalspec', PLUGIN, 'evalspec.version'])}"


def test_the_distribution_brings_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"evalspec": PLUGIN}
