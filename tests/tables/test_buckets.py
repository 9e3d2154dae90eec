"""Digests in buckets are counted as a dictionary counts them: in memory, on disk, however often a row occurs."""

from __future__ import annotations

import contextlib
import gc
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalspec.errors import WriteError
from evalspec.language.states import State, packed
from evalspec.stats.sets.hashing import mix
from evalspec.tables import buckets
from evalspec.tables.buckets import Buckets, coded, counted, held_rows, maybe_repeated

Words = NDArray[np.uint64]


def rows(n: int, distinct: int, seed: int, width: int = 2) -> Words:
    """Rows of so many kinds, of which the first is as frequent as all others."""
    rng = np.random.default_rng(seed)
    kind = np.where(rng.random(n) < 0.5, 0, rng.integers(0, distinct, n)).astype(np.uint64)
    lanes = [mix(kind + np.uint64(1000 * lane)) for lane in range(width)]
    return np.stack(lanes)


def truth(lanes: Words) -> Counter[tuple[int, ...]]:
    return Counter(map(tuple, lanes.T.tolist()))


def kept(one: Buckets) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    before = -1
    for lanes, times in one.each():
        numbers = {int(first) >> (64 - buckets.BITS) for first in lanes[0]}
        assert all(number > before for number in numbers) and (len(numbers) == 1 or not one._single.on_disk)
        before = max(numbers, default=before)
        each = [1] * lanes.shape[1] if times is None else times.tolist()
        for row, count in zip(map(tuple, lanes.T.tolist()), each, strict=True):
            found[row] += count
    return found


def travelled(one: Buckets) -> Buckets:
    return Buckets.of_fields(State.of(packed("test", 1, one.fields()), "test", 1))


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 4000), distinct=st.integers(1, 5000), seed=st.integers(0, 99), held=st.sampled_from([300, 10**5]),
    width=st.sampled_from([2, 3]), cut=st.floats(0, 1), travels=st.booleans(),
)  # fmt: skip
def test_every_row_is_counted(
    tmp_path_factory: pytest.TempPathFactory,
    n: int, distinct: int, seed: int, held: int, width: int, cut: float, travels: bool,
) -> None:  # fmt: skip
    folder, lanes = tmp_path_factory.mktemp("digests"), rows(n, distinct, seed, width)
    first, later = (Buckets(width, folder, held) for _ in range(2))
    for start in range(0, n, 700):
        (first if start < cut * n else later).add(lanes[:, start : start + 700])
    if travels:
        first, later = travelled(first), travelled(later)
    first.merge(later)
    assert first.rows == n and kept(first) == truth(lanes) == kept(first)
    assert not list(folder.iterdir())


def test_a_row_that_occurs_often_takes_no_room(tmp_path: Path) -> None:
    one = Buckets(2, tmp_path, 2**16)
    for seed in range(30):
        one.add(rows(2**14, 3, seed))
    state = packed("test", 1, one.fields())
    assert one.rows == 30 * 2**14 and state.nbytes < 10_000


def test_repeated_words() -> None:
    assert maybe_repeated(np.array([5, 1, 2**64 - 1, 5, 0, 2**64 - 1], np.uint64)).tolist() == [0, 2, 3, 5]
    assert not len(maybe_repeated(np.zeros(0, np.uint64)))
    lanes = np.array([[3, 3, 1, 3], [0, 0, 0, 9]], np.uint64)
    assert [one.tolist() for one in coded(lanes)] == [[0, 0, 1, 2], [0, 2, 3]]
    assert [one.tolist() for one in counted(lanes, np.array([1, 5, 2, 2]))] == [[[3, 1, 3], [0, 0, 9]], [6, 2, 2]]


def test_several_share_what_is_held() -> None:
    assert [held_rows(n) for n in (1, 4, 8, 10**6)] == [2**20, 2**20, 2**19, 2**16]


def test_files_have_no_name_and_go(tmp_path: Path) -> None:
    def unnamed() -> list[str]:
        """Open files of this folder: counted by place, since other tests' files close when memory is collected."""
        return [path for path in map(target, Path("/proc/self/fd").iterdir()) if path.startswith(str(tmp_path))]

    def target(link: Path) -> str:
        with contextlib.suppress(FileNotFoundError):
            return os.readlink(link)
        return ""

    one = Buckets(2, tmp_path, 100)
    one.add(rows(1000, 1000, 1))
    assert len(unnamed()) == 1 and not list(tmp_path.iterdir())
    del one
    gc.collect()
    assert not unnamed()


def test_a_full_disk_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Buckets(2, tmp_path, 100)
    one.add(rows(1000, 1000, 1))

    class Full:
        def seek(self, place: int) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    assert one._single._file is not None
    monkeypatch.setattr(one._single._file, "_file", Full())
    with pytest.raises(WriteError, match=r"digests of rows can't be kept in .*: No space left on device; make room"):
        one.add(rows(1000, 1000, 2))
