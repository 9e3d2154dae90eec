"""How long the command line takes to start, beside a peer, A B A B in one run.

    python tests/benchmarks/start.py [--rounds 20] [--peer "COMMAND"]

Prints median and range of each command in milliseconds, and the ratio of the medians. `validate` is measured twice: as
it is here, where Python may have to compile the modules each time (PYTHONDONTWRITEBYTECODE), and with modules compiled
before, as an installed package has them.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "suites" / "digits" / "evalspec.yaml"


def seconds(command: list[str], environment: dict[str, str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment)
    return time.perf_counter() - begun


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
    a, b = [], []
    for _ in range(rounds):
        a.append(1e3 * seconds(command, environment))
        b.append(1e3 * seconds(peer, environment))
    ratio = statistics.median(a) / statistics.median(b)
    print(
        f"{name}: median {statistics.median(a):.0f} ms ({min(a):.0f} to {max(a):.0f}); "
        f"{shlex.join(peer)}: {statistics.median(b):.0f} ms ({min(b):.0f} to {max(b):.0f}); ratio {ratio:.1f}"
    )


if __name__ == "__main__":
    main()
