"""Lag of our own load generator: how late it may be, and what is said where it was later."""

from __future__ import annotations

from evalspec.evidence.reasons import BySurroundings, Cause
from evalspec.evidence.units import format_number

LAG_MS = 1.0
LAG_SHARE = 0.01
"""Share of the threshold by which a generator may be late, or 1 ms, whichever is more."""


def allowed_ms(limit_ms: float | None) -> float:
    """Longest lag that is allowed the generator, ms.

    Args:
        limit_ms: The latency that is required, or None.
    """
    return max(LAG_MS, LAG_SHARE * (limit_ms or 0.0))


def bottleneck(what: str, share: float, late_ms: float, most_ms: float) -> BySurroundings:
    """Reason why a share of queries or frames that was sent late voids: the generator's fault.

    Args:
        what: ``queries`` or ``frames``.
        share: Of them, as a fraction.
        late_ms: They were later than this.
        most_ms: Allowed.
    """
    return BySurroundings(
        f"the load generator was the bottleneck: {100.0 * share:.4g} % of {what} were sent more than "
        f"{format_number(late_ms)} ms late (at most {format_number(most_ms)} ms), which is not the system's doing",
        Cause.LOAD_GENERATOR,
    )
