"""Numbers, telemetry and what probes found, as JSON can hold them: between processes and in files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.language.inputs import Probe
from evalspec.language.timings import Telemetry
from evalspec.measure.probes import ProbeResult


def numbers_as_json(values: NDArray[np.float64]) -> list[float | None]:
    """Numbers; null where there is none."""
    return [value if math.isfinite(value) else None for value in np.asarray(values, dtype=np.float64).tolist()]


def numbers_from_json(values: Sequence[float | None]) -> NDArray[np.float64]:
    """The inverse of `numbers_as_json`; NaN where there is no number."""
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)


def telemetry_as_json(telemetry: Telemetry) -> dict[str, Any]:
    """Telemetry as JSON can hold it; a failed reading is null."""
    return {
        "times_ns": telemetry.times_ns.tolist(),
        "series": {name: numbers_as_json(values) for name, values in telemetry.series.items()},
        "sources": dict(telemetry.sources),
        "missing": dict(telemetry.missing),
    }


def telemetry_from_json(found: Mapping[str, Any]) -> Telemetry:
    """The inverse of `telemetry_as_json`."""
    return Telemetry(
        times_ns=np.array(found["times_ns"], dtype=np.int64),
        series={name: numbers_from_json(values) for name, values in found["series"].items()},
        sources=found["sources"],
        missing=found["missing"],
    )


def found_as_json(found: ProbeResult | Probe) -> dict[str, Any]:
    """Findings of a probe: facts, series and texts."""
    return {
        "facts": dict(found.facts),
        "series": {name: numbers_as_json(values) for name, values in found.series.items()},
        "texts": {name: list(words) for name, words in found.texts.items()},
    }


def found_from_json(found: Mapping[str, Any]) -> ProbeResult:
    """The inverse of `found_as_json`; other keys are ignored."""
    return ProbeResult(
        facts=found["facts"],
        series={name: numbers_from_json(values) for name, values in found["series"].items()},
        texts={name: tuple(words) for name, words in found["texts"].items()},
    )


def probe_as_json(probe: Probe) -> dict[str, Any]:
    """Findings of a probe, with its name, model, process and telemetry."""
    return {
        "probe": probe.probe,
        "model": probe.model,
        "process": probe.process,
        **found_as_json(probe),
        "telemetry": None if probe.telemetry is None else telemetry_as_json(probe.telemetry),
    }


def probe_from_json(found: Mapping[str, Any]) -> Probe:
    """The inverse of `probe_as_json`."""
    return found_from_json(found).as_probe(
        found["probe"],
        found["model"],
        found["process"],
        telemetry=None if found["telemetry"] is None else telemetry_from_json(found["telemetry"]),
    )
