"""A run owns its folder (F4), and a number whose evidence is gone is none (F7)."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from evalspec.errors import RecordError, SpecError
from evalspec.evidence.record import EvidenceFile, Record
from evalspec.interrupts import Interrupts
from evalspec.records.verify import verify
from evalspec.running import folders
from evalspec.running.files import Journal, sha256_of
from evalspec.running.folders import claim, discard, find_unfinished
from evalspec.running.ownership import RunFolder
from tests.running.journal.test_resuming import PREDICTIONS
from tests.running.small import Steps, answers, go, write

DIGEST = "ab" * 32


def together(count: int, what: Callable[[], Journal]) -> tuple[list[Journal], list[Exception]]:
    """What came of doing something in several threads at the same moment."""
    barrier = threading.Barrier(count)
    made: list[Journal] = []
    refused: list[Exception] = []

    def one() -> None:
        barrier.wait()
        try:
            made.append(what())
        except (RecordError, SpecError) as error:
            refused.append(error)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made, refused


def test_f4_of_several_that_see_an_empty_folder_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the narrowest edge: all have looked, and found the folder empty, before the first writes."""
    make, looked = folders.make_folder, threading.Barrier(4)

    def make_folder(path: Path) -> None:
        looked.wait()
        make(path)

    monkeypatch.setattr(folders, "make_folder", make_folder)
    for index in range(20):
        made, refused = together(4, partial(claim, tmp_path / str(index)))
        assert (len(made), len(refused)) == (1, 3)
        assert all("is not empty; name another folder" in str(error) for error in refused)
        assert [path.name for path in (tmp_path / str(index)).iterdir()] == ["journal.jsonl"]
        made[0].let_go()


def test_f4_of_several_that_go_on_with_a_run_one_does(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "spec" / "20261120T100000Z-abababab"
    Journal(folder / "journal.jsonl").write("start", spec=DIGEST)
    for _ in range(20):
        made, refused = together(4, lambda: find_unfinished(None, tmp_path, "spec", DIGEST))
        assert (len(made), len(refused)) == (1, 3)
        assert all("still in progress" in str(error) for error in refused)
        made[0].let_go()


def test_f4_a_run_that_ends_between_the_look_and_the_lock_is_not_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "reports" / "spec" / "20261120T100000Z-abababab"
    Journal(folder / "journal.jsonl").write("start", spec=DIGEST)
    hold = Journal.hold

    def late(journal: Journal) -> bool:
        Journal(journal.path).write("end", verdict="READY")
        return hold(journal)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "hold", late)
        with pytest.raises(RecordError, match="there is no unfinished run"):
            find_unfinished(None, tmp_path, "spec", DIGEST)
    freed = Journal(folder / "journal.jsonl")
    assert freed.hold()
    freed.let_go()


def test_f4_a_folder_that_somebody_writes_to_meanwhile_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Journal.create

    def late(journal: Journal) -> bool:
        made = create(journal)
        (journal.path.parent / "theirs").write_text("")
        return made

    monkeypatch.setattr(Journal, "create", late)
    with pytest.raises(SpecError, match="is not empty"):
        claim(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["theirs"]


def test_f4_what_is_left_of_a_journal_keeps_others_out(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    with pytest.raises(SpecError, match="is not empty"):
        claim(tmp_path)
    assert (tmp_path / "journal.jsonl").read_text() == ""


def test_f4_a_run_in_a_folder_of_another_run_writes_nothing(tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    other = claim(tmp_path / "out")
    with pytest.raises(SpecError, match="is not empty"):
        go(spec, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["journal.jsonl"]
    other.let_go()


def test_what_is_discarded_lets_its_folder_go_last(tmp_path: Path) -> None:
    journal = claim(tmp_path / "out")
    (tmp_path / "out" / "spec.yaml").write_text("")
    (tmp_path / "out" / "evidence").mkdir()
    discard(journal, keep=True)
    assert list((tmp_path / "out").iterdir()) == []
    claim(tmp_path / "out").let_go()


# -- evidence -----


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RunFolder]:
    journal = claim(tmp_path / "out")
    folder = RunFolder(journal)
    folder.write("spec.yaml", "evalspec: 1\n")
    folder.make("evidence")
    journal.write("start", spec=DIGEST)
    assert folder.lost() is None
    yield folder
    folder.let_go()


def removed(path: Path) -> None:
    shutil.rmtree(path)


def made_anew(path: Path) -> None:
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    path.with_name("copy").rename(path)


def linked(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    ("name", "how"),
    [(".", removed), (".", made_anew), ("evidence", removed), ("evidence", made_anew), ("evidence", linked)],
)
def test_f7_a_folder_that_is_another_one_is_seen(own: RunFolder, how: Callable[[Path], None], name: str) -> None:
    path = own.path / name
    how(path)
    assert own.lost() == f"the folder {path.name} of the run is missing, or has changed since it was written"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5])


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes() + b"\n")
    other.replace(path)


