"""A permutation test by maximum mean discrepancy, 2,000 + 2,000 rows of 64 numbers, beside alibi-detect's, A B A B.

    python tests/benchmarks/mmd.py --peer PYTHON [--rounds 3]

PYTHON is that of an environment with ``alibi-detect==0.13.0`` and torch; nothing of it is needed elsewhere. Ours makes
999 permutations, the peer 500. Prints seconds of either side, largest resident size and p-values, of rows that differ
by half a standard deviation in one number (``moved``) and, for ours, of rows of one population (``same``).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np
from beside import ROOT, column, head, row

ROWS, WIDTH, OURS, THEIRS = 2_000, 64, 999, 500

PEER = """
import json, resource, sys, time
import numpy as np
from alibi_detect.cd import MMDDrift
rows, width, permutations = (int(one) for one in sys.argv[1:4])
rng = np.random.default_rng(0)
x = rng.normal(size=(rows, width)).astype(np.float32)
moved = rng.normal(size=(rows, width)).astype(np.float32)
moved[:, 0] += 0.5
begun = time.perf_counter()
told = MMDDrift(x, backend="pytorch", n_permutations=permutations, device="cpu").predict(moved)
found = {"s": time.perf_counter() - begun, "moved": float(told["data"]["p_val"])}
found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(found))
"""


def ours_side() -> dict[str, float]:
    from evalspec.stats.drift.mmd import mmd_test

    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    y = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    moved = y.copy()
    moved[:, 0] += 0.5
    found: dict[str, float] = {"s": 0.0}
    for name, current in (("moved", moved), ("same", y)):
        begun = time.perf_counter()
        told = mmd_test(x, current, rng=np.random.default_rng(1), permutations=OURS)
        found["s"] += (time.perf_counter() - begun) / 2
        assert told is not None
        found[name] = told.p_value
    found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help="a Python with alibi-detect")
    parser.add_argument("--side", choices=["ours"])
    options = parser.parse_args()
    if options.side:
        print(json.dumps(ours_side()))
        return
    sides = {"ours": [sys.executable, __file__, "--side", "ours"]}
    if options.peer:
        sides["alibi-detect"] = [options.peer, "-c", PEER, str(ROWS), str(WIDTH), str(THEIRS)]
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    for turn in range(options.rounds):
        for name in sides if turn % 2 == 0 else reversed(sides):
            done = subprocess.run(sides[name], check=True, stdout=subprocess.PIPE, text=True, env=environment)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    if options.peer:
        print(head(f"MMD, 2 x {ROWS:,} rows of {WIDTH}", f"evalspec, {OURS}", f"alibi-detect, {THEIRS} permutations"))
        print(row("seconds", column(found["ours"], "s"), column(found["alibi-detect"], "s")))
    for name, rounds in found.items():
        seconds = sorted(column(rounds, "s"))
        told = ", ".join(f"p {rounds[0][case]:g} {case}" for case in ("moved", "same") if case in rounds[0])
        print(f"{name}: {seconds[len(seconds) // 2]:.3f} s, {told}, {max(column(rounds, 'mib')):.0f} MiB")


if __name__ == "__main__":
    main()
