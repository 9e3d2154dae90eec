"""Perplexity and other sums over documents by sums over documents, alone and beside another model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evalspec.evidence.estimate import Comparison, Estimate, Side
from evalspec.stats.means.bounded import Limits
from evalspec.stats.means.mean import ratio_of_sums
from evalspec.stats.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Exponential(Estimate):
    """The exponential of an estimate, times ``scale`` plus ``shift``: perplexity of nats a token.

    It is tested where it is held: exp(m) <= K where m <= ln K, so that nothing is approximated.

    Args:
        exponent: What it is the exponential of.
        scale: Positive.
        shift: Added last.
    """

    exponent: Estimate
    scale: float = 1.0
    shift: float = 0.0

    @property
    def value(self) -> float | None:
        """The exponential of the exponent's value."""
        return self._of(self.exponent.value)

    @property
    def n(self) -> int:
        """As of the exponent."""
        return self.exponent.n

    @property
    def method(self) -> str:
        """Method of the exponent's bounds."""
        return self.exponent.method

    def bound(self, confidence: float, side: Side) -> float | None:
        """The exponential of the exponent's bound."""
        return self._of(self.exponent.bound(confidence, side))

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Of the exponent, at the logarithm of the threshold; one that no exponential reaches is always cleared."""
        at = self._logarithm(threshold)
        if at is not None:
            return self.exponent.p_value(at, side)
        known = self.exponent.p_value(0.0, side) is not None
        return (0.0 if side == "lower" else 1.0) if known else None

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Of the exponent, at the logarithm of the threshold."""
        at = self._logarithm(threshold)
        return None if at is None else self.exponent.n_to_decide(at, alpha)

    def _of(self, exponent: float | None) -> float | None:
        # Beyond what a float holds there is no number to print.
        return None if exponent is None or exponent > 700.0 else self.scale * math.exp(exponent) + self.shift

    def _logarithm(self, threshold: float) -> float | None:
        ratio = (threshold - self.shift) / self.scale
        return math.log(ratio) if ratio > 0.0 else None


@dataclass(frozen=True, eq=False)
class PairedPerplexity(Comparison):
    """Perplexities of two models on the same tokens, held as a ratio.

    Args:
        candidate: shape (n,), nats of each document.
        baseline: shape (n,), likewise.
        tokens: shape (n,), the same for both.
        clusters: shape (n,), or None.
    """

    candidate: FloatArray
    baseline: FloatArray
    tokens: FloatArray
    clusters: IntArray | None = None
    same_candidate = True

    @property
    def candidate_value(self) -> float | None:
        """The candidate's perplexity."""
        return perplexity(self.candidate, self.tokens).value

    @property
    def baseline_value(self) -> float | None:
        """The baseline's perplexity."""
        return perplexity(self.baseline, self.tokens).value

    def difference(self, factor: float, margin: float) -> Estimate:
        """Estimate of candidate - factor x baseline, which is decided at 0 alone: there it asks for the ratio's sign.

        Elsewhere its bounds take the baseline's perplexity as it is.
        """
        own = self.baseline_value
        scale = 1.0 if own is None else own
        return Exponential(self._log_ratio(), scale, -factor * scale)

    def ratio(self) -> Estimate:
        """Estimate of candidate / baseline: the mean of the difference in nats, by token."""
        return Exponential(self._log_ratio())

    def _log_ratio(self) -> Estimate:
        return ratio_of_sums(self.candidate - self.baseline, self.tokens, clusters=self.clusters)


@dataclass(frozen=True, eq=False)
class PairedSums(Comparison):
    """Sums of two models on the same documents, by the same sizes: bits by bytes, right tokens by tokens.

    Args:
        candidate: shape (n,), of each document.
        baseline: shape (n,), likewise.
        sizes: shape (n,), positive.
        clusters: shape (n,), or None.
        limits: The smallest and the largest value by size; None: not known.
    """

    candidate: FloatArray
    baseline: FloatArray
    sizes: FloatArray
    clusters: IntArray | None = None
    limits: Limits | None = None
    same_candidate = True

    @property
    def candidate_value(self) -> float | None:
        """The candidate's sum by size."""
        return ratio_of_sums(self.candidate, self.sizes).value

    @property
    def baseline_value(self) -> float | None:
        """The baseline's sum by size."""
        return ratio_of_sums(self.baseline, self.sizes).value

    def difference(self, factor: float = 1.0, margin: float = 0.0) -> Estimate:
        """Estimate of candidate - factor x baseline; ``margin`` is not needed."""
        limits = None
        if self.limits is not None:
            low, high = self.limits
            limits = (low - factor * high, high - factor * low)
        change = self.candidate - factor * self.baseline
        return ratio_of_sums(change, self.sizes, clusters=self.clusters, limits=limits)

    def ratio(self) -> Estimate | None:
        """Estimate of candidate / baseline; None where a document of the baseline has 0."""
        if not len(self.baseline) or not float(self.baseline.min()) > 0.0:
            return None
        return ratio_of_sums(self.candidate, self.baseline, clusters=self.clusters)


def perplexity(nll: FloatArray, tokens: FloatArray, *, clusters: IntArray | None = None) -> Estimate:
    """The exponential of nats a token, over documents.

    Args:
        nll: shape (n,), nats of each document.
        tokens: shape (n,), positive.
        clusters: shape (n,), cluster of each document, or None.

    Returns:
        The estimate; its bounds are those of `ratio_of_sums`.

    Raises:
        InputError: As `ratio_of_sums`.
    """
    return Exponential(ratio_of_sums(nll, tokens, clusters=clusters))
