"""Planted defects of `memory`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evalspec.checks.system.memory.spec import Memory
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _resident(folder: Path, each_mib: float, processes: int = 1) -> Case:
    """Processes that need 100 MiB, and so many more for each item of a batch."""

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        peak = 100.0 + each_mib * float(options["batch"] or 0)
        facts: dict[str, Cell] = {"start_s": 0.2, "import_s": 0.4, "load_s": 0.5, "peak_host_mib": peak}
        return [Probe(probe=probe, model=model, process=index, facts=facts) for index in range(min(processes, 1))]

    check = Memory.model_validate(
        {"check": "memory", "dataset": "test", "batch_sizes": [1, 32], "require": ["peak_host_memory <= 512 MiB"]}
    )
    return FakeInputs(evidence=folder, probes=make), check


PLANTED = (
    Planted(
        "memory",
        "peak_host_memory",
        "peak_host_memory <= 512 MiB",
        lambda f: _resident(f, 5.0),
        lambda f: _resident(f, 20.0),
        lambda f, n: _resident(f, 5.0, n),
        "20 MiB for each item of a batch",
    ),
)
