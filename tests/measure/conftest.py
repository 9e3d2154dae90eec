"""Clocks that the tests move."""

from __future__ import annotations

import pytest

from evalspec.measure import interference, loop, open_loop, session, warmup
from tests.measure.fakes import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """In place of the real clock, everywhere."""
    fake = FakeClock()
    for module in (interference, loop, open_loop, session, warmup):
        monkeypatch.setattr(module, "now_ns", fake)
    monkeypatch.setattr(open_loop, "sleep", fake.sleep)
    return fake
