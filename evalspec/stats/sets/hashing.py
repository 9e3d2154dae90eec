"""Hashing of arrays: words to words, segments of words to words. For finding what is equal, not for security."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_SEED = 0x9E3779B97F4A7C15
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """A bijection on 64-bit words in which every bit of the input moves every bit of the output.

    References:
        Steele, Lea, Flood (2014), Fast splittable pseudorandom number generators, OOPSLA: the finalizer of SplitMix64.
    """
    words = words ^ (words >> np.uint64(30))
    words *= _M1
    words ^= words >> np.uint64(27)
    words *= _M2
    words ^= words >> np.uint64(31)
    return words


def keys(positions: Words, lane: int) -> Words:
    """Odd multipliers, one for each position, of one lane of the hash."""
    with np.errstate(over="ignore"):
        return mix((positions + np.uint64(1)) * np.uint64(_SEED) + np.uint64(lane << 56)) | np.uint64(1)


def hash_segments(words: Words, offsets: NDArray[np.int64], lane: int) -> Words:
    """Multilinear hash of each segment of mixed words; the length is part of it.

    Args:
        words: shape (m,), already put through `mix`: a multilinear hash of raw words would cancel their high bits.
        offsets: shape (n + 1,), rising from 0 to m.
        lane: Which of the independent hash functions.

    Returns:
        shape (n,).

    References:
        Lemire, Kaser (2014), Strongly universal string hashing is fast, The Computer Journal 57(11).
    """
    lengths = np.diff(offsets)
    position = np.arange(len(words), dtype=np.int64) - np.repeat(offsets[:-1], lengths)
    longest = int(lengths.max(initial=0))
    multiplier = keys(np.arange(longest, dtype=np.uint64), lane)[position]
    # Sums wrap around, so differences of running sums are exact, also over empty segments.
    running = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(words * multiplier, out=running[1:])
    total = running[offsets[1:]] - running[offsets[:-1]]
    return mix(total + keys(lengths.astype(np.uint64), lane + 8))
