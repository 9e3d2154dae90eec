"""A run whose screens look, beside the same run with `policy: {screens: off}`.

    python tests/benchmarks/screens.py [--rows 20000] [--rounds 3] [--folder DIR]

The clean twin of a churn model judged by its answers in files: answers, shift and contamination (`tests/stories`). The
peer is evalspec itself. Each figure is of a whole run in a process of its own: seconds of the clock, and of the
processor with all children, which hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

SIDES = ("tell", "off")
PR_SET_CHILD_SUBREAPER = 36


def make(folder: Path, rows: int) -> None:
    """The specs of both sides over the same files, whose rows are drawn again with noise until there are so many."""
    from evalspec.language.yaml_text import write
    from tests.stories.defects import SIDES as DATA
    from tests.stories.defects import write_case
    from tests.stories.defects_held_out import churn

    case, rng = churn("shares"), np.random.default_rng(1)
    for side in DATA:
        columns = case.sides[side]
        drawn = rng.integers(0, len(columns["id"]), rows)
        case.sides[side] = {
            name: values[drawn] + rng.normal(0.0, 0.2 * values.std(), rows)
            if values.dtype.kind == "f"
            else values[drawn]
            for name, values in columns.items()
        } | {"id": np.arange(rows)}
        if side == "test":
            case.said = {name: one[drawn] for name, one in case.said.items()}
    write_case(case, folder)
    for side in SIDES:
        (folder / f"{side}.yaml").write_text(write({**case.spec, "policy": {"screens": side}}))


def measure(folder: Path, side: str) -> dict[str, float]:
    from tests.running.small import go

    shutil.rmtree(folder / f"run-{side}", ignore_errors=True)
    # Children whose guard ends before them would be counted nowhere.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    begun, before = time.perf_counter(), processor_s()
    record, _ = go(folder / f"{side}.yaml", folder / f"run-{side}")
    seconds = time.perf_counter() - begun
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    processor = processor_s() - before
    if (record.screens is None) is not (side == "off"):
        raise SystemExit(f"{side}: the policy did not do what it says")
    return {"seconds": seconds, "processor": processor}


def processor_s() -> float:
    """Seconds of the processor that this process and those that it has waited for took, in user and kernel mode."""
    both = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evalspec-screens")
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side is not None:
        print(json.dumps(measure(options.folder, options.side)))
        return
    from beside import column, head, in_turn, row

    options.folder.mkdir(parents=True, exist_ok=True)
    make(options.folder, options.rows)
    found = in_turn(__file__, SIDES, options.rounds, ["--folder", str(options.folder)])
    print(head(f"three datasets of {options.rows:,} rows", "screens tell", "screens off"))
    for name, words in (("seconds", "seconds"), ("processor", "seconds of the processor")):
        print(row(words, *(column(found[side], name) for side in SIDES)))


if __name__ == "__main__":
    main()
