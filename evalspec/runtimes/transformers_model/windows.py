"""Texts as windows of tokens: what the model sees, and which of its tokens are scored."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.language.likelihoods import Windows

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Window:
    """One window: the model sees ``seen`` and says what comes after each of them.

    Args:
        text: Number of the text.
        seen: shape (k,), tokens that the model sees.
        next: shape (k,), the token that comes after each.
        scored: shape (k,), True where that token counts here.
    """

    text: int
    seen: NDArray[np.int64]
    next: NDArray[np.int64]
    scored: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TextWindows:
    """Texts as windows, and what can be said of them before any model is asked.

    Args:
        windows: Those of each text after those of the text before.
        tokens: shape (n,), scored tokens of each text.
        bytes: shape (n,), UTF-8 bytes that they stand for.
        ends: shape (n,), characters to the end of the last of them.
        digest: Of all scored tokens.
        first: Numbers of the first tokens of the first text.
        begins_twice: Texts with two begin tokens.
    """

    windows: tuple[Window, ...]
    tokens: NDArray[np.int64]
    bytes: NDArray[np.int64]
    ends: NDArray[np.int64]
    digest: str
    first: tuple[int, ...]
    begins_twice: int


def cut(texts: Sequence[str], coder: Any, asked: Windows) -> TextWindows:
    """Windows of texts.

    A text that the tokenizer begins with no token of its own begins with the begin token, or where there is none with
    the end token, as in lm-evaluation-harness: without, nothing would be known of its first token.

    Args:
        texts: Each by itself.
        coder: A fast tokenizer of transformers.
        asked: How they are cut.
    """
    begin = coder.bos_token_id if coder.bos_token_id is not None else coder.eos_token_id
    around = [
        one for one in (coder.bos_token_id, coder.eos_token_id, coder.pad_token_id, coder.cls_token_id,
                        coder.sep_token_id) if one is not None
    ]  # fmt: skip
    windows: list[Window] = []
    counts = np.zeros((3, len(texts)), dtype=np.int64)
    digest, twice = hashlib.sha256(), 0
    first: tuple[int, ...] = ()
    for number, text in enumerate(texts):
        told = coder(text, return_offsets_mapping=True, return_attention_mask=False, verbose=False)
        ids = np.asarray(told["input_ids"], dtype=np.int64).reshape(-1)
        places = np.asarray(told["offset_mapping"], dtype=np.int64).reshape(-1, 2)
        if begin is not None and (not len(ids) or ids[0] not in (begin, coder.cls_token_id)):
            ids, places = np.insert(ids, 0, begin), np.insert(places, 0, 0, axis=0)
        first = first or tuple(int(one) for one in ids[:FIRST_SHOWN])
        twice += len(ids) > 1 and ids[0] == ids[1] == begin
        counts_here = ~np.isin(ids, around)
        # Nothing is said of the first token that is seen.
        counts_here[:1] = False
        # More tokens than one at the beginning come in addition, so that windows hold the same text without them.
        more = max(0, int(counts_here.argmax()) - 1)
        last = _last(places, counts_here, asked, more)
        ids, places, counts_here = ids[: last + 1], places[: last + 1], counts_here[: last + 1]
        windows += _windows(number, ids, counts_here, asked, more)
        digest.update(ids[counts_here].tobytes() + b"\0")
        counts[:, number] = _sizes(text, places, counts_here)
    return TextWindows(tuple(windows), counts[0], counts[1], counts[2], digest.hexdigest(), first, int(twice))


def _last(places: NDArray[np.int64], counts: NDArray[np.bool_], asked: Windows, more: int) -> int:
    """Index of the last token that is looked at; no character is cut in two."""
    most = len(places) - 1
    if asked.most is not None:
        most = min(most, more + asked.context + (asked.most - 1) * asked.stride)
    while most > 0 and most + 1 < len(places) and counts[most + 1] and places[most + 1, 0] < places[most, 1]:
        most -= 1
    return most


def _windows(text: int, ids: NDArray[np.int64], counts: NDArray[np.bool_], asked: Windows, more: int) -> list[Window]:
    """Windows over a text's tokens, each scored once; the first sees ``more`` tokens at its beginning."""
    found, done = [], 0
    for place in range(0, max(1, len(ids) - 1), asked.stride):
        start, end = place + more if place else 0, min(place + more + asked.context, len(ids) - 1)
        if end <= done:
            break
        scored = counts[start + 1 : end + 1].copy()
        scored[: done - start] = False
        if scored.any():
            found.append(Window(text, ids[start:end], ids[start + 1 : end + 1], scored))
        done = end
    return found


def _sizes(text: str, places: NDArray[np.int64], counts: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Tokens, bytes of the text that they stand for, and characters to the end of the last.

    White space that a tokenizer leaves out of the places of its tokens is theirs all the same: what counts is the text
    to the end of the last token, less what stands for tokens that are not scored.
    """
    if not counts.any():
        return 0, 0, 0
    end = int(places[counts, 1].max())
    size = len(text[:end].encode())
    for start, stop in places[~counts].tolist():
        size -= len(text[start : min(stop, end)].encode())
    return int(counts.sum()), size, end
