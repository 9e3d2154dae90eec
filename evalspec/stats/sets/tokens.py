"""Texts as sequences of hashed words or characters: bytes in, hashes out, without a loop over texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import Words, hash_segments, keys, mix

Unit = Literal["words", "characters"]

WORD_BYTES = 64
"""A longer word is hashed in two steps, so that a file in one word costs no more than one in many."""
# Small letters, digits and bytes of other alphabets stay, capitals become small, all else stands between words.
_FOLD = bytes(
    ord(chr(byte).lower()) if chr(byte).isascii() and chr(byte).isalnum() else byte if byte >= 0x80 else 0
    for byte in range(256)
)
_KEEP = np.array([(1 << (8 * size)) - 1 for size in range(9)], np.uint64)
# How many bytes a character of UTF-8 has, by its first one.
_CHARACTER = np.array([1] * 0xC0 + [2] * 0x20 + [3] * 0x10 + [4] * 0x10, np.int64)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of many texts, one after the other.

    Args:
        hashes: shape (w,), equal for equal tokens.
        offsets: shape (n + 1,), where the tokens of each text begin.
        begins: shape (w,), byte at which each token begins, counted from the first byte of the first text.
        ends: shape (w,), byte behind it.
    """

    hashes: Words
    offsets: Rows
    begins: Rows
    ends: Rows

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Rows:
        """Tokens of each text; shape (n,)."""
        return np.diff(self.offsets)

    def sums(self) -> Words:
        """The same for texts with the same tokens, in whatever order; shape (n,)."""
        running = np.zeros(len(self.hashes) + 1, np.uint64)
        np.cumsum(self.hashes, out=running[1:])
        return running[self.offsets[1:]] - running[self.offsets[:-1]]

    def take(self, texts: Rows) -> Tokens:
        """The tokens of some of the texts."""
        counts = self.counts[texts]
        offsets = np.concatenate(([0], np.cumsum(counts)))
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][texts] - offsets[:-1], counts)
        return Tokens(self.hashes[at], offsets, self.begins[at], self.ends[at])

    def text_of(self, tokens: Rows) -> Rows:
        """Index of the text in which each of these tokens stands.

        Args:
            tokens: shape (k,), positions among all tokens.
        """
        return np.searchsorted(self.offsets, tokens, side="right") - 1


def tokens(data: bytes, offsets: Rows, unit: Unit = "words") -> Tokens:
    """Split texts at all that is no letter and no digit, and hash what is left, small and capital letters alike.

    Beyond ASCII every byte counts as a part of a word: there, what is no letter must have been replaced before, and
    letters must be small (`evalspec.sources.reading.text.spaced`).

    Args:
        data: The texts in UTF-8, one after the other.
        offsets: shape (n + 1,), rising from 0 to the length of ``data``: where each text begins.
        unit: ``words``: letters and digits in a row; ``characters``: each letter and digit.
    """
    # Eight bytes more, so that a word can be read eight bytes at a time to its end.
    folded = np.frombuffer(data.translate(_FOLD) + bytes(8), np.uint8)
    inside = folded[:-8] != 0
    if unit == "words":
        begins = np.flatnonzero(inside & ~_shifted(inside, 1, offsets))
        ends = np.flatnonzero(inside & ~_shifted(inside, -1, offsets)) + 1
    else:
        begins = np.flatnonzero(inside & ((folded[:-8] & 0xC0) != 0x80))
        ends = begins + _CHARACTER[folded[begins]]
    return Tokens(_hashed(folded, begins, ends - begins), np.searchsorted(begins, offsets), begins, ends)


def _shifted(inside: NDArray[np.bool_], by: int, offsets: Rows) -> NDArray[np.bool_]:
    """Mask of the bytes whose neighbour before (1) or behind (-1) is in a word of the same text."""
    beside = np.zeros(len(inside), bool)
    if by > 0:
        beside[1:] = inside[:-1]
        borders = offsets[:-1]
    else:
        beside[:-1] = inside[1:]
        borders = offsets[1:] - 1
    beside[borders[(borders >= 0) & (borders < len(inside))]] = False
    return beside


def hash_pieces(data: bytes, begins: Rows, ends: Rows) -> Words:
    """Hashes of pieces of texts as they are.

    Args:
        data: The texts in UTF-8, one after the other.
        begins: shape (w,), byte at which each piece begins.
        ends: shape (w,), byte behind it.
    """
    return _hashed(np.frombuffer(data + bytes(8), np.uint8), begins, ends - begins)


def _hashed(folded: NDArray[np.uint8], begins: Rows, sizes: Rows) -> Words:
    # Words begin at any byte: a view with a stride of one byte reads them where they lie.
    anywhere = np.ndarray((len(folded) - 7,), np.dtype("<u8"), folded.data, 0, (1,))
    hashes = mix(anywhere[begins] & _KEEP[np.minimum(sizes, 8)])
    left = np.flatnonzero(sizes > 8)
    at = 8
    while len(left) and at < WORD_BYTES:
        part = anywhere[begins[left] + at] & _KEEP[np.minimum(sizes[left] - at, 8)]
        hashes[left] = mix(hashes[left] ^ part)
        at += 8
        left = left[sizes[left] > at]
    if len(left):
        counts = (sizes[left] - at + 7) // 8
        bounds = np.concatenate(([0], np.cumsum(counts)))
        within = (np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)) * 8
        rest = np.minimum(np.repeat(sizes[left] - at, counts) - within, 8)
        parts = anywhere[np.repeat(begins[left] + at, counts) + within] & _KEEP[rest]
        hashes[left] = mix(hashes[left] ^ hash_segments(mix(parts), bounds, 3))
    return hashes


def windows(hashes: Words, size: int) -> Words:
    """A hash of each run of so many tokens, whatever text they stand in.

    The hash is linear in those of the tokens, so runs are put together from runs of half the length.

    Args:
        hashes: shape (w,).
        size: Tokens in a run.

    Returns:
        shape (max(w - size + 1, 0),).
    """
    if len(hashes) < size:
        return np.zeros(0, np.uint64)
    power, length, covered = hashes, 1, 0
    joined: Words | None = None
    while True:
        if size & length:
            joined = power if joined is None else _joined(joined, power[covered:], 2 * length)
            covered += length
        if 2 * length > size:
            break
        power = _joined(power, power[length:], 2 * length + 1)
        length *= 2
    assert joined is not None
    return joined[: len(hashes) - size + 1]


def _joined(left: Words, right: Words, place: int) -> Words:
    both: Words = left[: len(right)] * keys(np.array([place], np.uint64), 40)[0]
    both += right
    return both


def whole_windows(offsets: Rows, size: int, count: int) -> NDArray[np.bool_]:
    """Mask of the runs of so many tokens that lie within one text.

    Args:
        offsets: shape (n + 1,), of the texts.
        size: Tokens in a run.
        count: Runs.

    Returns:
        shape (count,).
    """
    whole = np.ones(count, bool)
    for short in range(1, size):
        at = offsets[1:] - short
        whole[at[(at >= 0) & (at < count)]] = False
    return whole
