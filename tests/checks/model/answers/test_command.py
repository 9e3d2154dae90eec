"""`answers` through the command line: its requirements can go red, its answers are kept, verified and compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.stories.telling import Tale, command
from tests.stories.test_written import cut_off, judge, sorry

pytestmark = pytest.mark.proof


def whole(folder: Path) -> Tale:
    """A spec with every metric, which holds."""
    tale = Tale(folder, "whole")
    cut_off(tale, bad=False)
    sorry(tale, bad=False)
    judge(tale, bad=False)
    tale.checks["model"][0]["require"] += [
        "unparsed <= 2 %", "repeated <= 1 %", "truncated <= l8_baseline + 1 pp", "unparsed <= l8_baseline + 1 pp",
    ]  # fmt: skip
    tale.checks["model"][0]["warn"] = ["length_ratio <= 1.2x l8_baseline"]
    tale.checks["model"][0]["require"].remove("length_ratio >= 0.8x l8_baseline")
    return tale


@pytest.fixture(scope="module")
def tale(tmp_path_factory: pytest.TempPathFactory) -> Tale:
    """A run of it; who changes something works on a copy."""
    tale = whole(tmp_path_factory.mktemp("answers"))
    done = tale.run()
    assert done.exit_code == 0, done.output
    return tale


def test_every_requirement_can_go_red(tale: Tale) -> None:
    done = command("selftest", str(tale.folder / "evalspec.yaml"), "--run", str(tale.folder / "run"), "--json")
    found = {one["name"]: (one["answer"], one["defect"]) for one in json.loads(done.output)["requirements"]}
    # One whose threshold is looser than another's of the same number falls with it.
    assert {name for name, (answer, _) in found.items() if answer not in ("red", "implied")} == set(), found
    about = {
        "l8_answers/truncated": "are cut off", "l8_answers/empty": "are empty",
        "l8_answers/unparsed": "no answer in them", "l8_answers/repeated": "run in circles",
        "l8_answers/truncated vs l8_baseline": "are cut off", "l8_answers/unparsed vs l8_baseline": "no answer in them",
        "l8_answers/length_ratio vs l8_baseline": "times as long", "l28_answers/refusal_rate": "are refusals",
    }  # fmt: skip
    assert {name: words in found[name][1] for name, words in about.items()} == dict.fromkeys(about, True), found


def test_a_run_is_verified_by_the_answers_that_it_kept(tale: Tale) -> None:
    done = command("verify", str(tale.folder / "run"))
    assert done.exit_code == 0, done.output


def test_a_blessed_run_is_a_baseline(tale: Tale, tmp_path: Path) -> None:
    """Reasons, tokens and the answers inside texts come back from the record."""
    run = shutil.copytree(tale.folder / "run", tmp_path / "run")
    tale = whole(tmp_path)
    tale.write()
    blessed = command("bless", str(run), "--as", "v1")
    assert blessed.exit_code == 0, blessed.output
    made = next(tale.folder.rglob("baselines/v1"))
    tale.models["l8_baseline"] = {"kind": "record", "path": str(made.relative_to(tale.folder))}
    tale.checks["model"] = [one for one in tale.checks["model"] if one["id"].startswith("l8_")]
    tale.checks["model"][1]["require"] = ["exact_match >= l8_baseline - 1 pp"]
    tale.models = {name: one for name, one in tale.models.items() if name in ("candidate", "l8_baseline")}
    shutil.rmtree(run)
    done = tale.run()
    assert done.exit_code == 0, done.output
    record = json.loads((tale.folder / "run" / "record.json").read_text())
    answers = next(check for check in record["checks"] if check["id"] == "l8_answers")
    assert answers["conditions"]["length beside l8_baseline"] == "tokens"
