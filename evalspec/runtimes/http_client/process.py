"""A server that a spec starts: a command that ends with whoever started it, with all that it has started itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from evalspec import guardian
from evalspec.clocks import now_ns
from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.logs import Log, last_line
from evalspec.pipeline.untrusted_code import need_trust
from evalspec.processes import Guarded
from evalspec.redaction import Redaction

if TYPE_CHECKING:
    from evalspec.runtimes.http_client.server import ServerFields

STOP_S = 5.0
"""Time to stop by itself before it is killed."""
POLL_S = 0.005
READY_POLL_S = 0.01
PYTHON = ("python", "python3")
"""In a command these are the interpreter that evalspec itself runs in, wherever that is."""


class ServerProcess:
    """The command of a model, running.

    It must be made by a thread that lives as long as the server is to: Linux ends it with that thread. What the server
    starts itself ends with the server or with this process, whatever its session (see `evalspec.guardian`).

    Args:
        model: Its ``start``.
        access: Its folder is where the command runs; it must allow that code runs.
        log: File for what the server writes; without secrets that it may know.

    Raises:
        InputError: It may not run, or can't be started.
    """

    def __init__(self, model: ServerFields, access: Access, log: Path) -> None:
        need_trust(access, f"the model is served by the command {model.start[0]}")
        self.model = model
        self.log = log
        self._access = access
        command = [sys.executable if model.start[0] in PYTHON else model.start[0], *model.start[1:]]
        self._hidden = Redaction.of(access.secrets)
        self._log = Log(log, self._hidden)
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.opened() as output:
                guard = [sys.executable, "-I", "-S", guardian.__file__, str(os.getpid())]
                self._process = Guarded(guard, output, folder=access.folder, then=command)
        except OSError as error:
            raise InputError(f"the server can't be started: {error.strerror or error}") from error

    @property
    def pid(self) -> int:
        """Process id, and that of its group."""
        return self._process.pid

    @property
    def ended(self) -> int | None:
        """The code it has ended with; None: it runs."""
        return self._process.ended

    def wait_ready(self, headers: dict[str, str], within_s: float | None = None) -> float:
        """Wait until it answers that it is ready.

        Returns:
            Seconds that it took.

        Raises:
            InputError: It was not ready in time, or has ended; the process is then stopped.
        """
        from evalspec.runtimes.http_client.readiness import why_not_ready

        within_s = self.model.ready_within_s if within_s is None else within_s
        trusted = self.model.trusted(self._access)
        began, why = time.monotonic(), None
        while (spent := time.monotonic() - began) < within_s and self.ended is None:
            why = why_not_ready(self.model, headers, trusted)
            if why is None and self.ended is None:
                return time.monotonic() - began
            time.sleep(min(READY_POLL_S, within_s - spent))
        code = self.ended
        self.stop()
        late = f"was not ready within {within_s:g} s" + ("" if why is None else f": {self._hidden.text(why)}")
        what = late if code is None else f"ended with code {code}"
        line = last_line(self.log)
        said = f"its last line: {line}" if line else f"its log {self.log.name} is empty"
        raise InputError(f"the server from `start` {what}; {said}")

    def stop(self) -> None:
        """Ask it to end, then kill what is left of it and of all that it has started."""
        if self.ended is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGTERM)
            self._process.wait(STOP_S)
        self._process.end()
        self._log.finish()


def kill_group(group: int, within_s: float = STOP_S) -> int:
    """Kill all processes of a group at once, and wait until none of them runs.

    Returns:
        When they were killed, on `evalspec.clocks.now_ns`.
    """
    import psutil

    members = []
    for one in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(one.pid) == group:
                members.append(one)
    killed = now_ns()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    until = time.monotonic() + within_s
    while any(_runs(one) for one in members) and time.monotonic() < until:
        time.sleep(POLL_S)
    return killed


def _runs(process: object) -> bool:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        # One that has ended and that its parent has not yet asked about holds no port and no memory.
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def check_free(name: str, model: ServerFields) -> None:
    """Stop where somebody else answers at the address: it would be judged in the place of what is started here.

    Args:
        name: Of the model, for the sentence.
        model: The server.

    Raises:
        InputError: Somebody does.
    """
    from evalspec.runtimes.http_client.connection import connect
    from evalspec.runtimes.http_client.wire import HttpError

    try:
        connect(model.address, 1.0).close()
    except HttpError:
        return
    raise InputError(
        f"a different server already answers at {model.address}, where `start` of {name} should start one",
        remedy="stop it, or remove `start` from the spec to use it",
    )


def listening(port: int) -> int | None:
    """Process that listens at a port of this machine; None: nobody, or it belongs to somebody else."""
    import psutil

    try:
        connections = psutil.net_connections("tcp")
    except (psutil.Error, OSError):
        return None
    pids = [one.pid for one in connections if one.status == psutil.CONN_LISTEN and one.laddr and one.laddr.port == port]
    return next((pid for pid in pids if pid is not None), None)
