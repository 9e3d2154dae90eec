"""Clean and planted cases of the checks that look for what slows a model down."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from evalspec.checks.system.contention.spec import Contention
from evalspec.checks.system.precision.spec import Precision
from evalspec.checks.system.roofline.spec import Roofline
from evalspec.checks.system.stages.spec import Stages
from evalspec.language.inputs import Inputs, Samples, Schedule
from evalspec.language.parts import Check
from tests.checks.system.probed import precision, roofline, stages
from tests.fakes import FakeInputs, samples

Case = tuple[Inputs, Check]


def parsed(folder: Path, parse_ms: float, queries: int | None = None) -> Case:
    """Queries whose text is parsed before 5 ms of inference."""
    check = Stages.model_validate({"check": "stages", "dataset": "test", "require": ["stage_share(inference) >= 50 %"]})
    stage_ms = {"python": parse_ms, "inference": 5.0, "postprocess": 0.5}
    return FakeInputs(evidence=folder, probes=stages(stage_ms, queries=queries)), check


def under_the_roof(folder: Path, fraction: float, calls: int | None = None) -> Case:
    """A model at such a share of what the device can do."""
    check = Roofline.model_validate({"check": "roofline", "dataset": "test", "require": ["roof_fraction >= 30 %"]})
    return FakeInputs(evidence=folder, probes=roofline(fraction=fraction, calls=calls)), check


def operators(folder: Path, place: str, computes: str, count: int = 12) -> Case:
    """Operators of which the second runs here and computes in this; asked for: cuda:0 and int8."""
    rows = [
        (f"node_{i}", "QLinearConv", place if i == 1 else "cuda:0", computes if i < 4 else "int8", "int8", "uint8", 1e6)
        for i in range(count)
    ]
    check = Precision.model_validate(
        {
            "check": "precision", "dataset": "test",
            "require": ["operator_coverage == 100 %", "precision_coverage >= 95 %"],
        }
    )  # fmt: skip
    facts = {"candidate": {"device": "cuda:0", "precision": "int8"}}
    return FakeInputs(evidence=folder, probes=precision(rows, device_observed="cuda:0"), facts=facts), check


def neighbours(folder: Path, slower: float, queries: int | None = None) -> Case:
    """Latencies about 2 ms alone and so many times that beside a load."""
    rng = np.random.default_rng(12)

    def make(schedule: Schedule, baseline: str) -> tuple[list[Samples], list[Samples]]:
        count = schedule.queries if queries is None else queries
        sides: tuple[list[Samples], list[Samples]] = ([], [])
        for process in range(schedule.processes):
            for side, factor in ((0, slower), (1, 1.0)):
                spent = 2.0 * factor * np.exp(0.03 * rng.standard_normal()) * rng.gamma(100.0, 0.01, count)
                block = np.repeat([0, 3] if side == 0 else [1, 2], [count - count // 2, count // 2])
                sides[side].append(samples(spent, process=process, block=block))
        return sides

    check = Contention.model_validate(
        {"check": "contention", "dataset": "test", "require": ["contention_ratio(p50) <= 1.5x"]}
    )
    return FakeInputs(evidence=folder, pairs=make), check
