"""Observation of a model as it is: its precision, its size, its parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SHARE_OF_ONE = 0.9
"""From this share of the weights on, the model is of that type; below, it is mixed."""

PRECISIONS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "int8": "int8",
    "uint8": "int8",
    "qint8": "int8",
    "quint8": "int8",
    "int4": "int4",
    "uint4": "int4",
}


def precision_of(counts: Mapping[str, int]) -> str | None:
    """The precision of weights.

    Args:
        counts: Name of a number type (numpy's or torch's): weights of it. Types that hold no weights are ignored.

    Returns:
        ``fp32``, ``int8``, ...; ``mixed`` where none has nine tenths; None where there are no weights.
    """
    shares: dict[str, int] = {}
    for name, count in counts.items():
        precision = "fp8" if name.startswith("float8") else PRECISIONS.get(name)
        if precision is not None and count > 0:
            shares[precision] = shares.get(precision, 0) + count
    total = sum(shares.values())
    if not total:
        return None
    largest = max(shares, key=lambda name: shares[name])
    return largest if shares[largest] >= SHARE_OF_ONE * total else "mixed"


def size_bytes(files: Iterable[Path]) -> int:
    """Bytes of all files together."""
    return sum(path.stat().st_size for path in files)


def estimator_precision(estimator: Any) -> str | None:
    """The precision of the fitted arrays of a scikit-learn estimator, steps of a pipeline included; None: unknown."""
    counts: dict[str, int] = {}
    waiting = [estimator]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        for name, value in getattr(one, "__dict__", {}).items():
            dtype = getattr(value, "dtype", None)
            if name.endswith("_") and getattr(dtype, "kind", "") == "f":
                counts[str(dtype)] = counts.get(str(dtype), 0) + int(value.size)
        waiting.extend(step for _, step in getattr(one, "steps", []))
    return precision_of(counts)
