"""Texts made comparable: normalised, and as sets of shingles."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.errors import InputError
from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import hash_segments
from evalspec.stats.sets.packed_sets import Sets
from evalspec.stats.sets.tokens import Tokens, Unit, tokens, whole_windows, windows

TEXTS_AT_A_TIME = 1 << 15
# Scripts that write words without spaces: each letter counts as a word.
_UNSPACED = r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])"
_SEPARATOR = "\x1f"
# The one mark that makes another character of an ASCII one that is no letter: =, < or > crossed out.
_OVERLAY = "\u0338"
# White space of ASCII that is more than a blank between words.
_LOOSE_SPACE = r"^ | $|  |[\t\n\f\r\x{1c}-\x{1f}]"


def normalise(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts in NFKC, case folded, without invisible characters, white space as single blanks and none at the ends.

    Args:
        texts: n strings; missing ones stay missing.
    """
    chunks = [_normalised(texts.slice(start, TEXTS_AT_A_TIME)) for start in range(0, len(texts), TEXTS_AT_A_TIME)]
    return pa.chunked_array(chunks, pa.string())


def _normalised(texts: pa.ChunkedArray) -> pa.Array:
    present = pc.fill_null(texts.cast(pa.string()), "").combine_chunks()
    present = present.combine_chunks() if isinstance(present, pa.ChunkedArray) else present
    # Of ASCII letters only capitals and white space change.
    lowered = pc.ascii_lower(present)
    rest = pc.or_(pc.invert(pc.string_is_ascii(present)), pc.match_substring_regex(lowered, _LOOSE_SPACE))
    if pc.any(rest).as_py():
        lowered = pc.replace_with_mask(lowered, rest, _folded(present.filter(rest)))
    missing = np.asarray(pc.is_null(texts).to_numpy())
    return pc.if_else(pa.array(missing), pa.scalar(None, pa.string()), lowered)


def _folded(present: pa.Array) -> pa.Array:
    check_utf8(present)
    present = pc.replace_substring(present, _SEPARATOR, " ")
    # One call for all texts: the separator neither folds nor composes with anything.
    joined = _SEPARATOR.join(present.to_pylist())
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", joined).casefold())
    array = pa.array(folded.split(_SEPARATOR), pa.string())
    array = pc.replace_substring_regex(array, r"\p{Cf}+", "")
    return pc.utf8_trim(pc.replace_substring_regex(array, r"[\s\p{Z}\x{85}\x{1c}-\x{1e}]+", " "), " ")


def words(normalised: pa.ChunkedArray) -> pa.Array:
    """Words of normalised texts: letters, digits and marks in a row; missing texts have none.

    Returns:
        n lists of strings.
    """
    array = spaced(normalised)
    lists = pc.utf8_split_whitespace(array)
    # Splitting an empty text gives one empty word.
    return pc.if_else(pc.equal(array, ""), pa.scalar([], lists.type), lists)


