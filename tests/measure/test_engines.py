"""What ceilings are measured with: a CPU as it is here, a GPU by stand-ins."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evalspec.errors import NotRunError
from evalspec.measure import engines
from evalspec.measure.engines import CudaEngine, NumpyEngine, TorchEngine, engine_for, last_cache_bytes, torch_gemm
from tests.measure.fakes import FakeClock


def test_the_last_cache_is_read(tmp_path: Path) -> None:
    for index, size in enumerate(("32K", "1024K", "33792K", "broken")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    assert last_cache_bytes(tmp_path) == 33792 * 1024


def test_where_nothing_tells_the_cache_is_guessed(tmp_path: Path) -> None:
    assert last_cache_bytes(tmp_path) == engines.FALLBACK_CACHE_BYTES


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_numpy_multiplies_in_the_type_asked_for(precision: str) -> None:
    call = NumpyEngine().gemm(precision, 16)
    assert call is not None
    out: Any = call(0)
    assert out.dtype == {"fp32": np.float32, "fp64": np.float64}[precision]
    assert (out == 16).all()


def test_numpy_has_no_narrow_products() -> None:
    assert NumpyEngine().gemm("bf16", 16) is None


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp64", "int8"])
def test_torch_multiplies_in_the_type_asked_for(precision: str) -> None:
    import torch

    call = torch_gemm(torch, "cpu", precision, 32)
    assert call is not None
    out: Any = call(0)
    assert float(out[0, 0]) == 32.0


def test_torch_says_what_it_has_no_product_for() -> None:
    import torch

    assert torch_gemm(torch, "cpu", "fp8", 16) is None

    def refuses(*_: Any, **__: Any) -> Any:
        raise RuntimeError("not implemented for 'Half'")

    without = SimpleNamespace(float16=torch.float16, ones=torch.ones, mm=refuses, inference_mode=torch.inference_mode)
    assert torch_gemm(without, "cpu", "fp16", 16) is None


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_copy_moves_so_many_bytes(kind: str) -> None:
    import torch

    engine = NumpyEngine() if kind == "numpy" else TorchEngine(torch)
    engine.copy(4096)(0)
    assert engine.name.endswith("on cpu")


def test_calls_are_timed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(engines, "now_ns", clock)
    seen: list[int] = []

    def call(index: int) -> None:
        seen.append(index)
        clock.pass_ms(1.0 + index)

    times = NumpyEngine().times(call, 3, first=4)
    np.testing.assert_allclose(times.wall, [5e-3, 6e-3, 7e-3], atol=1e-8)
    assert times.device is None and times.best is times.wall
    assert seen == [4, 5, 6]


def test_flushing_is_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(engines, "now_ns", clock)
    engine = NumpyEngine()
    flushed = []

    def flush() -> None:
        flushed.append(1)
        clock.pass_ms(50.0)

    monkeypatch.setattr(engine, "flush", flush)
    assert engine.times(lambda _: clock.pass_ms(1.0), 3, cold=True).wall.max() < 2e-3
    assert len(flushed) == 3


def test_flushing_writes_over_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = NumpyEngine()
    engine.cache_bytes = 1024
    engine.flush()
    engine.flush()
    assert engine._junk is not None
    assert len(engine._junk) == 2048 and (engine._junk == 2).all()


def test_without_torch_a_cpu_has_numpy_and_a_gpu_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert isinstance(engine_for("cpu", 1), NumpyEngine)
    with pytest.raises(NotRunError, match="torch, which is not installed"):
        engine_for("cuda:0", 1)


def test_a_gpu_that_torch_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotRunError, match="no usable GPU"):
        engine_for("cuda:0", 1)


class FakeCuda:
    """torch.cuda in which work takes time only once it is waited for.

    Args:
        clock: The host's.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.queued_ms = 0.0
        self.device_ms = 0.0
        self.synchronized = 0
        cuda = self

        class Event:
            def __init__(self, enable_timing: bool) -> None:
                assert enable_timing
                self.at = 0.0

            def record(self) -> None:
                self.at = cuda.device_ms + cuda.queued_ms

            def elapsed_time(self, other: Event) -> float:
                assert cuda.queued_ms == 0.0, "read before the device was waited for"
                return other.at - self.at

        self.Event = Event

    def get_device_properties(self, device: Any) -> Any:
        return SimpleNamespace(name="NVIDIA H200", L2_cache_size=50 * 2**20)

    def synchronize(self, device: Any) -> None:
        self.synchronized += 1
        self.clock.pass_ms(self.queued_ms)
        self.device_ms += self.queued_ms
        self.queued_ms = 0.0

    def launch(self, ms: float) -> None:
        """A kernel that takes so long; the host goes on after 10 us."""
        self.clock.pass_ms(0.01)
        self.queued_ms += ms


def fake_torch(clock: FakeClock) -> tuple[Any, FakeCuda, list[int]]:
    cuda = FakeCuda(clock)
    zeroed: list[int] = []

    def empty(size: int, **_: Any) -> Any:
        def zero() -> None:
            zeroed.append(size)
            cuda.launch(1.0)

        return SimpleNamespace(zero_=zero)

    matmul = SimpleNamespace(allow_tf32=False)
    torch = SimpleNamespace(
        cuda=cuda, device=lambda name: name, __version__="2.13", empty=empty, int8="int8",
        backends=SimpleNamespace(cuda=SimpleNamespace(matmul=matmul)),
    )  # fmt: skip
    return torch, cuda, zeroed


def test_a_gpu_is_timed_by_events_beside_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(engines, "now_ns", clock)
    torch, cuda, zeroed = fake_torch(clock)
    engine = CudaEngine(torch, "cuda:0")
    assert engine.name == "torch 2.13 on NVIDIA H200"
    times = engine.times(lambda index: cuda.launch(2.0 + index), 3)
    assert times.device is not None
    np.testing.assert_allclose(times.device, [2e-3, 3e-3, 4e-3])
    np.testing.assert_allclose(times.wall, np.array([2.01, 3.01, 4.01]) / 1e3, atol=1e-7)
    assert times.best is times.device
    assert not zeroed


def test_a_gpu_is_flushed_by_its_own_l2_and_idle_before_it_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()
    monkeypatch.setattr(engines, "now_ns", clock)
    torch, cuda, zeroed = fake_torch(clock)
    times = CudaEngine(torch, "cuda:0").times(lambda _: cuda.launch(2.0), 2, cold=True)
    assert zeroed == [100 * 2**20] * 2
    np.testing.assert_allclose(times.wall, 2.01e-3, atol=1e-7)


@pytest.mark.parametrize(("precision", "on"), [("tf32", True), ("fp32", False)])
def test_tf32_is_switched_for_the_product_and_back(monkeypatch: pytest.MonkeyPatch, precision: str, on: bool) -> None:
    torch, _, _ = fake_torch(FakeClock())
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32 = not on
    seen: list[bool] = []
    monkeypatch.setattr(engines, "torch_gemm", lambda *_: lambda index: seen.append(matmul.allow_tf32))
    call = CudaEngine(torch, "cuda:0").gemm(precision, 8)
    assert call is not None
    call(0)
    assert seen == [on] and matmul.allow_tf32 is not on


@pytest.mark.gpu
def test_events_and_wall_clock_agree_on_a_gpu() -> None:
    engine = engine_for("cuda:0", 1)
    call = engine.gemm("fp16", 4096)
    assert call is not None
    engine.times(call, 5)
    times = engine.times(call, 20)
    assert times.device is not None
    assert (times.device <= times.wall).all()
    assert np.median(times.device) > 0.5 * np.median(times.wall)
