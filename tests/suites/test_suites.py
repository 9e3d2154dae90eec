"""Every suite is run end to end and comes to its verdict for its reasons.

The fast tests use timings that were saved once; the slow ones time for real.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from evalspec.records.verify import verify
from tests.commands import evalspec, overriding, reads_classifiers
from tests.selftest.holding import holds

ROOT = Path(__file__).resolve().parents[2]
SUITES = ROOT / "suites"
TIMINGS = Path(__file__).resolve().parent / "timings"

DIGITS = {
    "latency/latency_p99": "PASS",
    "latency/latency_p50": "PASS",
    "throughput/throughput": "PASS",
    "quality/accuracy": "PASS",
    "quality/accuracy vs baseline": "PASS",
    "calibration/ece": "PASS",
    "slices/accuracy(dark)": "PASS",
    "slices/accuracy(occluded)": "PASS",
    "digits/worst_accuracy": "PASS",
    "digits/slices_too_small": "PASS",
    "contamination/exact_duplicates": "PASS",
    "contamination/near_duplicates": "PASS",
    "shift/shift": "PASS",
    "shift/missingness_shift": "PASS",
}
THREE_FLAWS = {
    "calibration/ece": "FAIL",
    "contamination/exact_duplicates": "FAIL",
    "slices/accuracy(dark)": "FAIL",
}
NOT_INTERPRETABLE = dict.fromkeys(
    (
        "quality/accuracy",
        "quality/accuracy vs baseline",
        "digits/worst_accuracy",
    ),
    "INVALID",
)
# The saved processes differ among each other by more than their queries explain, and five of them don't tell p99.
UNLIKE = {"latency/latency_p99": "INCONCLUSIVE"}
CANCER = {
    "latency/latency_p99": "PASS",
    "latency/latency_p50": "PASS",
    "quality/accuracy": "PASS",
    "quality/recall(malignant)": "PASS",
    "quality/balanced_accuracy": "PASS",
    "calibration/ece": "PASS",
    "contamination/exact_duplicates": "PASS",
    "contamination/near_duplicates": "PASS",
    "shift/shift": "PASS",
    "shift/missingness_shift": "PASS",
}


@dataclass(frozen=True)
class Suite:
    word: str
    exit_code: int
    blocking: dict[str, str]
    warnings: dict[str, str] = field(default_factory=dict)
    marks: tuple[pytest.MarkDecorator, ...] = (pytest.mark.proof,)


EXPECTED = {
    "digits": Suite("READY", 0, DIGITS, {"field_shift/c2st_auc": "FAIL"}, marks=()),
    "digits-flawed": Suite(
        "NOT READY", 1, DIGITS | THREE_FLAWS | NOT_INTERPRETABLE | UNLIKE, {"field_shift/c2st_auc": "FAIL"}
    ),
    "breast_cancer": Suite("READY", 0, CANCER, marks=(pytest.mark.proof, reads_classifiers)),
}
TIMED = ("latency/", "throughput/")


def made(spec: str, folder: Path) -> Path:
    """A run of a suite, whose timings are the saved ones where there are some."""
    from evalspec.language.parts import Access
    from evalspec.loading import load
    from evalspec.planning import plan
    from evalspec.running.options import Options, default_limits
    from evalspec.running.runner import run

    path, saved = SUITES / spec, TIMINGS / Path(spec).parent
    access = Access(folder=path.parent)
    timings = saved if saved.exists() else None
    options = Options(access=access, output=folder, limits=default_limits(), timings_from=timings)
    return run(plan(load(path)), options, Silent())[1]


def replayed(name: str, folder: Path) -> dict[str, Any]:
    """The record of a run whose timings are the saved ones."""
    return read(made(f"{name}/evalspec.yaml", folder / name))


class Silent:
    def step(self, text: str) -> None:
        pass

    def progress(self, done: float, total: float, what: str) -> None:
        pass


def read(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    return record


def saturates() -> bool:
    """True on a processor without VNNI: onnxruntime adds INT8 products in 16 bits there, and some answers differ."""
    flags = Path("/proc/cpuinfo")
    return platform.machine() == "x86_64" and flags.exists() and "vnni" not in flags.read_text(encoding="utf-8")


def statuses(record: dict[str, Any], blocking: bool) -> dict[str, str]:
    decisions = record["verdict"]["decisions"]
    return {one["name"]: one["status"] for one in decisions if one["blocking"] is blocking}


@pytest.mark.parametrize("name", [pytest.param(name, marks=suite.marks) for name, suite in EXPECTED.items()])
def test_suite(name: str, tmp_path: Path) -> None:
    """One test for each suite, since a run takes seconds: verdict, every status, reasons, chance."""
    if name.startswith("digits") and saturates():
        pytest.skip("INT8 answers on this processor are not those that were saved with the timings")
    expected, record = EXPECTED[name], replayed(name, tmp_path)
    assert statuses(record, blocking=True) == expected.blocking, record["verdict"]["reason"]
    assert statuses(record, blocking=False) == expected.warnings
    assert record["verdict"]["word"] == expected.word
    assert record["verdict"]["exit_code"] == expected.exit_code
    assert record["timings_from"] == name
    if name == "breast_cancer":
        # What was computed from the timings of another run is, or can't be: it lies elsewhere.
        found = verify(tmp_path / name, spec_folder=SUITES / name)
        assert found.differs == () and any(line.startswith("latency: ") for line in found.skipped)
    if name == "digits-flawed":
        reasons_are_the_planted_ones(record)
    else:
        plan_gives_it_a_good_chance(name, tmp_path)
    if name != "digits":
        # That of digits stands with those of suites which are run nowhere else: this one is no part of `make proof`.
        holds(f"{name}/evalspec.yaml", tmp_path / name)


def reasons_are_the_planted_ones(record: dict[str, Any]) -> None:
    tests = {test["name"]: test for check in record["checks"] for test in check["tests"]}
    # 4 of the 850 test pictures were put into training.
    assert tests["contamination/exact_duplicates"]["value"] == 4
    # Over-confident by three times what is allowed, and dark pictures are mostly misread: nowhere near a threshold.
    assert tests["calibration/ece"]["lower"] > 0.10
    assert tests["slices/accuracy(dark)"]["upper"] < 0.50
    # The score that people look at first shows none of it.
    assert tests["quality/accuracy"]["value"] > 0.98
    decisions = {one["name"]: one for one in record["verdict"]["decisions"]}
    for name in NOT_INTERPRETABLE:
        assert "contamination/exact_duplicates" in str(decisions[name]), name


def plan_gives_it_a_good_chance(name: str, folder: Path) -> None:
    planned = evalspec(
        "plan", str(SUITES / name / "evalspec.yaml"), "--record", str(folder / name), "--json", folder=folder
    )
    assert planned.returncode == 0, planned.stderr
    assert json.loads(planned.stdout)["chance_of_ready"] >= 0.9


UNTIMED = {
    "diabetes/evalspec.yaml": (),
    "text/evalspec.yaml": (),
    "digits/compression.yaml": ("int8.speed=false",),
}


@pytest.mark.proof
@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=reads_classifiers if path.startswith("text/") else ()) for path in UNTIMED]
)
def test_suite_without_timings(path: str, tmp_path: Path) -> None:
    """Every blocking requirement holds, and the plan had said that it would; a chart of speed is left out."""
    if path == "digits/compression.yaml" and saturates():
        pytest.skip("INT8 answers on this processor lose 2.4 points on corrupted rows, more than the suite allows")
    overrides = overriding(UNTIMED[path])
    ended = evalspec("run", str(SUITES / path), *overrides, "--output", str(tmp_path / "run"), folder=tmp_path)
    record = read(tmp_path / "run")
    assert set(statuses(record, blocking=True).values()) == {"PASS"}, ended.stdout
    assert set(statuses(record, blocking=False).values()) <= {"PASS"}, ended.stdout
    assert (record["verdict"]["word"], ended.returncode) == ("READY", 0)
    assert "Traceback" not in ended.stderr
    holds(path, tmp_path / "run", *UNTIMED[path])


@pytest.mark.parametrize("name", list(EXPECTED))
def test_timings_leave_a_factor_of_ten(name: str) -> None:
    import numpy as np

    from evalspec.running.samples import read_samples

    latency = read_samples(TIMINGS / name / "evidence" / "samples-latency.parquet")
    ms = np.concatenate([one.end_ns - one.sent_ns for one in latency]) / 1e6
    spec = (SUITES / name / "evalspec.yaml").read_text()
    for percent in (50, 99):
        limit = float(spec.split(f"latency_p{percent} <= ")[1].split(" ms")[0])
        assert 10 * float(np.quantile(ms, percent / 100)) <= limit, percent


def process(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, and all of its children in fresh ones."""
    return subprocess.run(
        [sys.executable, "-m", "evalspec", *arguments], cwd=folder, capture_output=True, text=True, timeout=280,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}, check=False,
    )  # fmt: skip


@pytest.mark.proof
@pytest.mark.slow
def test_timed_for_real(tmp_path: Path) -> None:
    expected = EXPECTED["digits"]
    ended = process("run", str(SUITES / "digits/evalspec.yaml"), "--output", str(tmp_path / "run"), folder=tmp_path)
    record = read(tmp_path / "run")
    found = statuses(record, blocking=True)
    timed = {key: status for key, status in found.items() if key.startswith(TIMED)}
    assert {key: status for key, status in found.items() if key not in timed} == {
        key: status for key, status in expected.blocking.items() if key not in timed
    }
    # Other tests run beside this one and may make timings too unsteady to decide, or inadmissible, never wrong.
    assert set(timed.values()) <= {"PASS", "INCONCLUSIVE", "INVALID"}, ended.stdout
    tests = {test["name"]: test for check in record["checks"] for test in check["tests"]}
    void = [tests[key]["invalid"] for key, status in timed.items() if status == "INVALID"]
    assert all("other processes used" in str(why) for why in void), ended.stdout
    if set(timed.values()) == {"PASS"}:
        assert ended.returncode == expected.exit_code, ended.stdout
    assert "Traceback" not in ended.stderr
