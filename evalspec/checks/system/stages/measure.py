"""Measurement of `stages`, and its blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from evalspec.checks.system.stages.server_time import INFERENCE, WaitStages, apart, typical
from evalspec.errors import NotRunError
from evalspec.evidence.blocks import AnyBlock, Bar, Bars, Column, Interval, Intervals, Reference, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured, Parts
from evalspec.evidence.record import Counts
from evalspec.evidence.words import in_percent
from evalspec.language.parts import CheckResult
from evalspec.stats.timing.bottleneck import AmdahlCeiling, amdahl_ceiling
from evalspec.stats.timing.processes import OverUnits, over_processes
from evalspec.timing import probes as timing_probes
from evalspec.timing import samples
from evalspec.timing.budget import WARMUP_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.checks.system.stages.spec import Stages
    from evalspec.evidence.frozen import Cell
    from evalspec.language.inputs import Inputs, Probe

FRAME, SERVER = "frame", "server"
WRITING = ("serialize", "parse", "server_serialize", "server_parse")
"""Stages in which requests and answers become bytes and are taken apart, here and in a server."""
STAGE = "stage_ns:"
WHOLE = "end_to_end_ns"
WORTH_SAYING = 0.02
DRAFT_QUERIES = 4
LEAST_QUERIES = 4


@dataclass(frozen=True)
class Divided:
    """Queries by stage, over the processes.

    Args:
        names: Stages in order.
        stage_ms: Stage: trimmed mean of its time in each process, shape (k,).
        whole_ms: That of the undivided query, shape (k,).
        pooled_ms: Stage: every query of all processes; without those of which only means are known.
        apart: What a server said of its stages.
    """

    names: tuple[str, ...]
    stage_ms: dict[str, NDArray[np.float64]]
    whole_ms: NDArray[np.float64]
    pooled_ms: dict[str, NDArray[np.float64]]
    apart: WaitStages = field(default_factory=WaitStages)

    def share(self, name: str) -> OverUnits:
        """Share of the undivided query, in 0..1."""
        return over_processes(self.stage_ms[name] / self.whole_ms, least=0.0)

    @property
    def overlap(self) -> OverUnits:
        """Sum of the stages less the undivided query, by it: above 0 the stages overlap, below time goes between."""
        together = np.sum([self.stage_ms[name] for name in self.names], axis=0)
        return over_processes(together / self.whole_ms - 1.0)

    @property
    def together(self) -> float:
        """Sum of the stages by the undivided query: the mean over the processes."""
        return float(np.mean(np.sum([self.stage_ms[name] for name in self.names], axis=0) / self.whole_ms))


def measure(check: Stages, inputs: Inputs) -> CheckResult:
    """Serves the same queries by stages and undivided in fresh processes.

    Args:
        check: Its fields.
        inputs: Where probes come from.

    Raises:
        NotRunError: No process was measured.
    """
    processes = 2 if inputs.draft else check.processes
    queries = DRAFT_QUERIES if inputs.draft else check.each
    options = {"queries": queries, "batch": check.batch_size, "warmup": check.warmup,
               "warmup_s": 0.0 if inputs.draft else WARMUP_S}  # fmt: skip
    probes = inputs.probe("stages", check.dataset, check.model, processes=processes, options=options)
    divided = collect(probes)
    invalid = timing_probes.short_of(probes, processes, "queries", queries)
    shares: dict[str, Estimate | Fact] = {name: divided.share(name) for name in divided.names}
    ceilings: dict[str, Estimate | Fact] = {name: AmdahlCeiling(divided.share(name)) for name in divided.names}
    made = int(sum(timing_probes.required(one, "queries") for one in probes))
    failed = _failed(probes, "queries_failed")
    return CheckResult(
        estimates={
            "stage_share": Measured(Parts(shares), invalid=invalid),
            "amdahl_ceiling": Measured(Parts(ceilings), invalid=invalid),
        },
        blocks=_blocks(check, divided, inputs.confidence),
        counts=Counts(attempted=processes * queries + failed, used=made, errored=failed),
        conditions={"batch": check.batch_size, "processes": len(probes), "queries": made,
                    "stages_sum_share": divided.together, **_told(divided.apart),
                    **timing_probes.conditions(inputs, check.model, probes)},
        notes=_notes(divided, probes),
    )  # fmt: skip


def collect(probes: list[Probe]) -> Divided:
    """Times by stage and process.

    Raises:
        NotRunError: No process was measured, or one without queries, or they had other stages.
    """
    if not probes:
        raise NotRunError("no process was measured, so there are no stages")
    names = probes[0].texts.get("stages", ())
    if not names or any(one.texts.get("stages", ()) != names for one in probes):
        raise NotRunError("the processes had no stages in common")
    if any(len(one.series[WHOLE]) < LEAST_QUERIES for one in probes):
        raise NotRunError(f"a process served fewer than {LEAST_QUERIES} queries, too few for shares of their time")
    told = apart(probes, names)
    each = {name: [one.series[STAGE + name] / 1e6 for one in probes] for name in names}
    each |= {name: [one[name] / 1e6 for one in told.series_ns] for name in told.names}
    every = told.in_place(names)
    return Divided(
        names=every,
        stage_ms={name: np.array([typical(series) for series in each[name]]) for name in every},
        whole_ms=np.array([typical(one.series[WHOLE]) / 1e6 for one in probes]),
        pooled_ms={name: np.concatenate(each[name]) for name in every if not (told.means and name in told.names)},
        apart=told,
    )


def _told(told: WaitStages) -> dict[str, Cell]:
    """Which stages are the server's own, and how it tells."""
    return {"server_stages": ", ".join(told.names), "server_told_by": told.by} if told.names else {}


