"""Background load: it works, it says so, and it ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from evalspec.errors import InputError, NotRunError, WorkerError
from evalspec.measure.background import WORK, Background


def ended(pid: int) -> bool:
    """It is gone, or waits to be buried."""
    for _ in range(200):
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def children() -> set[int]:
    return {one.pid for one in psutil.Process().children()}


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["cpu", "memory"])
def test_it_works_until_it_is_stopped(kind: str) -> None:
    before = children()
    with Background(kind, 2) as load:
        pids = children() - before
        assert load.alive == 2 and len(pids) == 2
        time.sleep(0.2)
    assert load.facts["workers"] == 2 and load.facts["rounds_per_s"] > 0 and load.facts["seconds"] >= 0.2
    assert load.alive == 0 and all(ended(pid) for pid in pids)
    assert load.stop() == load.facts


def test_it_ends_when_what_it_runs_beside_raises() -> None:
    before = children()
    with pytest.raises(KeyError), Background("cpu", 1):
        raise KeyError("a block that failed")
    assert children() <= before


def test_a_load_that_was_killed_is_not_the_one_asked_for() -> None:
    before = children()
    load = Background("cpu", 2)
    victim = min(children() - before)
    os.kill(victim, signal.SIGKILL)
    assert ended(victim)
    with pytest.raises(WorkerError, match="1 of 2 processes of the background load ended"):
        load.stop()
    assert children() <= before


@pytest.mark.skipif(sys.platform != "linux", reason="a process dies with its parent on Linux only")
def test_it_dies_with_its_parent() -> None:
    program = (
        "import psutil, time\n"
        "from evalspec.measure.background import Background\n"
        "Background('cpu', 1)\n"
        "print(psutil.Process().children()[0].pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        parent.kill()
        parent.wait()
    assert ended(pid)


def test_a_kind_that_there_is_not() -> None:
    with pytest.raises(InputError, match=r"no background load 'disk' \(choices: cpu, memory, gpu\)"):
        Background("disk", 1)


def test_no_worker_is_no_load() -> None:
    with pytest.raises(InputError, match="0 workers"):
        Background("cpu", 0)


@pytest.mark.proof
def test_no_gpu_is_said() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(NotRunError, match="no usable GPU"):
        Background("gpu", 1)


def test_the_gpu_that_is_named_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another card's load would leave the model alone, and its ratio at 1."""
    import torch

    asked: list[object] = []

    def ones(shape: tuple[int, int], *, dtype: torch.dtype, device: str) -> torch.Tensor:
        asked.append(device)
        return torch.zeros(1)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", ones)
    WORK["gpu"](3)
    assert asked == ["cuda:3"]


@pytest.mark.gpu
def test_a_gpu_is_kept_busy() -> None:
    with Background("gpu", 1) as load:
        time.sleep(0.5)
    assert load.facts["rounds_per_s"] > 0
