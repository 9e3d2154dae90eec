"""Measurement of `recovery`, and its blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.recovery.spec import SETTLE_S
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import AnyBlock, Column, Curve, Reference, Series, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.frozen import Cell
from evalspec.evidence.reasons import Cause, Reason
from evalspec.evidence.record import Counts
from evalspec.language.parts import CheckResult
from evalspec.language.timings import ANSWERED, OUTCOMES
from evalspec.stats.timing.processes import over_processes
from evalspec.timing import probes as timing_probes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.recovery.spec import Recovery
    from evalspec.language.inputs import Inputs, Probe

PROBE, FIRST_TOKEN = "recovery", "first_token"
LAG_MS = 10.0
"""p99 of the client's lag from which on it, not the server, may have lost a query."""
BIN_S = 0.25


@dataclass(frozen=True)
class Kills:
    """Outcome of all kills; times in s from each kill.

    Args:
        healthy_s: shape (k,), NaN where it was not ready in time.
        first_token_s: shape (k,), first piece of an answer; NaN where none came. None: the model does not stream.
        repeat: shape (q,), index of the kill of each query.
        due_s: shape (q,).
        end_s: shape (q,).
        outcome: shape (q,), index into `OUTCOMES`.
        lag_p99_ms: Of the client, the worst; None: not known.
    """

    healthy_s: NDArray[np.float64]
    first_token_s: NDArray[np.float64] | None
    repeat: NDArray[np.int64]
    due_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    outcome: NDArray[np.int64]
    lag_p99_ms: float | None

    @property
    def lost(self) -> NDArray[np.int64]:
        """Queries of each kill that were not answered at or after it, shape (k,)."""
        lost = (self.outcome != ANSWERED) & (self.end_s >= 0)
        return np.bincount(self.repeat[lost], minlength=len(self.healthy_s)).astype(np.int64)

    @property
    def failed_before(self) -> int:
        """Queries that failed while nobody had killed anything."""
        return int(((self.outcome != ANSWERED) & (self.end_s < 0)).sum())


def measure(check: Recovery, inputs: Inputs) -> CheckResult:
    """Kills the server of the check's model.

    Args:
        check: Its fields.
        inputs: Where processes come from.

    Raises:
        NotRunError: The spec does not start the server.
        InputError: No kill was made.
    """
    facts = inputs.model_facts(check.model)
    pid = facts.get("server_pid")
    if pid is None:
        raise NotRunError(f"only a server that the spec starts is killed; add `start:` to models.{check.model}")
    planned = 1 if inputs.draft else check.repeats
    options: dict[str, Cell] = {
        "repeats": planned, "rate_qps": check.rate_qps, "kill_after_s": check.kill_after_s, "within_s": check.within_s,
        "settle_s": SETTLE_S, "timeout_s": check.timeout_s, "connections": check.connections, "pid": pid,
        "log": str(inputs.evidence.parent / "logs" / f"server-{check.model}-{check.name}.log"),
    }  # fmt: skip
    probes = inputs.probe(PROBE, check.dataset, check.model, options=options)
    kills = _kills(probes)
    if kills is None:
        raise InputError(f"the server of {check.model} was never killed")
    few, late = _few(kills, planned), _late(kills)
    # That it was not ready in time holds whatever the client did meanwhile.
    never = np.isnan(kills.healthy_s).any()
    invalid = {
        "time_to_healthy": few if never else few or late, "lost_requests": few or late, FIRST_TOKEN: few or late,
    }  # fmt: skip
    estimates = {name: Measured(one, invalid=invalid[name]) for name, one in _estimates(check, kills).items()}
    missing = {} if FIRST_TOKEN in estimates else {FIRST_TOKEN: _no_token(kills)}
    lost = int((kills.outcome != ANSWERED).sum())
    return CheckResult(
        estimates=estimates,
        missing=missing,
        blocks=_blocks(kills),
        counts=Counts(attempted=len(kills.outcome), used=len(kills.outcome) - lost, errored=lost),
        conditions={"rate_qps": check.rate_qps, "kill_after_s": check.kill_after_s, "timeout_s": check.timeout_s,
                    "kills": len(kills.healthy_s), "connections": check.connections,
                    **timing_probes.conditions(inputs, check.model, probes)},
        notes=_notes(check, kills),
    )  # fmt: skip


def _kills(probes: list[Probe]) -> Kills | None:
    if not probes or not len(probes[0].series["healthy_s"]):
        return None
    one = probes[0]
    return Kills(
        healthy_s=one.series["healthy_s"],
        first_token_s=_streamed(one.series.get("first_token_s")),
        repeat=one.series["repeat"].astype(np.int64),
        due_s=one.series["due_s"],
        end_s=one.series["end_s"],
        outcome=one.series["outcome"].astype(np.int64),
        lag_p99_ms=timing_probes.number(one, "lag_p99_ms"),
    )


