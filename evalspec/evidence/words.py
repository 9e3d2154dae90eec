"""Wording of what a record holds: digests and lists in sentences."""

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


def or_list(words: Sequence[str]) -> str:
    """``a``, ``a or b``, ``a, b or c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """``1 row``, ``1,200 rows``; ``nouns`` where the plural is not made with an s."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def in_percent(share: float, decimals: int | None = None) -> str:
    """``95 %``, ``99.9 %``: four digits, or so many decimals."""
    return f"{100.0 * share:.4g} %" if decimals is None else f"{100.0 * share:.{decimals}f} %"


def verb(count: int, one: str, many: str) -> str:
    """Verb for so many: ``has`` of one, ``have`` of more."""
    return one if count == 1 else many


def first_of(names: Sequence[str], total: int | None = None, most: int = 2) -> str:
    """The first of some names: ``a``, ``a and b``, ``a, b and 3 more``; nothing of none.

    Args:
        names: The first of them at least.
        total: How many there are; None: these.
        most: So many are named.
    """
    shown = list(names[:most])
    more = (len(names) if total is None else total) - len(shown)
    return and_list([*shown, f"{more:,} more"] if more > 0 else shown) if shown else ""


def duration(seconds: float) -> str:
    """Seconds, or minutes from two on."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
