"""Tails of a binomial whose trials depend on each other, and of a statistic whose variance may be an estimate."""

from __future__ import annotations


def at_most(t: int, n: int, q: float, effect: float) -> float:
    """P(X <= t) for a binomial X of n at q; t and n divided by the design effect."""
    from scipy.special import betainc

    return 1.0 if t >= n else float(betainc((n - t) / effect, t / effect + 1.0, 1.0 - q))


def at_least(t: int, n: int, q: float, effect: float) -> float:
    """P(X >= t) for a binomial X of n at q; t and n divided by the design effect."""
    from scipy.special import betainc

    return 1.0 if t <= 0 else float(betainc(t / effect, (n - t) / effect + 1.0, q))


def upper_tail(z: float, degrees: float | None) -> float:
    """Upper tail of the normal distribution, or of t where variances come from clusters."""
    from scipy.special import ndtr, stdtr

    return float(ndtr(-z)) if degrees is None else float(stdtr(degrees, -z))
