"""Suspicions of screens that no requirement asks about, as the pages show them under the verdict."""

from __future__ import annotations

from evalspec.evidence.record import Record
from evalspec.evidence.screens import Suspicion

TITLE = "Also found"


def suspicions(record: Record) -> tuple[Suspicion, ...]:
    """All of them; none where no screen looked."""
    return () if record.screens is None else record.screens.suspicions
