"""Work that runs beside a measurement, in processes of its own, so that a model is seen on a machine that is busy.

``cpu``: small products that stay in the nearest caches. ``memory``: copies of four times the last cache. ``gpu``:
large products on the GPU that is named.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from evalspec.errors import InputError, NotRunError, WorkerError
from evalspec.processes import die_with_parent, import_path

KINDS = ("cpu", "memory", "gpu")
STEP_S = 0.02
"""Between two looks whether it is to end."""
READY_S = 120.0
END_S = 5.0
READY = "ready"
REFUSED = "refused "
"""What the line of a worker begins with that can't load this machine; the reason follows."""
SINGLE = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class Background:
    """Processes that keep a machine busy until they are stopped; a context manager that stops them.

    Args:
        kind: ``cpu``, ``memory`` or ``gpu``.
        workers: Processes, each with one thread.
        gpu: Number of the GPU that ``gpu`` loads, as CUDA counts.

    Raises:
        InputError: There is no such kind, or no worker.
        NotRunError: The machine can't do this work: no GPU.
        WorkerError: A process ended, or did not begin in time.
    """

    def __init__(self, kind: str, workers: int, gpu: int = 0) -> None:
        if kind not in KINDS:
            raise InputError(f"there is no background load {kind!r}", choices=KINDS)
        if workers < 1:
            raise InputError(f"{workers} workers make no background load", remedy="ask for 1 at least")
        self.kind = kind
        self.facts: dict[str, float] = {}
        self._processes: list[subprocess.Popen[str]] = []
        with ExitStack() as undo:
            undo.callback(self._kill)
            for _ in range(workers):
                self._processes.append(_launch(kind, gpu))
            for process in self._processes:
                _wait_until_ready(process)
            undo.pop_all()
        self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def alive(self) -> int:
        """Processes that are still at work."""
        return sum(process.poll() is None for process in self._processes)

    def stop(self) -> dict[str, float]:
        """End them; asked again, the same answer.

        Returns:
            ``workers``, ``seconds`` and ``rounds_per_s``: what all of them did together. It shows that they worked.

        Raises:
            WorkerError: One had ended before, so that the load was not the one asked for.
        """
        if not self._processes:
            return self.facts
        seconds = time.monotonic() - self._began
        gone = len(self._processes) - self.alive
        rounds = [_rounds(process) for process in self._processes]
        self.facts = {"workers": len(rounds), "seconds": seconds, "rounds_per_s": sum(rounds)}
        self._kill()
        if gone:
            raise WorkerError(f"{gone} of {len(rounds)} processes of the background load ended while it was needed")
        return self.facts

    def _kill(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._processes = []


def _launch(kind: str, gpu: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "evalspec.measure.background", kind, str(gpu), str(os.getpid())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | SINGLE | import_path(),
    )  # fmt: skip


def _wait_until_ready(process: subprocess.Popen[str]) -> None:
    said = _line(process, READY_S)
    if said == READY:
        return
    process.kill()
    reason = process.stderr.read().strip().splitlines() if process.stderr is not None else []
    if said.startswith(REFUSED):
        raise NotRunError(f"the background load can't run: {said.removeprefix(REFUSED)}")
    raise WorkerError(f"the background load did not begin: {reason[-1][:300] if reason else said or 'no reason given'}")


def _rounds(process: subprocess.Popen[str]) -> float:
    """Rounds a second that a process did; 0 where it can't say."""
    if process.stdin is not None and not process.stdin.closed:
        process.stdin.close()
    said = _line(process, END_S)
    try:
        return float(json.loads(said)["rounds_per_s"])
    except (ValueError, KeyError, TypeError):
        return 0.0


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    if process.stdout is None:
        return ""
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().strip() if ready else ""


def main() -> None:
    """Work until the other side closes this process's standard input."""
    kind, gpu, parent = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    try:
        work = WORK[kind](gpu)
    except (NotRunError, MemoryError) as error:
        _say(f"{REFUSED}{error or 'not enough memory'}")
        return
    work()
    _say(READY)
    rounds, began = 0, time.monotonic()
    while not select.select([sys.stdin], [], [], 0)[0]:
        until = time.monotonic() + STEP_S
        while time.monotonic() < until:
            work()
            rounds += 1
    _say(json.dumps({"rounds_per_s": rounds / max(1e-9, time.monotonic() - began)}))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cpu(gpu: int) -> Callable[[], Any]:
    import numpy as np

    a = np.full((96, 96), 1.0 / 96)
    out = np.empty_like(a)
    return lambda: np.matmul(a, a, out=out)


def _memory(gpu: int) -> Callable[[], Any]:
    import numpy as np

    from evalspec.measure.engines import last_cache_bytes

    source = np.ones(4 * last_cache_bytes() // 8)
    target = np.empty_like(source)
    return lambda: np.copyto(target, source)


def _gpu(gpu: int) -> Callable[[], Any]:
    try:
        import torch
    except ImportError as error:
        raise NotRunError("torch is not installed, which loads the GPU") from error
    if not torch.cuda.is_available():
        raise NotRunError("torch finds no usable GPU")
    a = torch.ones((4096, 4096), dtype=torch.float16, device=f"cuda:{gpu}")

    def work() -> None:
        torch.mm(a, a)
        torch.cuda.synchronize(a.device)

    return work


WORK: dict[str, Callable[[int], Callable[[], Any]]] = {"cpu": _cpu, "memory": _memory, "gpu": _gpu}


if __name__ == "__main__":
    main()
