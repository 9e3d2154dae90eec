"""Texts split as a tokenizer of a language model splits them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa

from evalspec.errors import InputError
from evalspec.sources.reading.text import Tokenised, check_utf8, normalise
from evalspec.stats.sets.duplicates import Rows
from evalspec.stats.sets.hashing import mix
from evalspec.stats.sets.tokens import Tokens, hash_pieces


class Subwords:
    """Splits texts by a Hugging Face ``tokenizer.json``, in NFKC and case folded as they are compared.

    What the file says of truncation, padding and special tokens is left aside: all of a text is split.

    Args:
        path: The file.

    Attributes:
        digest: sha256 of the file.

    Raises:
        InputError: It can't be read, or is not a tokenizer.
    """

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        try:
            content = path.read_bytes()
            self.digest = hashlib.sha256(content).hexdigest()
            self._tokenizer = Tokenizer.from_str(content.decode())
        except OSError as error:
            raise InputError(f"tokenizer {path.name} can't be read: {error.strerror or error}") from error
        except Exception as error:  # the package raises nothing narrower
            reason = (str(error).splitlines() or ["no reason given"])[0][:200]
            raise InputError(f"{path.name} is not a tokenizer: {reason}", remedy="name a tokenizer.json") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """Tokens of a text as it stands, without special ones."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def __call__(self, texts: pa.ChunkedArray | pa.Array, first_row: int = 0) -> Tokenised:
        """Tokens of texts; missing ones have none.

        Args:
            texts: n strings as they were read.
            first_row: Number of the first of them, for errors.

        Raises:
            InputError: Some are no UTF-8.
        """
        column = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([texts])
        for chunk in column.chunks:
            check_utf8(chunk, first_row)
            first_row += len(chunk)
        plain = [text or "" for text in normalise(column).to_pylist()]
        encoded = self._tokenizer.encode_batch(plain, add_special_tokens=False)
        counts = np.array([len(one.ids) for one in encoded], np.int64)
        ids = np.array([token for one in encoded for token in one.ids], np.uint64)
        ends = np.array([place for one in encoded for place in one.offsets], np.int64).reshape(-1, 2)
        starts, bounds = _bytes(plain), np.concatenate(([0], np.cumsum([len(text) for text in plain])))
        at = starts[ends + np.repeat(bounds[:-1], counts)[:, None]]
        data = "".join(plain).encode()
        # Pieces that the tokenizer does not know share a number, and are told apart by what stands there.
        hashes = mix(ids ^ hash_pieces(data, at[:, 0], at[:, 1]))
        tokens = Tokens(hashes, np.concatenate(([0], np.cumsum(counts))), at[:, 0], at[:, 1])
        return Tokenised(tokens, data, starts[bounds])


def _bytes(texts: list[str]) -> Rows:
    """Where each character of these texts begins, one text after the other, in bytes of UTF-8, and where all end."""
    points = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    sizes = 1 + (points >= 0x80).astype(np.int64) + (points >= 0x800) + (points >= 0x10000)
    return np.concatenate(([0], np.cumsum(sizes)))
