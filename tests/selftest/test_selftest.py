"""A gate that can go red is told apart from one that can't, through the command line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.commands import evalspec
from tests.shared import ROOT, predictions_run

DEAF = """
from typing import ClassVar, Literal

from evalspec.api import Check, CheckResult, DatasetName, Metric, Need, NeedPredictions


class Deaf(Check):
    dimension: ClassVar[Literal["system", "model", "data"]] = "model"
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("heard", "fraction", "higher", "What it hears.", interval="none"),)

    check: Literal["deaf"] = "deaf"
    dataset: DatasetName

    def needs(self) -> tuple[Need, ...]:
        return (NeedPredictions(self.dataset, self.model),)

    def run(self, inputs):
        import numpy as np
        from evalspec.api import proportion

        return CheckResult(estimates={"heard": proportion(np.ones(inputs.predictions(self.dataset).n, bool), None)})
"""


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A suite and a run of it, side by side."""
    return shutil.copytree(predictions_run(tmp_path_factory), tmp_path / "copy")


def requirements(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(done.stdout)["requirements"]}


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.proof
def test_each_requirement_goes_red_and_the_run_stays_as_it_was(base: Path, tmp_path: Path) -> None:
    before = bytes_of(base)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    spec, run = base / "suite" / "evalspec.yaml", base / "run"
    done = evalspec("selftest", spec, "--run", run, "--json", env={"TMPDIR": str(scratch)})
    assert done.returncode == 0, done.stdout + done.stderr
    found = requirements(done)
    assert {name: one["answer"] for name, one in found.items()} == {
        "quality/accuracy": "red", "quality/recall(class_1)": "red",
    }  # fmt: skip
    # A class that is lost costs accuracy as well: the mildest loss that turns the one red leaves the other.
    defect = found["quality/recall(class_1)"]["defect"]
    assert defect.startswith("candidate misses ") and defect.endswith(" of the rows of class_1 in test")
    assert all(one["fell_with"] == one["implied_by"] == [] for one in found.values())
    assert bytes_of(base) == before
    assert list(scratch.iterdir()) == []


def plugin(folder: Path) -> dict[str, str]:
    """A distribution with the deaf check, and the environment in which it is found."""
    made = folder / "deaf-1.0.dist-info"
    made.mkdir(parents=True)
    (folder / "deaf_check.py").write_text(DEAF)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: deaf\nVersion: 1.0\n")
    (made / "entry_points.txt").write_text(
        "[evalspec.checks]\ndeaf = deaf_check:Deaf\nabstention = evalspec_plugin_example.abstention:Abstention\n"
    )
    places = [str(folder), str(ROOT / "tests" / "plugin" / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, places))}


@pytest.mark.proof
def test_a_requirement_that_another_one_implies_is_named_as_that(base: Path) -> None:
    spec = base / "suite" / "evalspec.yaml"
    spec.write_text(spec.read_text() + "  - {check: quality, id: again, dataset: test, require: [accuracy >= 60 %]}\n")
    done = evalspec("selftest", spec)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    (at,) = (place for place, line in enumerate(lines) if line.startswith("implied: again/accuracy (accuracy >= 60 %)"))
    told = " ".join(lines[at : at + 4])
    assert "falls together with: quality/accuracy" in told and "implied by: quality/accuracy" in told
    assert any(line.startswith("yes: quality/accuracy (") for line in lines)


@pytest.mark.proof
def test_a_deaf_check_can_not_go_red_and_a_plugin_that_hears_does_by_the_defaults(base: Path, tmp_path: Path) -> None:
    spec = base / "suite" / "evalspec.yaml"
    spec.write_text(
        spec.read_text()
        + "  - {check: deaf, dataset: test, require: [heard >= 80 %]}\n"
        + "  - {check: abstention, dataset: test, require: [abstention_rate <= 60 %]}\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "evalspec", "selftest", spec, "--json"], capture_output=True, text=True, check=False,
        env=os.environ | plugin(tmp_path / "plugin"),
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    found = requirements(done)
    assert found["deaf/heard"]["answer"] == "green"
    assert found["deaf/heard"]["why"] == "its value is the same whatever is planted"
    assert found["abstention/abstention_rate"]["answer"] == "red"
    assert found["abstention/abstention_rate"]["defect"] == "candidate is hardly sure of any answer to test"


@pytest.mark.proof
def test_rows_that_are_too_few_for_a_fail_are_named(base: Path) -> None:
    spec = base / "suite" / "evalspec.yaml"
    # None of four right is a tail of 0.8^4 = 0.41 where a fifth should be: no level calls that a violation.
    text = (
        spec.read_text().replace("accuracy >= 90 %", "accuracy >= 20 %").replace("key: id}", "key: id, where: id < 4}")
    )
    spec.write_text("\n".join(line for line in text.splitlines() if "recall" not in line))
    done = evalspec("selftest", spec, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = requirements(done).values()
    assert found["answer"] == "excused"
    assert found["why"] == "its value is beyond the threshold, and 4 are too few to show it"


@pytest.mark.proof
def test_a_run_of_another_spec_and_a_bad_spec_are_refused(base: Path, tmp_path: Path) -> None:
    other = base / "suite" / "other.yaml"
    other.write_text((base / "suite" / "evalspec.yaml").read_text().replace("90 %", "91 %"))
    assert "another spec" in evalspec("selftest", other, "--run", base / "run").stderr
    broken = tmp_path / "broken.yaml"
    broken.write_text("evalspec: 1\nname: broken\n")
    assert evalspec("selftest", broken).returncode == 2


def test_an_interrupt_leaves_nothing_behind(base: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    arguments = ["selftest", base / "suite" / "evalspec.yaml", "--run", base / "run"]
    child = subprocess.Popen(
        [sys.executable, "-m", "evalspec", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"TMPDIR": str(scratch)},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while not list(scratch.glob("evalspec-selftest-*/logs")) and time.monotonic() < deadline:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    assert list(scratch.iterdir()) == []
