from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.timing.budget import WARMUP_IN_PROCESS_S, WARMUP_S
from evalspec.timing.samples import warmup_s
from tests.fakes import FakeInputs


@pytest.mark.parametrize(
    ("other", "least_s"),
    [
        ({"device": "cpu"}, WARMUP_IN_PROCESS_S),
        ({"device": "cuda:0"}, WARMUP_S),
        ({"device": "cpu", "served": True}, WARMUP_S),
    ],
)
def test_what_is_not_on_a_processor_of_this_process_is_warmed_up_longer(
    other: dict[str, str | bool], least_s: float, tmp_path: Path
) -> None:
    inputs = FakeInputs(tmp_path, facts={"candidate": {"device": "cpu"}, "other": other})
    assert warmup_s(inputs, "candidate", "other") == least_s
    assert warmup_s(inputs, "candidate") == WARMUP_IN_PROCESS_S < WARMUP_S
