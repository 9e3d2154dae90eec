"""Signals that end a command: Ctrl-C, and what a terminal that closes, a shell or whoever cancels a job sends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name))
INTERRUPTED = 130
LOST_S = 1.0
"""Code that is not ours may swallow an interrupt: one that comes so much later is another one."""
LONGEST_S = 5.0
"""After the first signal; whoever sends one more then does not want to wait for the record."""


def end_at_once() -> None:
    """Until `raise_interrupt`, a signal ends this process with one line: it has done nothing yet."""
    _install(_end)


class Raising:
    """Raises a KeyboardInterrupt at each signal, and counts them: other code may make an error of one."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        raise KeyboardInterrupt


def raise_interrupt(raising: Raising) -> None:
    """From now on a signal is a KeyboardInterrupt, where `end_at_once` was called before.

    Args:
        raising: Raises and counts them.
    """
    _install(raising, where=_end)


def ignore() -> None:
    """From now on no signal does anything: this process ends by itself, with the code that it has."""
    for number in SIGNALS:
        if isinstance(signal.getsignal(number), Raising):
            signal.signal(number, signal.SIG_IGN)


class Interrupts:
    """While it is entered the first signal is a KeyboardInterrupt, and those that follow are only counted.

    So are all after `hold`. More than 5 s after the first one a signal ends the process at once. Signals that were
    ignored before stay ignored, as under ``nohup``; outside of the main thread nothing is changed.
    """

    def __init__(self) -> None:
        self.count = 0
        """Signals that came."""
        self._depth = 0
        self._holding = False
        self._deferring = self._deferred = False
        self._first_s = self._raised_s = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1:
            self._holding = False
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self._before = {number: signal.getsignal(number) for number in SIGNALS}
            _install(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            for number, before in self._before.items():
                if signal.getsignal(number) == self._take:
                    signal.signal(number, before)
            self._before = {}

    def hold(self) -> None:
        """From now on nothing is interrupted: what was measured is being written."""
        self._holding = True

    def raise_lost(self) -> None:
        """Raise an interrupt again that nobody has taken since: code that is not ours may swallow one.

        Raises:
            KeyboardInterrupt: It was raised more than a second ago, and what it should end goes on.
        """
        if not self.count or self._holding or self._deferring:
            return
        now = time.monotonic()
        if now - self._raised_s > LOST_S:
            self._raised_s = now
            raise KeyboardInterrupt

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Meanwhile an interrupt waits: what is written, and what is known of it, belong together."""
        if self._deferring:
            yield
            return
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            if self._deferred and not self._holding:
                self._deferred = False
                raise KeyboardInterrupt

    def _take(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self.count += 1
        if self.count == 1:
            self._first_s = now
        elif now - self._first_s > LONGEST_S:
            _end(number, frame)
        if not self._holding and (self.count == 1 or now - self._raised_s > LOST_S):
            self._raised_s = now
            if self._deferring:
                self._deferred = True
                return
            raise KeyboardInterrupt


def _install(handler: Any, where: Any = None) -> None:
    for number in SIGNALS:
        before = signal.getsignal(number)
        if before not in (signal.SIG_IGN, None) and where in (None, before):
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    try:
        os.write(2, b"interrupted\n")
    finally:
        os._exit(INTERRUPTED)
