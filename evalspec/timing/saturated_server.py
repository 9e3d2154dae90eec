"""Throughput of a server: how many requests were under way, and whether our client could have sent more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.estimate import Estimate, Side
from evalspec.evidence.reasons import Cause, Reason
from evalspec.timing import samples as timing_samples
from evalspec.timing.budget import BATCHES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Samples

EACH = 4
"""Batches over each connection, at the least: the last ones leave some of the server's workers idle."""
BUSY = 0.9
"""Share of the time in which our client itself worked, from which on it may be what holds the rate down."""
SATURATED = 1.5
"""Factor by which batches take longer with all connections than with one; below it the server had time left."""


@dataclass(frozen=True)
class AtLeast(Estimate):
    """Throughput of a server that could have got through more, had our client asked faster.

    Args:
        measured: What it got through.
    """

    measured: Estimate

    @property
    def value(self) -> float | None:
        """Value as measured."""
        return self.measured.value

    @property
    def n(self) -> int:
        """Number as measured."""
        return self.measured.n

    @property
    def method(self) -> str:
        """Method of the bound."""
        return f"{self.measured.method}; no upper bound: our client was the bottleneck"

    def bound(self, confidence: float, side: Side) -> float | None:
        """Bound as measured from below; none from above."""
        return self.measured.bound(confidence, side) if side == "lower" else None

    def p_value(self, threshold: float, side: Side) -> float | None:
        """Evidence that it is over a threshold, as measured; none that it is below."""
        return self.measured.p_value(threshold, side) if side == "lower" else None

    def n_to_decide(self, threshold: float, alpha: float) -> int | None:
        """Number as measured for a value over the threshold; None below it, where more of the same shows nothing."""
        over = self.value is not None and self.value > threshold
        return self.measured.n_to_decide(threshold, alpha) if over else None


def least_batches(inputs: Inputs, connections: int, *models: str | None) -> int:
    """Batches of each process at the least; of a server as many as its connections need.

    Args:
        inputs: Tell which of them is served.
        connections: Requests that are under way at any time.
        models: Names; None: nobody.
    """
    served = any(inputs.model_facts(name).get("served") for name in models if name is not None)
    return max(BATCHES, EACH * connections) if served else BATCHES


def conditions(samples: Sequence[Samples]) -> dict[str, Cell]:
    """Conditions that two results share: with more requests under way a server gets through more; empty in process.

    Args:
        samples: Of all processes, batches back to back.
    """
    connections = connections_of(samples)
    if connections is None:
        return {}
    under_way = f"{connections} connection{'' if connections == 1 else 's'}"
    return {"scenario": f"offline, {under_way}", "connections": connections}


def connections_of(samples: Sequence[Samples]) -> int | None:
    """Requests to a server that were under way at a time; None: the model was in process.

    Args:
        samples: Of all processes.
    """
    counts = [one.details.get("connections", 1) for one in samples if one.details.get("in_process") is False]
    return max((count for count in counts if isinstance(count, int)), default=None)


def busy_share(samples: Sequence[Samples]) -> float | None:
    """Share of the time in which our client worked, in the process in which it was largest; None: not known.

    Args:
        samples: Of processes that asked a server.
    """
    shares = [share for one in samples if isinstance(share := one.details.get("client_busy_share"), float)]
    return max(shares, default=None)


def is_bottleneck(samples: Sequence[Samples]) -> bool:
    """Our client may have held the rate down."""
    share = busy_share(samples)
    return share is not None and share > BUSY


def bottleneck(samples: Sequence[Samples]) -> Reason:
    """The reason why a client that was always at work voids what was measured."""
    return Reason(
        "the load generator was the bottleneck: it was at work in "
        f"{100 * (busy_share(samples) or 0.0):.0f} % of the time (at "
        f"most {100 * BUSY:.0f} %), so the server may get through more; ask for larger batches, or with `binary: true`",
        Cause.BUSY_CLIENT,
    )


def under_way_ms(samples: Samples) -> NDArray[np.float64]:
    """Latencies of batches, without those that were sent while fewer were under way; shape (q,).

    Args:
        samples: Of one process.
    """
    spent = timing_samples.latencies_ms(samples)
    skipped = connections_of([samples]) or 1
    if skipped == 1:
        return spent
    keep = np.ones(len(spent), dtype=np.bool_)
    for block in np.unique(samples.block):
        keep[np.flatnonzero(samples.block == block)[:skipped]] = False
    return spent[keep]


def notes(batches: Mapping[int, Sequence[Samples]]) -> list[str]:
    """Notes on the client, by batch size; nothing for models in process.

    Args:
        batches: Samples by batch size.
    """
    connections = connections_of([one for samples in batches.values() for one in samples])
    if connections is None:
        return []
    limited = [size for size, samples in batches.items() if is_bottleneck(samples)]
    said = [f"At batch {size} {bottleneck(batches[size])}." for size in limited]
    idle = [size for size, samples in batches.items() if size not in limited and _had_time_left(samples)]
    if idle:
        sizes = ", ".join(str(size) for size in idle)
        said.append(
            f"At batch {sizes} answers took hardly longer with {connections} requests under way than with one: more "
            "`connections:` may get more through this server."
        )
    return said


def _had_time_left(samples: Sequence[Samples]) -> bool:
    """The server had more workers than requests."""
    alone = [v for one in samples if isinstance(v := one.details.get("warmup_last_ms"), int | float)]
    together = np.concatenate([under_way_ms(one) for one in samples] or [np.empty(0)])
    answered = together[np.isfinite(together)]
    return bool(alone and len(answered)) and float(np.median(answered)) < SATURATED * float(np.median(alone))
