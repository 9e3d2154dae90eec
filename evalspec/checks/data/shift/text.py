"""Shift of texts: their characters, their words, and words that the reference does not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.evidence.blocks import Column, Table
from evalspec.stats.drift import distances as stats
from evalspec.stats.drift.mean_shares import MOST_ROWS, mean_shares_distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell

CELLS = {"characters": 64, "words": 100}
"""The most frequent ones, each a cell of its own; all others share one."""
MOST_TEXTS = 20_000
"""Texts a side; more are drawn down to it."""
LONGEST = 4_000
"""Characters of a text that are read."""
NAMED = 8
_TEXTS_AT_A_TIME = 2_000


@dataclass(frozen=True, slots=True)
class TextShift:
    """How far two columns of texts are apart.

    Args:
        name: Of the column.
        distances: ``NAME:characters`` and ``NAME:words``.
        unseen: Mean share of a current text's words that no text of the reference has; None: there are no words.
        by_chance: The same of one half of the reference against the other half.
        moved: Words whose share moved most, with how far, in 0..1.
        read: Texts of either side that were read.
    """

    name: str
    distances: dict[str, stats.Distance]
    unseen: float | None
    by_chance: float | None
    moved: tuple[tuple[str, float], ...]
    read: tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Characters or words of texts, one after the other.

    Args:
        codes: shape (t,), which one of ``names``.
        owner: shape (t,), rising: the text that each is of.
        names: What the codes stand for.
    """

    codes: NDArray[np.int64]
    owner: NDArray[np.int64]
    names: Sequence[str]


def compare_texts(
    name: str,
    first: pa.Array,
    second: pa.Array,
    clusters: tuple[NDArray[np.int64] | None, NDArray[np.int64] | None],
    rng: np.random.Generator,
) -> TextShift:
    """Distances of what two columns of texts consist of.

    Args:
        name: Of the column.
        first: Texts of the reference; null where missing.
        second: Texts of the current data.
        clusters: Of either side's rows, or None.
        rng: Draws texts and permutations.
    """
    sides = [_some(array, rng) for array in (first, second)]
    texts = pa.concat_arrays([array for array, _ in sides])
    ids = [None if c is None else c[rows] for c, (_, rows) in zip(clusters, sides, strict=True)]
    n = len(sides[0][0])
    characters, words = _characters(texts), _words(texts)
    distances: dict[str, stats.Distance] = {}
    moved: tuple[tuple[str, float], ...] = ()
    for what, pieces in (("characters", characters), ("words", words)):
        shares, used, cells = _shares(pieces, len(texts), CELLS[what])
        means = [_mean(shares, used & side) for side in (np.arange(len(texts)) < n, np.arange(len(texts)) >= n)]
        distances[f"{name}:{what}"] = _distance(shares, used, n, means, ids, rng)
        apart = means[1] - means[0]
        order = np.argsort(-np.abs(apart[: len(cells)]), kind="stable")[:NAMED]
        moved = tuple((cells[i], float(apart[i])) for i in order if apart[i] != 0.0)
    unseen, by_chance = _unseen(words, n, len(texts), rng)
    return TextShift(name, distances, unseen, by_chance, moved, (n, len(texts) - n))


def _some(array: pa.Array, rng: np.random.Generator) -> tuple[pa.Array, NDArray[np.int64]]:
    """At most 20,000 texts that are there, cut where they are very long, and the rows they stand in."""
    rows = np.flatnonzero(~np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_))
    if len(rows) > MOST_TEXTS:
        rows = np.sort(rng.choice(rows, MOST_TEXTS, replace=False))
    taken = array.take(pa.array(rows)).cast(pa.large_string())
    return pc.utf8_slice_codeunits(taken, 0, LONGEST), rows


def _characters(texts: pa.Array) -> _Pieces:
    lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
    parts = [
        np.frombuffer("".join(texts.slice(start, _TEXTS_AT_A_TIME).to_pylist()).encode("utf-32-le"), dtype="<u4")
        for start in range(0, len(texts), _TEXTS_AT_A_TIME)
    ]
    found = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)
    kinds, codes = np.unique(found, return_inverse=True)
    return _Pieces(codes.astype(np.int64), np.repeat(np.arange(len(texts)), lengths), [chr(k) for k in kinds])


