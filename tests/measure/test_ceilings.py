"""Ceilings: the best that was reached, at the size that suits the device."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.measure import ceilings
from evalspec.measure.ceilings import Ceiling, copy_ceiling, gemm_ceiling
from evalspec.measure.engines import Call, NumpyEngine, Times
from tests.measure.fakes import FakeClock


class FakeEngine:
    """A device with known rates.

    Args:
        clock: What its work moves.
        flops: Operations a second of a product by its size; 0: it has none.
    """

    name = "fake on cpu"
    cache_bytes = 2**20
    smallest_copy_bytes = 2**18
    at_once = 1

    def __init__(self, clock: FakeClock, flops: dict[int, float] | None = None) -> None:
        self.clock = clock
        self.flops = flops or {}
        self.asked: list[int] = []
        self.copied: list[int] = []

    def gemm(self, precision: str, n: int) -> Call | None:
        self.asked.append(n)
        rate = self.flops.get(n, 0.0)
        return (lambda _: 2.0 * n**3 / rate) if rate else None

    def copy(self, size_bytes: int) -> Call:
        self.copied.append(size_bytes)
        # 100 GB/s from the cache, 10 GB/s beyond.
        rate = 1e11 if 2 * size_bytes <= self.cache_bytes else 1e10
        return lambda _: 2.0 * size_bytes / rate

    def flush(self) -> None:
        raise AssertionError("ceilings are measured warm")

    def times(self, call: Call, repeats: int, *, first: int = 0, cold: bool = False) -> Times:
        took = np.array([float(str(call(index))) for index in range(repeats)])
        # Every third one is disturbed.
        took[::3] *= 1.5
        self.clock.pass_ms(1e3 * float(took.sum()))
        return Times(took)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(ceilings, "now_ns", fake)
    return fake


def test_the_best_of_several_sizes(clock: FakeClock) -> None:
    engine = FakeEngine(clock, {256: 6e10, 512: 1e11, 1024: 9e10, 2048: 0.0})
    found = gemm_ceiling(engine, "fp32")
    assert found is not None
    assert found.best == pytest.approx(1e11) and found.what == "fp32 GEMM 512"
    assert found.sizes == pytest.approx({256: 6e10, 512: 1e11, 1024: 9e10})


def test_disturbed_repetitions_are_in_the_spread_not_in_the_ceiling() -> None:
    found = Ceiling("copy", np.array([50.0, 50.0, 80.0, 100.0, 70.0]))
    assert (found.best, found.median) == (100.0, 70.0)
    assert found.spread == pytest.approx(0.3)


def test_a_slow_device_is_not_asked_for_large_products(clock: FakeClock) -> None:
    engine = FakeEngine(clock, dict.fromkeys((256, 512, 1024, 2048), 2e9))
    assert gemm_ceiling(engine, "fp16") is not None
    assert engine.asked == [256]


def test_a_precision_that_the_device_does_not_have(clock: FakeClock) -> None:
    assert gemm_ceiling(FakeEngine(clock), "fp8") is None


def test_a_gpu_is_asked_for_larger_ones(clock: FakeClock) -> None:
    engine = FakeEngine(clock, dict.fromkeys(ceilings.GPU_SIZES, 1e15))
    engine.name = "torch on NVIDIA H200"
    found = gemm_ceiling(engine, "fp16")
    assert found is not None and engine.asked == list(ceilings.GPU_SIZES)


def test_a_copy_of_as_many_bytes_as_the_batch_moves(clock: FakeClock) -> None:
    engine = FakeEngine(clock)
    assert copy_ceiling(engine, 1e6).best == pytest.approx(1e11)
    assert copy_ceiling(engine, 8e6).best == pytest.approx(1e10)
    assert copy_ceiling(engine).best == pytest.approx(1e10)
    assert engine.copied == [500_000, 4_000_000, 4 * 2**20]


def test_a_copy_too_small_to_be_timed_is_made_larger(clock: FakeClock) -> None:
    engine = FakeEngine(clock)
    copy_ceiling(engine, 100.0)
    assert engine.copied == [2**18]


def test_calls_that_are_timed_together_are_divided_again(clock: FakeClock) -> None:
    calls: list[int] = []

    class Together(FakeEngine):
        name = "torch on NVIDIA H200"
        at_once = 10

        def gemm(self, precision: str, n: int) -> Call:
            return lambda index: calls.append(n)

        def times(self, call: Call, repeats: int, *, first: int = 0, cold: bool = False) -> Times:
            for index in range(repeats):
                call(index)
            self.clock.pass_ms(100.0)
            return Times(np.full(repeats, 0.01))

    found = gemm_ceiling(Together(clock), "fp16", sizes=(1024,))
    assert found is not None and found.best == pytest.approx(2.0 * 1024**3 / 0.001)
    # One to warm up, then five at least, ten calls each.
    assert len(calls) >= 60 and len(calls) % 10 == 0


def test_a_batch_beyond_all_caches_is_as_from_memory(clock: FakeClock) -> None:
    engine = FakeEngine(clock)
    copy_ceiling(engine, 1e12)
    assert engine.copied == [4 * 2**20]


def test_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this very machine, whatever it is: rates are positive and no number is made up."""
    monkeypatch.setattr(ceilings, "GEMM_S", 0.01)
    monkeypatch.setattr(ceilings, "COPY_S", 0.01)
    engine = NumpyEngine()
    found = gemm_ceiling(engine, "fp32", sizes=(64, 128))
    assert found is not None
    assert set(found.sizes) == {64, 128} and found.best == max(found.sizes.values()) > 1e7
    near = copy_ceiling(engine, 1e5)
    assert near.best >= near.median > 1e6 and 0 <= near.spread < 1
