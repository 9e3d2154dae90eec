"""What a served model can be asked to show: that it comes back after it was killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from evalspec.language.parts import Access

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Kill:
    """What is done to a server, again and again.

    Args:
        repeats: How often.
        rate_qps: Queries come at random at this rate meanwhile (Poisson).
        kill_after_s: The server is killed so long after the first of them.
        within_s: It is given so long to be ready again.
        settle_s: Queries go on for so long after it is.
        timeout_s: A query that takes longer has failed.
        connections: To the server, at the most.
        seed: Of times and rows.
        pid: Process group of the server that runs now.
        log: File for what the servers that are started write.
    """

    repeats: int
    rate_qps: float
    kill_after_s: float
    within_s: float
    settle_s: float
    timeout_s: float
    connections: int
    seed: int
    pid: int
    log: Path


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of it once. Times count from the moment of the kill.

    Args:
        healthy_s: When the server said that it is ready again, or None: not in time.
        due_s: shape (q,), when each query was due.
        end_s: shape (q,), when it was answered, or given up.
        outcome: shape (q,), index into `evalspec.language.inputs.OUTCOMES`.
        lag_p99_ms: How late the client sent, by its own fault.
    """

    healthy_s: float | None
    due_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    outcome: NDArray[np.int64]
    lag_p99_ms: float


@runtime_checkable
class Recoverable(Protocol):
    """A loaded model that is a server which can be killed and started."""

    def recover(
        self, rows: Any, kill: Kill, access: Access, progress: Callable[[float, float, str], None]
    ) -> list[Killed]:
        """Kill it under load and start it again, as often as asked; fewer times where it does not come back.

        Args:
            rows: The servable of this model.
            kill: What is done.
            access: Where commands run.
            progress: Tell how far it has come.

        Raises:
            InputError: It can't be started.
        """
        ...
