"""Children of runs in a test process are forked off a server that has imported what all of them import.

A run starts three processes or more, and most of what they do in a test is to import. A test whose children all import
more says so (``@pytest.mark.imports("torch")``): their server is forked off the one that all have. Processes of
`evalspec.running.children.child` are forked that this very process starts, or one that was forked, and so are the
scripts in Python that they guard, as trainings and servers are; what a command in a process of its own starts is
started as ever, unless it is `tests.forking_command`. ``EVALSPEC_TESTS_FORK=0`` has all of them started as ever.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, Any

from evalspec import guardian, processes
from evalspec.running.children.spare import child_environment

CHILD = "evalspec.running.children.child"
DEVNULL, TimeoutExpired = subprocess.DEVNULL, subprocess.TimeoutExpired
FIXED = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "ARROW_", "NPY_", "MALLOC_")
"""Variables that are read when something is imported: a server has one set of values for all its children."""
SCRIPT = 7
"""Place of a script in the command of its guardian."""
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOMS = ("answers", "checks", "pipeline", "running", "runtimes", "scoring", "screens", "sources", "tables", "timing")
"""Packages whose modules children import, and what these import."""
STDERR = 2
THREADS = 1
"""Of a child, unless its command says otherwise."""
_HEAD = 8
_origin: tuple[str, tuple[tuple[str, str], ...]] | None = None
"""Address and environment of the server that this process was forked off, or has joined; None: neither."""

_servers: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], _Server] = {}
_numbers = itertools.count()
more: tuple[str, ...] = ()
"""Modules that the children of the test at hand import beside, and functions that import, as ``module:function``."""


class _Forked:
    """A process that is forked off a server.

    Args:
        address: Of the server.
        question: What it is to be; see `_become`.
        output: Takes what it writes.
        passed: Descriptors that it gets beside.
    """

    def __init__(self, address: str, question: Mapping[str, Any], output: int, passed: Sequence[int]) -> None:
        self.returncode: int | None = None
        # While it is open the other side lets the process live, and tells over it how that ends.
        self._channel = socket.socket(socket.AF_UNIX)
        self._channel.connect(address)
        body = json.dumps(question).encode()
        socket.send_fds(self._channel, [len(body).to_bytes(_HEAD, "big")], [output, *passed])
        self._channel.sendall(body)
        self.pid = int.from_bytes(_whole(self._channel, _HEAD), "big")

    def poll(self) -> int | None:
        """Its exit code, or None."""
        if self.returncode is None and select.select([self._channel], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code."""
        if self.returncode is None:
            if not select.select([self._channel], [], [], timeout)[0]:
                assert timeout is not None
                raise subprocess.TimeoutExpired(CHILD, timeout)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def _end(self) -> None:
        said = self._channel.recv(32)
        self._channel.close()
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


class Popen(_Forked):
    """As `subprocess.Popen`, of which it has what `evalspec.processes.Guarded` uses; not only for our children."""

    def __new__(cls, command: Sequence[str], **settings: Any) -> Any:
        """A real one for all that is not a child of a run, and for other threads: with these their processes end."""
        if _is_child(command):
            is_ours = _origin is None or _origin[1] == _fixed(settings["env"])
        else:
            is_ours = _is_script(command, settings["cwd"])
        if is_ours and threading.current_thread() is threading.main_thread():
            return super().__new__(cls)
        return subprocess.Popen(command, **settings)

    def __init__(
        self,
        command: Sequence[str],
        *,
        pass_fds: Sequence[int],
        cwd: object,
        stdout: IO[bytes],
        env: Mapping[str, str] | None,
        **_: Any,
    ) -> None:
        env = os.environ if env is None else env
        question: dict[str, Any] = {"folder": str(cwd or os.getcwd()), "environment": dict(env)}
        if _is_child(command):
            # The descriptors have other numbers over there.
            places = {str(descriptor): f"fd{place}" for place, descriptor in enumerate(pass_fds)}
            question["words"] = [places.get(one, one) for one in command[4:]]
        else:
            question["script"] = list(command[SCRIPT:])
        address = _server(env, more).address if _origin is None else _origin[0]
        super().__init__(address, question, stdout.fileno(), pass_fds)


