"""MobileNetV2 in FP32 and in INT8 on 50,000 pictures, as its worked table says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from evalspec.language.inputs import Predictions
from tests.fakes import FakeInputs, classifier

ROWS = np.arange(50_000)
TRUTH = ROWS % 7
EDGE = ROWS % 20 == 0
SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
"""Of what the first class leaves, by rank."""


def mobilenet(
    folder: Path, discordance: float = 0.012, *, sure: float = 0.798, edge_lost: int = 170, **fields: Any
) -> FakeInputs:
    """Top-1 71.8 to 70.9 %, top-5 91.0 to 90.4 %, a calibration error of .031 to (``sure`` - .709), and edge cases.

    Args:
        folder: For evidence.
        discordance: Share of the rows on which only one of the two is right.
        sure: What the INT8 copy says of every answer.
        edge_lost: Of 2,500 edge cases, of which FP32 gets 1,705 (68.2 %), those that INT8 no longer gets.
        fields: Others of `FakeInputs`.
    """
    edge, rest = np.flatnonzero(EDGE), np.flatnonzero(~EDGE)
    right_there = 35_900 - 1705
    lost, won = round(50_000 * (discordance + 0.009) / 2), round(50_000 * (discordance - 0.009) / 2)
    before = np.zeros(50_000, dtype=bool)
    before[edge[:1705]] = before[rest[:right_there]] = True
    after = before.copy()
    after[edge[:edge_lost]] = after[rest[: lost - edge_lost]] = False
    after[rest[right_there : right_there + won]] = True
    known = before.copy()
    known[rest[right_there : right_there + 9600]] = True
    still = known.copy()
    still[rest[right_there + 9300 : right_there + 9600]] = False
    said = [_said(after, still, sure, "candidate"), _said(before, known, 0.749, "baseline")]
    given: dict[str, Any] = {
        "tables": {"test": pa.table({"picture": ROWS, "label": TRUTH})},
        "facts": {"candidate": {"size_bytes": 3_500_000}, "baseline": {"size_bytes": 14_000_000}},
    }
    return FakeInputs(
        evidence=folder, labels={"test": "label"}, slices={("edge", "test"): EDGE},
        answers={("test", one.model): one for one in said}, **(given | fields),
    )  # fmt: skip


def _said(right: np.ndarray, known: np.ndarray, sure: float, model: str) -> Predictions:
    """Right ones rank the truth first, known ones second, and all others last."""
    rank = np.where(right, 0, np.where(known, 1, 6))
    by_rank = np.concatenate(([sure], (1 - sure) * SHARES))
    return classifier(by_rank[(np.arange(7) - TRUTH[:, None] + rank[:, None]) % 7], TRUTH, model=model)
