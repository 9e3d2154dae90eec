"""Few random faults; the long campaign goes by hand, and docs/campaigns.md has its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import faults

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("seed", range(12))
def test_a_random_fault_loses_nothing_and_makes_nothing_ready(seed: int, tmp_path: Path) -> None:
    done, wrong = faults.one(tmp_path, seed, forks=True)
    assert wrong == [], done


def test_every_kind_of_fault_is_among_those_that_are_drawn() -> None:
    import numpy as np

    drawn = {int(np.random.default_rng(seed).integers(len(faults.FAULTS))) for seed in range(1000)}
    assert len(drawn) == len(faults.FAULTS)