def _is_child(command: Sequence[str]) -> bool:
    return list(command[1:4]) == ["-P", "-m", CHILD]


def _is_script(command: Sequence[str], folder: object) -> bool:
    """Whether it is a script in our own Python, under its guardian."""
    if list(command[1:4]) != ["-I", "-S", guardian.__file__] or command[SCRIPT - 1] != sys.executable:
        return False
    return command[SCRIPT].endswith(".py") and os.path.isfile(os.path.join(str(folder or ""), command[SCRIPT]))


def address(environment: Mapping[str, str]) -> str:
    """Of the server for the children of a command with this environment, for its process to `join`."""
    return _server(_of_children(environment), more).address.removeprefix("\0")


def join(address: str) -> None:
    """Let the children of this process be forked off the server at an address."""
    global _origin
    _origin = f"\0{address}", _fixed(_of_children(os.environ))


def _of_children(environment: Mapping[str, str]) -> dict[str, str]:
    return {**environment, **child_environment(trust=False, hub=False, metadata=False, threads=THREADS)}


def _fixed(environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    fixed = {name: value for name, value in environment.items() if name.startswith(FIXED)}
    # Each process puts the folder of this package before what its parent has.
    path = [one for one in fixed.pop("PYTHONPATH", "").split(os.pathsep) if one and one != ROOT]
    if path:
        fixed["PYTHONPATH"] = os.pathsep.join(path)
    return tuple(sorted(fixed.items()))


def _server(environment: Mapping[str, str], modules: tuple[str, ...]) -> _Server:
    """The server that has imported these modules beside what all have."""
    key = modules, _fixed(environment)
    if key in _servers and not _servers[key].alive:
        _servers.pop(key).close()
    if key not in _servers:
        _servers[key] = _Server(dict(environment), modules)
    return _servers[key]


def servers() -> set[int]:
    """Numbers of the processes that are servers of this one."""
    return {server.pid for server in _servers.values()}


def close() -> None:
    """End all servers of this process."""
    for server in _servers.values():
        server.close()
    _servers.clear()


class _Server:
    """The process that forks, and where it listens; one that imports more is forked off the one that does not."""

    def __init__(self, environment: dict[str, str], modules: tuple[str, ...]) -> None:
        self._process: subprocess.Popen[bytes] | _Forked
        # Only the server keeps it: when that has ended, nobody waits for an answer.
        with socket.socket(socket.AF_UNIX) as listening:
            # A name that is no file.
            listening.bind(f"\0evalspec-tests-{os.getpid()}-{next(_numbers)}")
            listening.listen(128)
            self.address = listening.getsockname().decode()
            if modules:
                question = {"folder": ROOT, "environment": environment, "modules": modules}
                first = _server(environment, ()).address
                self._process = _Forked(first, question, STDERR, [listening.fileno()])
            else:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__, str(listening.fileno()), str(os.getpid())],
                    pass_fds=[listening.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=environment,
                    start_new_session=True,
                )

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """False once it has ended, as it does with the thread that started it."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it, if it has not ended."""
        self._process.kill()
        self._process.wait()


def _whole(channel: socket.socket, length: int) -> bytes:
    parts = b""
    while len(parts) < length:
        part = channel.recv(length - len(parts))
        if not part:
            raise ConnectionError("the other side has gone")
        parts += part
    return parts


