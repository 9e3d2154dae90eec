"""A process of its own for everything that may crash, hang or eat all memory.

A guardian stands between the child and its parent (see `evalspec.guardian`): whichever of the two ends, all that the
child has started ends, also what has left its session. Any end without an answer is an error, exit code 0 too. Memory
is watched as resident size of the child and all below it.
"""

from __future__ import annotations

import contextlib
import pickle
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

from evalspec.errors import EngineError, InputError, InvalidError, NotRunError, WorkerError, WriteError
from evalspec.logs import Log, last_line
from evalspec.processes import descendants
from evalspec.redaction import Redaction
from evalspec.running.children.messages import BLOCKS, Message, Progress, receive, receive_bytes, send, send_bytes
from evalspec.running.children.spare import Spare, started
from evalspec.running.files import make_folder

WATCH_EVERY_S = 0.2
MOST_IDLE_BYTES = 256 * 2**20
"""Size of a child up to which it may stay, asleep, beside what is timed."""
GONE_S = 5.0
"""Longest time for a child to end that has closed its channel."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what a child may use.

    Args:
        time_s: Longest time for one answer.
        memory_bytes: Largest resident size of the child and all that it starts.
    """

    time_s: float = 1800.0
    memory_bytes: int | None = None


class Child:
    """One child process, started with a job, asked questions over a socket pair."""

    def __init__(  # noqa: PLR0913  # a child has so many sides
        self,
        role: str,
        job: Any,
        *,
        limits: Limits,
        log: Path,
        environment: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        on_read: Callable[[Mapping[str, str]], None] | None = None,
        on_wait: Callable[[], None] | None = None,
        spare: Spare | None = None,
    ) -> None:
        """Starts the child.

        Args:
            role: The module that serves it: its ``start(job)`` gives the handler of questions.
            job: Handed over pickled; it comes from this process, never from outside.
            limits: Time for each answer and memory.
            log: File for what it writes to its standard streams.
            environment: Added to this process's environment before anything is imported.
            secrets: Variables of the environment whose values leave the child neither in an answer nor in its log.
            on_read: Told of the files that a worker says its model's code has read, and their digests.
            on_wait: Called again and again while an answer is waited for; what it raises ends the wait.
            spare: Becomes this child; None: one is started.
        """
        secrets = tuple(secrets)
        self.role = role.rpartition(".")[2]
        self.limits = limits
        self.log = log
        self._log = Log(log, Redaction.of(secrets))
        self._on_read = on_read
        self._on_wait = on_wait
        self._watched = 0.0
        with contextlib.ExitStack() as unless_taken:
            if spare is not None:
                unless_taken.callback(spare.close)
            with _opened(self._log) as output:
                if spare is None:
                    self._channel, self._process = started(output, environment or {})
                else:
                    self._channel, self._process = spare.channel, spare.process
                    with contextlib.suppress(OSError):
                        # One that has ended takes no job either.
                        spare.write_to(output)
            unless_taken.pop_all()
        try:
            send_bytes(self._channel, pickle.dumps((role, job, secrets)))
        except ConnectionError:
            self._gone()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while the child can be asked something more."""
        return self._process.ended is None

    def ask(self, question: Message, *, progress: Progress | None = None, time_s: float | None = None) -> Message:
        """Ask one question and wait for its answer.

        Raises:
            WorkerError: It ended without an answer, or went past a limit; it has then been killed.
            InputError, NotRunError, InvalidError, EngineError: As the child raised it.
        """
        self.tell(question)
        return self.answer(progress=progress, time_s=time_s)

    def tell(self, question: Message) -> None:
        """Ask, and go on; `answer` waits for what it says.

        Raises:
            WorkerError: It has ended.
        """
        try:
            send(self._channel, question)
        except ConnectionError:
            self._gone()

    def answer(self, *, progress: Progress | None = None, time_s: float | None = None) -> Message:
        """Wait for the answer to what `tell` asked."""
        begun_s = time.monotonic()
        while True:
            ready, _, _ = select.select([self._channel], [], [], WATCH_EVERY_S)
            if ready:
                message = receive(self._channel)
                if message is None:
                    self._gone()
                if "progress" not in message:
                    if BLOCKS in message:
                        message[BLOCKS] = [self._block() for _ in range(message[BLOCKS])]
                    if self._on_read is not None:
                        self._on_read(message.pop("read", {}))
                    return _answered(message)
                if progress is not None:
                    progress(*message["progress"])
            if self._on_wait is not None:
                self._on_wait()
            self.watch(begun_s, time_s)

    def _block(self) -> bytes:
        block = receive_bytes(self._channel)
        if block is None:
            self._gone()
        return block

    def fileno(self) -> int:
        """Descriptor that can be read when it answers, or has ended: `select` takes children."""
        return self._channel.fileno()

    def watch(self, begun_s: float, time_s: float | None = None) -> None:
        """Kill it where it uses or takes too much; whoever waits for several children does not wait in `answer`.

        Args:
            begun_s: When its answer was first waited for, by the monotonic clock.
            time_s: Longest time for it; None: as its limits have it.

        Raises:
            WorkerError: It did.
        """
        self._watch_memory()
        allowed_s = self.limits.time_s if time_s is None else time_s
        if time.monotonic() > begun_s + allowed_s:
            self.kill()
            raise WorkerError(f"{self.role} did not answer within {allowed_s:g} s and was killed")

    def _watch_memory(self) -> None:
        limit, now = self.limits.memory_bytes, time.monotonic()
        # A child that says how far it has come comes by here more often, and all processes are looked through.
        if limit is None or now - self._watched < WATCH_EVERY_S:
            return
        self._watched = now
        used = resident_bytes(self.pid)
        if used > limit:
            self.kill()
            raise WorkerError(
                f"{self.role} used {used / 2**20:,.0f} MiB of resident memory, over the limit of "
                f"{limit / 2**20:,.0f} MiB, and was killed; raise --memory-limit if it needs more"
            )

    def _gone(self) -> NoReturn:
        code = self._process.wait(GONE_S)
        self.kill()
        line = last_line(self.log)
        said = f"; its last line: {line}" if line else ""
        raise WorkerError(f"{self.role} {_ending(code)} without an answer{said}")

    def kill(self) -> None:
        """Kill the child and all that it has started."""
        self._process.end()
        self._channel.close()
        self._log.finish()

    def close(self) -> None:
        """Let the child go, and make sure that nothing of it stays."""
        self.kill()


@contextlib.contextmanager
def _opened(log: Log) -> Iterator[IO[bytes]]:
    make_folder(log.path.parent)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(log.opened())
        except OSError as error:
            raise WriteError(f"{log.path} can't be written: {error.strerror or error}") from error
        yield file


def _answered(message: Message) -> Message:
    """The answer, or the error that it carries."""
    error = message.get("error")
    if error is None:
        return message
    kinds = {one.__name__: one for one in (InputError, NotRunError, InvalidError, EngineError)}
    raise kinds.get(error["kind"], WorkerError)(error["message"])


def _ending(code: int | None) -> str:
    if code is None:
        return "closed its channel"
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = str(-code)
        hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
        return f"was killed by {name}{hint}"
    return f"exited with code {code}"


def resident_bytes(pid: int, *, below: bool = True) -> int:
    """Resident size of a process and, unless told otherwise, of its descendants; 0 where it is gone."""
    import psutil

    total = 0
    for one in (pid, *(descendants(pid) if below else ())):
        with contextlib.suppress(psutil.Error):
            total += psutil.Process(one).memory_info().rss
    return total
