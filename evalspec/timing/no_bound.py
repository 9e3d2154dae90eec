"""Why an estimate has no bound."""

from __future__ import annotations

from evalspec.evidence.estimate import Estimate


def reasons(estimate: Estimate) -> tuple[str, ...]:
    """Why an estimate has no bound, for the reader."""
    reason = getattr(estimate, "reason", None)
    if not reason:
        return ()
    return (
        f"{'Queries were not counted' if getattr(estimate, 'by_processes', False) else 'No upper bound'}: {reason}.",
    )
