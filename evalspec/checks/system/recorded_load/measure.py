"""Measurement of `recorded_load`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.checks.system.recorded_load import show
from evalspec.checks.system.recorded_load.spec import PERCENTILES, TIMES
from evalspec.errors import InputError
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.record import Counts
from evalspec.evidence.words import plural
from evalspec.language.parts import CheckResult
from evalspec.stats.means.mean import t_mean
from evalspec.stats.timing.changepoints import settled
from evalspec.stats.timing.percentile import percentile
from evalspec.stats.timing.processes import OverUnits, drift
from evalspec.stats.timing.share_over import share_over
from evalspec.stats.timing.unordered import UnorderedShare, unordered_percentile

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.checks.system.recorded_load.spec import RecordedLoad
    from evalspec.language.inputs import Inputs

BLOCKS = 10
BLOCK_LATENCIES = 3.0
UNTIMED = 0.05
"""Share of answers without a time, over which the others do not stand for them."""
TOKENS_APART, SHARE_APART, ANSWERS_APART = 1, 0.02, 0.01


@dataclass(frozen=True)
class LoadLog:
    """Requests of a log, in the order in which they were sent where it says when; NaN where it does not say.

    Args:
        sent_s, wait_ms, ttft_ms, tpot_ms, latency_ms, tokens, other_tokens: shape (n,).
        lost: shape (n,), text; None where a request was answered.
        finished: shape (n,), a reason to stop is known.
    """

    sent_s: NDArray[np.float64]
    wait_ms: NDArray[np.float64]
    ttft_ms: NDArray[np.float64]
    tpot_ms: NDArray[np.float64]
    latency_ms: NDArray[np.float64]
    tokens: NDArray[np.float64]
    other_tokens: NDArray[np.float64]
    lost: NDArray[np.object_]
    finished: NDArray[np.bool_]

    @cached_property
    def answered(self) -> NDArray[np.bool_]:
        """Requests that did not fail, shape (n,)."""
        return np.array([one is None for one in self.lost.tolist()], dtype=np.bool_)

    @property
    def ordered(self) -> bool:
        """True if it is known when each was sent."""
        return bool(np.isfinite(self.sent_s).all())

    @property
    def from_due(self) -> bool:
        """True if it is known of each answered one when it was due."""
        return bool(np.isfinite(self.wait_ms[self.answered]).all()) and bool(self.answered.any())

    def times_ms(self, name: str) -> NDArray[np.float64]:
        """Time of each request, shape (k,): infinite where it failed; answers without one are left out."""
        times = {"ttft": self.ttft_ms, "tpot": self.tpot_ms, "latency": self.latency_ms}[name]
        if self.from_due and name != "tpot":
            times = times + self.wait_ms
        times = np.where(self.answered, times, np.inf)
        kept: NDArray[np.float64] = times[~np.isnan(times)]
        return kept

    def untimed(self, name: str) -> int:
        """Answers without this time."""
        return len(self.lost) - len(self.times_ms(name))

    @cached_property
    def counts_apart(self) -> str | None:
        """Reason why tokens can't be counted: two counts of them differ."""
        kept = self.answered & np.isfinite(self.other_tokens) & np.isfinite(self.tokens)
        if not kept.any():
            return None
        gap = np.abs(self.other_tokens[kept] - self.tokens[kept])
        apart = (gap > TOKENS_APART) & (gap > SHARE_APART * self.other_tokens[kept])
        if apart.mean() <= ANSWERS_APART:
            return None
        return f"two counts of tokens differ in {int(apart.sum()):,} of {plural(int(kept.sum()), 'answer')}"


def measure(check: RecordedLoad, inputs: Inputs) -> CheckResult:
    """Reads the log, and decides by its requests.

    Args:
        check: Its fields.
        inputs: Where its rows come from.

    Raises:
        InputError: It has no requests, or a time that is none.
    """
    log = _log(inputs.table(check.dataset), check.dataset)
    estimates, missing = _percentiles(check, log)
    estimates["error_rate"] = _error_rate(check, log)
    rate, why = _output_rate(log)
    if rate is None:
        missing["output_rate"] = why
    else:
        estimates["output_rate"] = Measured(rate, invalid=log.counts_apart)
    failed = {
        str(name): int(count)
        for name, count in zip(*np.unique(log.lost[~log.answered].astype(str), return_counts=True), strict=True)
    }
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=show.blocks({name: log.times_ms(name) for name in TIMES}, check.requirements, failed, len(log.lost)),
        counts=Counts(attempted=len(log.lost), used=int(log.answered.sum()), errored=int((~log.answered).sum())),
        conditions={
            "requests": len(log.lost),
            "counted from": "due" if log.from_due else "sent",
            "order": "as sent" if log.ordered else "not known",
            "finish reasons": int(log.finished[log.answered].sum()),
        },
        notes=[f"{count:,} of {plural(len(log.lost), 'request')} failed: {name}." for name, count in failed.items()],
        weakens=_weakens(check, log),
    )  # fmt: skip


