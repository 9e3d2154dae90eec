"""Children of runs in a test process are forked off a server that has imported what all of them import.

A run starts three processes or more, and most of what they do in a test is to import. Only processes of
`evalspec.running.children.child` that this very process starts are forked; what those start, and what a command in a
process of its own starts, are started as ever. ``EVALSPEC_TESTS_FORK=0`` has all of them started as ever.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, Any

CHILD = "evalspec.running.children.child"
DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired
FIXED = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "ARROW_", "NPY_", "MALLOC_")
"""Variables that are read when something is imported: a server has one set of values for all its children."""
_HEAD = 8

_servers: dict[tuple[tuple[str, str], ...], _Server] = {}


class Popen:
    """As `subprocess.Popen`, of which it has what `evalspec.processes.Guarded` uses; not only for our children."""

    def __new__(cls, command: Sequence[str], **settings: Any) -> Any:
        """A real one for all that is not a child of a run, and for other threads: with these their processes end."""
        if list(command[1:4]) != ["-P", "-m", CHILD] or threading.current_thread() is not threading.main_thread():
            return subprocess.Popen(command, **settings)
        return super().__new__(cls)

    def __init__(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int],
        cwd: object,
        stdout: IO[bytes],
        env: Mapping[str, str],
        **_: Any,
    ) -> None:
        self.returncode: int | None = None
        self._status, status = os.pipe()
        # The descriptors have other numbers over there.
        places = {str(descriptor): f"fd{place}" for place, descriptor in enumerate(pass_fds)}
        words = [places.get(one, one) for one in command[4:]]
        question = {"words": words, "folder": str(cwd or os.getcwd()), "environment": dict(env)}
        try:
            self.pid = _server(env).fork(question, [stdout.fileno(), status, *pass_fds])
        finally:
            os.close(status)

    def poll(self) -> int | None:
        """Its exit code, or None."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(CHILD, timeout)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        said = os.read(self._status, 32)
        os.close(self._status)
        self.returncode = int(said) if said else 255

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _fixed(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, value) for name, value in environment.items() if name.startswith(FIXED)))


def _server(environment: Mapping[str, str]) -> _Server:
    key = _fixed(environment)
    if key in _servers and not _servers[key].alive:
        _servers.pop(key).close()
    if key not in _servers:
        _servers[key] = _Server(dict(environment))
    return _servers[key]


class _Server:
    """The process that forks, and the channel to it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """False once it has ended, as it does with the thread that started it."""
        return self._process.poll() is None

    def close(self) -> None:
        """Let it go."""
        self._channel.close()

    def fork(self, question: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        body = json.dumps(question).encode()
        socket.send_fds(self._channel, [len(body).to_bytes(_HEAD, "big")], list(descriptors))
        self._channel.sendall(body)
        return int.from_bytes(_whole(self._channel, _HEAD), "big")


def _whole(channel: socket.socket, length: int) -> bytes:
    parts = b""
    while len(parts) < length:
        part = channel.recv(length - len(parts))
        if not part:
            raise EOFError("the other side has gone")
        parts += part
    return parts


def serve(channel: socket.socket) -> None:
    """Fork a child for each question, and write into its pipe how it ended."""
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    ends: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1024)
            _reap(ends)
        if channel.fileno() in ready:
            head, descriptors, _, _ = socket.recv_fds(channel, _HEAD, 16)
            if not head:
                return
            question = json.loads(_whole(channel, int.from_bytes(head, "big")))
            output, status, *passed = descriptors
            pid = os.fork()
            if not pid:
                for own in (channel.fileno(), woken, wake, status, *ends.values()):
                    os.close(own)
                _become(question, output, passed)
            ends[pid] = status
            for given in (output, *passed):
                os.close(given)
            channel.sendall(pid.to_bytes(_HEAD, "big"))


def _reap(ends: dict[int, int]) -> None:
    while ends:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        end = ends.pop(pid)
        os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
        os.close(end)


def _become(question: Mapping[str, Any], output: int, passed: Sequence[int]) -> None:
    """Go on as the child would that was started with these words."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(question["folder"])
        os.environ.clear()
        os.environ.update(question["environment"])
        words = [str(passed[int(one[2:])]) if re.fullmatch(r"fd\d+", one) else one for one in question["words"]]
        # Its parent is this server.
        sys.argv = [CHILD, words[0], str(os.getppid()), *words[2:]]
        from evalspec.running.children import child

        # Files that code is in are looked for among the modules, and this one's is nobody's.
        sys.modules["__main__"] = child
        child.main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001  # it is this process's own end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _import() -> None:
    """What every child imports; a library that not every child needs would be one too many in it."""
    from evalspec.imports import numpy_without_tools

    numpy_without_tools()
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import scipy.special  # noqa: F401

    import evalspec.running.children.checking
    import evalspec.running.children.child
    import evalspec.running.children.reader
    import evalspec.running.children.screening
    import evalspec.running.children.sharing
    import evalspec.running.children.worker  # noqa: F401


if __name__ == "__main__":
    import gc

    from evalspec.processes import die_with_parent

    die_with_parent(int(sys.argv[2]))
    _import()
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as one:
        serve(one)