def _words(texts: pa.Array) -> _Pieces:
    """Runs of letters and digits, in small letters."""
    plain = pc.replace_substring_regex(pc.utf8_lower(texts), r"[^\p{L}\p{N}]+", " ")
    split = pc.utf8_split_whitespace(pc.utf8_trim_whitespace(plain))
    owner = pc.list_parent_indices(split).to_numpy(zero_copy_only=False).astype(np.int64)
    words = pc.list_flatten(split).dictionary_encode()
    codes = words.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    names = words.dictionary.to_pylist()
    real = np.array([name != "" for name in names], dtype=np.bool_)[codes] if len(codes) else codes.astype(np.bool_)
    return _Pieces(codes[real], owner[real], names)


def _shares(pieces: _Pieces, texts: int, most: int) -> tuple[NDArray[np.float64], NDArray[np.bool_], list[str]]:
    """Shares of each text's pieces, shape (texts, C + 1), which texts have any, and the names of the C cells."""
    counts = np.bincount(pieces.codes, minlength=len(pieces.names))
    frequent = np.argsort(-counts, kind="stable")[:most]
    cell = np.full(max(1, len(pieces.names)), len(frequent), dtype=np.int64)
    cell[frequent] = np.arange(len(frequent))
    width = len(frequent) + 1
    held = np.bincount(pieces.owner * width + cell[pieces.codes], minlength=texts * width).reshape(texts, width)
    total = held.sum(axis=1)
    shares: NDArray[np.float64] = held / np.maximum(total, 1)[:, None]
    return shares, total > 0, [pieces.names[i] for i in frequent]


def _mean(shares: NDArray[np.float64], rows: NDArray[np.bool_]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = shares[rows].mean(axis=0) if rows.any() else np.zeros(shares.shape[1])
    return found


def _distance(
    shares: NDArray[np.float64],
    used: NDArray[np.bool_],
    n: int,
    means: Sequence[NDArray[np.float64]],
    ids: Sequence[NDArray[np.int64] | None],
    rng: np.random.Generator,
) -> stats.Distance:
    rows = np.flatnonzero(used)
    sizes = int(np.count_nonzero(used[:n])), int(np.count_nonzero(used[n:]))
    sample = rows if len(rows) <= MOST_ROWS else np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    found = mean_shares_distance(means[0], means[1], sizes, shares[sample], rng)
    if all(one is None for one in ids):
        return found
    sides = (rows[rows < n], 0), (rows[rows >= n], n)
    effects = [
        stats.largest_design_effect(shares[some].T, None if one is None else one[some - offset])
        for (some, offset), one in zip(sides, ids, strict=True)
    ]
    return stats.clustered(found, sizes[0], sizes[1], effects[0], effects[1])


def _unseen(words: _Pieces, n: int, texts: int, rng: np.random.Generator) -> tuple[float | None, float | None]:
    """Mean share of words that the reference lacks: in the current texts, and in one half of the reference's."""
    side = np.arange(texts) >= n
    half = rng.permutation(texts) % 2 == 0
    return _lacking(words, ~side, side), _lacking(words, ~side & half, ~side & ~half)


def _lacking(words: _Pieces, having: NDArray[np.bool_], asked: NDArray[np.bool_]) -> float | None:
    known = np.zeros(len(words.names), dtype=np.bool_)
    known[words.codes[having[words.owner]]] = True
    mine = asked[words.owner]
    if not mine.any():
        return None
    owner = words.owner[mine]
    total = np.bincount(owner, minlength=len(asked))
    lacking = np.bincount(owner, weights=~known[words.codes[mine]], minlength=len(asked))
    return float(np.mean(lacking[total > 0] / total[total > 0]))


def texts_table(found: Sequence[TextShift], reference: str, current: str) -> Table:
    """Words of every column of texts.

    Args:
        found: At least one.
        reference: Name of the dataset.
        current: Name of the other one.
    """
    rows: list[tuple[Cell, ...]] = [
        (
            one.name, one.read[0], one.read[1], None if one.unseen is None else 100.0 * one.unseen,
            None if one.by_chance is None else 100.0 * one.by_chance,
            ", ".join(f"{word} {100 * by:+z.1f} pp" for word, by in one.moved),
        )
        for one in found
    ]  # fmt: skip
    return Table(
        title="Words",
        caption=(
            f"Unseen: the share of a text's words that no text of {reference} has; beside it the same of one half of "
            f"{reference} against the other half. Texts are read up to {LONGEST:,} characters, at most "
            f"{MOST_TEXTS:,} a side."
        ),
        columns=(
            Column(name="column"), Column(name=f"texts of {reference}", unit="rows"),
            Column(name=f"texts of {current}", unit="rows"), Column(name=f"unseen in {current}", unit="%"),
            Column(name=f"unseen within {reference}", unit="%"), Column(name="words that moved most"),
        ),
        rows=tuple(rows),
    )  # fmt: skip
