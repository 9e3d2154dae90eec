"""Holm's step-down procedure over a family that is fixed before the run."""

from __future__ import annotations

from collections.abc import Mapping


def holm(p_values: Mapping[str, float | None], alpha: float) -> frozenset[str]:
    """Names whose hypothesis is rejected at family-wise level ``alpha``.

    Args:
        p_values: Name: p-value; None where there is no evidence, which counts as 1.
        alpha: Family-wise level.

    References:
        Holm, S. (1979). A simple sequentially rejective multiple test procedure. Scand. J. Statist. 6, 65-70.
    """
    ordered = sorted(((1.0 if p is None else p), name) for name, p in p_values.items())
    rejected: set[str] = set()
    for index, (p, name) in enumerate(ordered):
        if p > alpha / (len(ordered) - index):
            break
        rejected.add(name)
    return frozenset(rejected)
