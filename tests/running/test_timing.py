from __future__ import annotations

import numpy as np

from evalspec.language.inputs import Schedule
from evalspec.running.timing import _named


def test_people_who_wait_are_told_the_rate() -> None:
    closed = Schedule(kind="single_stream", queries=3)
    opened = Schedule(kind="open_loop", queries=3, arrivals_ns=np.array([0, 10_000_000, 20_000_000]))
    assert _named("candidate", closed) == "candidate, process"
    assert _named("candidate", opened) == "candidate at 150 qps, process"
