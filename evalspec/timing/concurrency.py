"""A server that has several requests under way at any time: when all of them were, and what was answered meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples


@dataclass(frozen=True)
class Stretch:
    """Stretch of time from one answer to another.

    Args:
        begin_ns: When the first of the two came, which is not counted.
        end_ns: When the last one did, which is.
        items: Answered in between.
    """

    begin_ns: int
    end_ns: int
    items: int


def lanes(samples: Samples) -> int:
    """Requests to a server that were always under way in a closed loop; 1 in process, and in an open loop.

    Args:
        samples: Of one process.
    """
    connections = samples.details.get("connections", 1)
    closed = samples.details.get("in_process") is False and samples.details.get("kind", "offline") == "offline"
    return connections if closed and isinstance(connections, int) else 1


def full(samples: Samples, settling: float = 0.0) -> tuple[int, int] | None:
    """Begin and end of the time in which all connections carried a request.

    They do from the first answers on: at the start all are sent at once, at the end the last ones are waited for.

    Args:
        samples: Of one process.
        settling: Share of its queries that is dropped at the start.

    Returns:
        None where there are hardly more queries than connections.
    """
    first = max(lanes(samples), int(settling * len(samples.end_ns)))
    if len(samples.end_ns) <= first:
        return None
    begin, end = int(np.sort(samples.end_ns)[first - 1]), int(samples.sent_ns.max())
    return (begin, end) if end > begin else None


def stretch(samples: Samples, begin_ns: int, end_ns: int) -> Stretch | None:
    """Answers between two moments, from the last answer before the first to the last before the second.

    Between answers time is told exactly, so that few of them, or answers that come many at a time, are no error.

    Args:
        samples: Of one process.
        begin_ns: The first moment.
        end_ns: The second.

    Returns:
        None where no time lies between these answers.
    """
    order = np.argsort(samples.end_ns, kind="stable")
    ends: NDArray[np.int64] = samples.end_ns[order]
    first, last = (int(np.searchsorted(ends, moment, side="right")) - 1 for moment in (begin_ns, end_ns))
    if first < 0 or ends[last] <= ends[first]:
        return None
    items = int(samples.ok[order[first + 1 : last + 1]].sum()) * samples.batch
    return Stretch(int(ends[first]), int(ends[last]), items)


def within(samples: Samples, begin_ns: int, end_ns: int) -> NDArray[np.float64]:
    """Share of the time of each query that lies between two moments, shape (q,).

    Counted by these shares, a short window has the rate of the server wherever it is cut. Whole answers don't give it:
    of 16 connections that are answered in waves, 3 waves to a window, the end of a steady process by its start came out
    5 % too high, give or take 9 %; by shares 0 %, give or take 1 %.

    Args:
        samples: Of one process.
        begin_ns: The first moment.
        end_ns: The second, later one.
    """
    inside = np.minimum(samples.end_ns, end_ns) - np.maximum(samples.sent_ns, begin_ns)
    return np.asarray(np.maximum(0, inside) / np.maximum(1, samples.end_ns - samples.sent_ns))
