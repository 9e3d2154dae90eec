"""Texts against references: exact matches, and the overlap of their words."""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normal(text: str, how: str = "none") -> str:
    """A text as exact matches are counted.

    Args:
        text: As it is.
        how: ``none``: but for white space at its ends and Unicode's form (NFC); ``squad``: in small letters, without
            ASCII punctuation and the words a, an, the, with single spaces.

    References:
        Rajpurkar, Zhang, Lopyrev and Liang (2016), SQuAD, EMNLP.
    """
    plain = unicodedata.normalize("NFC", text)
    if how == "none":
        return plain.strip()
    return " ".join(_ARTICLES.sub(" ", plain.lower().translate(_PUNCTUATION)).split())


def is_exact(text: str, references: Iterable[str], how: str = "none") -> bool:
    """The text is one of its references.

    Args:
        text: What was written.
        references: What might have been.
        how: As in `normal`.
    """
    return normal(text, how) in {normal(one, how) for one in references}


def overlap(text: str, reference: str) -> float:
    """F1 of the words of two texts, as SQuAD counts it, in 0..1; 1 where both have no words.

    Args:
        text: What was written.
        reference: What should have been.

    References:
        Rajpurkar, Zhang, Lopyrev and Liang (2016), SQuAD, EMNLP.
    """
    ours, theirs = normal(text, "squad").split(), normal(reference, "squad").split()
    if not ours or not theirs:
        return float(ours == theirs)
    same = (Counter(ours) & Counter(theirs)).total()
    return 2.0 * same / (len(ours) + len(theirs))
