"""Accuracy by 60 slices of 200,000 rows with intervals: the check `slices` beside fairlearn's MetricFrame, A B A B.

    python tests/benchmarks/slices.py [--rounds 2] [--bootstraps 100]

fairlearn resamples the whole frame for its intervals. The check does not for an accuracy (the bounds are Clopper and
Pearson's, and the time holds all that it does and writes down: p-values, forest, table); of F1 averaged over classes it
does, 9,999 times in each slice. Three figures: the check with accuracy; the check with macro F1, with 9,999 bootstraps
in each slice; MetricFrame with accuracy and the number of bootstraps asked for. Imports are not counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from beside import column, head, in_turn, row

ROWS, COLOURS, SIZES = 200_000, 6, 10


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Colour and size of each row, the truth, and what a model that is right in nine of ten rows says."""
    rng = np.random.default_rng(0)
    colour, size = rng.integers(0, COLOURS, ROWS), rng.integers(0, SIZES, ROWS)
    truth = rng.integers(0, 2, ROWS)
    return colour, size, truth, np.where(rng.random(ROWS) < 0.9, truth, 1 - truth)


def evalspec_side() -> dict[str, float]:
    from evalspec.checks.model.slices.spec import Slices
    from evalspec.running.requirements import SignificanceLevels, write_tests
    from tests.fakes import FakeInputs, classifier

    colour, size, truth, said = data()
    inputs = FakeInputs(
        evidence=Path(tempfile.gettempdir()),
        tables={"test": pa.table({"colour": colour, "size": size, "label": truth})},
        labels={"test": "label"},
        answers={("test", "candidate"): classifier(np.eye(2)[said], truth)},
    )
    found = {}
    for metric in ("accuracy", "accuracy", "macro_f1"):
        check = Slices.model_validate(
            {
                "check": "slices", "dataset": "test", "by": [{"cross": ["colour", "size"]}],
                "require": [f"worst_{metric} >= 85 %", "slices_too_small == 0"],
            }
        )  # fmt: skip
        begun = time.perf_counter()
        tests = write_tests(check, check.run(inputs), SignificanceLevels(0.95, 0.002))
        # The first round of accuracy loads what it needs, the second one counts.
        found[f"{metric}_s"] = time.perf_counter() - begun
        assert len(tests[0].parts) == COLOURS * SIZES
    return found


def fairlearn_side(bootstraps: int) -> dict[str, float]:
    from fairlearn.metrics import MetricFrame
    from sklearn.metrics import accuracy_score

    colour, size, truth, said = data()
    slices = colour * SIZES + size
    begun = time.perf_counter()
    frame = MetricFrame(
        metrics={"accuracy": accuracy_score}, y_true=truth, y_pred=said, sensitive_features=slices, n_boot=bootstraps,
        ci_quantiles=[0.05, 0.95], random_state=1,
    )  # fmt: skip
    frame.by_group_ci  # noqa: B018 (made when it is asked for)
    spent = time.perf_counter() - begun
    return {"accuracy_s": spent}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--bootstraps", type=int, default=100)
    parser.add_argument("--side", choices=["evalspec", "fairlearn"])
    options = parser.parse_args()
    if options.side is not None:
        made = evalspec_side() if options.side == "evalspec" else fairlearn_side(options.bootstraps)
        print(json.dumps(made))
        return
    sides = ("evalspec", "fairlearn")
    found = in_turn(__file__, sides, options.rounds, ["--bootstraps", str(options.bootstraps)])
    peer = column(found["fairlearn"], "accuracy_s")
    print(head(f"{ROWS:,} rows, {COLOURS * SIZES} slices, seconds", "evalspec", f"MetricFrame, {options.bootstraps}"))
    print(row("accuracy with intervals", column(found["evalspec"], "accuracy_s"), peer))
    print(row("macro F1 with 9,999 bootstraps", column(found["evalspec"], "macro_f1_s"), peer))


if __name__ == "__main__":
    main()
