"""Several samples of one question: the chance that one of k is right, and that all of k are."""

from __future__ import annotations

import numpy as np

from evalspec.stats.types import FloatArray, IntArray


def pass_at(right: IntArray, samples: IntArray, k: int) -> FloatArray:
    """Chance that one of k samples of a question is right, without bias: 1 - C(n - c, k) / C(n, k).

    Args:
        right: shape (q,), samples of each question that are right.
        samples: shape (q,), samples of each question, k at least.
        k: So many are drawn, without putting back.

    Returns:
        shape (q,), in 0..1.

    References:
        Chen et al. (2021), Evaluating large language models trained on code, arXiv 2107.03374.
    """
    return 1.0 - _none_other(samples - right, samples, k)


def pass_all(right: IntArray, samples: IntArray, k: int) -> FloatArray:
    """Chance that all of k samples of a question are right, without bias: C(c, k) / C(n, k).

    Args:
        right: shape (q,), samples of each question that are right.
        samples: shape (q,), samples of each question, k at least.
        k: So many are drawn, without putting back.

    Returns:
        shape (q,), in 0..1.

    References:
        Yao et al. (2024), tau-bench, arXiv 2406.12045 (pass^k).
    """
    return _none_other(right, samples, k)


def _none_other(some: IntArray, all_: IntArray, k: int) -> FloatArray:
    """C(some, k) / C(all, k), shape (q,)."""
    from scipy.special import gammaln

    enough = some >= k
    few = np.where(enough, some, k)
    logarithm = gammaln(few + 1) - gammaln(few - k + 1) - gammaln(all_ + 1) + gammaln(all_ - k + 1)
    return np.asarray(np.where(enough, np.minimum(1.0, np.exp(logarithm)), 0.0))
