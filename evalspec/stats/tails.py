"""Tails of a binomial whose trials depend on each other."""

from __future__ import annotations


def at_most(t: int, n: int, q: float, effect: float) -> float:
    """P(X <= t) for a binomial X of n at q; t and n divided by the design effect."""
    from scipy.special import betainc

    return 1.0 if t >= n else float(betainc((n - t) / effect, t / effect + 1.0, 1.0 - q))


def at_least(t: int, n: int, q: float, effect: float) -> float:
    """P(X >= t) for a binomial X of n at q; t and n divided by the design effect."""
    from scipy.special import betainc

    return 1.0 if t <= 0 else float(betainc(t / effect, (n - t) / effect + 1.0, q))
