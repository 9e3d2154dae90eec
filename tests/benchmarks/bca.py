"""BCa bounds of a mean over 20,000 rows beside scipy's bootstrap with 9,999 resamples, A B A B.

    python tests/benchmarks/bca.py [--rounds 3]

Ours is what `quality` uses for a mean: the same bounds by saddlepoint, without resampling. A third side is our own
resampling (for statistics that are no means) with as many resamples, to show that its memory does not grow with them.
Prints seconds and the largest resident size of each side's process, and both bounds.
"""

from __future__ import annotations

import argparse
import json
import resource
import time

import numpy as np
from beside import head, in_turn, row

ROWS = 20_000
RESAMPLES = 9_999
LEVEL = 0.95


def data() -> np.ndarray:
    """Skewed losses, as those of a classifier are."""
    return np.random.default_rng(0).gamma(0.5, 2.0, ROWS)


def scipy_side() -> dict[str, float]:
    from scipy.stats import bootstrap

    values = data()
    begun = time.perf_counter()
    found = bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, method="BCa", confidence_level=2 * LEVEL - 1, vectorized=True,
        batch=100, rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    return {"s": time.perf_counter() - begun, "lower": float(found.low), "upper": float(found.high)}


def ours_side() -> dict[str, float]:
    from evalspec.stats.means.mean import mean

    values = data()
    begun = time.perf_counter()
    estimate = mean(values)
    low, high = estimate.bound(LEVEL, "lower"), estimate.bound(LEVEL, "upper")
    assert low is not None
    assert high is not None
    return {"s": time.perf_counter() - begun, "lower": low, "upper": high}


class Mean:
    """The mean as a statistic of weighted rows, as those that are resampled are written."""

    def __call__(self, arrays: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
        return np.asarray(weights @ arrays[0], dtype=np.float64) / weights.sum(axis=1)

    def without_each(self, arrays: list[np.ndarray]) -> np.ndarray:
        return (arrays[0].sum() - arrays[0]) / (len(arrays[0]) - 1)


def resampled_side(alpha: float) -> dict[str, float]:
    from evalspec.stats.resampling.bootstrap import bca

    values = data()
    begun = time.perf_counter()
    estimate = bca(Mean(), [values], rng=np.random.default_rng(1), alpha=alpha)
    low, high = estimate.bound(LEVEL, "lower"), estimate.bound(LEVEL, "upper")
    assert low is not None
    assert high is not None
    return {"s": time.perf_counter() - begun, "lower": low, "upper": high}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=["ours", "scipy", "resampled", "resampled_more"])
    options = parser.parse_args()
    if options.side:
        sides = {
            "ours": ours_side, "scipy": scipy_side, "resampled": lambda: resampled_side(0.002),
            # Ten times the resamples: 20 beyond the level that is asked for.
            "resampled_more": lambda: resampled_side(0.0002),
        }  # fmt: skip
        found = sides[options.side]()
        found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(found))
        return
    sides = ("ours", "scipy", "resampled", "resampled_more")
    found = in_turn(__file__, sides, options.rounds, [])
    columns = {side: {name: [one[name] for one in found[side]] for name in found[side][0]} for side in sides}
    print(head(f"BCa of a mean, {ROWS:,} rows", "evalspec", "scipy, 9,999 resamples"))
    print(row("seconds", columns["ours"]["s"], columns["scipy"]["s"]))
    print(row("seconds, resampled as other statistics are", columns["resampled"]["s"], columns["scipy"]["s"]))
    for side in sides:
        one = columns[side]
        print(f"{side}: {one['lower'][0]:.5f} to {one['upper'][0]:.5f}, {max(one['mib']):.0f} MiB at most")


if __name__ == "__main__":
    main()
