"""How long a whole command takes, from `evalspec run` to its exit code, beside another way to run it, A B A B.

    python tests/benchmarks/whole_run.py [--what eight|quickstart|threshold|trivial ...] [--rounds 3]
        [--peer EVALSPEC] [--out FOLDER]

``eight``: eight checks over 285 rows and a model of 1 ms, all far from their thresholds. ``threshold``: the same with a
latency and a throughput so close to theirs that no look decides. ``quickstart``: the suite digits. ``trivial``: one
check of a table. The peer is this evalspec with ``policy: {stop: full}``, or the command of another checkout, such as
one from before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.beside import ROOT, head, row

TRIVIAL = """\
evalspec: 1
name: trivial
datasets:
  test: {kind: parquet, path: test.parquet, label: diagnosis, key: id}
data:
  - {check: integrity, dataset: test, require: [duplicate_rows == 0 rows]}
"""
EIGHT = """\
evalspec: 1
name: eight
seed: 7
models:
  candidate: {kind: sklearn, path: classifier.skops}
datasets:
  train: {kind: parquet, path: train.parquet, label: diagnosis, key: id}
  test: {kind: parquet, path: test.parquet, label: diagnosis, key: id}
slices:
  - {name: large, where: mean_area > 600}
system:
  - {check: latency, dataset: test, require: [latency_p99 <= LATENCY ms]}
  - {check: throughput, dataset: test, require: [throughput >= RATE samples/s]}
model:
  - {check: quality, dataset: test, positive: malignant, require: [accuracy >= 85 %]}
  - {check: calibration, dataset: test, require: [ece <= 0.2]}
  - {check: slices, dataset: test, by: [large], require: [accuracy(large) >= 70 %]}
data:
  - {check: contamination, train: [train], test: test, require: [exact_duplicates == 0]}
  - {check: shift, reference: train, current: test, require: [shift <= 0.4]}
  - {check: integrity, dataset: test, require: [duplicate_rows <= 20 rows]}
"""
CLOSE_MS, CLOSE_RATE = "1.5", "23000"
"""About what the model of `eight` takes and gives on the machine of `results.md`."""


def spec(what: str, folder: Path) -> Path:
    """The spec of a question, with its files."""
    if what == "quickstart":
        return ROOT / "suites" / "digits" / "evalspec.yaml"
    for name in ("classifier.skops", "train.parquet", "test.parquet"):
        shutil.copy(ROOT / "suites" / "breast_cancer" / name, folder)
    far = ("100", "100") if what == "eight" else (CLOSE_MS, CLOSE_RATE)
    text = TRIVIAL if what == "trivial" else EIGHT.replace("LATENCY", far[0]).replace("RATE", far[1])
    path = folder / f"{what}.yaml"
    path.write_text(text)
    return path


def timed(command: list[str]) -> tuple[float, str]:
    """Seconds from start to end, and the first line of the outcome."""
    begun = time.perf_counter()
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=environment)
    ended = time.perf_counter()
    said = next((line for line in done.stdout.splitlines() if line and not line.startswith(" ")), "")
    return ended - begun, said


def compare(what: str, rounds: int, peer: str | None, out: Path) -> None:
    """Print the rows of a question."""
    asked = str(spec(what, out))
    sides = {
        "here": [sys.executable, "-m", "evalspec", "run", asked],
        "peer": [peer, "run", asked] if peer else
                [sys.executable, "-m", "evalspec", "run", asked, "--set", "policy.stop=full"],
    }  # fmt: skip
    found: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):
        for side in sides if turn % 2 == 0 else tuple(reversed(sides)):
            wall, said = timed([*sides[side], "--output", str(out / f"{what}-{side}-{turn}"), "--quiet"])
            found[side].append(wall)
            sys.stderr.write(f"{what} {side}: {wall:.1f} s, {said}\n")
    sys.stdout.write(row(f"{what}, seconds", *found.values()) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    choices = ["eight", "quickstart", "threshold", "trivial"]
    parser.add_argument("--what", nargs="+", choices=choices, default=choices)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", help="the command evalspec of another checkout")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sys.stdout.write(head("`whole_run.py`", "evalspec", options.peer or "`policy: {stop: full}`") + "\n")
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for what in options.what:
            compare(what, options.rounds, options.peer, folder)


if __name__ == "__main__":
    main()
