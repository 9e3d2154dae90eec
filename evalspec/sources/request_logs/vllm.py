"""The result of ``vllm bench serve --save-result --save-detailed``.

Fields as in vllm 0.32.0: the dict `result` of `vllm/benchmarks/serve.py`, lists over requests from `RequestFuncOutput`
of `vllm/benchmarks/lib/endpoint_request_func.py`, in seconds. Older versions have neither `latencies` nor
`start_times`. It does not log why a server stopped, and what failed may have an empty error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalspec.errors import InputError
from evalspec.evidence.frozen import is_number
from evalspec.sources.request_logs.request import MOST, Request, count, number, parsed

NEEDED = ("ttfts", "itls", "output_lens", "errors")


def read_vllm(content: bytes, shown: str) -> list[Request]:
    """All requests, in the order of the file.

    Raises:
        InputError: Not such a file, or one without its details.
    """
    result = parsed(content, shown)
    if not isinstance(result, Mapping) or not all(isinstance(result.get(name), list) for name in NEEDED):
        raise InputError(
            f"{shown} has no {', '.join(NEEDED)}, so it is not a detailed result of vllm bench serve",
            remedy="--save-result --save-detailed writes them",
        )
    known = ("ttfts", "itls", "output_lens", "errors", "latencies", "start_times", "queue_times", "generated_texts")
    lists = {name: result[name] for name in known if isinstance(result.get(name), list)}
    lengths = {len(one) for one in lists.values()}
    if len(lengths) > 1:
        raise InputError(f"{shown} has lists of {' and '.join(map(str, sorted(lengths)))} requests")
    # At an infinite rate all requests are due at once, and their waiting is how the client sends them.
    rate = result.get("request_rate")
    paced = is_number(rate) and 0 < rate <= MOST
    if not paced:
        lists.pop("queue_times", None)
    return [
        _request({name: one[at] for name, one in lists.items()}, f"request {at:,} of {shown}")
        for at in range(lengths.pop())
    ]


def _request(one: Mapping[str, Any], what: str) -> Request:
    ttft, latency, sent, wait = (
        number(one.get(name), f"{name} in {what}") for name in ("ttfts", "latencies", "start_times", "queue_times")
    )
    if not isinstance(one["itls"], list):
        raise InputError(f"itls in {what} is not a list")
    gaps = [number(gap, f"itls in {what}") or 0.0 for gap in one["itls"]]
    tokens = count(one["output_lens"], f"output_lens in {what}")
    failed = None
    if one["errors"]:
        failed = "error"
    elif not ttft or not tokens or tokens[0] == 0 or one.get("generated_texts") == "":
        failed = "empty"
    last = None if ttft is None else ttft + sum(gaps)
    whole = max((value for value in (last, latency) if value is not None), default=None)
    return Request(
        sent_s=sent,
        wait_ms=None if wait is None else 1e3 * wait,
        ttft_ms=None if ttft is None else 1e3 * ttft,
        last_ms=None if last is None else 1e3 * last,
        latency_ms=None if whole is None else 1e3 * whole,
        tokens=tokens,
        failed=failed,
    )
