"""How long the command line takes to start, beside a peer, A B A B in one run.

    python tests/benchmarks/start.py [--rounds 20] [--peer "COMMAND"]

Prints median and range of each command in milliseconds, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "suites" / "digits" / "evalspec.yaml"


def seconds(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--peer", default=f"{sys.executable} -c pass", help="any command; its output is thrown away")
    options = parser.parse_args()
    peer = shlex.split(options.peer)
    ours = {
        "evalspec --help": [sys.executable, "-m", "evalspec", "--help"],
        "evalspec validate (digits)": [sys.executable, "-m", "evalspec", "validate", str(SPEC)],
    }
    for name, command in ours.items():
        for warm in (command, peer):
            seconds(warm)
        a, b = [], []
        for _ in range(options.rounds):
            a.append(1e3 * seconds(command))
            b.append(1e3 * seconds(peer))
        ratio = statistics.median(a) / statistics.median(b)
        print(
            f"{name}: median {statistics.median(a):.0f} ms ({min(a):.0f} to {max(a):.0f}); "
            f"{options.peer}: {statistics.median(b):.0f} ms ({min(b):.0f} to {max(b):.0f}); ratio {ratio:.1f}"
        )


if __name__ == "__main__":
    main()
