"""A distribution of its own brings a check, a kind of model and a kind of dataset."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.commands import forking

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent.parent
PACKAGE = "evalspec_plugin_example"

SPEC = """\
evalspec: 1
name: plugin
seed: 3
models:
  candidate:
    kind: linear_json
    path: rule.json
    inputs: {x: [length, width]}
    outputs: {logits: score}
    classes: [small, large]
datasets:
  test:
    kind: fixed_width
    path: rows.txt
    label: size
    places:
      length: {start: 0, stop: 8}
      width: {start: 8, stop: 16}
      size: {start: 16, stop: 24, type: text}
model:
  - check: abstention
    dataset: test
    below: 0.8
    require: [abstention_rate <= LIMIT]
  - check: quality
    dataset: test
    require: [accuracy >= 90 %]
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in as an installer leaves it: package and metadata, no network, no build."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(HERE / "src" / PACKAGE, folder / PACKAGE)
    project = tomllib.loads((HERE / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{PACKAGE}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items()), ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


def evalspec(site: Path | None, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(part) for part in (site, ROOT) if part is not None)
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    command = forking(environment) if arguments[0] == "run" else [sys.executable, "-m", "evalspec"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def write_spec(folder: Path, limit: str = "60 %") -> Path:
    """400 rows; a rule that is unsure of about four in ten and right on nearly all others."""
    rng = np.random.default_rng(5)
    rows = rng.normal(0.0, 2.0, size=(400, 2)).round(3)
    score = rows @ np.array([1.0, 1.0])
    large = score + rng.normal(0.0, 0.2, 400) > 0
    lines = [f"{a:8.3f}{b:8.3f}{'large' if big else 'small':>8}" for (a, b), big in zip(rows, large, strict=True)]
    (folder / "rows.txt").write_text("\n".join(lines) + "\n")
    (folder / "rule.json").write_text(json.dumps({"weights": [1.0, 1.0], "bias": 0.0}))
    spec = folder / "evalspec.yaml"
    spec.write_text(SPEC.replace("LIMIT", limit))
    return spec


def decisions(folder: Path) -> dict[str, dict[str, object]]:
    record = json.loads((folder / "record.json").read_text())
    return {decision["name"]: decision for decision in record["verdict"]["decisions"]}


@pytest.mark.proof
def test_it_is_listed_among_the_checks_and_its_docstring_is_its_page(site: Path, tmp_path: Path) -> None:
    assert "abstention" in evalspec(site, ["checks"], tmp_path).stdout
    assert "abstention" not in evalspec(None, ["checks"], tmp_path).stdout
    page = evalspec(site, ["checks", "abstention"], tmp_path)
    assert page.returncode == 0, page.stderr
    assert "too unsure to answer" in page.stdout
    assert "abstention_rate" in page.stdout


@pytest.mark.proof
def test_the_schema_knows_its_kinds(site: Path, tmp_path: Path) -> None:
    printed = evalspec(site, ["schema"], tmp_path)
    assert printed.returncode == 0, printed.stderr
    assert {"abstention", "linear_json", "fixed_width"} <= constants(json.loads(printed.stdout))


def test_without_it_the_spec_is_refused_with_the_known_kinds(tmp_path: Path) -> None:
    refused = evalspec(None, ["validate", str(write_spec(tmp_path))], tmp_path)
    assert refused.returncode == 2
    for kind in ("abstention", "linear_json", "fixed_width"):
        assert kind in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stderr


def test_with_it_the_spec_is_valid(site: Path, tmp_path: Path) -> None:
    accepted = evalspec(site, ["validate", str(write_spec(tmp_path))], tmp_path)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr


def test_its_fields_are_validated(site: Path, tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    spec.write_text(spec.read_text().replace("below: 0.8", "bellow: 0.8").replace("stop: 8}", "stop: 0}"))
    refused = evalspec(site, ["validate", str(spec)], tmp_path)
    assert refused.returncode == 2
    assert "bellow" in refused.stdout + refused.stderr
    assert "must be larger than start" in refused.stdout + refused.stderr


@pytest.mark.proof
@pytest.mark.parametrize(("limit", "code", "status"), [("60 %", 0, "PASS"), ("5 %", 1, "FAIL")])
def test_a_run_goes_through_all_three(site: Path, tmp_path: Path, limit: str, code: int, status: str) -> None:
    spec = write_spec(tmp_path, limit)
    ended = evalspec(site, ["run", str(spec), "--output", str(tmp_path / "out")], tmp_path)
    assert ended.returncode == code, ended.stdout + ended.stderr
    found = decisions(tmp_path / "out")
    assert found["abstention/abstention_rate"]["status"] == status
    assert found["quality/accuracy"]["status"] == "PASS"


def test_a_name_that_is_taken_is_refused(site: Path, tmp_path: Path) -> None:
    taken = tmp_path / "site"
    shutil.copytree(site, taken)
    points = next(taken.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(points.read_text().replace("abstention =", "quality ="))
    refused = evalspec(taken, ["checks"], tmp_path)
    assert refused.returncode == 2
    assert "already defined" in refused.stdout + refused.stderr


REFERRAL = """\
  - {check: referral, holdout: HOLDOUT, search: SEARCH, report: REPORT, require: [referral_rate <= 60 %]}
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
data:
  - {check: leakage, train: [past], test: test, index: length, report_only: true}
"""
PROFILE = """\
profile: 1
name: ours
about: Ours.
order: [quality, referral, leakage]
mandatory:
  - {check: referral, why: People have to look at what is left.}
"""


def write_referral(folder: Path, *, holdout: str = "test", search: float = 0.7, report: bool = False) -> Path:
    """A spec whose plug-in check has fields that checks of ours have too, where they mean something else."""
    spec = write_spec(folder)
    text = spec.read_text()
    rows = text[text.index("  test:\n") : text.index("model:\n")]
    text = text[: text.index("model:\n")] + rows.replace("  test:\n", "  past:\n", 1) + "model:\n" + REFERRAL
    given = {"HOLDOUT": holdout, "SEARCH": str(search), "REPORT": str(report).lower()}
    for word, value in given.items():
        text = text.replace(word, value)
    spec.write_text(text)
    return spec


def referral_in(comparison: str) -> dict[str, object]:
    rows: list[dict[str, object]] = json.loads(comparison)["requirements"]
    return next(row for row in rows if row["name"] == "referral/referral_rate")


@pytest.mark.proof
def test_its_fields_are_compared_and_kept_in_history_as_it_declares_them(site: Path, tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    runs = []
    for number, settings in enumerate(({}, {"report": True}, {"report": True, "search": 0.6})):
        folder = reports / f"20261120T10000{number}Z-abababab"
        ended = evalspec(site, ["run", str(write_referral(tmp_path, **settings)), "--output", str(folder)], tmp_path)
        assert (folder / "record.json").exists(), ended.stdout + ended.stderr
        runs.append(folder)
    first, more, other = (str(folder) for folder in runs)
    shown = referral_in(evalspec(site, ["compare", first, more, "--json"], tmp_path).stdout)
    assert shown["word"] == "no change shown", shown
    unlike = referral_in(evalspec(site, ["compare", more, other, "--json"], tmp_path).stdout)
    assert unlike["word"] == "not comparable" and unlike["change"] == "referral.search: 0.7, then 0.6"
    told = evalspec(site, ["history", str(reports)], tmp_path)
    assert told.returncode == 0, told.stderr
    assert "referral/referral_rate" in told.stdout and "referral.search: 0.7, then 0.6" in told.stdout
    assert "referral.report: " not in told.stdout


@pytest.mark.parametrize(("holdout", "answers"), [("test", True), ("past", False)])
def test_it_answers_a_profile_by_the_rows_that_it_says_it_is_about(
    site: Path, tmp_path: Path, holdout: str, answers: bool
) -> None:
    spec = write_referral(tmp_path, holdout=holdout)
    spec.write_text(spec.read_text().replace("seed: 3\n", "seed: 3\nprofile: ours.yaml\n"))
    (tmp_path / "ours.yaml").write_text(PROFILE)
    said = evalspec(site, ["validate", str(spec)], tmp_path)
    assert (said.returncode == 0) == answers or "missing" in said.stdout, said
    assert ("referral is about past, which the model was trained on" in said.stdout + said.stderr) != answers, said


@pytest.mark.proof
@pytest.mark.slow
def test_pip_installs_it(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    shutil.copytree(HERE, tmp_path / "plugin", ignore=shutil.ignore_patterns("tests"))
    target = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index",
         "--target", str(target), str(tmp_path / "plugin")],
        check=True, timeout=240, capture_output=True,
    )  # fmt: skip
    assert "abstention" in evalspec(target, ["checks"], tmp_path).stdout


def constants(schema: object) -> set[str]:
    """Every constant and enumerated word in a JSON Schema."""
    if isinstance(schema, dict):
        own = {schema["const"]} if isinstance(schema.get("const"), str) else set()
        own |= {word for word in schema.get("enum", ()) if isinstance(word, str)} if "enum" in schema else set()
        return own.union(*(constants(value) for value in schema.values()))
    if isinstance(schema, list):
        return set().union(*(constants(value) for value in schema))
    return set()
