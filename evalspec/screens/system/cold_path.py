"""A first query that takes very much longer than those that are timed, which come after a warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from evalspec.screens.answers import fields_of
from evalspec.screens.evidence import Look
from evalspec.screens.timings import limits_ms, own_samples

if TYPE_CHECKING:
    from evalspec.evidence.screens import Suspicion
    from evalspec.screens.evidence import Evidence

PROCESSES = 3
LEAST_MS = 1_000.0
TIMES = 20.0
"""Beyond the limit of the latency: a first query always takes longer than those after it."""
ASKED = ("first_inference", "ready_time", "time_to_healthy", "first_token")


def look(evidence: Evidence) -> Look:
    """First queries of the fresh processes of every check with a limit to its latency; all of it are facts."""
    suspicions: dict[str, Suspicion] = {}
    for check in evidence.checks:
        limits = [limit for _, limit in limits_ms(check)]
        if not limits or check.model in suspicions:
            continue
        if any(evidence.asks(metric, model=check.model) for metric in ASKED):
            continue
        samples = own_samples(evidence, check)
        known = [v for one in samples if isinstance(v := one.details.get("warmup_first_ms"), int | float)]
        first = [v for v in known if np.isfinite(v)]
        if len(first) < PROCESSES or min(first) < max(LEAST_MS, TIMES * max(limits)):
            continue
        middle = float(np.median(first))
        sentence = (
            f"the first query to a fresh process of {check.model} takes {middle / 1e3:.2g} s, and {check.name} limits "
            f"those after the warm-up to {max(limits):.3g} ms"
        )
        suggestion = ""
        if all(one.details.get("in_process") for one in samples):
            fields = fields_of(getattr(check, "dataset", ""), check.model)
            suggestion = evidence.requirement("system", "cold_start", "first_inference <= 1000 ms", fields)
        elif getattr(evidence.model(check.model), "start", ()) and all(one.streams is not None for one in samples):
            # The first answer of a server that was started again is waited for as well.
            fields = {"dataset": getattr(check, "dataset", ""), "model": check.model}
            suggestion = evidence.requirement("system", "recovery", "first_token <= 10 s", fields)
        else:
            sentence += ": send it one before it gets traffic, which no requirement here can see"
        suspicions[check.model] = evidence.suspicion(check.model, sentence, suggestion)
    return Look(tuple(suspicions.values()))
