"""Clocks that the tests move."""

from __future__ import annotations

import pytest

from evalspec.measure import interference, loop, open_loop, session, warmup
from tests.measure.fakes import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """In place of the real clock, everywhere."""
    fake = FakeClock()
    for module in (loop, open_loop, session, warmup):
        monkeypatch.setattr(module, "now_ns", fake)
    # Garbage is collected when it pleases Python, and in any thread: that must not make the time.
    monkeypatch.setattr(interference, "now_ns", lambda: fake.now + 1)
    monkeypatch.setattr(open_loop, "sleep", fake.sleep)
    return fake