def _log(table: pa.Table, dataset: str) -> LoadLog:
    """The columns as arrays; those that a table of another origin lacks are not known."""
    if len(table) == 0:
        raise InputError(f"the log {dataset!r} has no requests")

    def numbers(name: str) -> NDArray[np.float64]:
        if name not in table.column_names:
            return np.full(len(table), np.nan)
        try:
            values = table.column(name).to_pylist()
            found = np.array([np.nan if one is None else float(one) for one in values], dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(f"the column {name!r} of {dataset!r} holds no numbers: {error}") from error
        if (found < 0.0).any() or np.isinf(found).any():
            raise InputError(f"the column {name!r} of {dataset!r} holds numbers below 0 or infinite ones")
        return found

    def texts(name: str) -> NDArray[np.object_]:
        values: list[Any] = table.column(name).to_pylist() if name in table.column_names else [None] * len(table)
        # An empty cell of a csv file is an empty text.
        return np.array([None if one in (None, "") else str(one) for one in values], dtype=object)

    sent = numbers("sent_s")
    order = np.argsort(sent, kind="stable") if np.isfinite(sent).all() else np.arange(len(table))
    return LoadLog(
        sent_s=sent[order],
        wait_ms=numbers("wait_ms")[order],
        ttft_ms=numbers("ttft_ms")[order],
        tpot_ms=numbers("tpot_ms")[order],
        latency_ms=numbers("latency_ms")[order],
        tokens=numbers("output_tokens")[order],
        other_tokens=numbers("other_tokens")[order],
        lost=texts("failed")[order],
        finished=np.array([one is not None for one in texts("finish_reason")[order].tolist()], dtype=np.bool_),
    )


def _percentiles(
    check: RecordedLoad, log: LoadLog
) -> tuple[dict[str, Estimate | Fact | Parts | Measured], dict[str, str]]:
    estimates: dict[str, Estimate | Fact | Parts | Measured] = {}
    missing: dict[str, str] = {}
    for name in TIMES:
        times = log.times_ms(name)
        metrics = {metric: p for metric, p in PERCENTILES.items() if metric.startswith(f"{name}_")}
        if log.answered.any() and not np.isfinite(times).any():
            missing |= dict.fromkeys(metrics, f"no request of the log has a time for {name}")
            continue
        invalid = log.counts_apart if name == "tpot" else None
        if log.untimed(name) > UNTIMED * len(log.lost):
            invalid = f"{log.untimed(name):,} of {plural(len(log.lost), 'request')} were answered and have no {name}"
        withhold = _rises(times) if log.ordered else None
        first = percentile([times], 0.5)
        for metric, p in metrics.items():
            found: Estimate = first.at(p) if log.ordered else unordered_percentile(times, p, check.design_effect)
            estimates[metric] = Measured(found, invalid=invalid, withhold=withhold)
    return estimates, missing


def _rises(times: NDArray[np.float64]) -> str | None:
    """Reason to withhold a PASS: times rise in the course of the run."""
    trend = drift([settled(times[np.isfinite(times)])])
    if trend is None or trend.direction != "up":
        return None
    text = f"times rise by {100 * trend.change:.0f} % in the course of the log: no steady state was reached"
    return Reason(text, Cause.NO_STEADY_STATE)


def _error_rate(check: RecordedLoad, log: LoadLog) -> Estimate:
    if log.ordered and log.answered.any() and np.isfinite(log.latency_ms[log.answered]).all():
        # What failed took longer than the slowest answer, so that the order of latencies shows dependence here too.
        times = np.where(log.answered, log.latency_ms, np.inf)
        return share_over([times], float(log.latency_ms[log.answered].max()) + 1.0)
    return UnorderedShare(len(log.lost) - int(log.answered.sum()), len(log.lost), check.design_effect)


def _output_rate(log: LoadLog) -> tuple[Estimate | None, str]:
    """Tokens a second in blocks of time; or None and why."""
    kept = log.answered
    needed = (log.sent_s, log.ttft_ms, log.latency_ms, log.tokens)
    if not kept.any() or not all(np.isfinite(one[kept]).all() for one in needed):
        return (
            None,
            "the log does not say of every answer when it was sent, began and ended, and how many tokens it has",
        )
    begin = log.sent_s[kept] + log.ttft_ms[kept] / 1e3
    end = np.maximum(log.sent_s[kept] + log.latency_ms[kept] / 1e3, begin + 1e-9)
    first, last = float(np.nanmin(log.sent_s)), float(np.nanmax(log.sent_s))
    length, took = (last - first) / BLOCKS, float(np.quantile(log.latency_ms[kept], 0.9)) / 1e3
    if length < BLOCK_LATENCIES * took or length <= 0.0:
        why = f"requests were sent for {last - first:.3g} s and take {took:.3g} s (p90)"
        return None, f"{why}: ten blocks of time are too short to be one by one"
    edges = np.linspace(first, last, BLOCKS + 1)
    # Tokens that had arrived at each edge; the share of an answer that lies before it.
    share = np.clip((edges[:, None] - begin) / (end - begin), 0.0, 1.0)
    rates = np.diff(share @ log.tokens[kept]) / length
    return OverUnits(t_mean(rates), "blocks of time", least=0.0), ""


def _weakens(check: RecordedLoad, log: LoadLog) -> list[str]:
    """Sentences on what the log cannot prove."""
    lines = [
        f"times are what {check.dataset} says: which artifact answered, on which machine and when, no log can show"
    ]
    unknown = int((log.answered & ~log.finished).sum())
    if unknown:
        lines.append(
            f"why {unknown:,} of {plural(int(log.answered.sum()), 'answer')} ended {check.dataset} does not say: "
            "one that was cut off counts as answered"
        )
    if not log.from_due:
        lines.append("times count from when a request was sent: how long it waited in the client is not in them")
    if not log.ordered:
        lines.append(
            f"when requests were sent {check.dataset} does not say: that {check.design_effect:g} of them say as much "
            "as one is taken for granted"
        )
    return lines