def spaced(normalised: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Normalised texts with one blank between words, and nothing else; missing ones are empty.

    A word is a run of letters, digits and marks; of scripts that put no spaces between words, one letter.

    Args:
        normalised: n texts.
    """
    array = normalised.combine_chunks() if isinstance(normalised, pa.ChunkedArray) else normalised
    array = pc.fill_null(array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array, "")
    array = pc.replace_substring_regex(array, r"[^\p{L}\p{N}\p{M}]+", " ")
    return pc.utf8_trim(pc.replace_substring_regex(array, _UNSPACED, r" \1 "), " ")


@dataclass(frozen=True, slots=True)
class Tokenised:
    """Texts with their tokens.

    Args:
        tokens: Where they stand, in bytes of ``data``, and their hashes.
        data: The texts that were split, as they were read; split to characters, ASCII ones only, others normalised.
        offsets: shape (n + 1,), where each text begins in ``data``.
    """

    tokens: Tokens
    data: bytes
    offsets: Rows

    def cut(self, first: int, last: int) -> str:
        """The text from one token up to another, this one included."""
        begin, end = int(self.tokens.begins[first]), int(self.tokens.ends[last])
        return self.data[begin:end].decode("utf-8", errors="replace")

    def around(self, first: int, letters: int) -> str:
        """The text that a token stands in: so many bytes before it at most, and three times as many from it on."""
        text = int(self.tokens.text_of(np.array([first]))[0])
        begin, end = int(self.offsets[text]), int(self.offsets[text + 1])
        at = int(self.tokens.begins[first])
        start, stop = max(begin, at - letters), min(end, at + 3 * letters)
        cut = self.data[start:stop].decode("utf-8", errors="ignore")
        return f"{'... ' if start > begin else ''}{cut}{' ...' if stop < end else ''}"


def tokenised(texts: pa.ChunkedArray | pa.Array, unit: Unit = "words", first_row: int = 0) -> Tokenised:
    """Words or characters of texts as they are compared: in NFKC, case folded, without invisible characters.

    ASCII letters look the same normalised but for capitals, so words of them are split where they lie. Of the words
    with other letters each is normalised once, however often it occurs.

    Args:
        texts: n strings as they were read; missing ones have no words.
        unit: What is hashed.
        first_row: Number of the first text, for errors.

    Raises:
        InputError: Some are no UTF-8.
    """
    array = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    array = pc.fill_null(array.cast(pa.large_string()), "")
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    data, offsets = _bytes_of(array)
    if data.isascii():
        return Tokenised(tokens(data, offsets, unit), data, offsets)
    check_utf8(array, first_row)
    found = _mixed(data, offsets) if unit == "words" else None
    if found is not None:
        return Tokenised(found, data, offsets)
    beyond = pc.invert(pc.string_is_ascii(array))
    replaced = spaced(normalise(pa.chunked_array([array.filter(beyond)])))
    data, offsets = _bytes_of(pc.replace_with_mask(array, beyond, replaced.cast(pa.large_string())))
    return Tokenised(tokens(data, offsets, unit), data, offsets)


def _bytes_of(array: pa.LargeStringArray) -> tuple[bytes, Rows]:
    """The bytes of n texts without nulls, and where each begins in them; shape (n + 1,)."""
    offsets = np.frombuffer(array.buffers()[1], np.int64, len(array) + 1, array.offset * 8)
    first, last = int(offsets[0]), int(offsets[-1])
    data = bytes(memoryview(array.buffers()[2])[first:last]) if last > first else b""
    return data, offsets - first


def _mixed(data: bytes, offsets: Rows) -> Tokens | None:
    """Words of texts in which some have letters beyond ASCII; None: they must be normalised as a whole.

    All that stands between two ASCII characters which are no letters is normalised by itself, and gives any number of
    words.
    """
    raw = tokens(data, offsets)
    joined = np.bitwise_or.reduceat(np.frombuffer(data, np.uint8), raw.begins)
    beyond = np.flatnonzero(joined & 0x80)
    bounds = np.stack([raw.begins[beyond], raw.ends[beyond]], axis=1).ravel()
    # Every other one of these is what lies between two of them.
    parts = pa.LargeStringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(data))
    encoded = pc.dictionary_encode(parts.take(pa.array(np.arange(0, len(bounds) - 1, 2))))
    if pc.any(pc.starts_with(encoded.dictionary, _OVERLAY)).as_py():
        return None
    plain = spaced(normalise(pa.chunked_array([encoded.dictionary])))
    known = tokens(*_bytes_of(plain.cast(pa.large_string())))
    some = known.take(np.asarray(encoded.indices.to_numpy()).astype(np.int64))
    counts = np.ones(len(raw.hashes), np.int64)
    counts[beyond] = some.counts
    bounds = np.concatenate(([0], np.cumsum(counts)))
    hashes = np.repeat(raw.hashes, counts)
    within = np.arange(len(some.hashes)) - np.repeat(some.offsets[:-1], some.counts)
    hashes[np.repeat(bounds[:-1][beyond], some.counts) + within] = some.hashes
    return Tokens(hashes, bounds[raw.offsets], np.repeat(raw.begins, counts), np.repeat(raw.ends, counts))


def check_utf8(texts: pa.Array, first_row: int | None = None) -> None:
    """Refuse texts that are no UTF-8: letters that can't be read can't be compared.

    Args:
        texts: n strings.
        first_row: Number of the first of them; None: not known.

    Raises:
        InputError: One is not.
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        row = "" if first_row is None else f" (row {first_row + _unreadable(texts):,})"
        remedy = "write the file in UTF-8, or exclude the column from the comparison"
        raise InputError(f"a text is not UTF-8{row}", remedy=remedy) from error


def _unreadable(texts: pa.Array) -> int:
    """Which of them is the first that is no UTF-8."""
    first, last = 0, len(texts)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            texts.slice(first, middle - first).validate(full=True)
        except pa.ArrowInvalid:
            last = middle
        else:
            first = middle
    return first


def token_shingles(tokens: Tokens, size: int) -> Sets:
    """Each text as the set of its runs of ``size`` words; a shorter text is one shingle, one without words is empty.

    Args:
        tokens: Words of n texts.
        size: Words in a shingle.
    """
    counts = tokens.counts
    hashes = windows(tokens.hashes, size)
    hashes = hashes[whole_windows(tokens.offsets, size, len(hashes))]
    short = np.flatnonzero((counts > 0) & (counts < size))
    shingles = np.where(counts >= size, counts - size + 1, np.minimum(counts, 1))
    offsets = np.concatenate(([0], np.cumsum(shingles)))
    if len(short):
        lengths = counts[short]
        bounds = np.concatenate(([0], np.cumsum(lengths)))
        within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], lengths)
        whole = np.ones(offsets[-1], bool)
        whole[offsets[short]] = False
        elements = np.empty(offsets[-1], np.uint64)
        elements[whole] = hashes
        runs = tokens.hashes[np.repeat(tokens.offsets[short], lengths) + within]
        elements[~whole] = hash_segments(runs, bounds, 0)
        hashes = elements
    return Sets.of(hashes, offsets)
