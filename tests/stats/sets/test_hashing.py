from __future__ import annotations

import numpy as np

from evalspec.stats.sets.hashing import hash_segments, keys, mix


def test_mix_is_the_finalizer_of_splitmix64() -> None:
    # The generator started at 0 gives 0xE220A8397B1DCDAF first: the finalizer of 0x9E3779B97F4A7C15.
    first = mix(np.array([0x9E3779B97F4A7C15], np.uint64))
    assert first.tolist() == [0xE220A8397B1DCDAF]


def test_mix_leaves_its_argument_alone() -> None:
    words = np.arange(5, dtype=np.uint64)
    mix(words)
    assert words.tolist() == [0, 1, 2, 3, 4]


def test_multipliers_are_odd_and_differ_between_lanes() -> None:
    positions = np.arange(1000, dtype=np.uint64)
    lanes = [keys(positions, lane) for lane in range(4)]
    assert all((lane % np.uint64(2) == 1).all() for lane in lanes)
    assert len(np.unique(np.concatenate(lanes))) == 4000


def test_segments_differ_by_order_and_length_and_not_by_place() -> None:
    words = np.array([0, 0, 0, 7, 9, 9, 7, 7, 9], np.uint64)
    offsets = np.array([0, 1, 3, 3, 5, 7, 9])
    one = hash_segments(words, offsets, 0)
    zero, zeros, empty, ordered, swapped, again = one.tolist()
    assert ordered == again
    assert len({zero, zeros, empty, ordered, swapped}) == 5
    assert not set(hash_segments(words, offsets, 1).tolist()) & set(one.tolist())


def test_no_segment() -> None:
    assert hash_segments(np.zeros(0, np.uint64), np.zeros(1, np.int64), 0).shape == (0,)
    assert len(set(hash_segments(np.zeros(0, np.uint64), np.zeros(4, np.int64), 0).tolist())) == 1
