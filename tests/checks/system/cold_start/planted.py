"""Planted defects of `cold_start`, each with its clean twin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from evalspec.checks.system.cold_start.spec import ColdStart
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from tests.checks.planting import Case, Planted
from tests.fakes import FakeInputs


def _starts(folder: Path, load_s: float, count: int | None = None, *, streams: bool = False) -> Case:
    """Fresh processes that load the model in about so many seconds; its answer may come in pieces."""
    rng = np.random.default_rng(8)
    processes = 20 if count is not None else 10

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        made = []
        for process in range(processes if count is None else min(count, processes - 1)):
            spent_s = load_s * float(np.exp(0.05 * rng.standard_normal()))
            facts: dict[str, Cell] = {"start_s": 0.2, "import_s": 0.4, "load_s": spent_s, "first_inference_ms": 30.0}
            if streams:
                facts["first_token_ms"] = 12.0
            series = {"inference_ms": np.array([30.0, *[2.0] * 20])}
            made.append(Probe(probe=probe, model=model, process=process, facts=facts, series=series))
        return made

    check = ColdStart.model_validate(
        {
            "check": "cold_start",
            "dataset": "test",
            "processes": processes,
            "require": ["load_time <= 1 s", "first_token <= 2 s"],
        }
    )
    return FakeInputs(evidence=folder, probes=make), check


PLANTED = (
    Planted(
        "cold_start",
        "load_time",
        "load_time <= 1 s",
        lambda f: _starts(f, 0.5),
        lambda f: _starts(f, 2.0),
        lambda f, n: _starts(f, 0.5, n),
        "four times as long to load",
    ),
    Planted(
        "cold_start",
        "first_token",
        "first_token <= 2 s",
        lambda f: _starts(f, 0.5, streams=True),
        lambda f: _starts(f, 2.0, streams=True),
        lambda f, n: _starts(f, 0.5, n, streams=True),
        "the first token waits for what is loaded",
    ),
)