def _streamed(first_token_s: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    """The same; None where no answer was ever streamed."""
    return None if first_token_s is None or np.isnan(first_token_s).all() else first_token_s


def _few(kills: Kills, planned: int) -> str | None:
    """Why there are fewer kills than planned, or None: one that it does not come back from is the last."""
    made = len(kills.healthy_s)
    if made < planned and not np.isnan(kills.healthy_s).any():
        return Reason(f"{made} of {planned} planned kills were made", Cause.CUT_SHORT)
    return None


def _late(kills: Kills) -> str | None:
    """Why the client, not the server, may have lost queries, or None."""
    if kills.lag_p99_ms is None:
        return "the client can't tell how late it was by itself: in one of the kills it sent no query"
    if kills.lag_p99_ms > LAG_MS:
        return Reason(
            f"the client was late by itself: 1 % of queries were sent more than {kills.lag_p99_ms:.0f} ms too late",
            Cause.LOAD_GENERATOR,
        )
    return None


def _estimates(check: Recovery, kills: Kills) -> dict[str, Estimate | Fact]:
    made = len(kills.healthy_s)
    lost = Fact(float(kills.lost.max()), made, "the most in one kill, counted", in_this_run=True)
    away = np.isnan(kills.healthy_s)
    if away.any():
        how = f"it was not ready within {check.within_s:g} s after {int(away.sum())} of {made} kills"
        return {"time_to_healthy": Fact(check.within_s, made, how, in_this_run=True), "lost_requests": lost}
    found: dict[str, Estimate | Fact] = {
        "time_to_healthy": over_processes(kills.healthy_s, least=0.0, skewed=True), "lost_requests": lost,
    }  # fmt: skip
    if kills.first_token_s is not None and not np.isnan(kills.first_token_s).any():
        found[FIRST_TOKEN] = over_processes(kills.first_token_s, least=0.0, skewed=True)
    return found


def _no_token(kills: Kills) -> str:
    """Why there is no time to the first token."""
    if kills.first_token_s is None:
        return (
            "no answer was streamed after a kill: the model does not stream, or answered nothing until the load ended"
        )
    return f"after {int(np.isnan(kills.first_token_s).sum())} of {len(kills.healthy_s)} kills no answer came in time"


def _notes(check: Recovery, kills: Kills) -> list[str]:
    notes = []
    if np.isnan(kills.healthy_s).any():
        notes.append(f"The server was not ready again within {check.within_s:g} s, so no further kill was made.")
    if kills.failed_before:
        notes.append(f"{kills.failed_before:,} queries failed before any kill; they are not counted as lost.")
    late = kills.healthy_s[kills.repeat]
    after = int(((kills.outcome != ANSWERED) & (kills.due_s > late)).sum())
    if after:
        notes.append(f"{after:,} queries failed although they came when the server had said that it is ready.")
    return notes


def _blocks(kills: Kills) -> list[AnyBlock]:
    counts = [np.bincount(kills.outcome[kills.repeat == kill], minlength=len(OUTCOMES)) for kill in _each(kills)]
    seen = [index for index in range(len(OUTCOMES)) if any(count[index] for count in counts)]
    table = Table(
        title="Kills",
        columns=(
            Column(name="kill"), Column(name="ready after", unit="s"), Column(name="lost"),
            *(Column(name=OUTCOMES[index]) for index in seen),
        ),
        rows=tuple(
            (
                kill + 1,
                None if np.isnan(kills.healthy_s[kill]) else float(kills.healthy_s[kill]),
                int(kills.lost[kill]),
                *(int(counts[kill][index]) for index in seen),
            )
            for kill in _each(kills)
        ),
    )  # fmt: skip
    edges = np.arange(np.floor(kills.due_s.min() / BIN_S), np.ceil(kills.due_s.max() / BIN_S) + 1) * BIN_S
    due, _ = np.histogram(kills.due_s, edges)
    lost, _ = np.histogram(kills.due_s[kills.outcome != ANSWERED], edges)
    some = due > 0
    middle, share = (edges[:-1] + BIN_S / 2)[some], 100 * lost[some] / due[some]
    line = Series(name="lost", x=tuple(middle.tolist()), y=tuple(share.tolist()))
    curve = Curve(
        title="Queries lost by when they came",
        x_label="due, from the kill", x_unit="s", y_label="not answered", y_unit="%",
        series=(line,),
        references=(Reference(value=0.0, label="kill", axis="x"),),
    )  # fmt: skip
    return [table, curve]


def _each(kills: Kills) -> range:
    return range(len(kills.healthy_s))
