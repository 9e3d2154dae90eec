"""Counters of a model in a server: the statistics extension of the Open Inference Protocol.

References:
    Triton Inference Server, protocol/extension_statistics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evalspec.language.abilities import ServerTiming

PARTS = ("queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")
"""What a request goes through, as the extension calls it; failed requests are not in these."""


def counters(found: Mapping[str, Any]) -> ServerTiming | None:
    """Counters of a model since the server started, all of its versions together.

    Args:
        found: What ``GET v2/models/NAME[/versions/V]/stats`` answers; counts and ns are numbers, or text as JSON made
            from protocol buffers has them.

    Returns:
        None where it answers something else; without requests, with the reason, where a counter can't be read.
    """
    models = found.get("model_stats")
    if not isinstance(models, list):
        return None
    requests, total_ns = 0, 0.0
    parts: dict[str, float] = {}
    try:
        for model in models:
            statistics = model["inference_stats"]
            answered, answered_ns = _counter(statistics["success"])
            requests += answered + _counter(statistics.get("fail", {}))[0]
            total_ns += answered_ns
            for name in PARTS:
                if name in statistics:
                    parts[name] = parts.get(name, 0.0) + _counter(statistics[name])[1]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return ServerTiming(0, {}, unread=(f"its statistics ({type(error).__name__}: {str(error)[:60]})",))
    return ServerTiming(requests, parts, total_ns)


def _counter(counter: Mapping[str, Any]) -> tuple[int, int]:
    """Count and ns; one that is left out is 0, as JSON made from protocol buffers has it.

    Raises:
        ValueError: It is no count.
    """
    count, ns = (_whole(counter.get(name, 0)) for name in ("count", "ns"))
    return count, ns


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"{value!r} is not a count")
    number = int(value)
    if number < 0:
        raise ValueError(f"{value!r} is not a count")
    return number
