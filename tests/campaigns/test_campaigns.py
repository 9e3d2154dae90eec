"""A few minutes of each campaign; the long ones go by hand, and docs/campaigns.md has their figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import faults
from tests.campaigns.http_answers import campaign
from tests.campaigns.records import Records

pytestmark = pytest.mark.proof


@pytest.mark.parametrize("seed", range(12))
def test_a_random_fault_loses_nothing_and_makes_nothing_ready(seed: int, tmp_path: Path) -> None:
    done, wrong = faults.one(tmp_path, seed)
    assert wrong == [], done


def test_every_kind_of_fault_is_among_those_that_are_drawn() -> None:
    import numpy as np

    drawn = {int(np.random.default_rng(seed).integers(len(faults.FAULTS))) for seed in range(1000)}
    assert len(drawn) == len(faults.FAULTS)


def test_a_changed_record_is_shown_or_refused(tmp_path: Path) -> None:
    records = Records()
    wrong = {seed: fault for seed in range(300) if (fault := records.one(tmp_path, seed)) is not None}
    assert wrong == {}


def test_a_mangled_answer_of_a_server_is_one_or_a_failure_with_a_name(tmp_path: Path) -> None:
    ends, wrong = campaign(tmp_path, 500, 0)
    assert wrong == []
    assert len(ends) > 2
