"""Engines that measure a machine's ceilings: products, copies, flushed caches and a stopwatch, by device.

The CUDA engine is written against torch's documentation and tested with stand-ins; it has not been seen on a GPU yet.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from evalspec.clocks import now_ns
from evalspec.errors import NotRunError

if TYPE_CHECKING:
    from numpy.typing import NDArray

Call = Callable[[int], object]

FALLBACK_CACHE_BYTES = 64 * 2**20
"""Where the machine does not say how large its last cache is."""
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
TORCH_TYPES = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
NUMPY_TYPES = {"fp64": np.float64, "fp32": np.float32}


@dataclass(frozen=True, slots=True)
class Times:
    """How long each of several calls took, in s.

    Args:
        wall: shape (k,), by the clock of the host, from the call until the device was idle.
        device: shape (k,), by events of the device; None where it has none.
    """

    wall: NDArray[np.float64]
    device: NDArray[np.float64] | None = None

    @property
    def best(self) -> NDArray[np.float64]:
        """The device's own where it has them."""
        return self.wall if self.device is None else self.device


class Engine(Protocol):
    """One device, as far as its ceilings go."""

    @property
    def name(self) -> str:
        """Name of what does the work: ``torch 2.13 on cpu``."""
        ...

    @property
    def cache_bytes(self) -> int:
        """Size of the last cache before memory."""
        ...

    @property
    def smallest_copy_bytes(self) -> int:
        """Copies below that take longer to start than to do."""
        ...

    @property
    def at_once(self) -> int:
        """Calls that are timed together, so that starting one hides behind the one before."""
        ...

    def gemm(self, precision: str, n: int) -> Call | None:
        """A product of two n x n matrices; None where it has no such product."""
        ...

    def copy(self, size_bytes: int) -> Call:
        """A copy of so many bytes, which reads and writes as many."""
        ...

    def flush(self) -> None:
        """Write over more than the caches hold."""
        ...

    def times(self, call: Call, repeats: int, *, first: int = 0, cold: bool = False) -> Times:
        """Each of several calls by itself.

        Args:
            call: Handed the number of the call.
            repeats: How many.
            first: Number of the first.
            cold: Flush the caches before each.
        """
        ...


def engine_for(device: str, threads: int) -> Engine:
    """The engine of a device: torch's where torch is installed, else numpy's.

    Args:
        device: ``cpu``, ``cuda``, ``cuda:0``.
        threads: That it may use on the CPU.

    Raises:
        NotRunError: A GPU without torch, or without torch's CUDA build.
    """
    if importlib.util.find_spec("torch") is None:
        if device != "cpu":
            raise NotRunError("the ceilings of a GPU are measured through torch, which is not installed")
        return NumpyEngine()
    import torch

    if device == "cpu":
        torch.set_num_threads(threads)
        return TorchEngine(torch)
    if not torch.cuda.is_available():
        raise NotRunError(f"the ceilings of {device} are measured through torch, which finds no usable GPU")
    return CudaEngine(torch, device)


def last_cache_bytes(folder: Path = CACHES) -> int:
    """Size of the largest cache that the first CPU has, as Linux tells it; a guess elsewhere."""
    sizes = []
    for path in folder.glob("index*/size"):
        text = path.read_text(encoding="ascii").strip()
        if text.endswith("K") and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * 1024)
    return max(sizes, default=FALLBACK_CACHE_BYTES)


class _Host:
    """Base of CPU engines: wall-clock times, and caches that are flushed by writing."""

    smallest_copy_bytes = 2**19
    at_once = 1

    def __init__(self) -> None:
        self.cache_bytes = last_cache_bytes()
        self._junk: NDArray[np.int8] | None = None

    def flush(self) -> None:
        """As `Engine.flush`."""
        if self._junk is None:
            self._junk = np.zeros(2 * self.cache_bytes, dtype=np.int8)
        self._junk += 1

    def times(self, call: Call, repeats: int, *, first: int = 0, cold: bool = False) -> Times:
        """As `Engine.times`."""
        wall = np.empty(repeats)
        for index in range(repeats):
            if cold:
                self.flush()
            began = now_ns()
            call(first + index)
            wall[index] = (now_ns() - began) / 1e9
        return Times(wall)


