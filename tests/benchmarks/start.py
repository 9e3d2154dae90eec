"""How long the command line takes to start, beside a peer, A B A B in one run.

    python tests/benchmarks/start.py [--rounds 20] [--peer "COMMAND"]

Prints median and range of each command in milliseconds, and the ratio of the medians: from start to end, and of
processor time, which others on the machine change less. `validate` is measured twice: as it is here, where Python may
have to compile the modules each time (PYTHONDONTWRITEBYTECODE), and with modules compiled before, as an installed
package has them.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "suites" / "digits" / "evalspec.yaml"


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """From start to end, and of a processor."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment)
    ended, after = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended - begun, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--peer", default=f"{sys.executable} -c pass", help="any command; its output is thrown away")
    options = parser.parse_args()
    peer = shlex.split(options.peer)
    validate = [sys.executable, "-m", "evalspec", "validate", str(SPEC)]
    here = dict(os.environ)
    with tempfile.TemporaryDirectory() as cache:
        compiled = {key: value for key, value in here.items() if key != "PYTHONDONTWRITEBYTECODE"}
        compiled["PYTHONPYCACHEPREFIX"] = cache
        ours = {
            "evalspec --help": ([sys.executable, "-m", "evalspec", "--help"], here),
            "evalspec validate (digits)": (validate, here),
            "evalspec validate (digits), modules compiled before": (validate, compiled),
        }
        for name, (command, environment) in ours.items():
            compare(name, command, environment, peer, options.rounds)


def compare(name: str, command: list[str], environment: dict[str, str], peer: list[str], rounds: int) -> None:
    for warm in (command, peer):
        seconds(warm, environment)
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(seconds(command, environment))
        theirs.append(seconds(peer, environment))
    print(f"{name} beside {shlex.join(peer)}")
    for index, what in enumerate(("from start to end", "processor time")):
        a, b = [1e3 * one[index] for one in ours], [1e3 * one[index] for one in theirs]
        ratio = statistics.median(a) / statistics.median(b)
        print(f"  {what}: {_shown(a)} beside {_shown(b)}; ratio of the medians {ratio:.1f}")


def _shown(values: list[float]) -> str:
    return f"median {statistics.median(values):.0f} ms ({min(values):.0f} to {max(values):.0f})"


if __name__ == "__main__":
    main()
