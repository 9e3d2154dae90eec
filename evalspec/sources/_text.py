"""Texts made comparable: normalised, and as sets of shingles."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.sources._rows import hash_values
from evalspec.stats.hashing import hash_segments, mix
from evalspec.stats.minhash import Sets

TEXTS_AT_A_TIME = 1 << 15
# Scripts that write words without spaces: each letter counts as a word.
_UNSPACED = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])"
_SEPARATOR = "\x1f"


def normalise(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in NFKC, case folded, without invisible characters, white space as single blanks and none at the ends.

    Args:
        texts: n strings; missing ones stay missing.
    """
    chunks = [_normalised(texts.slice(start, TEXTS_AT_A_TIME)) for start in range(0, len(texts), TEXTS_AT_A_TIME)]
    return pa.chunked_array(chunks, pa.string())


def _normalised(texts: pa.ChunkedArray) -> pa.Array:
    present = pc.replace_substring(pc.fill_null(texts.cast(pa.string()), ""), _SEPARATOR, " ")
    # One call for all texts: the separator neither folds nor composes with anything.
    joined = _SEPARATOR.join(present.to_pylist())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", joined).casefold())
    array = pa.array(folded.split(_SEPARATOR), pa.string())
    array = pc.replace_substring_regex(array, r"\p{Cf}+", "")
    array = pc.utf8_trim(pc.replace_substring_regex(array, r"[\s\p{Z}\x{85}\x{1c}-\x{1e}]+", " "), " ")
    missing = np.asarray(pc.is_null(texts).to_numpy())
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), array)


def words(normalised: pa.ChunkedArray) -> pa.Array:
    """Words of normalised texts: letters, digits and marks in a row; missing texts have none.

    Returns:
        n lists of strings.
    """
    array = normalised.combine_chunks()
    array = pc.fill_null(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array, "")
    array = pc.replace_substring_regex(array, r"[^\p{L}\p{N}\p{M}]+", " ")
    array = pc.utf8_trim(pc.replace_substring_regex(array, _UNSPACED, r" \1 "), " ")
    lists = pc.utf8_split_whitespace(array)
    # Splitting an empty text gives one empty word.
    return pc.if_else(pc.equal(array, ""), pa.scalar([], lists.type), lists)


def shingle_sets(normalised: pa.ChunkedArray, size: int) -> Sets:
    """Each text as the set of its runs of ``size`` words; a shorter text is one shingle, one without words is empty.

    Args:
        normalised: n texts.
        size: Words in a shingle.
    """
    parts = [
        _shingles(words(normalised.slice(start, TEXTS_AT_A_TIME)), size)
        for start in range(0, len(normalised), TEXTS_AT_A_TIME)
    ]
    elements = np.concatenate([np.zeros(0, np.uint64)] + [part.elements for part in parts])
    sizes = np.concatenate([np.zeros(0, np.int64)] + [part.sizes for part in parts])
    return Sets(elements, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


def _shingles(lists: pa.Array, size: int) -> Sets:
    counts = np.asarray(pc.list_value_length(lists).to_numpy()).astype(np.int64)
    hashed = hash_values(lists.flatten())[0]
    starts = np.cumsum(counts) - counts
    # How many shingles a text has, and where each begins among all words.
    shingles = np.where(counts >= size, counts - size + 1, np.minimum(counts, 1))
    offsets = np.concatenate(([0], np.cumsum(shingles)))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], shingles)
    begins = np.repeat(starts, shingles) + within
    lengths = np.repeat(np.minimum(counts, size), shingles)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    inside = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
    runs = hashed[np.repeat(begins, lengths) + inside]
    return Sets.of(mix(hash_segments(runs, bounds, 0)), offsets)
