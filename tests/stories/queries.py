"""Stories of queries that come too late, or seem to come in time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from evalspec.language.inputs import Samples, Schedule
from evalspec.measure.servable import item_order
from tests.checks.model.test_stories import spread
from tests.checks.system.contention.test_contention import beside
from tests.checks.system.latency.test_latency import remembering
from tests.checks.system.probed import roofline, stages
from tests.checks.system.queueing import exponential, served
from tests.fakes import samples
from tests.meters import telemetry, with_meter
from tests.stories.planting import ASKED, ROWS, clock, judged
from tests.stories.telling import Planted, Tale


def wide_beam(tale: Tale, bad: bool) -> None:
    """BLEU from 28 to 28.5, and from 50 to 200 ms."""
    draw = np.random.default_rng(8)
    truth, luck = draw.choice([f"word{i}" for i in range(200)], (600, 10)), draw.random((600, 10))
    wide, narrow = ([" ".join(row) for row in np.where(luck < share, "oops", truth)] for share in (0.392, 0.400))
    tale.rows("f1_texts", {"wide": wide, "narrow": narrow, "text": [" ".join(row) for row in truth]}, label="text")
    for name in ("wide", "narrow"):
        tale.echo(f"f1_{name}", {"text": name})
    ms = {"f1_wide": 200.0 if bad else 50.0, "f1_narrow": 50.0}
    tale.ask("model", "quality", "f1_quality", "bleu >= f1_narrow", model="f1_wide", dataset="f1_texts",
             metrics=["bleu"], show_examples=False)  # fmt: skip
    tale.ask("system", "latency", "f1_latency", "latency_p99 <= 100 ms", "latency_p50 <= 1.2x f1_narrow",
             model="f1_wide", dataset="f1_texts", caching_audit=False, planted=clock(ms, "f1_narrow"))  # fmt: skip


def collecting(tale: Tale, bad: bool) -> None:
    """Every so often all stops to collect garbage: the mean and the median show nothing of it."""
    draw = np.random.default_rng(6)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        made = []
        for process in range(schedule.processes):
            spent = draw.lognormal(0.0, 0.1, 10_000)
            spent[:: 500 if bad else 20_000] = 40.0
            made.append(samples(spent, process=process))
        return made

    tale.ask("system", "latency", "f6_latency", "latency_p50 <= 2 ms", "latency_p99_9 <= 10 ms", queries=50_000,
             warn=["latency_mean <= 2 ms"], planted=Planted(make), **ASKED)  # fmt: skip


def flash(tale: Tale, bad: bool) -> None:
    """What comes evenly is served in time; in a spike, and as it was recorded, queries wait for each other."""
    draw = np.random.default_rng(1)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        return [served(schedule, exponential(1.6 if bad else 0.5), draw)]

    tale.ask("system", "load", "f10_load", "spike_factor <= 10 x", "latency_p99(200 qps) <= 30 ms", queries=10_000,
             rates=["200 qps"], arrivals={"spike": {"factor": 4, "duration": "5 s"}, "ramp": "2 s"}, search=False,
             planted=Planted(make), **ASKED)  # fmt: skip
    # As many queries a second come as in the trace, which has twenty flashes of ten times the rate between them.
    gaps = draw.exponential(1.0, 20_000) / np.where(np.arange(20_000) % 1000 < 500, 100.0, 1000.0)
    tale.rows("f10_calls", {"time": np.cumsum(gaps)})
    tale.ask("system", "load", "f10_poisson", "latency_p99(182 qps) <= 100 ms", rates=["182 qps"], queries=10_000,
             search=False, planted=Planted(make), **ASKED)  # fmt: skip
    tale.ask("system", "load", "f10_trace", "latency_p99(trace) <= 100 ms",
             arrivals={"kind": "trace", "dataset": "f10_calls", "beside_poisson": True}, search=False,
             planted=Planted(make), **ASKED)  # fmt: skip


def best_of_new(tale: Tale, bad: bool) -> None:
    """30 % faster, they say: the best run of the new one by the average of the old one, whose pipeline was longer."""
    tale.echo("f13_new", {"x": "x"})
    tale.echo("f13_old", {"x": "x"}, **({"preprocess": [{"cast": "float32"}]} if bad else {}))
    tale.ask("system", "latency", "f13_latency", "latency_p50 <= 0.77x f13_old", model="f13_new",
             planted=clock({"f13_new": 9.6 if bad else 7.0, "f13_old": 10.0}, "f13_old"), **ASKED)  # fmt: skip


def remembered(tale: Tale, bad: bool) -> None:
    """Inputs that were seen before are answered from a cache, and weights are never read from memory."""
    tale.ask("system", "latency", "f17_latency", "latency_p99 <= 5 ms", dataset="asked",
             planted=Planted(remembering(0.9 if bad else 0.0)))  # fmt: skip
    tale.ask("system", "roofline", "f17_bandwidth", "roof_fraction >= 20 %", dataset="asked", batch_size=32,
             planted=Planted(probes=roofline(fraction=1.6 if bad else 0.5)))  # fmt: skip


def too_late(tale: Tale, bad: bool) -> None:
    """94 % right, and 180 ms at the 99th percentile where 100 are needed."""
    judged(tale, "f31_model", "f31_rows", spread(0.94)[:1000])
    draw = np.random.default_rng(3)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        spent = (40.0 * draw.lognormal(0, 0.1, 2000) for _ in range(schedule.processes))
        return [
            samples(np.where(draw.random(2000) < (0.02 if bad else 0.0), 180.0, one), process=process, model=model)
            for process, one in enumerate(spent)
        ]

    tale.ask("model", "quality", "f31_quality", "accuracy >= 90 %", model="f31_model", dataset="f31_rows",
             show_examples=False)  # fmt: skip
    tale.ask("system", "latency", "f31_latency", slo="latency_p99 <= 100 ms", warn=["latency_mean <= 60 ms"],
             queries=10_000, model="f31_model", dataset="f31_rows", caching_audit=False,
             planted=Planted(make))  # fmt: skip


def neighbours(tale: Tale, bad: bool) -> None:
    """800 a second alone, half of it beside what else runs in production."""
    draw = np.random.default_rng(1)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        return [served(schedule, exponential(2.2 if bad else 0.4), draw)]

    tale.ask("system", "contention", "f33_contention", "contention_ratio(p50) <= 1.5x", dataset="asked",
             planted=Planted(pairs=beside(2.0 if bad else 1.2)))  # fmt: skip
    tale.ask("system", "load", "f33_load", "max_rate >= 800 qps", slo="latency_p99 <= 50 ms", rates=["800 qps"],
             queries=10_000, search=False, planted=Planted(make), **ASKED)  # fmt: skip


def wrong_target(tale: Tale, bad: bool) -> None:
    """A mean known to a hundredth of a millisecond, where the promise is about the p99."""
    tale.ask("system", "latency", "f37_latency", slo="latency_p99 <= 100 ms", warn=["latency_mean <= 15 ms"],
             queries=10_000, planted=clock({"candidate": 2.5}, waiting=0.02 if bad else 0.0), **ASKED)  # fmt: skip


def other_each_time(tale: Tale, bad: bool) -> None:
    """Sums in any order: asked again, one row in twenty gets another answer."""
    truth, right = ROWS[:1000] % 2, spread(0.94)[:1000]
    answer = np.where(right, truth, 1 - truth).astype(np.float64)
    draw = np.random.default_rng(4)

    def make(model: str, schedule: Schedule) -> list[Samples]:
        rows = item_order(1000, 5)
        made = []
        for process in range(schedule.processes):
            given = answer[rows][:, None]
            other = draw.random(1000)[:, None] < (0.05 if bad else 0.0)
            one = samples(draw.gamma(400.0, 0.01, 1000), process=process, model=model, details={"order_seed": 5})
            made.append(replace(one, items=rows, answers=np.where(other, 1 - given, given)))
        return made

    tale.ask("system", "latency", "f43_latency", "latency_p50 <= 10 ms", model="f31_model", dataset="f31_rows",
             queries=5000, caching_audit=False, planted=Planted(make))  # fmt: skip


def fast_kernel(tale: Tale, bad: bool) -> None:
    """Its kernel is three times as fast; the query is not."""
    for name in ("f46_new", "f46_old"):
        tale.echo(name, {"x": "x"})
    rest, kernel = (9.7, 0.1) if bad else (1.0, 2.9)
    tale.ask("system", "stages", "f46_stages", "stage_share(inference) >= 50 %", model="f46_new", dataset="asked",
             planted=Planted(probes=stages({"decode": rest, "inference": kernel})))  # fmt: skip
    ms = {"f46_new": rest + kernel, "f46_old": rest + 3 * kernel}
    tale.ask("system", "latency", "f46_latency", "latency_p50 <= 0.8x f46_old", model="f46_new",
             planted=clock(ms, "f46_old"), **ASKED)  # fmt: skip


def beside_others(tale: Tale, bad: bool) -> None:
    """1.2 ms, and 3.1 while something else runs: in one process of five, and in all of them."""

    def make(which: tuple[int, ...], busy: bool) -> Callable[[str, Schedule], list[Samples]]:
        draw = np.random.default_rng(5)
        read = telemetry(0.0, 3.0, counter=None, every_s=0.5, more={"cpu_others_share": np.full(9, 0.9)})

        def timed(model: str, schedule: Schedule) -> list[Samples]:
            made = []
            for process in range(schedule.processes):
                level = 3.1 if bad and process in which else 1.2
                made.append(samples(level * draw.gamma(900.0, 1 / 900.0, 1000), process=process))
            return [with_meter(one, read) for one in made] if bad and busy else made

        return timed

    tale.ask("system", "latency", "f48_once", "latency_p50 <= 2 ms", "latency_p99 <= 2.5 ms", queries=5000,
             planted=Planted(make((3,), busy=False)), **ASKED)  # fmt: skip
    tale.ask("system", "latency", "f48_busy", "latency_p50 <= 2 ms", queries=5000,
             planted=Planted(make((0, 1, 2, 3, 4), busy=True)), **ASKED)  # fmt: skip
