"""Timings of a run as screens look at them, and the limits that the spec sets to them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evalspec.language.units import convert

if TYPE_CHECKING:
    from evalspec.language.inputs import Samples
    from evalspec.language.parts import Check
    from evalspec.screens.evidence import Evidence

_PERCENTILE = re.compile(r"latency_p(\d+)(?:_(\d+))?")


def own_samples(evidence: Evidence, check: Check) -> list[Samples]:
    """Every process of the check's own model."""
    return [one for one in evidence.samples(check.name) if one.model == check.model]


def limits_ms(check: Check) -> Iterator[tuple[float, float]]:
    """(percentile as a share, limit) of the latencies that a check requires."""
    for one in check.requirements:
        match = _PERCENTILE.fullmatch(one.metric)
        if match and one.upper and one.model is None:
            yield float(f"{match[1]}.{match[2] or 0}") / 100.0, convert(one.threshold, one.unit, "ms")
