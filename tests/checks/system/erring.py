"""How often a simulation may err."""

from __future__ import annotations


def most_wrong(runs: int, level: float = 0.05) -> int:
    """Wrong claims that a method of this level exceeds once in 1,000 simulations.

    Args:
        runs: Samples that were drawn.
        level: Of each claim.
    """
    from scipy.stats import binom

    return int(binom.isf(1e-3, runs, level))
