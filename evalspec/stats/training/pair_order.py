"""Order in which runs of pairs are made."""

from __future__ import annotations


def pair_order(pairs: int) -> list[tuple[int, bool]]:
    """Order in which runs of pairs are made, A B B A, so that a drift of the machine favours neither side.

    Args:
        pairs: Number of pairs.

    Returns:
        Number of the pair, and True for the first of it.
    """
    return [(number, (number + turn) % 2 == 0) for number in range(pairs) for turn in (0, 1)]
