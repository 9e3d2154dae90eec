"""How long a whole command of one check takes, from its start to its page, beside a peer's whole process, A B A B.

    python tests/benchmarks/whole_checks.py --peers PYTHON [--what shift|contamination ...] [--rounds 2]

``shift``: the tables of `shift.py` in parquet files; beside Evidently's whole process (import, read, report, save), and
beside the check alone, in memory, as `shift.py` measures it. ``contamination``: the documents of `contamination.py`
in parquet files; beside MinHash by rensa from the texts on, as `contamination.py` measures it. Of a command, processor
seconds are those of all its processes. PYTHON has evidently and rensa.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.beside import ROOT, head, row

PR_SET_CHILD_SUBREAPER = 36
Took = tuple[float, float]
"""Seconds, and those of the processor."""
SPECS = {
    "shift": """\
evalspec: 1
name: shift
datasets:
  test: {kind: parquet, path: test.parquet}
  traffic: {kind: parquet, path: traffic.parquet}
data:
  - {check: shift, reference: test, current: traffic, tolerance: 0.015, require: [drifted_columns <= 10 %]}
""",
    "contamination": """\
evalspec: 1
name: contamination
datasets:
  train: {kind: parquet, path: train.parquet}
  test: {kind: parquet, path: test.parquet}
data:
  - {check: contamination, train: [train], test: test, require: [near_duplicates <= 20 %]}
""",
}
EVIDENTLY = """
import sys
import pandas as pd
from evidently import Report
from evidently.presets import DataDriftPreset
reference, current = (pd.read_parquet(f"{sys.argv[1]}/{name}.parquet") for name in ("test", "traffic"))
Report([DataDriftPreset()]).run(current, reference).save_html(f"{sys.argv[1]}/evidently.html")
"""


def make(what: str, folder: Path) -> None:
    """Files of a question."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sys.path.insert(0, str(Path(__file__).parent))
    if what == "shift":
        from tests.benchmarks.shift import ROWS, columns

        tables = {"test": columns(1, 0.0, ROWS), "traffic": columns(2, 0.1, ROWS)}
    else:
        from tests.benchmarks.contamination import documents

        tables = {name: {"text": np.array(one)} for name, one in zip(("train", "test"), documents(), strict=True)}
    for name, table in tables.items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    (folder / f"{what}.yaml").write_text(SPECS[what])


def timed(command: list[str]) -> Took:
    """Of a command and of all that it starts."""
    begun = time.perf_counter()
    main = os.posix_spawn(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ])  # fmt: skip
    seconds = processor = 0.0
    while True:
        try:
            ended, status, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return seconds, processor
        processor += usage.ru_utime + usage.ru_stime
        if ended == main:
            seconds = time.perf_counter() - begun
            if os.waitstatus_to_exitcode(status) not in (0, 1):
                raise SystemExit(f"{command}: exit code {os.waitstatus_to_exitcode(status)}")


def side(python: str, script: str, name: str, fields: tuple[str, str]) -> Took:
    """What a side of another benchmark says of itself."""
    command = [python, str(Path(__file__).with_name(script)), "--side", name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)} if python == sys.executable else dict(os.environ)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    return found[fields[0]], found[fields[1]]


def sides(what: str, folder: Path, peers: str) -> dict[str, Callable[[], Took]]:
    """The command first, then what it stands beside."""
    run = [sys.executable, "-m", "evalspec", "run", str(folder / f"{what}.yaml"), "--quiet", "--output"]

    def command() -> Took:
        with tempfile.TemporaryDirectory() as out:
            return timed([*run, f"{out}/run"])

    if what == "contamination":
        fields = ("minhash_s", "minhash_cpu_s")
        return {"command": command, "rensa": lambda: side(peers, "contamination.py", "rensa", fields)}
    return {
        "command": command,
        "the check alone": lambda: side(sys.executable, "shift.py", "evalspec", ("seconds", "cpu_s")),
        "Evidently's process": lambda: timed([peers, "-c", EVIDENTLY, str(folder)]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", nargs="+", choices=list(SPECS), default=list(SPECS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", default=sys.executable)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1"}
    # Children whose guard ends before them would be counted nowhere.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    sys.stdout.write(head("`whole_checks.py`", "whole command", "peer") + "\n")
    for what in options.what:
        with tempfile.TemporaryDirectory() as scratch:
            make(what, Path(scratch))
            asked = sides(what, Path(scratch), options.peers)
            found: dict[str, list[Took]] = {name: [] for name in asked}
            for turn in range(options.rounds):
                for name in asked if turn % 2 == 0 else reversed(asked):
                    found[name].append(asked[name]())
            for peer in list(asked)[1:]:
                for place, unit in enumerate(("seconds", "processor seconds")):
                    ours, theirs = ([one[place] for one in found[name]] for name in ("command", peer))
                    sys.stdout.write(row(f"{what}, beside {peer}: {unit}", ours, theirs) + "\n")


if __name__ == "__main__":
    main()
