"""Needs of every child process of ours: to find this package, to end when its parent does, and a guardian."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from evalspec.guardian import SWEEP_S, below, kill_below

PR_SET_PDEATHSIG = 1
END_S = SWEEP_S + 5.0
"""Longest time for a guardian to end."""


class Guarded:
    """A process and its guardian; see `evalspec.guardian`.

    It must be made by a thread that lives as long as the process is to: Linux ends it with that thread.

    Args:
        command: What becomes the guardian; the number of a descriptor is added, into which `guardian.stand` writes.
        output: Takes what the process writes.
        passed: Descriptors that it gets beside.
        folder: Where it runs; None: here.
        environment: Of the process; None: this one's.
        then: Follows the number of the descriptor.

    Raises:
        OSError: It can't be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: IO[bytes],
        *,
        passed: Sequence[int] = (),
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        then: Sequence[str] = (),
    ) -> None:
        self._announced, announced = os.pipe()
        try:
            self._guard = subprocess.Popen(
                [*command, str(announced), *then],
                pass_fds=(*passed, announced),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=environment,
            )
        except OSError:
            os.close(self._announced)
            raise
        finally:
            os.close(announced)
        self._pid: int | None = None

    @property
    def pid(self) -> int:
        """Number of the process, waited for; that of its guardian where it has ended before it had one."""
        if self._pid is None:
            said = os.read(self._announced, 32)
            os.close(self._announced)
            self._pid = int(said) if said else self._guard.pid
        return self._pid

    @property
    def ended(self) -> int | None:
        """The code it has ended with, and with it all that it had started; None: it runs."""
        return self._guard.poll()

    def wait(self, within_s: float) -> int | None:
        """Wait for its end; as `ended`."""
        until = time.monotonic() + within_s
        if self.ended is None:
            _sleep_until_gone(self._guard.pid, within_s)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._guard.wait(timeout=max(0.0, until - time.monotonic()))
        return self.ended

    def end(self) -> None:
        """Kill it and all that it has started."""
        if self.ended is None:
            if sys.platform == "linux":
                self._guard.terminate()
                self.wait(END_S)
                if self.ended is None:
                    # Somebody keeps the guardian from its work.
                    kill_below(self._guard.pid)
            else:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.kill()
        self._guard.wait()
        _ = self.pid


def _sleep_until_gone(pid: int, within_s: float) -> None:
    """Sleep until a process of ours has ended; `Popen.wait` looks again and again, and sleeps up to 50 ms between."""
    if sys.platform != "linux":
        return
    # An old kernel gives no such descriptor.
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(pid)
        try:
            gone = select.poll()
            gone.register(descriptor, select.POLLIN)
            gone.poll(1000.0 * within_s)
        finally:
            os.close(descriptor)


def descendants(pid: int) -> set[int]:
    """Processes that run below one."""
    if sys.platform == "linux":
        return below(pid)
    else:  # mypy checks one of the two
        import psutil

        try:
            return {one.pid for one in psutil.Process(pid).children(recursive=True)}
        except psutil.Error:
            return set()


def import_path() -> dict[str, str]:
    """The environment in which a child finds this very package, also when it is not installed."""
    here = Path(__file__).resolve().parents[1]
    # Where it is installed the child finds it anyway, and its folder must not come before the standard library's.
    if here in (Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")):
        return {}
    return {"PYTHONPATH": os.pathsep.join([str(here), *filter(None, [os.environ.get("PYTHONPATH")])])}


def die_with_parent(parent: int) -> None:
    """Ask Linux to kill this process when its parent ends; elsewhere a closed channel has to end it."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
