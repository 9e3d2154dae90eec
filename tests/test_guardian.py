"""A guardian: all that it guards ends, and what that took is known to whoever waited for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from evalspec import guardian
from evalspec.processes import Guarded

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no guardian stands between"),
]

SPINS = """
import ctypes, pathlib, sys, threading

def spin():
    while True:
        pass

for _ in range({threads}):
    threading.Thread(target=spin, daemon=True).start()
pathlib.Path({ready!r}).touch()
{then}
"""
THREAD_EXIT = 60
"""Number of the system call that ends a thread alone, on x86."""


def processor_s() -> float:
    return sum(os.times()[:4])


def spinning(folder: Path, then: str, threads: int = 1) -> tuple[Guarded, psutil.Process]:
    ready = folder / "ready"
    code = SPINS.format(threads=threads, ready=str(ready), then=then)
    with (folder / "log").open("wb") as log:
        command = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())]
        guarded = Guarded(command, log, then=[sys.executable, "-c", code])
    while not ready.exists():
        time.sleep(0.01)
    return guarded, psutil.Process(guarded.pid)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the number of a system call is that of x86")
def test_a_process_whose_first_thread_has_ended_ends_with_the_others(tmp_path: Path) -> None:
    begun = processor_s()
    guarded, process = spinning(tmp_path, f"ctypes.CDLL(None).syscall({THREAD_EXIT}, 0)")
    while process.status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    time.sleep(0.5)
    assert process.num_threads() == 2
    guarded.end()
    assert not process.is_running() and guarded.ended == -signal.SIGKILL
    assert processor_s() - begun > 0.1


@pytest.mark.proof
def test_what_threads_took_is_known_once_they_have_ended(tmp_path: Path) -> None:
    """Threads end one after the other, and memory is given back by the last one."""
    for number in range(4):
        (folder := tmp_path / f"{number}").mkdir()
        begun = processor_s()
        held = "held = bytearray(b'1') * (200 * 2**20)\nthreading.Event().wait()"
        guarded, process = spinning(folder, held, threads=6)
        time.sleep(0.4)
        guarded.end()
        assert (guarded.ended, process.is_running()) == (-signal.SIGKILL, False)
        assert processor_s() - begun > 0.1


@pytest.mark.parametrize("kernel", ["new", "old"])
def test_an_end_is_waited_for_with_a_descriptor_of_the_process_or_without(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel == "old":

        def refuse(pid: int, flags: int = 0) -> int:
            raise OSError(38, "Function not implemented")

        monkeypatch.setattr(os, "pidfd_open", refuse)
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())]
        guarded = Guarded(command, log, then=[sys.executable, "-c", "raise SystemExit(3)"])
        sleeper = Guarded(command, log, then=["sleep", "60"])
    assert guarded.wait(60.0) == 3 == guarded.wait(0.0)
    assert sleeper.wait(0.05) is None
    sleeper.end()
    assert sleeper.ended not in (None, 0)


ENDED = """
import os, signal
from evalspec import guardian

signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
guarded = os.fork()
if not guarded:
    os._exit(7)
os.waitid(os.P_PID, guarded, os.WEXITED | os.WNOWAIT)
guardian._watch(guarded)
"""


def test_one_that_ends_before_it_is_watched_is_known_to_have_ended() -> None:
    """Linux forgets a signal that is pending when it is set to its default."""
    assert subprocess.run([sys.executable, "-c", ENDED], timeout=30, check=False).returncode == 7


FAMILY = """
import os, subprocess, sys, threading, time

WAITS = "import subprocess; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
LEAVES = "import subprocess; print(subprocess.Popen(['sleep', '60'], start_new_session=True).pid, flush=True)"

def start(code):
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)

def from_a_thread():
    # Its list is that of the thread, which waits below.
    child = start(WAITS)
    print(child.pid, child.stdout.readline().strip())
    told.set()
    ended.wait()

ended, told = threading.Event(), threading.Event()
one = threading.Thread(target=from_a_thread, daemon=True)
one.start()
dead = subprocess.Popen(["true"])
os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
left = start(LEAVES)
print(left.stdout.readline().strip())
left.wait()
told.wait()
print("ready", flush=True)
ended.wait()
"""


@pytest.mark.parametrize("lists", [guardian.LISTS, "/proc/none"])
def test_all_that_run_below_are_seen_whoever_started_them(
    lists: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a thread, those of one that has ended and left its session; not one that has ended itself."""
    monkeypatch.setattr(guardian, "LISTS", lists)
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())]
        guarded = Guarded(command, log, then=[sys.executable, "-c", FAMILY])
    while "ready" not in (said := (tmp_path / "log").read_text()):
        assert guarded.ended is None, said
        time.sleep(0.01)
    (guard,) = (one.pid for one in psutil.Process().children() if one.pid in _above(guarded.pid))
    family = {int(word) for word in said.split() if word.isdigit()}
    assert len(family) == 3
    assert guardian.below(guard) == {guarded.pid} | family
    guarded.end()
    assert not any(psutil.pid_exists(pid) for pid in family) and guardian.below(guard) == set()


def _above(pid: int) -> set[int]:
    return {one.pid for one in psutil.Process(pid).parents()}
