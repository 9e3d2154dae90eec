"""Raw timings as the system checks read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import Series
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.record import Counts
from evalspec.language.timings import FAILED, OUTCOMES
from evalspec.timing.budget import SETTLING, WARMUP_IN_PROCESS_S, WARMUP_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Inputs, Samples

SHOWN = ("precision", "device", "provider", "threads", "framework", "warmup_s", "warmup_settled")


def latencies_ms(samples: Samples) -> NDArray[np.float64]:
    """Time from the intended start to the end of each query, infinite where it failed; shape (q,)."""
    spent = (samples.end_ns - samples.intended_ns) / 1e6
    latencies: NDArray[np.float64] = np.where(samples.ok, spent, np.inf)
    return latencies


def settled(samples: Samples) -> NDArray[np.bool_]:
    """Queries that are not in the first tenth of their block, shape (q,)."""
    keep = np.ones(len(samples.block), dtype=np.bool_)
    for block in np.unique(samples.block):
        at = np.flatnonzero(samples.block == block)
        keep[at[: int(SETTLING * len(at))]] = False
    return keep


def steady(samples: Samples) -> NDArray[np.bool_]:
    """Queries that count alone: `settled`, and those that failed at the start too; shape (q,)."""
    keep: NDArray[np.bool_] = settled(samples) | ~samples.ok
    return keep


def steady_ms(samples: Samples) -> NDArray[np.float64]:
    """`latencies_ms` of those."""
    return latencies_ms(samples)[steady(samples)]


def seconds(samples: Samples) -> NDArray[np.float64]:
    """Moment when each query was sent, from the first one on; shape (q,)."""
    elapsed: NDArray[np.float64] = (samples.sent_ns - samples.sent_ns[0]) / 1e9
    return elapsed


def stretches(name: str, when_s: NDArray[np.float64], spent_ms: NDArray[np.float64], points: int) -> Series | None:
    """Medians of short stretches over time, the fastest and slowest query of each as a band; None: nothing answered.

    Args:
        name: Of the series.
        when_s: shape (q,).
        spent_ms: shape (q,), infinite where a query failed.
        points: Stretches at the most.
    """
    answered = np.flatnonzero(np.isfinite(spent_ms))
    if not len(answered):
        return None
    chunks = np.array_split(answered, min(points, len(answered)))
    return Series(
        name=name,
        x=tuple(float(when_s[c[0]]) for c in chunks),
        y=tuple(float(np.median(spent_ms[c])) for c in chunks),
        lower=tuple(float(spent_ms[c].min()) for c in chunks),
        upper=tuple(float(spent_ms[c].max()) for c in chunks),
    )


def too_short(samples: Sequence[Samples], processes: int, queries: int) -> str | None:
    """Reason why the plan was not reached, or None.

    Args:
        samples: One per process.
        processes: Planned.
        queries: Planned in each process.
    """
    if len(samples) < processes:
        return Reason(f"{len(samples)} of {processes} planned processes were measured", Cause.CUT_SHORT)
    short = min((len(one.end_ns) for one in samples), default=0)
    if short < queries:
        return Reason(f"a process made {short:,} of {queries:,} planned queries", Cause.CUT_SHORT)
    return None


def too_early(samples: Sequence[Samples], queries: int) -> str | None:
    """Reason why nothing passes at an early look, or None.

    Args:
        samples: One per process.
        queries: Planned in all processes to the end.
    """
    made = sum(int((settled(one) | ~one.ok).sum()) for one in samples)
    if made >= queries:
        return None
    return Reason(f"{made:,} of {queries:,} planned queries were made at an early look", Cause.CUT_SHORT)


def rate(samples: Samples, keep: NDArray[np.bool_] | None = None) -> float:
    """Items a second: answered items by the time that was spent on all batches.

    Args:
        samples: Of one process.
        keep: Batches that count, shape (q,); default: all.
    """
    chosen = np.ones(len(samples.ok), dtype=np.bool_) if keep is None else keep
    # Blocks of a pair have pauses between them, in which the other side runs.
    spent = 0.0
    for block in np.unique(samples.block[chosen]):
        at = np.flatnonzero(chosen & (samples.block == block))
        # Answers of a server end in another order than they were asked for.
        spent += float(samples.end_ns[at].max() - samples.sent_ns[at].min()) / 1e9
    return float(samples.ok[chosen].sum()) * samples.batch / spent if spent > 0 else 0.0


def counted(samples: Sequence[Samples], attempted: int | None = None) -> Counts:
    """Number of their queries that were used, and that failed.

    Args:
        samples: Of all processes.
        attempted: Queries that were planned; None: those that were made.
    """
    total = sum(len(one.ok) for one in samples)
    failed = sum(int((~one.ok).sum()) for one in samples)
    return Counts(attempted=total if attempted is None else attempted, used=total - failed, errored=failed)


def quantile(values: NDArray[np.float64], p: float) -> float:
    """The value that a share p of the values does not exceed: one of them, which may be infinite."""
    return float(np.quantile(values, p, method="inverted_cdf"))


def device_of(inputs: Inputs, model: str) -> str:
    """Device where a model runs, as its facts tell: ``cpu`` or ``cuda:0``."""
    return str(inputs.model_facts(model).get("device") or "cpu")


def warmup_s(inputs: Inputs, *models: str) -> float:
    """Time that processes of models are warmed up, at least."""
    facts = [inputs.model_facts(name) for name in models]
    near = all(one.get("device") in (None, "cpu") and not one.get("served") for one in facts)
    return WARMUP_IN_PROCESS_S if near else WARMUP_S


def model_conditions(inputs: Inputs, model: str, names: Sequence[str] = SHOWN) -> dict[str, Cell]:
    """Conditions that the numbers hold for, as far as the model itself tells."""
    facts: Mapping[str, Cell] = inputs.model_facts(model)
    return {name: facts[name] for name in names if name in facts}


def conditions(inputs: Inputs, model: str, samples: Sequence[Samples]) -> dict[str, Cell]:
    """Conditions that the numbers hold for: facts of the model and of its processes."""
    facts = model_conditions(inputs, model)
    for name in SHOWN:
        seen = {one.details[name] for one in samples if name in one.details}
        if len(seen) == 1:
            facts[name] = seen.pop()
        elif name == "warmup_settled" and seen:
            facts[name] = False
    return facts


def _how(samples: Sequence[Samples]) -> str:
    """Outcomes of the queries that failed, where a server tells them apart."""
    outcomes = [one.outcome[~one.ok] for one in samples if one.outcome is not None]
    counts = (
        np.bincount(np.concatenate(outcomes), minlength=len(OUTCOMES))
        if outcomes
        else np.zeros(len(OUTCOMES), np.int64)
    )
    named = [f"{OUTCOMES[kind]} {counts[kind]:,}" for kind in np.flatnonzero(counts) if kind != FAILED]
    return f" Outcome: {', '.join(named)}." if named else ""


def asked_again(samples: Sequence[Samples]) -> list[str]:
    """Notes on a server beside its answers: queries that failed while warming up, connections that it did not keep."""

    def total(name: str) -> int:
        return sum(count for one in samples if isinstance(count := one.details.get(name), int))

    notes = []
    if failed := total("warmup_failed"):
        notes.append(
            f"{failed:,} queries failed while warming up and were asked again; they are not among those timed."
        )
    if opened := total("connections_opened_again"):
        notes.append(f"The server did not keep its connections: {opened:,} were opened again, which took its time.")
    return notes


def notes(samples: Sequence[Samples], typical_ms: float | None) -> list[str]:
    """Notes on the processes: failures, the clock, warm-up that did not settle."""
    lines = []
    counts = counted(samples)
    if counts.errored:
        lines.append(
            f"{counts.errored:,} of {counts.attempted:,} queries failed; they count as slower than any threshold."
            f"{_how(samples)}"
        )
    lines += asked_again(samples)
    unsettled = sum(one.details.get("warmup_settled") is False for one in samples)
    if unsettled:
        lines.append(f"Latency had not settled at the end of warm-up in {unsettled} of {len(samples)} processes.")
    overhead = [float(v) for one in samples if isinstance(v := one.details.get("timer_overhead_ns"), int | float)]
    if overhead and typical_ms and max(overhead) / 1e6 > 0.01 * typical_ms:
        share = max(overhead) / 1e6 / typical_ms
        lines.append(f"Reading the clock takes {100 * share:.0f} % of the median latency.")
    return lines
