"""One child for checks that time nothing: a process for each would take longer than most of them."""

from __future__ import annotations

import base64
import contextlib
import pickle

from evalspec.run.child import Handler
from evalspec.run.jobs import CheckJob
from evalspec.run.messages import Message, Progress
from evalspec.run.process import Child, resident_bytes
from evalspec.run.subjects import Children

MOST_BYTES = 512 * 2**20
"""A child that holds more after a check is let go, so that the next check has its whole share of memory."""


class SharedChild:
    """Runs checks one after the other in one child; one that kills it, or leaves it full, leaves the next a new one."""

    def __init__(self, children: Children) -> None:
        """``children`` of the run."""
        self._children = children
        self._open = contextlib.ExitStack()
        self._child: Child | None = None

    def ask(self, job: CheckJob, *, progress: Progress, time_s: float) -> Message:
        """As a child of the check's own would answer.

        Raises:
            EvalspecError: As it.
        """
        if self._child is None or not self._child.alive or resident_bytes(self._child.pid) > MOST_BYTES:
            self.close()
            self._child = self._open.enter_context(self._children.start(__name__, None, "checks"))
        packed = base64.b64encode(pickle.dumps(job)).decode("ascii")
        return self._child.ask({"do": "run", "job": packed}, progress=progress, time_s=time_s)

    def close(self) -> None:
        """Let the child go."""
        self._open.close()
        self._child = None


def start(job: None) -> Handler:
    """The handler of that child."""
    from evalspec.run import checking

    def handle(question: Message, progress: Progress) -> Message:
        # It comes from the process that started this one, over a socket that nobody else has.
        one: CheckJob = pickle.loads(base64.b64decode(question["job"]))
        return checking.start(one)({"do": "run"}, progress)

    return handle
