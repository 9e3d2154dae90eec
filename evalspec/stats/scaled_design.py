"""Planned measurements of an AUC and of an F1, whose errors change with the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from evalspec.errors import InputError
from evalspec.evidence.estimate import Side
from evalspec.stats.means.auc import FEWEST_WRONG, logit
from evalspec.stats.power import ProportionDesign
from evalspec.stats.recorded import recorded_proportion

NOISE = 1.1
"""Factor on the recorded standard error, which is that of one sample."""
WIDER = 2.0
"""Times the rows that Gaffke's bound tells: it is wider than DeLong's."""
FEW_WRONG = 1.5
"""Times as many wrong rows as DeLong needs, from which on nearly all samples have so many."""


@dataclass(frozen=True, slots=True)
class AreaDesign:
    """An AUC, by Wald's test on the logit, its variance that of exponential scores with the same area.

    Args:
        value: The recorded AUC, inside 0..1.
        lower_error: Standard error of its logit, by its lower bound.
        upper_error: The same by its upper bound.
        rows: Of the smaller class, about.
        few: As many as give a share the recorded bound, where that is one of few wrong rows; else the same.

    References:
        Hanley and McNeil (1982), Radiology 143.
    """

    value: float
    lower_error: float
    upper_error: float
    rows: float
    few: float

    @property
    def assumed(self) -> str:
        """Standard error, and where it comes from."""
        error = max(self.lower_error, self.upper_error) * self.value * (1.0 - self.value)
        return f"standard error {error:.3g} at {self.value:.4g} (from the last record), on the logit"

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that Wald's test is significant; where few pairs are wrong, that of a share of as many rows."""
        if not 0.0 < threshold < 1.0:
            return 0.0
        inside = min(max(truth, 1e-9), 1.0 - 1e-9)
        wrong = FEW_WRONG * FEWEST_WRONG / self.rows
        if wrong <= inside <= 1.0 - wrong:
            return self._wald(inside, threshold, side, alpha)
        as_share = ProportionDesign(max(1, math.floor(self.few))).power(truth, threshold, side, alpha)
        # Further from the threshold a PASS is no rarer.
        nearer = 1.0 - wrong
        return max(as_share, self._wald(nearer, threshold, side, alpha) if threshold < nearer < inside else 0.0)

    def _wald(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Chance that Wald's test on the logit is significant."""
        from scipy.special import ndtr, ndtri

        own = NOISE * (self.lower_error if side == "lower" else self.upper_error)
        rows = self.rows if side == "lower" else self.few
        # A record close to 1 tells little of the error further off; so many rows have that of exponential scores.
        of_rows = math.sqrt(NOISE * _placed(truth) / rows) / (truth * (1.0 - truth))
        error = max(own * _logit_spread(truth) / _logit_spread(self.value), of_rows)
        distance = (logit(truth) - logit(threshold)) * (1.0 if side == "lower" else -1.0)
        return float(ndtr(distance / error + float(ndtri(alpha))))


@dataclass(frozen=True, slots=True)
class F1Design:
    """An F1 of one class, through the share J of hits among the rows that are of it or called so: 2 J / (1 + J).

    Args:
        value: The recorded F1.
        share: The measurement of J then.
    """

    value: float
    share: ProportionDesign

    @property
    def assumed(self) -> str:
        """Assumptions of the share's design, in words."""
        return f"{self.share.assumed}, as many rows of the class as then"

    @property
    def limits(self) -> tuple[float, float]:
        """0..1."""
        return (0.0, 1.0)

    def power(self, truth: float, threshold: float, side: Side, alpha: float) -> float:
        """Power as for the share, of a standard error fewer rows: rows of or called the class are not planned."""
        n = self.share.n * (2.0 - truth) / (2.0 - self.value)
        planned = replace(self.share, n=max(1, math.floor(n - math.sqrt(n))))
        return planned.power(_share_of_f1(truth), _share_of_f1(threshold), side, alpha)


def recorded_area(
    value: float, lower: float | None, upper: float | None, confidence: float, n: int
) -> AreaDesign | None:
    """A design from an AUC and its one-sided bounds in an earlier record; None where these tell no standard error.

    Args:
        value: The recorded AUC.
        lower: Its lower bound.
        upper: Its upper bound.
        confidence: Of either.
        n: Rows of both classes.

    Raises:
        InputError: The confidence can't be.
    """
    from scipy.special import ndtri

    if not 0.5 < confidence < 1.0:
        raise InputError(f"no design from a bound at {confidence:g}")
    z = float(ndtri(confidence))
    inside = [bound for bound in (lower, upper) if bound is not None and 0.0 < bound < 1.0 and bound != value]
    if not 0.0 < value < 1.0 or not inside:
        return None
    errors = [abs(logit(value) - logit(bound)) / z for bound in inside]
    # As many as give a share this bound, where the record's own bound was that of few wrong rows.
    as_share = recorded_proportion(value, inside[0], confidence, n)
    few, wrong = as_share.n / as_share.design_effect, min(value, 1.0 - value)
    if wrong * few >= FEWEST_WRONG:
        few = _rows(value, errors[0])
    if math.isclose(errors[0], errors[-1], rel_tol=1e-3):
        return AreaDesign(value, errors[0], errors[-1], few, few)
    # Only Gaffke's bounds are uneven on the logit: wide where more rows are wrong, and further off enough of them are.
    rows = min(WIDER * few, max(few, _rows(value, min(errors))), max(few, FEWEST_WRONG / wrong))
    return AreaDesign(value, min(errors), errors[-1], rows, few)


def recorded_f1(value: float, bound: float, confidence: float, n: int) -> F1Design:
    """A design from an F1 and one of its bounds in an earlier record.

    Args:
        value: The recorded F1.
        bound: Its bound.
        confidence: Of the bound.
        n: Rows of or called the class.
    """
    return F1Design(value, recorded_proportion(_share_of_f1(value), _share_of_f1(bound), confidence, n))


def _rows(area: float, error: float) -> float:
    """Rows of the smaller class that give exponential scores this standard error of the logit."""
    return _placed(area) / (NOISE * error * area * (1.0 - area)) ** 2


def _placed(area: float) -> float:
    """Variance of the placement of a positive row."""
    return 2.0 * area**2 / (1.0 + area) - area**2


def _logit_spread(area: float) -> float:
    """Standard deviation of the logit of an AUC, up to a factor."""
    variance = area / (2.0 - area) - area**2 + _placed(area)
    return math.sqrt(variance) / (area * (1.0 - area))


def _share_of_f1(score: float) -> float:
    return score / (2.0 - score)
