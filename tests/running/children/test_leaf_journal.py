"""States of leaves on disk, whatever happens to the files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalspec.running.children.leaf_journal import (
    LeafJournal,
    StateFile,
    note_pass,
    passes_of,
    remove_leaves,
)  # fmt: skip

STATES = {leaf: [bytes([leaf]) * (leaf * 7), b"second" * leaf] for leaf in (3, 0, 1, 9)}
X, Y, Z = (hashlib.sha256(name.encode()).digest() for name in "xyz")
ROWS = 500
PASS = {"leaves": 4, "leaf_rows": 500, "kept": 0, "again": 1, "lost": ["node-1"]}


def filled(folder: Path) -> None:
    journal = LeafJournal(folder, ["basis"], [X, Y])
    for leaf, states in STATES.items():
        journal.put(leaf, ROWS, states)
    journal.close()


def found(
    folder: Path, basis: object = ("basis",), keys: tuple[bytes, ...] = (X, Y), rows: int = ROWS
) -> dict[int, list[bytes]]:
    journal = LeafJournal(folder, basis, keys)
    states = {leaf: journal.get(leaf, rows) for leaf in range(10)}
    journal.close()
    return {leaf: state for leaf, state in states.items() if state is not None}


def only_file(folder: Path) -> Path:
    (file,) = (folder / "leaves").glob("*.states")
    return file


def test_what_was_kept_is_there(tmp_path: Path) -> None:
    filled(tmp_path)
    assert found(tmp_path) == STATES
    assert found(tmp_path, keys=(Y,)) == {leaf: [second] for leaf, (_, second) in STATES.items()}
    assert not found(tmp_path, basis=["other"]) and not found(tmp_path, keys=(X, Y, Z))
    assert not found(tmp_path, rows=ROWS - 1), "states of another number of rows"
    assert LeafJournal(tmp_path, None, ()).get(0, ROWS) is None
    note_pass(tmp_path, PASS)
    assert passes_of(tmp_path) == [PASS]
    remove_leaves(tmp_path)
    assert not found(tmp_path) and not passes_of(tmp_path)


@pytest.mark.parametrize("cut", [1, 54, 55, 133, 134, 135])
def test_a_torn_end_is_no_leaf(tmp_path: Path, cut: int) -> None:
    filled(tmp_path)
    file = only_file(tmp_path)
    file.write_bytes(file.read_bytes()[:-cut])
    kept = found(tmp_path)
    assert 9 not in kept and kept == {leaf: STATES[leaf] for leaf in kept}
    journal = LeafJournal(tmp_path, ["basis"], [X, Y])
    journal.put(9, ROWS, STATES[9])
    journal.close()
    assert found(tmp_path) == kept | {9: STATES[9]}


def test_no_bit_that_changed_gives_a_state_that_was_not_written(tmp_path: Path) -> None:
    """Of a state as of what is known of it: its scan, leaf and rows."""
    filled(tmp_path)
    file = only_file(tmp_path)
    whole = file.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        kept = found(tmp_path)
        assert len(kept) < len(STATES) and kept == {leaf: STATES[leaf] for leaf in kept}, place


def test_others_keep_states_beside(tmp_path: Path) -> None:
    """Two children write files of their own; one of them is killed in the middle of its last state."""
    journal = LeafJournal(tmp_path, ["basis"], [X, Y])
    journal.put(0, ROWS, STATES[0])
    assert journal.files is not None
    children = [StateFile(journal.files), StateFile(journal.files)]
    for leaf, child in zip((3, 1, 9), (children[0], children[1], children[1]), strict=True):
        places = child.add(leaf, ROWS, STATES[leaf])
        each = [[place] for place in places]
        assert journal.files.states(leaf, ROWS, each) == STATES[leaf]
        assert journal.files.states(leaf, ROWS + 1, each) is journal.files.states(leaf + 1, ROWS, each) is None
    for one in (journal, *children):
        one.close()
    torn = tmp_path / "leaves" / places[0].file
    torn.write_bytes(torn.read_bytes()[:-3])
    assert journal.files is None and found(tmp_path) == {leaf: STATES[leaf] for leaf in (3, 0, 1)}
    again = LeafJournal(tmp_path, ["basis"], [X, Y])
    again.put(9, ROWS, STATES[9])
    assert again.files is not None
    torn.unlink()
    assert again.files.states(9, ROWS, each) is None
    again.close()
    assert found(tmp_path) == {leaf: STATES[leaf] for leaf in (3, 0, 9)}


def test_a_file_that_somebody_removed_takes_nothing_more(tmp_path: Path) -> None:
    journal = LeafJournal(tmp_path, ["basis"], [X, Y])
    assert journal.files is not None
    child = StateFile(journal.files)
    child.add(0, ROWS, STATES[0])
    remove_leaves(tmp_path)
    with pytest.raises(FileNotFoundError):
        child.add(1, ROWS, STATES[1])


def test_what_does_not_fit_leaves_its_room_to_others(tmp_path: Path) -> None:
    journal = LeafJournal(tmp_path, ["basis"], [X, Y])
    assert journal.files is not None
    child = StateFile(journal.files)
    child.add(0, ROWS, STATES[0])

    class Full(bytes):
        def __len__(self) -> int:
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        child.add(1, ROWS, [STATES[1][0], Full()])
    assert not [*(tmp_path / "leaves").iterdir()]


def test_of_two_copies_the_whole_one_is_taken(tmp_path: Path) -> None:
    """Scans that were kept in different passes are in different files."""
    filled(tmp_path)
    file = only_file(tmp_path)
    torn = bytearray(file.read_bytes())
    torn[len(torn) // 2] ^= 1
    for name in ("-0", "-~"):
        file.with_name(file.name.replace("-", name, 1)).write_bytes(torn)
    assert found(tmp_path) == STATES
    journal = LeafJournal(tmp_path, ["basis"], [Z])
    journal.put(3, ROWS, [b"of another pass"])
    journal.close()
    assert found(tmp_path, keys=(Z, X)) == {3: [b"of another pass", STATES[3][0]]}


def link(path: Path, target: Path) -> None:
    path.symlink_to(target)


ODD: dict[str, Callable[[Path, Path], Any]] = {
    "a link": link,
    "a pipe": lambda path, _: os.mkfifo(path),
    "a folder": lambda path, _: path.mkdir(),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_file_is_passed_over(tmp_path: Path, odd: str) -> None:
    """Nobody waits for it, writes to where it leads, or loses what the other files hold."""
    filled(tmp_path)
    file, victim = only_file(tmp_path), tmp_path / "victim"
    victim.write_bytes(file.read_bytes())
    before = victim.read_bytes()
    for name in (file.name.replace("-", "-0", 1), file.name.replace("-", "-~", 1)):
        ODD[odd](file.with_name(name), victim)
    assert found(tmp_path) == STATES
    ODD[odd](tmp_path / "leaves" / "passes.jsonl", victim)
    note_pass(tmp_path, PASS)
    assert passes_of(tmp_path) == [] and victim.read_bytes() == before
    remove_leaves(tmp_path)
    assert not (tmp_path / "leaves").exists() and victim.exists()


@pytest.mark.parametrize("what", ["a link", "a file"])
def test_a_run_leaves_nothing_in_place_of_the_folder(tmp_path: Path, what: str) -> None:
    place, elsewhere = tmp_path / "run" / "leaves", tmp_path / "elsewhere"
    place.parent.mkdir()
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    if what == "a link":
        place.symlink_to(elsewhere)
    else:
        place.write_text("in the way")
    remove_leaves(place.parent)
    assert not place.is_symlink() and not place.exists() and (elsewhere / "mine").exists()


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe\n", b'{"dataset": "x"}\n', b"[" * 100_000 + b"\n", b"[1]\n", b"{", b'{"leaves": 4, "kept"',
        b'{"leaves": "4", "leaf_rows": 1, "kept": 0, "again": 0, "lost": []}\n',
        b'{"parts": 4, "kept": 0, "again": 0, "lost": [1]}\n', b'{"parts": -1, "kept": 0, "again": 0, "lost": []}\n',
        b'{"parts": 1' + b"0" * 400 + b', "kept": 0, "again": 0, "lost": []}\n',
        b'{"parts": true, "kept": 0, "again": 0, "lost": []}\n',
    ],
)  # fmt: skip
def test_a_line_that_is_no_pass_hides_no_other(tmp_path: Path, line: bytes) -> None:
    note_pass(tmp_path, PASS)
    path = tmp_path / "leaves" / "passes.jsonl"
    path.write_bytes(path.read_bytes() + line)
    note_pass(tmp_path, {"parts": 2, "kept": 1, "again": 0, "lost": []})
    assert passes_of(tmp_path) == [PASS, {"parts": 2, "kept": 1, "again": 0, "lost": []}]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "leaves").write_text("in the way")
    filled(tmp_path)
    note_pass(tmp_path, PASS)
    assert not found(tmp_path) and not passes_of(tmp_path)
