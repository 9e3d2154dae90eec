"""One request as a log tells it, and what all formats share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from evalspec.errors import InputError
from evalspec.evidence.frozen import is_number

LOST = {
    "error": "an error",
    "cancelled": "cancelled",
    "cut off": "no finish reason, or cut off by the end of the run",
    "empty": "nothing in the answer",
}
"""Reasons for which a request failed, as the column `failed` has them."""
MOST = 1e25
"""Of any number in a log: nanoseconds since 1970 have 19 digits."""
MOST_TOKENS = 2**40
COLUMNS: dict[str, pa.DataType] = {
    "sent_s": pa.float64(),
    "wait_ms": pa.float64(),
    "ttft_ms": pa.float64(),
    "tpot_ms": pa.float64(),
    "latency_ms": pa.float64(),
    "output_tokens": pa.int64(),
    "other_tokens": pa.int64(),
    "finish_reason": pa.string(),
    "failed": pa.string(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request; None: the log does not say.

    Args:
        sent_s: When it was sent, on any clock of the whole log.
        wait_ms: How long before that it was due.
        ttft_ms: From when it was sent to the first piece of the answer.
        last_ms: The same of the last piece.
        latency_ms: The same of the end.
        tokens: Counts of the answer's tokens; the smallest counts, since the largest flatters.
        finish_reason: Why the server stopped.
        failed: One of `LOST`; None: it was answered.
    """

    sent_s: float | None = None
    wait_ms: float | None = None
    ttft_ms: float | None = None
    last_ms: float | None = None
    latency_ms: float | None = None
    tokens: tuple[int, ...] = ()
    finish_reason: str | None = None
    failed: str | None = None

    @property
    def tpot_ms(self) -> float | None:
        """Time of a token after the first: the first piece is taken for one token; None of an answer of one."""
        if self.ttft_ms is None or self.last_ms is None or not self.tokens or min(self.tokens) < 2:
            return None
        return (self.last_ms - self.ttft_ms) / (min(self.tokens) - 1)


def table_of(requests: Sequence[Request], what: str) -> pa.Table:
    """Requests as rows, in the order in which they were sent where that is known; seconds from the first.

    Raises:
        InputError: There is none, or the last piece of an answer comes before its first.
    """
    if not requests:
        raise InputError(f"{what} has no requests")
    if any((one.tpot_ms or 0.0) < 0.0 for one in requests):
        raise InputError(f"{what} has an answer whose last piece comes before its first")
    if all(one.sent_s is not None for one in requests):
        requests = sorted(requests, key=lambda one: one.sent_s or 0.0)
    first = next((one.sent_s for one in requests if one.sent_s is not None), 0.0)
    columns: dict[str, list[Any]] = {
        "sent_s": [None if one.sent_s is None else one.sent_s - first for one in requests],
        "output_tokens": [min(one.tokens, default=None) for one in requests],
        "other_tokens": [max(one.tokens) if len(one.tokens) > 1 else None for one in requests],
    }
    rest = {field.name for field in fields(Request)} | {"tpot_ms"}
    columns |= {name: [getattr(one, name) for one in requests] for name in COLUMNS if name in rest - columns.keys()}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in COLUMNS.items()})


def parsed(content: bytes | str, what: str) -> Any:
    """JSON.

    Raises:
        InputError: It is none.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not JSON: {error}", remedy="was it cut off?") from error


def inside(value: Any, *path: str) -> Any:
    """Value below these keys; None where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def number(value: Any, what: str) -> float | None:
    """A number from 0 up; None where there is none.

    Raises:
        InputError: It is something else.
    """
    if value is None:
        return None
    if not is_number(value) or not 0 <= value <= MOST:
        raise InputError(f"{what} is {str(value)[:40]!r}, not a number of at least 0")
    return float(value)


def count(value: Any, what: str) -> tuple[int, ...]:
    """A count of tokens, as one or none.

    Raises:
        InputError: It is something else.
    """
    found = number(value, what)
    if found is not None and found > MOST_TOKENS:
        raise InputError(f"{what} is {found:g}, more tokens than an answer can have")
    return () if found is None else (int(found),)


def after(start_s: float | None, at_s: float | None, what: str) -> float | None:
    """Milliseconds from one time to another; None where one is not known.

    Raises:
        InputError: The other one comes first.
    """
    if start_s is None or at_s is None:
        return None
    if at_s < start_s:
        raise InputError(f"{what} ends before it begins")
    return 1e3 * (at_s - start_s)