def _failed(probes: list[Probe], name: str) -> int:
    return sum(failed for one in probes if isinstance(failed := one.facts.get(name), int))


def _notes(divided: Divided, probes: list[Probe]) -> list[str]:
    found = []
    failed, warming = _failed(probes, "queries_failed"), _failed(probes, "warmup_failed")
    if failed + warming:
        found.append(
            f"The server failed on {failed:,} queries, and on {warming:,} while warming up; it was asked again, and "
            "the stages are those of its answers."
        )
    shares = {name: float(np.mean(divided.stage_ms[name] / divided.whole_ms)) for name in divided.names}
    beside = sum(share for name, share in shares.items() if name != INFERENCE)
    inference = shares.get(INFERENCE)
    if inference is not None and beside > inference:
        largest = max((name for name in shares if name != INFERENCE), key=lambda name: shares[name])
        found.append(
            f"Stages beside inference take {100 * beside:.0f} % of a query, inference "
            f"{100 * inference:.0f} %: a faster model makes "
            f"the query at most {amdahl_ceiling(min(inference, 0.999)):.2f} times as fast; {largest} alone takes "
            f"{100 * shares[largest]:.0f} %."
        )
    if FRAME in divided.names:
        found.append("The model is a pipeline: `inference` is its last step only; its other steps are stages too.")
    found += _writing_note(shares)
    found += divided.apart.notes
    found += _overlap_note(divided)
    overhead = max(timing_probes.required(one, "timer_overhead_ns") for one in probes)
    ours = [name for name in divided.names if name not in divided.apart.names]
    short = [name for name in ours if overhead / 1e6 > 0.1 * float(np.mean(divided.stage_ms[name]))]
    if short:
        found.append(
            f"Reading the clock takes over a tenth of {', '.join(short)}: their shares are too large by as much."
        )
    return found


