"""Reasons why an estimate has no bound."""

from __future__ import annotations

from evalspec.evidence.estimate import Estimate


def reasons(estimate: Estimate) -> tuple[str, ...]:
    """Reasons why an estimate has no bound, for the reader."""
    if not estimate.reason:
        return ()
    return (f"{'Queries were not counted' if estimate.by_processes else 'No upper bound'}: {estimate.reason}.",)