def serve(listening: socket.socket) -> None:
    """Fork a child for each connection, and tell over it how that ended; it is ended where the other side goes."""
    global _origin
    _origin = listening.getsockname().decode(), _fixed(os.environ)
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    asked: dict[int, socket.socket | None] = {}
    while True:
        there = {pid: channel for pid, channel in asked.items() if channel is not None}
        watched: list[Any] = [listening, woken, *there.values()]
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 1024)
            _reap(asked)
        for pid, channel in there.items():
            # Nothing more is said over it but that the other side has gone.
            if channel in ready and pid in asked:
                os.kill(pid, signal.SIGTERM)
                channel.close()
                asked[pid] = None
        if listening in ready:
            channel, _ = listening.accept()
            others = (one.fileno() for one in asked.values() if one is not None)
            new = _forked(channel, (listening.fileno(), woken, wake, *others))
            if new is None:
                channel.close()
            else:
                asked[new] = channel


def _forked(channel: socket.socket, own: Sequence[int]) -> int | None:
    """Fork what is asked for over a connection; None: the other side has gone before it had asked.

    ``own`` descriptors are the server's alone.
    """
    descriptors: list[int] = []
    try:
        head, descriptors, _, _ = socket.recv_fds(channel, _HEAD, 16)
        question = json.loads(_whole(channel, int.from_bytes(head, "big")))
    except (OSError, ValueError):
        for given in descriptors:
            os.close(given)
        return None
    output, *passed = descriptors
    server = os.getpid()
    pid = os.fork()
    if not pid:
        for one in (channel.fileno(), *own):
            os.close(one)
        _become(question, server, output, passed)
    for given in descriptors:
        os.close(given)
    # Whoever has gone by now is noticed with the next look.
    with contextlib.suppress(OSError):
        channel.sendall(pid.to_bytes(_HEAD, "big"))
    return pid


def _reap(asked: dict[int, socket.socket | None]) -> None:
    while asked:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        channel = asked.pop(pid)
        if channel is not None:
            with channel, contextlib.suppress(OSError):
                channel.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _become(question: Mapping[str, Any], server: int, output: int, passed: Sequence[int]) -> None:
    """Go on as the child would that was started with these words; its parent is the server with this number."""
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
        if "modules" in question:
            _serve_more(question["modules"], server, *passed)
        elif "script" in question:
            _run_script(question["script"], server, *passed)
        else:
            _run_child(question["words"], server, passed)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
    except BaseException:  # noqa: BLE001  # it is this process's own end
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _run_child(words: Sequence[str], server: int, passed: Sequence[int]) -> None:
    words = [str(passed[int(one[2:])]) if re.fullmatch(r"fd\d+", one) else one for one in words]
    sys.argv = [CHILD, words[0], str(server), *words[2:]]
    from evalspec.running.children import child

    # What it starts is forked off its own server.
    vars(processes)["subprocess"] = sys.modules["__main__"]
    # Files that code is in are looked for among the modules, and this one's is nobody's.
    sys.modules["__main__"] = child
    child.main()


def _serve_more(modules: Sequence[str], server: int, listening: int) -> None:
    """Be a server that has imported these modules beside what its parent has."""
    processes.die_with_parent(server)
    _import(modules)
    _serve_on(listening)


def _run_script(words: Sequence[str], server: int, announced: int) -> None:
    """Be a script below its guardian, as `guardian.main` makes one."""
    guardian.stand(server, announced, adopts=False)
    sys.argv = list(words)
    sys.path.insert(0, os.path.dirname(os.path.abspath(words[0])))
    runpy.run_path(words[0], run_name="__main__")


def _import_rooms() -> None:
    """What children import of this package, and of libraries what all of them need: one more would be in each."""
    from evalspec.imports import numpy_without_tools

    numpy_without_tools()
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
    import scipy.special  # noqa: F401

    for room in ROOMS:
        package = importlib.import_module(f"evalspec.{room}")
        for one in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(one.name)


def _import(modules: Sequence[str]) -> None:
    for name in modules:
        module, _, function = name.partition(":")
        imported = importlib.import_module(module)
        if function:
            getattr(imported, function)()


def _serve_on(listening: int) -> None:
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=listening) as one:
        serve(one)


if __name__ == "__main__":
    processes.die_with_parent(int(sys.argv[2]))
    _import_rooms()
    _serve_on(int(sys.argv[1]))
