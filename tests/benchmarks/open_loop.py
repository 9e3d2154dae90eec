"""Poisson arrivals at a model that does nothing, in process, beside LoadGen's Server scenario, A B A B in one run.

    python tests/benchmarks/open_loop.py [--rounds 5] [--seconds 5] [--rates 1000 5000 20000]

Latencies count from the intended time on both sides. Of ours it also shows how well the schedule was kept: how far
sent times are from intended ones after the first second, by the time since the start (99.9 % of queries, and the
worst); the span of sent times by that of intended ones; the rate by the one asked for, in units of 1 / sqrt(n); and
the generator's lag.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
from pathlib import Path

import beside
import numpy as np
from single_stream import NoOp


def ours(rate_qps: float, queries: int, seed: int) -> dict[str, float]:
    from evalspec.language.inputs import Schedule
    from evalspec.measure.arrivals import describe, poisson
    from evalspec.measure.samples import read_samples
    from evalspec.measure.session import Session

    times = poisson(rate_qps, n=queries, rng=np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples"
        session = Session(NoOp(), Schedule(kind="open_loop", queries=queries, arrivals_ns=times), path)
        session.warm_up()
        session.block(0, queries, 0.0)
        details = session.finish()
        samples = read_samples(path, model="no-op", process=0)
    assert samples.ok.all() and len(samples.ok) == queries
    since = samples.intended_ns - samples.intended_ns[0] + times[0]
    behind = (samples.sent_ns - samples.intended_ns)[since > 1e9] / since[since > 1e9]
    latency_us = (samples.end_ns - samples.intended_ns) / 1e3
    return {
        "p50_us": float(np.quantile(latency_us, 0.5)),
        "p90_us": float(np.quantile(latency_us, 0.9)),
        "p99_us": float(np.quantile(latency_us, 0.99)),
        "sent_off_share": float(np.quantile(behind, 0.999)),
        "worst_off_share": float(behind.max()),
        "span_off_share": abs(float(np.ptp(samples.sent_ns) / np.ptp(times)) - 1),
        "rate_off_sigmas": abs(describe(times).rate_qps / rate_qps - 1) * math.sqrt(queries),
        "lag_p99_us": 1e3 * float(details["generator_lag_p99_ms"] or 0.0),
    }


def loadgen(rate_qps: float, queries: int) -> dict[str, float]:
    from loadgen_side import run

    found = run("Server", queries, NoOp.n, lambda index: None, rate_qps)
    return {f"p{p}_us": found[f"{p}.00 percentile latency (ns)"] / 1e3 for p in (50, 90, 99)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[1000.0, 5000.0, 20000.0])
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--side", choices=["ours", "loadgen"])
    options = parser.parse_args()
    if options.side:
        rate, queries = options.rates[0], int(options.rates[0] * options.seconds)
        found = ours(rate, queries, options.seed) if options.side == "ours" else loadgen(rate, queries)
        print(json.dumps(found))
        return
    folder = beside.loadgen_folder()
    print(beside.head("no-op model", "evalspec", "LoadGen"))
    kept = []
    for rate in options.rates:
        arguments = ["--rates", str(rate), "--seconds", str(options.seconds), "--seed", str(options.seed)]
        sides = beside.in_turn(__file__, ("ours", "loadgen"), options.rounds, arguments, folder)
        for name in ("p50", "p90", "p99"):
            figures = (beside.column(sides[side], f"{name}_us") for side in ("ours", "loadgen"))
            print(beside.row(f"{rate:,.0f}/s, {name} latency, us", *figures))
        kept.append((rate, sides["ours"]))
    print(f"\n| rate | sent off, 99.9 % | worst | span off | rate off, 1/sqrt(n) | lag p99, us |\n{'|---' * 6}|")
    names = ("sent_off_share", "worst_off_share", "span_off_share", "rate_off_sigmas", "lag_p99_us")
    for rate, rounds in kept:
        medians = {name: statistics.median(beside.column(rounds, name)) for name in names}
        sent, worst, span, sigmas, lag = (medians[name] for name in names)
        print(f"| {rate:,.0f}/s | {sent:.4%} | {worst:.4%} | {span:.5%} | {sigmas:.2f} | {lag:.3g} |")


if __name__ == "__main__":
    main()
