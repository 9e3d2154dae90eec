"""States of leaves on disk, whatever happens to the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.running.children.leaf_journal import LeafJournal, StateFile, note_pass, passes_of, remove_leaves

STATES = {leaf: [bytes([leaf]) * (leaf * 7), b"second" * leaf] for leaf in (3, 0, 1, 9)}


def filled(folder: Path) -> None:
    journal = LeafJournal(folder, ["basis"], ["x", "y"])
    for leaf, states in STATES.items():
        journal.put(leaf, states)
    journal.close()


def found(folder: Path, basis: object = ("basis",), keys: tuple[str, ...] = ("x", "y")) -> dict[int, list[bytes]]:
    journal = LeafJournal(folder, basis, keys)
    states = {leaf: journal.get(leaf) for leaf in range(10)}
    journal.close()
    return {leaf: state for leaf, state in states.items() if state is not None}


def test_what_was_kept_is_there(tmp_path: Path) -> None:
    filled(tmp_path)
    assert found(tmp_path) == STATES
    assert found(tmp_path, keys=("y",)) == {leaf: [second] for leaf, (_, second) in STATES.items()}
    assert not found(tmp_path, basis=["other"]) and not found(tmp_path, keys=("x", "y", "z"))
    assert LeafJournal(tmp_path, None, ()).get(0) is None
    note_pass(tmp_path, {"leaves": 4})
    assert passes_of(tmp_path) == [{"leaves": 4}]
    remove_leaves(tmp_path)
    assert not found(tmp_path) and not passes_of(tmp_path)


@pytest.mark.parametrize("cut", [1, 54, 55, 133, 134, 135])
def test_a_torn_end_is_no_leaf(tmp_path: Path, cut: int) -> None:
    filled(tmp_path)
    (file,) = (tmp_path / "leaves").iterdir()
    file.write_bytes(file.read_bytes()[:-cut])
    kept = found(tmp_path)
    assert 9 not in kept and kept == {leaf: STATES[leaf] for leaf in kept}
    journal = LeafJournal(tmp_path, ["basis"], ["x", "y"])
    journal.put(9, STATES[9])
    journal.close()
    assert found(tmp_path) == kept | {9: STATES[9]}


def test_a_byte_that_changed_is_no_leaf(tmp_path: Path) -> None:
    filled(tmp_path)
    for file in (tmp_path / "leaves").iterdir():
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    assert found(tmp_path) == {leaf: state for leaf, state in STATES.items() if leaf != 9}


def test_others_keep_states_beside(tmp_path: Path) -> None:
    """Two children write files of their own; one of them is killed in the middle of its last state."""
    journal = LeafJournal(tmp_path, ["basis"], ["x", "y"])
    journal.put(0, STATES[0])
    assert journal.files is not None
    children = [StateFile(journal.files), StateFile(journal.files)]
    for leaf, child in zip((3, 1, 9), (children[0], children[1], children[1]), strict=True):
        places = child.add(leaf, STATES[leaf])
        assert [journal.files.read(one) for one in places] == STATES[leaf]
        journal.note(leaf, places)
    assert [journal.get(leaf) for leaf in STATES] == [*STATES.values()]
    for one in (journal, *children):
        one.close()
    torn = tmp_path / "leaves" / children[1].name
    torn.write_bytes(torn.read_bytes()[:-3])
    assert journal.files is None and found(tmp_path) == {leaf: STATES[leaf] for leaf in (3, 0, 1)}
    again = LeafJournal(tmp_path, ["basis"], ["x", "y"])
    again.put(9, STATES[9])
    again.close()
    assert found(tmp_path) == STATES
    files = again._files
    torn.unlink()
    assert files.read(places[0]) is None


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "leaves").write_text("in the way")
    filled(tmp_path)
    note_pass(tmp_path, {"leaves": 4})
    assert not found(tmp_path) and not passes_of(tmp_path)
