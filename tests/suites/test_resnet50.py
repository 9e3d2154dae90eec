"""The networks of MLPerf's shapes are made, and every check of the CPU's spec measures them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selftest.holding import holds
from tests.stories.telling import command

ROOT = Path(__file__).resolve().parents[2]
SUITE = ROOT / "suites" / "resnet50"


def python(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy with networks an eighth as wide and a few pictures."""
    folder = tmp_path_factory.mktemp("resnet50")
    for file in SUITE.glob("*.*"):
        shutil.copy(file, folder)
    made = python(folder / "make_resnet50.py", "--width", "8", "--pictures", "12", cwd=folder)
    assert made.returncode == 0, made.stderr
    return folder


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.imports("torch._dynamo", "torch.export")
def test_every_check_measures_it(suite: Path) -> None:
    ended = command("run", str(suite / "cpu.yaml"), "--draft", "--output", str(suite / "out"))
    # A draft is never READY.
    assert ended.exit_code == 3, ended.output
    record = json.loads((suite / "out" / "record.json").read_text())
    ran = {check["id"]: check["status"] for check in record["checks"]}
    assert set(ran.values()) == {"measured"}, {check["id"]: check["reason"] for check in record["checks"]}
    measured = {check["id"]: check["measured"] for check in record["checks"]}
    assert measured["latency"]["latency_p50"] > 0
    assert measured["throughput_bf16"]["throughput"] > 0
    assert measured["precision"]["precision_coverage"] == 100
    assert measured["roofline"]["achieved_flops"] > 0
    holds("resnet50/cpu.yaml", suite / "out", file=suite / "cpu.yaml")


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu.yaml", "gpu.yaml"])
def test_the_specs_are_right(suite: Path, name: str) -> None:
    ended = python("-m", "evalspec", "validate", name, cwd=suite)
    assert ended.returncode == 0, ended.stdout + ended.stderr
