"""Where runs land."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalspec.errors import RecordError, WriteError
from evalspec.running.files import Journal
from evalspec.running.folders import find_unfinished, folder_of, new_folder, read_record

STARTED = datetime(2026, 11, 20, 10, 0, 0, tzinfo=UTC)


def taken_up(root: Path, profile: str | None) -> Path:
    """The folder of the run that is gone on with."""
    journal = find_unfinished(None, root, "spec", "ab" * 32, profile)
    journal.let_go()
    return journal.path.parent


def test_runs_that_start_in_one_second_have_folders_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: new_folder(tmp_path, "spec", "ab" * 32, STARTED), range(32)))
    assert len(set(folders)) == 32
    assert {folder.parent for folder in folders} == {tmp_path / "reports" / "spec"}
    assert min(folders).name == "20261120T100000Z-abababab"


def test_a_file_in_the_way_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("")
    with pytest.raises(WriteError, match=r"can't be made: .*; name another place with --output"):
        new_folder(tmp_path, "spec", "ab" * 32, STARTED)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_run_that_is_still_going_on_is_not_resumed(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "spec", "ab" * 32, STARTED)
    journal = Journal(folder / "journal.jsonl")
    journal.write("start", spec="ab" * 32)
    assert journal.hold()
    with pytest.raises(RecordError, match="still in progress"):
        find_unfinished(None, tmp_path, "spec", "ab" * 32)
    journal.let_go()
    assert taken_up(tmp_path, None) == folder


def test_a_run_is_not_resumed_under_another_profile(tmp_path: Path) -> None:
    folder = new_folder(tmp_path, "spec", "ab" * 32, STARTED)
    Journal(folder / "journal.jsonl").write("start", spec="ab" * 32, profile="cd" * 32)
    for other in ("ef" * 32, None):
        with pytest.raises(RecordError, match="there is no unfinished run of this spec"):
            find_unfinished(None, tmp_path, "spec", "ab" * 32, other)
    assert taken_up(tmp_path, "cd" * 32) == folder


def test_lines_of_a_journal_that_are_none_are_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("start", spec="ab")
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{}\n[1]\n{"event": "che')
    assert [event["event"] for event in journal.read()] == ["start"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 2}', "its version is 2, and this is evalspec "),
        ("{", "Invalid JSON: "),
        ("[]", "Input should be an object"),
        ('{"version": 1}', "evalspec: Field required (and "),
    ],
)
def test_what_is_no_record_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(RecordError, match="not a record that this version can read: ") as found:
        read_record(tmp_path)
    assert said in str(found.value) and "validation error" not in str(found.value)


def test_a_record_stands_for_its_folder(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    (tmp_path / "other.json").write_text("{}")
    assert folder_of(tmp_path / "record.json") == folder_of(tmp_path) == tmp_path
    assert folder_of(tmp_path / "other.json") == tmp_path / "other.json"


@pytest.mark.proof
def test_f9_a_journal_that_anything_has_happened_to_is_gone_on_with(tmp_path: Path) -> None:
    """What is whole of it counts; the rest is made again."""
    import json

    from typer.testing import CliRunner

    from evalspec.cli import app

    (tmp_path / "d.csv").write_text("x\n1\n2\n")
    spec = tmp_path / "s.yaml"
    spec.write_text(
        "evalspec: 1\nname: s\ndatasets: {d: {kind: csv, path: d.csv}}\n"
        "data: [{check: integrity, dataset: d, require: [duplicate_rows == 0]}]\n"
    )
    given = ["run", str(spec), "--output", str(tmp_path / "o"), "--quiet"]
    assert CliRunner().invoke(app, given).exit_code == 0
    journal = tmp_path / "o" / "journal.jsonl"
    lines = [line for line in journal.read_text().splitlines() if '"event": "end"' not in line]
    check = next(json.loads(line) for line in lines if '"event": "check"' in line)
    bad = [
        '{"event":"check"}', '{"event":"predictions"}', '{"event":"check","key":[1],"id":"integrity"}', "[" * 9000,
        json.dumps(check | {"record": {"status": "measured"}}), json.dumps(check | {"observed": {"m": {"device": {}}}}),
        '{"event": "predictions", "key": "k", "torn',
    ]  # fmt: skip
    journal.write_text("\n".join([*(line for line in lines if line != json.dumps(check)), *bad]))
    ended = CliRunner().invoke(app, [*given, "--resume"])
    assert ended.exit_code == 0 and "Traceback" not in ended.output, ended.output
    # What was written after a torn line is a line of its own.
    assert sum(1 for line in journal.read_text().splitlines() if line.startswith('{"event": "start"')) == 2
