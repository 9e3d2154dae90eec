"""``benchmarks.json`` of GuideLLM.

Fields as in guidellm 0.8.1: `GenerativeBenchmarksReport` of `guidellm/benchmark/schemas/report.py`,
`GenerativeRequestStats` and `RequestTimings` of `guidellm/schemas/base`, times in seconds. It does not log why a server
stopped.
"""

from __future__ import annotations

from typing import Any

from evalspec.errors import InputError
from evalspec.sources.request_logs.request import Request, after, count, inside, number, parsed

STATUSES = {"successful": None, "errored": "error", "incomplete": "cut off"}
PACED = ("constant", "poisson", "trace")
"""Strategies of which `targeted_start` is a schedule; others target as soon as they can."""


def read_guidellm(content: bytes, shown: str, benchmark: int | None) -> list[Request]:
    """Requests of one benchmark of a report.

    Args:
        content: The report.
        shown: Its name, for sentences.
        benchmark: Which one, counted from 0; None: there is only one.

    Raises:
        InputError: Not such a file, several benchmarks, or only a sample of the requests.
    """
    every = inside(parsed(content, shown), "benchmarks")
    if not isinstance(every, list) or not every:
        raise InputError(f"{shown} has no benchmarks, so it is not a report of GuideLLM")
    named = [f"{at} ({inside(one, 'config', 'strategy', 'type_')})" for at, one in enumerate(every)]
    if benchmark is None and len(every) > 1:
        raise InputError(
            f"{shown} has {len(every)} benchmarks, each at a different load", choices=named, remedy="add `benchmark: 0`"
        )
    if benchmark is not None and benchmark >= len(every):
        raise InputError(f"{shown} has no benchmark {benchmark}", choices=named)
    one = every[benchmark or 0]
    paced = inside(one, "config", "strategy", "type_") in PACED
    found = []
    for status in STATUSES:
        listed = inside(one, "requests", status)
        total = inside(one, "metrics", "request_totals", status)
        if not isinstance(listed, list):
            raise InputError(f"{shown} has no list of requests that are {status}")
        if isinstance(total, int) and total != len(listed):
            raise InputError(
                f"{shown} lists {len(listed):,} of {total:,} requests that are {status}: the others are unknown",
                remedy="run GuideLLM without a sample size",
            )
        found += [
            _request(entry, status, f"request {at:,} of {shown} ({status})", paced=paced)
            for at, entry in enumerate(listed)
            if status != "incomplete" or _sent(entry) is not None
        ]
    return found


def _request(entry: Any, status: str, what: str, *, paced: bool) -> Request:
    timings = inside(entry, "info", "timings")
    sent = number(_sent(entry), f"request_start in {what}")
    due, first, last, end = (
        number(inside(timings, name), f"{name} in {what}")
        for name in ("targeted_start", "first_token_iteration", "last_token_iteration", "request_end")
    )
    if status == "successful" and (inside(timings, "request_start") is None or end is None):
        raise InputError(f"{what} has no request_start and request_end")
    tokens = count(inside(entry, "output_tokens"), f"output_tokens in {what}")
    failed = STATUSES[status]
    if failed is None and (sum(tokens) == 0 or not (inside(entry, "output") or _other(entry))):
        failed = "empty"
    return Request(
        sent_s=sent,
        wait_ms=after(due, max(due, sent), what) if paced and due is not None and sent is not None else None,
        ttft_ms=after(sent, first, what),
        last_ms=after(sent, last, what),
        latency_ms=after(sent, end, what),
        tokens=tokens,
        failed=failed,
    )


def _sent(entry: Any) -> Any:
    """Time at which it was sent, or handed to the client that failed to; one that still waited at the end has none."""
    timings = inside(entry, "info", "timings")
    started = inside(timings, "request_start")
    return inside(timings, "resolve_start") if started is None else started


def _other(entry: Any) -> bool:
    return bool(inside(entry, "reasoning_output") or inside(entry, "tool_calls"))
