"""Shift of two tables of 200,000 x 50 with its report: the check `shift` beside Evidently's preset, A B A B.

    python tests/benchmarks/shift.py --peer PYTHON [--rounds 2]

PYTHON has evidently. 40 columns of numbers, 10 of categories; the mean of four moved by 0.1 standard deviations, a
share of one by 3 points. Both sides are given their table in memory; the time ends with the page as a file, and a
small table goes the same way before. The peak of resident memory is that of the whole process. The check also trains
its classifier (`c2st_auc`), which the preset has no counterpart of. Printed beside it: which columns each side calls
drifted, the check at a tolerance of D = 0.015, Evidently at its default.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from beside import ROOT, column, head, row

ROWS, NUMBERS, CATEGORIES = 200_000, 40, 10
MOVED = ("x0", "x1", "x2", "x3", "c0")


def columns(seed: int, by: float, rows: int) -> dict[str, np.ndarray]:
    """One side."""
    rng = np.random.default_rng(seed)
    found = {f"x{i}": rng.normal(by * (i < 4), 1, rows) for i in range(NUMBERS)}
    names = np.array(["a", "b", "c", "d"])
    for i in range(CATEGORIES):
        moved = 0.03 * (by > 0) * (i == 0)
        found[f"c{i}"] = names[rng.choice(4, rows, p=[0.4 - moved, 0.3 + moved, 0.2, 0.1])]
    return found


def evalspec_side(folder: Path, rows: int) -> dict[str, object]:
    import pyarrow as pa

    from evalspec.checks.data.shift.spec import Shift
    from evalspec.evidence.record import CheckRecord
    from evalspec.report.page import render
    from evalspec.running.requirements import SignificanceLevels, write_tests
    from evalspec.verdict import decide
    from tests.fakes import FakeInputs
    from tests.report.records import ready

    tables = {"test": pa.table(columns(1, 0.0, rows)), "traffic": pa.table(columns(2, 0.1, rows))}
    inputs = FakeInputs(folder, tables=tables)
    check = Shift.model_validate(
        {"reference": "test", "current": "traffic", "tolerance": 0.015, "require": ["drifted_columns <= 10 %"]}
    )
    begun, spent = time.perf_counter(), time.process_time()
    result = check.run(inputs)
    tests = write_tests(check, result, SignificanceLevels(0.95, 0.05))
    page = folder / "ours.html"
    shown = CheckRecord(
        id="shift", check="shift", dimension="data", status="measured", tests=tests, blocks=tuple(result.blocks)
    )
    record = ready().model_copy(update={"checks": (shown,), "family": ("shift/drifted_columns",)})
    page.write_text(render(record, decide(record)))
    found = figures(begun, spent, page)
    drifted = [part.part for part in tests[0].parts if part.p_fail is not None and part.p_fail <= 0.001]
    return {**found, "drifted": drifted}


def evidently_side(folder: Path, rows: int) -> dict[str, object]:
    import pandas as pd
    from evidently import Report
    from evidently.presets import DataDriftPreset

    reference, current = (pd.DataFrame(columns(seed, by, rows)) for seed, by in ((1, 0.0), (2, 0.1)))
    begun, spent = time.perf_counter(), time.process_time()
    snapshot = Report([DataDriftPreset()]).run(current, reference)
    page = folder / "evidently.html"
    snapshot.save_html(str(page))
    found = figures(begun, spent, page)
    drifted = []
    for metric in json.loads(snapshot.json())["metrics"]:
        config, value = metric.get("config", {}), metric.get("value")
        if "column" in config and isinstance(value, int | float) and value >= config.get("threshold", 0.1):
            drifted.append(config["column"])
    return {**found, "drifted": drifted}


def figures(begun: float, spent: float, page: Path) -> dict[str, object]:
    return {
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - spent,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "page_kb": page.stat().st_size / 1e3,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", help="a Python with evidently")
    parser.add_argument("--side", choices=["evalspec", "evidently"])
    options = parser.parse_args()
    if options.side is not None:
        with tempfile.TemporaryDirectory() as folder:
            side = evalspec_side if options.side == "evalspec" else evidently_side
            # The first page of a process pays for imports and templates.
            side(Path(folder), 2_000)
            print(json.dumps(side(Path(folder), ROWS)))
        return
    pythons = {"evalspec": sys.executable, "evidently": options.peer or sys.executable}
    found: dict[str, list[dict[str, float]]] = {side: [] for side in pythons}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    for turn in range(options.rounds):
        for side in pythons if turn % 2 == 0 else reversed(pythons):
            command = [pythons[side], __file__, "--side", side]
            paths = {"PYTHONPATH": str(ROOT)} if side == "evalspec" else {}
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**environment, **paths})
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    print(
        head(f"two tables of {ROWS:,} x {NUMBERS + CATEGORIES}, with a page", "evalspec", "Evidently, DataDriftPreset")
    )
    for name in ("seconds", "cpu_s", "peak_mib", "page_kb"):
        print(row(name, column(found["evalspec"], name), column(found["evidently"], name)))
    for side in pythons:
        print(f"{side}: drifted {found[side][0]['drifted']}, moved {list(MOVED)}")


if __name__ == "__main__":
    main()
