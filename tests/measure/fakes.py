"""A clock that moves only when something takes time, and a model that does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evalspec.errors import InputError


class FakeClock:
    """Nanoseconds that pass when they are told to; a reading takes 1 ns, or as long as ``reading_ns`` says.

    With ``rng`` a test has random service times that are the same in each of its runs.
    """

    def __init__(self) -> None:
        self.now = 1_000
        self.reading_ns = 1
        self.rng = np.random.default_rng(1)

    def __call__(self) -> int:
        self.now += self.reading_ns
        return self.now

    def sleep(self, seconds: float) -> None:
        """As a system does it: a little too long."""
        self.now += round(seconds * 1e9) + 20_000

    def pass_ms(self, ms: float) -> None:
        """Let time go by."""
        self.now += round(ms * 1e6)


class FakeServable:
    """Rows whose answer is their own index.

    Args:
        clock: What serving moves.
        n: Rows.
        takes_ms: Latency of the k-th call, in ms.
        fails: Whether the k-th call raises.
    """

    def __init__(
        self,
        clock: FakeClock,
        n: int = 10,
        takes_ms: Callable[[int], float] = lambda call: 1.0,
        fails: Callable[[int], bool] = lambda call: False,
    ) -> None:
        self.clock = clock
        self.n = n
        self.takes_ms = takes_ms
        self.fails = fails
        self.calls = 0
        self.served: list[list[int]] = []
        self.between_ms = 0.0
        self.device_ms = 0.0

    def take(self, rows: NDArray[np.int64]) -> Any:
        """Moves the clock outside of what is timed."""
        self.clock.pass_ms(self.between_ms)
        return rows

    def serve(self, query: Any) -> Any:
        """Moves the clock by the call's latency."""
        call = self.calls
        self.calls += 1
        self.served.append(np.asarray(query).tolist())
        self.clock.pass_ms(self.takes_ms(call))
        if self.fails(call):
            raise InputError(f"call {call} failed")
        return query

    def synchronize(self) -> None:
        """The device is done a little later."""
        self.clock.pass_ms(self.device_ms)

    def answers(self, outputs: Any) -> NDArray[np.float64]:
        """Moves the clock outside of what is timed."""
        self.clock.pass_ms(self.between_ms)
        return np.asarray(outputs, dtype=np.float64)
