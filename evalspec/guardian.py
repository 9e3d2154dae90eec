"""A process between us and one that we start: whichever of them ends, it ends all that was started below it.

A process that leaves its session and its group is still found: Linux hands what has lost its parent to the nearest
ancestor that asks for it, and this one does. It has no code of others in it, and ends as the process did that it
guards. It is forked off (`stand`), or run as a script that then becomes a command::

    python guardian.py PARENT DESCRIPTOR COMMAND...
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SWEEP_S = 10.0
"""Longest time for what is killed to be gone."""
PAUSE_S = 0.002
MOST_ROUNDS = 100
NOT_FOUND = 127
LISTS = "/proc/thread-self/children"
"""Is there where the kernel keeps lists of children, as most do; elsewhere all processes are looked through."""
THREADS = 17
"""Place of the number of threads behind the name of a process in its line of /proc."""


def stand(parent: int, descriptor: int, *, adopts: bool) -> None:
    """Split this process: what goes on from here is a child with a session of its own, and this one guards it.

    On SIGTERM, and when the parent or the guarded process ends, everything below is killed.

    Args:
        parent: Process that must be this one's parent; it ends when that does.
        descriptor: The guarded process writes its number there.
        adopts: What has lost its parent becomes the guarded process's own for as long as that lives, so that whoever
            looks at the processes below it sees all of them.
    """
    if sys.platform != "linux":
        _announce(descriptor)
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGCHLD))
    _control(PR_SET_PDEATHSIG, signal.SIGTERM)
    _control(PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != parent:
        os._exit(1)
    guard = os.getpid()
    guarded = os.fork()
    if guarded:
        _watch(guarded)
    os.setsid()
    # It outlives an exec.
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    if adopts:
        _control(PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    _announce(descriptor)


def _announce(descriptor: int) -> None:
    os.write(descriptor, str(os.getpid()).encode())
    os.close(descriptor)


def _control(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value)


def _watch(guarded: int) -> None:
    """Wait for an end, kill what is left, end alike."""
    # The other side sees that a channel is closed, or a log at its end, when the guarded process has closed it.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # That forgets the signal of one that has ended already.
    status, _ = _reaped(guarded)
    while status is None and signal.sigwait((signal.SIGTERM, signal.SIGCHLD)) == signal.SIGCHLD:
        status, _ = _reaped(guarded)
    until = time.monotonic() + SWEEP_S
    while time.monotonic() < until:
        ended, left = _reaped(guarded)
        status = ended if status is None else status
        # What loses its parent becomes a child of this process: without one, nothing runs below it.
        if not left:
            break
        # One whose threads still end runs no more, and nobody knows yet how long it has run.
        kill_below(os.getpid())
        time.sleep(PAUSE_S)
    _end_as(status)


def _reaped(guarded: int) -> tuple[int | None, bool]:
    """Take leave of all that have ended: how the guarded process did, if it is among them, and if others are left."""
    found = None
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return found, True
            found = status if pid == guarded else found
    except ChildProcessError:
        return found, False


def _end_as(status: int | None) -> None:
    import resource

    if status is not None and os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(1 if status is None else os.waitstatus_to_exitcode(status))


def kill_below(top: int) -> None:
    """Kill every process below one, whatever its session.

    They are stopped first, the newest too, so that none starts another one meanwhile.
    """
    stopped: set[int] = set()
    for _ in range(MOST_ROUNDS):
        new = below(top) - stopped
        if not new:
            break
        for pid in new:
            _send(pid, signal.SIGSTOP)
        stopped |= new
    for pid in stopped:
        _send(pid, signal.SIGKILL)


def below(top: int) -> set[int]:
    """Processes that run below one."""
    children = started_by if os.path.exists(LISTS) else _by_parent()
    found: set[int] = set()
    wanted = [top]
    while wanted:
        own = {pid for pid in children(wanted.pop()) if pid not in found and _parent(pid) is not None}
        wanted += own
        found |= own
    return found


def started_by(pid: int, proc: str = "/proc") -> list[int]:
    """Children of a process, those that ended too: what it or one of its threads has started or was handed."""
    found: list[int] = []
    threads = f"{proc}/{pid}/task"
    with contextlib.suppress(OSError):
        for thread in os.listdir(threads):
            with contextlib.suppress(OSError), open(f"{threads}/{thread}/children", "rb") as file:
                found += [int(word) for word in file.read().split()]
    return found


def _by_parent() -> Callable[[int], Sequence[int]]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        parent = _parent(int(name)) if name.isdigit() else None
        if parent is not None:
            children.setdefault(parent, []).append(int(name))
    return lambda pid: children.get(pid, ())


def _parent(pid: int) -> int | None:
    """Parent of a process; None: it does not run."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as file:
        # The name in brackets may hold anything.
        facts = file.read().rpartition(b")")[2].split()
        # A process whose first thread has ended looks ended, however many others go on.
        if facts[0] not in (b"Z", b"X") or int(facts[THREADS]) > 1:
            return int(facts[1])
    return None


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main() -> None:
    """Guard a command."""
    parent, descriptor, *command = sys.argv[1:]
    os.set_inheritable(int(descriptor), False)
    stand(int(parent), int(descriptor), adopts=False)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} can't be started: {error.strerror}\n".encode())
        os._exit(NOT_FOUND)


if __name__ == "__main__":
    main()
