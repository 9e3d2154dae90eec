"""What one query of a model that does nothing costs, beside LoadGen's SingleStream, A B A B in one run.

    python tests/benchmarks/single_stream.py [--rounds 7] [--queries 200000]

Cost: from the first query sent to the last one ended, by the count of queries (LoadGen: 1 / "QPS w/ loadgen
overhead"). Added latency: the median that is reported, since the model takes no time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import beside
import numpy as np


class NoOp:
    """Rows without content and a model that does nothing: all that a loop may ask for."""

    n = 1000

    def take(self, rows: object) -> object:
        return rows

    def serve(self, query: object) -> object:
        return query

    def synchronize(self) -> None:
        return

    def answers(self, outputs: object) -> np.ndarray:
        return np.asarray(outputs, dtype=np.float64)


def ours(queries: int) -> dict[str, float]:
    from evalspec.language.inputs import Schedule
    from evalspec.measure.samples import read_samples
    from evalspec.measure.session import Session

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples"
        session = Session(NoOp(), Schedule(kind="single_stream", queries=queries), path)
        session.warm_up()
        session.block(0, queries, 0.0)
        session.finish()
        samples = read_samples(path, model="no-op", process=0)
    assert samples.ok.all() and len(samples.ok) == queries and samples.answers is not None
    assert (samples.answers[:, 0] == samples.items).all()
    return {
        "cost_us": float(samples.end_ns[-1] - samples.sent_ns[0]) / queries / 1e3,
        "added_us": float(np.median(samples.end_ns - samples.sent_ns)) / 1e3,
    }


def loadgen(queries: int) -> dict[str, float]:
    from loadgen_side import run

    found = run("SingleStream", queries, NoOp.n, lambda index: None)
    return {
        "cost_us": 1e6 / found["QPS w/ loadgen overhead"],
        "added_us": found["50.00 percentile latency (ns)"] / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--queries", type=int, default=200_000)
    parser.add_argument("--side", choices=["ours", "loadgen"])
    options = parser.parse_args()
    if options.side:
        print(json.dumps((ours if options.side == "ours" else loadgen)(options.queries)))
        return
    found = beside.in_turn(
        __file__, ("ours", "loadgen"), options.rounds, ["--queries", str(options.queries)], beside.loadgen_folder()
    )
    print(beside.head("no-op model", "evalspec", "LoadGen"))
    for name, title in (("cost_us", "cost of a query, us"), ("added_us", "added latency, median, us")):
        print(beside.row(title, *(beside.column(found[side], name) for side in ("ours", "loadgen"))))


if __name__ == "__main__":
    main()
