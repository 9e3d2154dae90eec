"""Two models asked by turns, so that neither always comes first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Found = TypeVar("Found")


def by_turns(
    ask: Callable[[str, int], Sequence[Found]], models: tuple[str, str], rounds: int
) -> tuple[list[Found], list[Found]]:
    """Ask both in every round; the other one first in every second round.

    Args:
        ask: (model, round) to what it found.
        models: The candidate and the other.
        rounds: How many.

    Returns:
        Of the candidate and of the other; where a round of one brought nothing, that round is left out of both.
    """
    sides: tuple[list[Found], list[Found]] = ([], [])
    for index in range(rounds):
        made: dict[int, Sequence[Found]] = {}
        for side in (0, 1) if index % 2 == 0 else (1, 0):
            made[side] = ask(models[side], index)
        if made[0] and made[1]:
            sides[0].append(made[0][0])
            sides[1].append(made[1][0])
    return sides
