"""What probes found, as a JSON file: written once and read back by ``verify``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalspec.errors import RecordError
from evalspec.language.inputs import Probe
from evalspec.run.files import write_atomically
from evalspec.run.samples import numbers_as_json, numbers_from_json, telemetry_as_json, telemetry_from_json


def write_probes(probes: Sequence[Probe], path: Path) -> None:
    """Write all of them, in their order.

    Raises:
        WriteError: It can't be written.
    """
    write_atomically(path, json.dumps([probe_as_json(one) for one in probes], indent=1) + "\n")


def read_probes(path: Path) -> list[Probe]:
    """What `write_probes` wrote, in its order.

    Raises:
        RecordError: Missing, truncated or something else.
    """
    try:
        return [probe_from_json(one) for one in json.loads(path.read_text())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"what probes found can't be read from {path}: {error}") from error


def probe_as_json(probe: Probe) -> dict[str, Any]:
    """As JSON can hold it."""
    return {
        "probe": probe.probe,
        "model": probe.model,
        "process": probe.process,
        "facts": dict(probe.facts),
        "series": {name: numbers_as_json(values) for name, values in probe.series.items()},
        "texts": {name: list(words) for name, words in probe.texts.items()},
        "telemetry": None if probe.telemetry is None else telemetry_as_json(probe.telemetry),
    }


def probe_from_json(found: Mapping[str, Any]) -> Probe:
    """The inverse of `probe_as_json`."""
    return Probe(
        probe=found["probe"],
        model=found["model"],
        process=found["process"],
        facts=found["facts"],
        series={name: numbers_from_json(values) for name, values in found["series"].items()},
        texts={name: tuple(words) for name, words in found["texts"].items()},
        telemetry=None if found["telemetry"] is None else telemetry_from_json(found["telemetry"]),
    )
