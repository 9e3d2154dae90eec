"""A run under a team's own profile: kept beside the record, recomputed, compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalspec.errors import RecordError
from evalspec.evidence.profile import Without
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.records.bless import bless
from evalspec.records.compare import compare
from evalspec.records.outputs import say
from evalspec.records.verify import Verification, verify
from evalspec.running.folders import read_record
from evalspec.running.journal.partial_rerun import again
from evalspec.verdict import decide
from tests.commands import evalspec
from tests.shared import ROOT, forge, shared_folder
from tests.verdict.test_decide import a_check, a_record, a_test
from tests.verdict.test_profile import a_profile, an_item

TEAM = """\
profile: 1
name: team
about: Ours.
order: [slices, quality]
mandatory:
  - {check: quality, why: Being right comes first.}
  - {check: slices, why: Averages hide.}
  - {check: energy, why: It lasts a day.}
"""


def _run(folder: Path) -> None:
    shutil.copytree(ROOT / "suites" / "predictions", folder / "suite")
    spec = folder / "suite" / "evalspec.yaml"
    asked = "profile: team.yaml\nwithout: [{of: energy, why: Answers have no meter., owner: me}]\n"
    spec.write_text(spec.read_text().replace("seed: 3\n", f"seed: 3\n{asked}"))
    (folder / "suite" / "team.yaml").write_text(TEAM)
    done = evalspec("run", "suite/evalspec.yaml", "--output", "run", "--json", folder=folder)
    assert done.returncode == 3, done.stdout + done.stderr


@pytest.fixture
def run(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A run whose profile asks for slices, which its spec has not."""
    return shutil.copytree(shared_folder(tmp_path_factory, "profile", _run), tmp_path / "copy") / "run"


def edit(run: Path, change: Callable[[dict[str, Any]], None]) -> Verification:
    """What verifying says after a change of the record, with the verdict, journal and pages that agree with it."""
    forge(run, change)
    return verify(run)


@pytest.mark.proof
def test_a_run_that_lacks_a_mandatory_check_is_undecided_and_says_so_everywhere(run: Path) -> None:
    record = read_record(run)
    assert record.verdict is not None and record.profile is not None
    assert record.verdict.headline == "UNDECIDED (1 waived, 1 not run)"
    said = (
        "the profile team asks for `slices` with a blocking requirement: averages hide; "
        "add it, or set it aside with `without:`"
    )
    assert record.verdict.reason == f"profile/slices: {said}"
    assert (
        "`slices` with a blocking requirement: the profile asks for it, and nothing here covers it" in record.not_tested
    )
    assert ("NOT_RUN", said) in {(line.status, line.text) for line in say(record, run)}
    for name in ("summary.md", "junit.xml"):
        assert "profile/slices" in (run / name).read_text(), name
    page = (run / "report.html").read_text()
    assert 'id="requirement-profile-slices"' in page and "The profile asks for slices." in page
    assert (run / "profile.yaml").read_text() == TEAM


@pytest.mark.proof
def test_it_is_recomputed_from_the_copy_that_was_kept(run: Path) -> None:
    (run.parent / "suite" / "team.yaml").unlink()
    found = verify(run)
    assert found.differs == () and found.skipped == ()
    assert "profile" in found.same and "set aside of the profile" in found.same


@pytest.mark.proof
def test_an_item_that_was_made_to_be_found_is_noticed(run: Path) -> None:
    def answer(record: dict[str, Any]) -> None:
        record["profile"]["asked"][1]["found"] = ["quality"]

    found = edit(run, answer)
    assert read_record(run).verdict.headline == "READY (1 waived)"  # type: ignore[union-attr]  # it has one
    assert [line.partition(":")[0] for line in found.differs] == ["profile"]


def test_a_profile_that_was_taken_out_is_noticed(run: Path) -> None:
    def without(record: dict[str, Any]) -> None:
        record |= {"profile": None, "without": []}

    assert [line.partition(":")[0] for line in edit(run, without).differs] == ["profile", "set aside of the profile"]


def test_more_set_aside_than_the_spec_says_is_noticed(run: Path) -> None:
    def more(record: dict[str, Any]) -> None:
        record["without"].append(Without(of="slices", why="No.", owner="me").model_dump())

    assert [line.partition(":")[0] for line in edit(run, more).differs] == ["set aside of the profile"]


def test_a_profile_that_was_changed_or_lost_is_noticed(run: Path) -> None:
    (run / "profile.yaml").write_text(TEAM.replace("  - {check: slices, why: Averages hide.}\n", ""))
    assert any(line.startswith("profile: the record says digest ") for line in verify(run).differs)
    (run / "profile.yaml").unlink()
    assert "there is no such file" in verify(run).skipped[0]


def test_a_run_is_not_gone_on_from_under_another_profile(run: Path) -> None:
    suite = run.parent / "suite"
    (suite / "team.yaml").write_text(TEAM.replace("order: [slices, quality]", "order: [quality]"))
    with pytest.raises(RecordError, match=r"the profile of .* has changed since the run in .*; start a new run"):
        again(run, plan(load(suite / "evalspec.yaml")))
    (suite / "team.yaml").write_text(TEAM + "# the same\n")
    with pytest.raises(RecordError, match=r"nothing in .* was lost to a busy machine"):
        again(run, plan(load(suite / "evalspec.yaml")))


def test_a_baseline_keeps_the_profile_of_its_run(run: Path) -> None:
    target, _ = bless(run, "v1")
    assert (target / "profile.yaml").read_text() == TEAM


def test_two_runs_are_compared_in_what_their_profiles_ask_for(tmp_path: Path) -> None:
    before = a_profile(an_item("quality", found=("quality",)), an_item("energy"), an_item("memory"))
    after = a_profile(an_item("quality", found=("quality",)), an_item("energy", found=("meter",)), an_item("memory"))
    aside = (Without(of="memory", why="No.", owner="me"),)
    for name, profile, without in (("a", before, ()), ("b", after.model_copy(update={"digest": "1" * 64}), aside)):
        record = a_record(a_check(a_test()), profile=profile, without=without)
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(
            record.model_copy(update={"verdict": decide(record)}).model_dump_json()
        )
    found = compare(tmp_path / "a", tmp_path / "b")
    assert found.verdicts == ("UNDECIDED (2 not run)", "READY (1 waived)")
    assert [row for row in found.differs if row[0].startswith("profile")] == [
        ("profile", "edge 000000000000", "edge 111111111111"),
        ("profile/energy", "missing", "meter"),
        ("profile/memory", "missing", "set aside"),
    ]