@pytest.mark.parametrize("how", [Path.unlink, cut, replaced, linked])
@pytest.mark.parametrize("name", ["spec.yaml", "journal.jsonl"])
def test_f7_what_a_run_says_of_itself_is_there_at_its_end(
    own: RunFolder, how: Callable[[Path], None], name: str
) -> None:
    how(own.path / name)
    own.journal.write("check", id="late")
    assert own.lost() == f"the run's {name} is missing, or has changed since it was written"


@pytest.mark.parametrize("how", [Path.unlink, cut, replaced, linked])
def test_f7_evidence_is_there_as_it_was_written(own: RunFolder, how: Callable[[Path], None]) -> None:
    path = own.path / "evidence" / "samples.parquet"
    path.write_bytes(b"0123456789")
    file = EvidenceFile(path="evidence/samples.parquet", digest=sha256_of(path), rows=1, what="samples")
    assert own.first_lost([file]) is None
    how(path)
    assert own.first_lost([file]) == (
        "its evidence is gone: evidence/samples.parquet is missing, or has changed since it was written"
    )


def test_a_run_may_be_given_its_folder_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    folder = RunFolder(claim(tmp_path / "link"))
    folder.make("evidence")
    assert folder.lost() is None
    folder.let_go()
    assert len(os.listdir(tmp_path / "real")) == 2


def interrupted_by(folder: Path, do: Callable[[Path], object]) -> Record:
    """A run during which somebody does something to its folder, when its second check begins."""
    answers(folder / "said.parquet", right=True)
    spec = write(folder, PREDICTIONS)
    record, _ = go(spec, folder / "out", steps=Steps("model: two", lambda: do(folder / "out")))
    return record


@pytest.mark.proof
def test_f7_a_run_whose_folder_is_removed_is_an_error(tmp_path: Path) -> None:
    record = interrupted_by(tmp_path, shutil.rmtree)
    assert record.verdict is not None and (record.verdict.word, record.verdict.exit_code) == ("ERROR", 4)
    assert record.checks[0].status == "error"
    assert record.checks[0].reason == "the folder out of the run is missing, or has changed since it was written"


@pytest.mark.proof
def test_f7_a_check_whose_evidence_is_replaced_is_an_error(tmp_path: Path) -> None:
    def other(out: Path) -> None:
        (out / "evidence" / "predictions-candidate-test.parquet").write_bytes(b"PAR1")

    record = interrupted_by(tmp_path, other)
    assert record.verdict is not None and (record.verdict.word, record.verdict.exit_code) == ("ERROR", 4)
    assert {one.status for one in record.checks} == {"error"}
    assert str(record.checks[0].reason).startswith("its evidence is gone: evidence/predictions-candidate-test.parquet")


@pytest.mark.proof
def test_a_file_that_is_broken_by_the_end_differs_from_nothing(tmp_path: Path) -> None:
    """The record names what was read at the start, and so does `verify`."""
    answers(tmp_path / "said.parquet", right=True)
    spec = write(tmp_path, PREDICTIONS)
    steps = Steps("model: two", lambda: (tmp_path / "test.parquet").write_bytes(b"PAR1"))
    record, _ = go(spec, tmp_path / "out", steps=steps)
    assert [one.status for one in record.checks] == ["invalid", "invalid"]
    assert verify(tmp_path / "out").differs == ()


@pytest.mark.parametrize("what", ["a line of the journal", "a file"])
def test_an_interrupt_parts_no_line_from_what_is_known_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The signal comes when the bytes are on disk and nobody knows of them yet."""
    journal = claim(tmp_path / "run")
    own, sync = RunFolder(journal), os.fsync

    def interrupted(descriptor: int) -> None:
        sync(descriptor)
        signal.raise_signal(signal.SIGINT)

    with Interrupts() as signals:
        journal.signals = signals
        monkeypatch.setattr(os, "fsync", interrupted)
        with pytest.raises(KeyboardInterrupt):
            if what == "a file":
                own.write("spec.yaml", "name: it")
            else:
                journal.write("check", id="first")
        monkeypatch.setattr(os, "fsync", sync)
        signals.hold()
        journal.write("interrupted")
    assert own.lost() is None
    assert signals.count == 1
    own.let_go()
