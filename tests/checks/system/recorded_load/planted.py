"""Planted defects of `recorded_load`, each with its clean twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.checks.system.recorded_load.spec import RecordedLoad
from evalspec.sources.request_logs.request import Request, table_of
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs

LIMITS = {
    "ttft_p95": "ttft_p95 <= 500 ms",
    "tpot_p95": "tpot_p95 <= 40 ms",
    "latency_p95": "latency_p95 <= 4 s",
    "error_rate": "error_rate <= 2 %",
    "output_rate": "output_rate >= 60 tokens/s",
}


def log(
    n: int = 2000,
    *,
    ttft_ms: float = 200.0,
    tpot_ms: float = 20.0,
    wait_ms: float | None = 1.0,
    tokens: int = 50,
    said: float = 1.0,
    lost: float = 0.0,
    cut: bool = True,
    sent: bool = True,
    finish: str | None = "stop",
    every_s: float = 0.5,
    seed: int = 4,
) -> pa.Table:
    """A log of independent requests, one each ``every_s``.

    Args:
        n: Requests.
        ttft_ms, tpot_ms: Their medians; lognormal, by 15 %.
        wait_ms: How long after it was due each was sent; None: not logged.
        tokens: Of each answer.
        said: Times as many by the second count.
        lost: Share of requests that end after three tokens.
        cut: The log shows it of them.
        sent: When requests were sent is logged.
        finish: Why the server stopped.
        every_s: Time from one to the next.
        seed: Of everything drawn.
    """
    rng = np.random.default_rng(seed)
    first = ttft_ms * np.exp(0.15 * rng.standard_normal(n))
    each = tpot_ms * np.exp(0.15 * rng.standard_normal(n))
    broken = rng.random(n) < lost
    counts = np.where(broken, 3, tokens)
    last = first + each * (counts - 1)
    rows: list[dict[str, Any]] = [
        {"sent_s": at * every_s if sent else None, "wait_ms": wait_ms, "ttft_ms": float(first[at]),
         "last_ms": float(last[at]), "latency_ms": float(last[at]) + 1.0,
         "tokens": (int(counts[at]), round(said * int(counts[at]))),
         "finish_reason": None if broken[at] else finish, "failed": "cut off" if broken[at] and cut else None}
        for at in range(n)
    ]  # fmt: skip
    return table_of([Request(**row) for row in rows], "the log") if rows else log(1).slice(1)


def case(folder: Path, metric: str, table: pa.Table) -> Case:
    """A check with one requirement."""
    check = RecordedLoad.model_validate({"check": "recorded_load", "dataset": "log", "require": [LIMITS[metric]]})
    return FakeInputs(evidence=folder, tables={"log": table}), check


def planted(metric: str, what: str, **defect: Any) -> Planted:
    """A defect, given as fields of `log`."""
    return Planted(
        "recorded_load",
        metric,
        LIMITS[metric],
        lambda folder: case(folder, metric, log()),
        lambda folder: case(folder, metric, log(**defect)),
        lambda folder, n: case(folder, metric, log(n)),
        what,
    )


PLANTED = (
    planted("ttft_p95", "the first word comes after 800 ms", ttft_ms=800.0),
    planted("ttft_p95", "streams that broke after three tokens, 10 % of them", lost=0.1),
    planted("ttft_p95", "requests that waited in the client for 600 ms", wait_ms=600.0),
    planted("tpot_p95", "a token takes 60 ms", tpot_ms=60.0),
    planted("latency_p95", "four times as many tokens", tokens=400),
    planted("error_rate", "10 % of streams broke", lost=0.1),
    planted("output_rate", "one request in a second", every_s=1.0),
)