class NumpyEngine(_Host):
    """A CPU by numpy's products and copies, with the threads that its BLAS was started with."""

    @property
    def name(self) -> str:
        """As `Engine.name`."""
        return f"numpy {np.__version__} on cpu"

    def gemm(self, precision: str, n: int) -> Call | None:
        """As `Engine.gemm`: fp64 and fp32 only."""
        if precision not in NUMPY_TYPES:
            return None
        kind: Any = NUMPY_TYPES[precision]
        a, b, out = np.ones((n, n), kind), np.ones((n, n), kind), np.empty((n, n), kind)
        return lambda _: np.matmul(a, b, out=out)

    def copy(self, size_bytes: int) -> Call:
        """As `Engine.copy`."""
        source = np.ones(max(1, size_bytes // 8))
        target = np.empty_like(source)
        return lambda _: np.copyto(target, source)


class TorchEngine(_Host):
    """A CPU by torch's products and copies.

    Args:
        torch: The module.
    """

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self._torch = torch

    @property
    def name(self) -> str:
        """As `Engine.name`."""
        return f"torch {self._torch.__version__} on cpu"

    def gemm(self, precision: str, n: int) -> Call | None:
        """As `Engine.gemm`."""
        return torch_gemm(self._torch, "cpu", precision, n)

    def copy(self, size_bytes: int) -> Call:
        """As `Engine.copy`."""
        return torch_copy(self._torch, "cpu", size_bytes)


class CudaEngine:
    """A GPU by torch, timed by CUDA events beside the host's clock.

    Args:
        torch: The module.
        device: ``cuda:0``.
    """

    smallest_copy_bytes = 2**24
    at_once = 10

    def __init__(self, torch: Any, device: str) -> None:
        self._torch = torch
        self._device = torch.device(device)
        properties = torch.cuda.get_device_properties(self._device)
        self.cache_bytes = int(getattr(properties, "L2_cache_size", 0)) or FALLBACK_CACHE_BYTES
        self.name = f"torch {torch.__version__} on {properties.name}"
        self._junk: Any = None

    def gemm(self, precision: str, n: int) -> Call | None:
        """As `Engine.gemm`; TF32 is on for ``tf32`` and off for ``fp32``, and as it was afterwards."""
        call = torch_gemm(self._torch, self._device, precision, n)
        if call is None or precision not in ("fp32", "tf32"):
            return call
        flags = self._torch.backends.cuda.matmul

        def switched(index: int) -> object:
            before = flags.allow_tf32
            flags.allow_tf32 = precision == "tf32"
            try:
                return call(index)
            finally:
                flags.allow_tf32 = before

        return switched

    def copy(self, size_bytes: int) -> Call:
        """As `Engine.copy`."""
        return torch_copy(self._torch, self._device, size_bytes)

    def flush(self) -> None:
        """As `Engine.flush`: writes over twice the L2 cache."""
        if self._junk is None:
            self._junk = self._torch.empty(2 * self.cache_bytes, dtype=self._torch.int8, device=self._device)
        self._junk.zero_()

    def times(self, call: Call, repeats: int, *, first: int = 0, cold: bool = False) -> Times:
        """As `Engine.times`: the device is idle before each call, and waited for after it."""
        cuda = self._torch.cuda
        wall, device = np.empty(repeats), np.empty(repeats)
        for index in range(repeats):
            if cold:
                self.flush()
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            cuda.synchronize(self._device)
            began = now_ns()
            start.record()
            call(first + index)
            end.record()
            cuda.synchronize(self._device)
            wall[index] = (now_ns() - began) / 1e9
            device[index] = start.elapsed_time(end) / 1e3
        return Times(wall, device)


def torch_gemm(torch: Any, device: Any, precision: str, n: int) -> Call | None:
    """A product of two n x n matrices of a precision; None where this torch has none on this device."""
    if precision == "int8":
        a = torch.ones((n, n), dtype=torch.int8, device=device)
        # The second factor by columns: the order that integer kernels take on a GPU.
        b = torch.ones((n, n), dtype=torch.int8, device=device).t()
        return _tried(torch, lambda _: torch._int_mm(a, b))
    if precision not in TORCH_TYPES:
        return None
    kind = getattr(torch, TORCH_TYPES[precision])
    one, other, out = (torch.ones((n, n), dtype=kind, device=device) for _ in range(3))
    return _tried(torch, lambda _: torch.mm(one, other, out=out))


def _tried(torch: Any, call: Call) -> Call | None:
    """The call, if it works once; torch says by an exception that it has no kernel."""

    def quiet(index: int) -> object:
        with torch.inference_mode():
            return call(index)

    try:
        quiet(0)
    except (RuntimeError, NotImplementedError, AttributeError):
        return None
    return quiet


def torch_copy(torch: Any, device: Any, size_bytes: int) -> Call:
    """A copy of so many bytes within a device."""
    source = torch.ones(max(1, size_bytes // 4), dtype=torch.float32, device=device)
    target = torch.empty_like(source)

    def call(_: int) -> object:
        return target.copy_(source)

    return call
