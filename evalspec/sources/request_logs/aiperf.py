"""``profile_export.jsonl`` of AIPerf.

Fields as in aiperf 0.13.0: `MetricRecordInfo` and `MetricRecordMetadata` of `aiperf/common/models/record_models.py`;
metrics by their tags in `aiperf/metrics/types`. It does not log why a server stopped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalspec.errors import InputError
from evalspec.sources.request_logs.request import Request, count, inside, number, parsed

MS_OF = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "sec": 1e3}
PROFILING = "profiling"


def read_aiperf(content: bytes, shown: str) -> list[Request]:
    """Requests of the phase that counts; those of the warm-up are left out.

    Raises:
        InputError: Not such a file.
    """
    lines = [line for line in content.split(b"\n") if line.strip()]
    records = [parsed(line, f"line {at:,} of {shown}") for at, line in enumerate(lines, 1)]
    return [
        _request(record, f"line {at:,} of {shown}")
        for at, record in enumerate(records, 1)
        if inside(record, "metadata", "benchmark_phase") != "warmup"
    ]


def _request(record: Any, what: str) -> Request:
    metadata, metrics = inside(record, "metadata"), inside(record, "metrics")
    if not isinstance(metadata, Mapping) or not isinstance(metrics, Mapping) or "request_start_ns" not in metadata:
        raise InputError(f"{what} is not a record of AIPerf: it has no metadata and metrics")
    sent, end, due = (
        number(metadata.get(name), f"{name} in {what}")
        for name in ("request_start_ns", "request_end_ns", "credit_issued_ns")
    )
    ttft, last = (_ms(metrics, tag, what) for tag in ("time_to_first_token", "request_latency"))
    tokens = tuple(
        one
        for tag in ("output_sequence_length", "usage_completion_tokens")
        for one in count(inside(metrics, tag, "value"), f"{tag} in {what}")
    )
    failed = None
    if metadata.get("was_cancelled"):
        failed = "cancelled"
    elif inside(record, "error") is not None:
        failed = "error"
    elif last is None or (tokens and min(tokens) == 0):
        failed = "empty"
    whole = None if sent is None or end is None or end < sent else (end - sent) / 1e6
    return Request(
        sent_s=None if sent is None else sent / 1e9,
        wait_ms=None if due is None or sent is None or due > sent else (sent - due) / 1e6,
        ttft_ms=ttft,
        last_ms=last,
        latency_ms=max((one for one in (last, whole) if one is not None), default=None),
        tokens=tokens,
        failed=failed,
    )


def _ms(metrics: Mapping[str, Any], tag: str, what: str) -> float | None:
    found = number(inside(metrics, tag, "value"), f"{tag} in {what}")
    unit = inside(metrics, tag, "unit")
    if found is None:
        return None
    if not isinstance(unit, str) or unit not in MS_OF:
        raise InputError(f"{tag} in {what} is in {str(unit)[:40]!r}, which is not a unit of time", choices=tuple(MS_OF))
    return found * MS_OF[unit]