def _writing_note(shares: Mapping[str, float]) -> list[str]:
    """Note that a served model waits for text: requests and answers take longer than what it is asked for."""
    writing = {name: shares[name] for name in WRITING if name in shares}
    model = next((name for name in (INFERENCE, SERVER) if name in shares), None)
    if model is None or "serialize" not in writing or sum(writing.values()) <= shares[model]:
        return []
    return [
        f"Writing requests and reading answers ({', '.join(writing)}) takes "
        f"{100 * sum(writing.values()):.0f} % of a query, "
        f"{model} {100 * shares[model]:.0f} %: the model waits for text. Tensors as bytes (`binary: "
        "true`), fewer numbers in a "
        "query or several rows in a request would help."
    ]


def _overlap_note(divided: Divided) -> list[str]:
    overlap = divided.overlap
    low, high = overlap.bound(0.975, "lower"), overlap.bound(0.975, "upper")
    if low is not None and low > WORTH_SAYING and divided.apart.waits is not None:
        # A client writes, waits and reads: nothing of that can overlap.
        return [
            f"The stages take {100 * (divided.together - 1.0):.0f} % longer one after the other than "
            "undivided, and none of them "
            "can overlap: the machine was not steady, and their shares are too large by as much together."
        ]
    if low is not None and low > WORTH_SAYING:
        return [
            f"The stages take {100 * (divided.together - 1.0):.0f} % longer one after the other than "
            "undivided: they overlap, "
            "and a ceiling that takes them for one after the other promises too much."
        ]
    if high is not None and high < -WORTH_SAYING:
        return [
            f"{100 * (1.0 - divided.together):.0f} % of the undivided query lies between the stages, in none of them."
        ]
    return []


def _blocks(check: Stages, divided: Divided, confidence: float) -> list[AnyBlock]:
    percent = in_percent(confidence)
    rows, forest = [], []
    for name in divided.names:
        share = divided.share(name)
        low, high = share.bound(confidence, "lower"), share.bound(confidence, "upper")
        pooled = divided.pooled_ms.get(name)
        p50 = None if pooled is None else float(np.median(pooled))
        p99 = None if pooled is None else samples.quantile(pooled, 0.99)
        value = share.value
        carried = AmdahlCeiling(share).value
        ceiling = carried if carried is not None and np.isfinite(carried) else None
        rows.append(
            (name, float(np.mean(divided.stage_ms[name])), p50, p99, _percent(value), _percent(low), _percent(high),
             ceiling)
        )  # fmt: skip
        note = "" if ceiling is None else f"{ceiling:.2f}x"
        forest.append(
            Interval(label=name, value=_percent(value), lower=_percent(low), upper=_percent(high), n=share.n, note=note)
        )
    columns = (
        Column(name="stage"), Column(name="trimmed mean", unit="ms"), Column(name="p50", unit="ms"),
        Column(name="p99", unit="ms"), Column(name="share", unit="%"), Column(name=f"lower {percent}", unit="%"),
        Column(name=f"upper {percent}", unit="%"), Column(name="Amdahl ceiling", unit="x"),
    )  # fmt: skip
    whole = float(np.mean(divided.whole_ms))
    bars = Bars(
        title="Where a query's time goes", unit="ms", stacked=True,
        caption="Time of each stage, one after the other; the line is the undivided query.",
        bars=tuple(Bar(label=name, value=float(np.mean(divided.stage_ms[name]))) for name in divided.names),
        references=(Reference(label="undivided", value=whole, axis="x"),),
    )  # fmt: skip
    shares = Intervals(
        title="Share of each stage", unit="%", rows=tuple(forest),
        caption="Over fresh processes; beside each the speed-up of a query if the stage took no time.",
        references=tuple(
            Reference(label=one.sentence, value=one.threshold, axis="x", says_value=True)
            for one in check.requirements
            if one.metric == "stage_share"
        ),
    )  # fmt: skip
    table = Table(
        title="Stages", columns=columns, rows=tuple(rows),
        caption=f"Undivided: {whole:.3g} ms; the stages add up to {100 * divided.together:.0f} %.",
    )  # fmt: skip
    return [bars, shares, table]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
