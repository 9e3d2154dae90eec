"""Findings of probes as a JSON file, written once and read back by ``verify``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from evalspec.errors import RecordError
from evalspec.language.inputs import Probe
from evalspec.running.as_json import probe_as_json, probe_from_json
from evalspec.running.files import write_atomically


def write_probes(probes: Sequence[Probe], path: Path) -> None:
    """Write the findings of all probes, in their order.

    Raises:
        WriteError: It can't be written.
    """
    write_atomically(path, json.dumps([probe_as_json(one) for one in probes], indent=1) + "\n")


def read_probes(path: Path) -> list[Probe]:
    """Findings that `write_probes` wrote, in its order.

    Raises:
        RecordError: The file is missing, truncated or something else.
    """
    try:
        return [probe_from_json(one) for one in json.loads(path.read_text())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"the results of probes can't be read from {path}: {error}") from error
