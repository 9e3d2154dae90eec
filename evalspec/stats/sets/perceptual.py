"""Pictures that are the same to the eye: perceptual hashes find candidates, pixels at a common size decide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError
from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import Words

SIDE = 32
"""Pixels of the common size, in height and width."""
LOW = 8
"""Waves in each direction that a hash is made of: 8 x 8 bits."""
FURTHEST = 16
"""Bits that the hashes of two candidates may differ in."""
CUT = (0.02, 0.035, 0.05)
"""Shares of a picture that may be cut off at each side; off two opposite sides together, or off one twice that."""
PROMISING = 0.6
"""Correlation of the whole pictures from which on one of them may be cut out of the other."""
FLAT = 0.02
"""Standard deviation of the greys, as a share of the range of values, under which a picture shows nothing."""
VALUES_AT_A_TIME = 1 << 22
LUMA = np.array([0.299, 0.587, 0.114], np.float32)

FloatPictures = NDArray[np.float32]
Pictures = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Signatures:
    """Pictures made comparable.

    Args:
        hashes: shape (n,), 64 bits each.
        small: shape (n, c, 32, 32), c is 1 (grey) or 3 (red, green, blue), area means in the pictures' own values.
        flat: shape (n,), pictures of one tone, which look like each other without being the same.
    """

    hashes: Words
    small: FloatPictures
    flat: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.hashes)


def shrunk(pictures: NDArray[Any]) -> FloatPictures:
    """Means of areas, shape (n, c, 32, 32); 0 throughout where a value isn't finite.

    Args:
        pictures: shape (n, h, w) or (n, h, w, c) with 1 or 3 channels, at least 32 x 32 pixels.

    Raises:
        InputError: They are smaller, or have another number of channels.
    """
    values = pictures[..., None] if pictures.ndim == 3 else pictures
    if values.ndim != 4 or values.shape[3] not in (1, 3) or min(values.shape[1:3]) < SIDE:
        raise InputError(f"pictures of shape {list(pictures.shape[1:])} have no perceptual hash: 32 x 32 is the least")
    n, height, width, channels = values.shape
    small = np.empty((n, channels, SIDE, SIDE), np.float32)
    down, across = _area_means(height), _area_means(width).T
    portion = max(1, VALUES_AT_A_TIME // (height * width * channels))
    for start in range(0, n, portion):
        part = np.ascontiguousarray(np.moveaxis(values[start : start + portion], 3, 1), np.float32)
        small[start : start + portion] = down @ part @ across
    small[~np.isfinite(small).all(axis=(1, 2, 3))] = 0.0
    return small


def signed(small: FloatPictures, span: float) -> Signatures:
    """Signatures of pictures that are small already.

    Args:
        small: shape (n, c, 32, 32).
        span: From black to white, such as 255.

    References:
        Zauner (2010), Implementation and Benchmarking of Perceptual Image Hash Functions, 3.2.1 (DCT hash); the bits
        are those of ImageHash's `phash` on the same 32 x 32 greys.
    """
    greys = _greys(small)
    return Signatures(dct_hashes(greys), small, greys.std(axis=(1, 2)) < FLAT * span)


def dct_hashes(greys: FloatPictures) -> Words:
    """The perceptual hash of grey pictures: which of the 8 x 8 slowest waves are stronger than their median.

    Args:
        greys: shape (n, 32, 32).

    Returns:
        shape (n,).
    """
    places, waves = np.arange(SIDE), np.arange(LOW)
    cosines = np.cos(np.pi * waves[:, None] * (2 * places + 1) / (2 * SIDE))
    strength = (cosines @ greys.astype(np.float64) @ cosines.T).reshape(len(greys), LOW * LOW)
    bits = strength > np.median(strength, axis=1, keepdims=True)
    return np.packbits(bits, axis=1).view(np.uint64).reshape(len(greys))


class PictureSearch:
    """Looks for test pictures in training pictures that come portion by portion; keeps the closest of each.

    All hashes are held against each other: a pair takes some nanoseconds, where reading a picture takes some
    milliseconds. So every pair within the distance is a candidate, however the pictures come.

    Args:
        test: The test pictures.
        similarity: Least correlation of the pixels at the common size.
    """

    def __init__(self, test: Signatures, similarity: float) -> None:
        self.similarity = similarity
        self.train_row = np.full(len(test), -1, np.int64)
        self.closeness = np.full(len(test), np.nan)
        self._test = test
        self._looked_at = np.flatnonzero(~test.flat)

    def add(self, train: Signatures, first_row: int = 0, *, same: bool = False) -> None:
        """Look through some training pictures.

        Args:
            train: Some of them.
            first_row: Row of the first of them in its set.
            same: They are the test pictures themselves, of which none is its own match.
        """
        theirs = np.flatnonzero(~train.flat)
        width = max(1, VALUES_AT_A_TIME // max(len(theirs), 1))
        for start in range(0, len(self._looked_at), width):
            ours = self._looked_at[start : start + width]
            apart = np.bitwise_count(self._test.hashes[ours, None] ^ train.hashes[theirs])
            test_at, train_at = np.nonzero(apart <= FURTHEST)
            test_rows, train_rows = ours[test_at], theirs[train_at]
            other = test_rows != train_rows if same else np.ones(len(test_rows), bool)
            self._judge(test_rows[other], train, train_rows[other], first_row)

    def _judge(self, test_rows: Rows, train: Signatures, train_rows: Rows, first_row: int) -> None:
        portion = max(1, VALUES_AT_A_TIME // (train.small[0].size if len(train) else 1))
        for start in range(0, len(test_rows), portion):
            ours, theirs = test_rows[start : start + portion], train_rows[start : start + portion]
            alike = correlations(self._test.small[ours], train.small[theirs])
            best = _largest(ours, alike)
            # Of each test picture only the most similar one is looked at for what was cut off.
            tried = best[(alike[best] < self.similarity) & (alike[best] >= PROMISING)]
            tried = tried[self.train_row[ours[tried]] < 0]
            alike[tried] = cut_correlations(self._test.small[ours[tried]], train.small[theirs[tried]])
            closer = best[alike[best] >= self.similarity]
            closer = closer[~(self.closeness[ours[closer]] >= alike[closer])]
            self.train_row[ours[closer]] = first_row + theirs[closer]
            self.closeness[ours[closer]] = alike[closer]


def _largest(rows: Rows, values: NDArray[np.float64]) -> Rows:
    """For each distinct row the place of its largest value."""
    order = np.lexsort((values, rows))
    ends = np.flatnonzero(np.diff(rows[order], append=-1))
    return np.asarray(order[ends])


def cut_correlations(first: FloatPictures, second: FloatPictures) -> NDArray[np.float64]:
    """Correlations, the largest over ways to cut a little off the sides of one of the two; shape (p,)."""
    if first.shape[1] != second.shape[1]:
        first, second = _greys(first)[:, None], _greys(second)[:, None]
    best = correlations(first, second)
    for cut in CUT:
        ends = [(cut, 1.0 - cut), (2 * cut, 1.0), (0.0, 1.0 - 2 * cut), (0.0, 1.0)]
        windows = [_area_means(SIDE, *one) for one in ends]
        for down in windows:
            for across in windows:
                best = np.maximum(best, correlations(down @ first @ across.T, second))
                best = np.maximum(best, correlations(first, down @ second @ across.T))
    return best


def correlations(first: Pictures, second: Pictures) -> NDArray[np.float64]:
    """Correlation of the pixels of pairs of small pictures, colour by colour where both have colours; shape (p,).

    Another brightness or contrast leaves it at 1. 0 where a picture is of one tone.

    Args:
        first: shape (p, c, 32, 32).
        second: shape (p, c, 32, 32), c may differ.
    """
    if first.shape[1] != second.shape[1]:
        return _correlations(_greys(first), _greys(second))
    alike = _correlations(first, second)
    grey = _is_grey(first) != _is_grey(second)
    if grey.any():
        alike[grey] = _correlations(_greys(first[grey]), _greys(second[grey]))
    return alike


def _correlations(first: Pictures, second: Pictures) -> NDArray[np.float64]:
    a, b = (one.reshape(len(one), int(np.prod(one.shape[1:]))).astype(np.float64) for one in (first, second))
    a, b = a - a.mean(axis=1, keepdims=True), b - b.mean(axis=1, keepdims=True)
    size = np.sqrt(np.einsum("ij,ij->i", a, a) * np.einsum("ij,ij->i", b, b))
    return np.asarray(np.einsum("ij,ij->i", a, b) / np.where(size > 0, size, 1.0))


def _is_grey(small: Pictures) -> NDArray[np.bool_]:
    """Pictures without colour, in one channel or in three, shape (p,)."""
    return np.asarray((small == small[:, :1]).all(axis=(1, 2, 3)))


def _greys(small: Pictures) -> FloatPictures:
    """Luma, shape (n, 32, 32)."""
    grey = small[:, 0] if small.shape[1] == 1 else np.tensordot(small, LUMA, axes=(1, 0))
    return grey.astype(np.float32, copy=False)


def _area_means(length: int, start: float = 0.0, stop: float = 1.0) -> FloatPictures:
    """Each of 32 equal stretches as the mean of the pixels that it covers, shape (32, length).

    Args:
        length: Pixels.
        start: Where the first stretch begins, as a share of the length.
        stop: Where the last one ends.
    """
    edges = (start + (stop - start) * np.arange(SIDE + 1) / SIDE) * length
    pixels = np.arange(length)
    covered = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.asarray(np.clip(covered, 0.0, None) * (SIDE / (length * (stop - start))), np.float32)
