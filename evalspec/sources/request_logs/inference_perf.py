"""``per_request_lifecycle_metrics.json`` of inference-perf.

Fields as at 7de5ef2 of kubernetes-sigs/inference-perf: the dict in `inference_perf/reportgen/base.py`, `InferenceInfo`
and `StreamedResponseMetrics` of `inference_perf/apis/base.py`, times in seconds of one clock. The whole stream stands
in `response`, so that an error in it and a missing end are seen here, which it takes for answered itself. When a
request was due, and of which stage it is, it does not log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evalspec.errors import InputError
from evalspec.sources.request_logs.request import Request, after, count, inside, number, parsed

EVENT = "data:"
END = "[DONE]"


def read_inference_perf(content: bytes, shown: str) -> list[Request]:
    """All requests, of all stages.

    Raises:
        InputError: Not such a file.
    """
    entries = parsed(content, shown)
    if not isinstance(entries, list):
        raise InputError(f"{shown} holds no list of requests, so it is not a report of inference-perf by request")
    return [_request(entry, f"request {at:,} of {shown}") for at, entry in enumerate(entries)]


def _request(entry: Any, what: str) -> Request:
    sent, end = (number(inside(entry, name), f"{name} in {what}") for name in ("start_time", "end_time"))
    if sent is None or end is None or end < sent:
        raise InputError(f"{what} has no start_time with an end_time after it")
    metrics = inside(entry, "info", "response_metrics")
    times = inside(metrics, "output_token_times") or inside(metrics, "chunk_times") or []
    if not isinstance(times, list):
        raise InputError(f"output_token_times in {what} is not a list")
    seen = [number(one, f"output_token_times in {what}") for one in times]
    tokens = (
        *count(inside(metrics, "output_tokens"), f"output_tokens in {what}"),
        *count(inside(metrics, "server_usage", "completion_tokens"), f"server_usage in {what}"),
    )
    streamed = inside(entry, "response")
    reason, failed = _end(streamed) if isinstance(streamed, str) and EVENT in streamed else (None, None)
    if inside(entry, "error") is not None:
        failed = "error"
    elif failed is None and (sum(tokens) == 0 or metrics is None):
        failed = "empty"
    return Request(
        sent_s=sent,
        ttft_ms=after(sent, seen[0], what) if seen else None,
        last_ms=after(sent, seen[-1], what) if seen else None,
        latency_ms=after(sent, end, what),
        tokens=tokens,
        finish_reason=reason,
        failed=failed,
    )


def _end(stream: str) -> tuple[str | None, str | None]:
    """Reason for which a stream of events ended, and how it failed: an error in it, or no such reason."""
    reason = None
    for event in _events(stream):
        if inside(event, "error") is not None:
            return reason, "error"
        choices = inside(event, "choices")
        stopped = inside(choices[0], "finish_reason") if isinstance(choices, list) and choices else None
        stopped = stopped or inside(event, "delta", "stop_reason")
        reason = str(stopped) if stopped else reason
    return reason, None if reason is not None else "cut off"


def _events(stream: str) -> Iterator[Any]:
    for line in stream.splitlines():
        text = line.removeprefix(EVENT).strip()
        if line.startswith(EVENT) and text != END:
            try:
                yield parsed(text, "an event")
            except InputError:
                # What is cut in the middle of an event has no end either.
                continue
