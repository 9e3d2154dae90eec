"""What is recorded of a machine, and that asking for it runs nothing of the spec's folder."""

from __future__ import annotations

import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from evalspec.running import environment
from evalspec.running.environment import capture

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "evalspec.yaml").write_text("evalspec: 1\n")
    git(folder, "add", "evalspec.yaml")
    git(folder, "-c", "user.email=a@example.com", "-c", "user.name=a", "commit", "-q", "-m", "first")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


def test_the_state_of_the_repository(repository: Path) -> None:
    before = capture(repository).facts
    (repository / "evalspec.yaml").write_text("evalspec: 2\n")
    after = capture(repository).facts
    assert (before["git_changed"], after["git_changed"]) == (False, True)
    assert before["git_commit"] == after["git_commit"]


def test_outside_of_a_repository_nothing_is_said(tmp_path: Path) -> None:
    assert "git_commit" not in capture(tmp_path).facts


@pytest.mark.parametrize("setting", ["core.fsmonitor", "filter.own.clean"])
def test_programs_that_the_repository_names_do_not_run(repository: Path, setting: str) -> None:
    seen = repository.parent / "seen"
    program = repository.parent / "program.sh"
    program.write_text(f"#!/bin/sh\ntouch '{seen}'\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=own\n")
    git(repository, "config", setting, str(program))
    (repository / "evalspec.yaml").write_text("evalspec: 2\n")
    facts = capture(repository).facts
    assert facts["git_commit"]
    assert not seen.exists()


def test_versions_are_those_that_packages_state() -> None:
    """Read from the head of their descriptions, for every package that is installed."""
    found = {one.name: (environment._version(one), one.version) for one in metadata.distributions()}
    assert len(found) > 50
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}


def test_a_version_stands_in_the_head_of_a_description(tmp_path: Path) -> None:
    folder = tmp_path / "odd-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.5+cpu\n\nVersion: 9 is no version\n")
    assert environment._version(metadata.PathDistribution(folder)) == "1.5+cpu"
