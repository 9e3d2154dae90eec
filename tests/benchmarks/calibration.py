"""The calibration error of many rows of many classes beside torchmetrics, A B A B in one run.

    python tests/benchmarks/calibration.py [--rounds 5] [--rows 500000] [--classes 10]

From probabilities and class indices to the error: ours is the debiased value over equal-mass bins in double precision,
torchmetrics' `multiclass_calibration_error` the plain one over as many bins of equal width, of tensors in single
precision, as models give them, and in double precision. Each is the median of nine, after two that do not count; of the
clock, and of processor time, which others on the machine change less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import beside
import numpy as np

SIDES = ("ours", "single", "double")
TITLES = {"single": "torchmetrics, float32", "double": "torchmetrics, float64"}
BINS = 10


def rows(count: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of an over-confident model, and what was true."""
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 2, (count, classes))
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    truth = np.minimum((rng.random(count)[:, None] > shares.cumsum(axis=1)).sum(axis=1), classes - 1)
    sharper = shares**1.3
    return sharper / sharper.sum(axis=1, keepdims=True), truth


def ours(said: np.ndarray, truth: np.ndarray) -> Callable[[], float]:
    from evalspec.stats.calibration.expected_error import expected_calibration_error, top_label

    return lambda: expected_calibration_error(*top_label(said, truth), bins=BINS).value or 0.0


def torchmetrics(said: np.ndarray, truth: np.ndarray, double: bool) -> Callable[[], float]:
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    torch.set_num_threads(1)
    preds, target = torch.tensor(said, dtype=torch.float64 if double else torch.float32), torch.tensor(truth)
    return lambda: float(multiclass_calibration_error(preds, target, said.shape[1], n_bins=BINS))


def measured(compute: Callable[[], float]) -> dict[str, float]:
    clock, processor, error = [], [], 0.0
    for _ in range(11):
        begun, before = time.perf_counter(), time.process_time()
        error = compute()
        clock.append(1e3 * (time.perf_counter() - begun))
        processor.append(1e3 * (time.process_time() - before))
    return {"clock_ms": statistics.median(clock[2:]), "processor_ms": statistics.median(processor[2:]), "error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side:
        said, truth = rows(options.rows, options.classes)
        compute = ours(said, truth) if options.side == "ours" else torchmetrics(said, truth, options.side == "double")
        print(json.dumps(measured(compute)))
        return
    sizes = ["--rows", str(options.rows), "--classes", str(options.classes)]
    found = beside.in_turn(__file__, SIDES, options.rounds, sizes)
    errors = {side: one[0]["error"] for side, one in found.items()}
    assert abs(errors["ours"] - errors["double"]) < 0.002, errors
    print(beside.head(f"{options.rows:,} x {options.classes}", "evalspec", "torchmetrics"))
    for peer, title in TITLES.items():
        for name, what in (("clock_ms", "ms"), ("processor_ms", "processor ms")):
            print(beside.row(f"{title}: {what}", *(beside.column(found[side], name) for side in ("ours", peer))))


if __name__ == "__main__":
    main()
