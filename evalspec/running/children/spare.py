"""Children that import what they will need while their parent still reads the spec.

This module imports little, and is imported before all that takes long.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Self

from evalspec.processes import Guarded, import_path

CHECKS, READER = "evalspec.running.children.sharing", "evalspec.running.children.reader"
"""Roles that each run has."""


def child_environment(*, trust: bool, hub: bool, metadata: bool, threads: int) -> dict[str, str]:
    """Environment variables of a child beside those of its parent.

    Args:
        trust: Code that the spec names may run, and pickles may be read.
        hub: A model or dataset hub may be contacted.
        metadata: So may the address at which a machine of a provider asks for the credentials of its role.
        threads: Of the processor.
    """
    environment = {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "false",
        "HF_EVALUATE_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "PYTHONHASHSEED": "0",
    }
    if not trust:
        environment["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    if not metadata:
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
    if not hub:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    return environment


def started(
    output: IO[bytes], environment: Mapping[str, str], prepares: Sequence[str] = ()
) -> tuple[socket.socket, Guarded]:
    """The channel to a new child, which waits for its job, and its process.

    Args:
        output: Takes what it writes.
        environment: Added to this process's environment before anything is imported.
        prepares: The role whose imports it makes before there is a job, if that is known.

    Raises:
        OSError: It can't be started.
    """
    ours, theirs = socket.socketpair()
    with theirs, contextlib.ExitStack() as unless_started:
        unless_started.enter_context(ours)
        process = Guarded(
            # -P: nothing is imported from the folder that the user happens to stand in.
            [sys.executable, "-P", "-m", "evalspec.running.children.child", str(theirs.fileno()), str(os.getpid())],
            output,
            passed=(theirs.fileno(),),
            environment=os.environ | import_path() | dict(environment),
            then=prepares,
        )
        unless_started.pop_all()
    return ours, process


class Spare:
    """A child that has no job and no log yet.

    Args:
        role: The module that will serve it.
        environment: As in `started`.

    Raises:
        OSError: It can't be started.
    """

    def __init__(self, role: str, environment: Mapping[str, str]) -> None:
        self.environment = environment
        with tempfile.TemporaryFile() as output:
            self.channel, self.process = started(output, environment, (role,))

    def write_to(self, log: IO[bytes]) -> None:
        """Have it write to a log from now on.

        Raises:
            OSError: It has ended.
        """
        socket.send_fds(self.channel, [b"."], [log.fileno()])

    def close(self) -> None:
        """End it."""
        with self.channel:
            self.process.end()


class Spares:
    """The children that each run has, started before it is known what they are to do.

    Args:
        environment: As in `started`.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._waiting: dict[str, Spare] = {}
        for role in (CHECKS, READER):
            # Whoever needs it starts one, and says why it can't be.
            with contextlib.suppress(OSError):
                self._waiting[role] = Spare(role, environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, role: str, environment: Mapping[str, str]) -> Spare | None:
        """The child with a role, which the caller closes; None: there is none that was started in this environment."""
        spare = self._waiting.pop(role, None)
        if spare is None or (spare.environment == environment and spare.process.ended is None):
            return spare
        spare.close()
        return None

    def close(self) -> None:
        """End those that nobody has taken."""
        for spare in self._waiting.values():
            spare.close()
        self._waiting.clear()
