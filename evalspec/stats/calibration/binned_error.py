"""Calibration errors over bins: their rows, the effect of clusters, and bounds by inversion of their test."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

from evalspec.evidence.estimate import Estimate, Side
from evalspec.stats.calibration.bins import Bins
from evalspec.stats.calibration.gap import GapDesign, why_unbounded
from evalspec.stats.invert import Falling, bound_not_beyond, lower_bound, p_not_beyond, upper_of_largest


class BinnedError(Estimate):
    """A calibration error in 0..1 over bins, with p-values of its own."""

    bins: Bins
    design: GapDesign

    @property
    def n(self) -> int:
        """Rows."""
        return self.bins.n

    @property
    def design_effect(self) -> float:
        """Design effect of the gap between confidence and accuracy; 1 without clusters."""
        return self.design.effect

    @property
    def reason(self) -> str | None:
        """Reason why there is no bound, or None."""
        return why_unbounded(self.n, self.design)

    @cached_property
    @abstractmethod
    def _within(self) -> Sequence[Falling]:
        """p-values that it lies within a threshold, of which the largest counts."""

    @abstractmethod
    def _beyond(self, threshold: float) -> float:
        """The p-value that it lies beyond a threshold."""

    @cached_property
    def _mirrored(self) -> Falling:
        """The p-value that it lies beyond a threshold, at that threshold times -1."""
        return Falling(lambda mirrored: self._p(-mirrored, "lower"))

    def _p(self, threshold: float, side: Side) -> float:
        if threshold < 0 or threshold > 1:
            return 0.0 if (threshold < 0) == (side == "lower") else 1.0
        return max(within(threshold) for within in self._within) if side == "upper" else self._beyond(threshold)


class DebiasedError(BinnedError):
    """One whose value is less than its plug-in value: neither its bounds nor its p-values contradict the value."""

    def bound(self, confidence: float, side: Side) -> float | None:
        """One-sided bound in 0..1."""
        if self.reason or self.value is None:
            return None
        if side == "lower" and confidence > 0.5 and self._p(0.0, "lower") > 1.0 - confidence:
            return 0.0
        if side == "upper":
            bound = upper_of_largest(self._within, confidence, self.value, (0.0, 1.0))
        else:
            bound = lower_bound(self._mirrored, confidence, self.value, (0.0, 1.0))
        return bound_not_beyond(bound, self.value, confidence, side)

    def p_value(self, threshold: float, side: Side) -> float | None:
        """PASS side by inversion at the least favourable spread of the error; FAIL side by the larger of two tests."""
        return None if self.reason else p_not_beyond(self._p(threshold, side), self.value, threshold, side)
