"""What a record holds as it stands in sentences: digests and lists."""

from __future__ import annotations

from collections.abc import Sequence


def plain_digest(digest: str) -> str:
    """A digest without the name of its algorithm."""
    return digest.rpartition(":")[2]


def short_digest(digest: str | None) -> str:
    """The first twelve digits of a digest, without its algorithm."""
    return plain_digest(digest)[:12] if digest else "not shown"


def and_list(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
