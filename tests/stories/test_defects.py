"""A few of the defects in real data; all of them go by hand, and docs/campaigns.md has their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import trains_classifiers
from tests.stories import defects_held_out
from tests.stories.defects import names, told

pytestmark = [pytest.mark.proof, trains_classifiers]

FEW = tuple(names())[::6]
HELD_OUT = tuple(defects_held_out.HELD_OUT)[::8]


@pytest.mark.parametrize("name", FEW)
def test_a_defect_is_told_and_its_clean_twin_is_ready(name: str, tmp_path: Path) -> None:
    verdict, reasons = told(name, tmp_path, planted=True)
    assert verdict != "READY" or reasons
    (tmp_path / "clean").mkdir()
    # The clock of a busy machine may leave a latency undecided.
    assert told(name, tmp_path / "clean", planted=False) in [
        ("READY", []),
        ("UNDECIDED", ["latency/latency_p50 INVALID"]),
        ("UNDECIDED", ["latency/latency_p50 INCONCLUSIVE"]),
    ]


@pytest.mark.parametrize("name", HELD_OUT)
def test_one_that_was_held_out_is_told_too(name: str, tmp_path: Path) -> None:
    verdict, reasons = defects_held_out.told(name, tmp_path, planted=True)
    assert verdict != "READY" or reasons
    (tmp_path / "clean").mkdir()
    assert defects_held_out.told(name, tmp_path / "clean", planted=False) == ("READY", [])
