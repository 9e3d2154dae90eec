"""Cost of screens: runs of suites with and without them, A B A B.

``python -m tests.benchmarks.screens [--rounds 2] [SUITE ...]``
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from evalspec.language.yaml import read_text
from evalspec.language.yaml_text import write
from tests.running.small import go

SUITES = Path(__file__).resolve().parents[2] / "suites"
DEFAULT = ("tabular-shift/clean", "predictions/evalspec", "diabetes/evalspec", "text/evalspec")


def seconds(suite: str, policy: str) -> float:
    """Time of one run of a suite, ``folder/spec``, with this policy for screens."""
    folder, _, name = suite.partition("/")
    with tempfile.TemporaryDirectory() as place:
        copied = Path(place) / folder
        shutil.copytree(SUITES / folder, copied)
        spec = read_text((copied / f"{name}.yaml").read_text(), "spec").value
        assert isinstance(spec, dict)
        spec["policy"] = {**spec.get("policy", {}), "screens": policy}  # type: ignore[dict-item]  # plain values
        (copied / "measured.yaml").write_text(write(spec))
        began = time.perf_counter()
        go(copied / "measured.yaml", Path(place) / "run")
        return time.perf_counter() - began


def main() -> int:
    """Print a row for each suite."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("suites", nargs="*", default=DEFAULT)
    asked = parser.parse_args()
    for suite in asked.suites:
        taken: dict[str, list[float]] = {"off": [], "tell": []}
        for _ in range(asked.rounds):
            for policy, times in taken.items():
                times.append(seconds(suite, policy))
        off, tell = (statistics.median(times) for times in taken.values())
        sys.stdout.write(f"| {suite} | {off:.2f} s | {tell:.2f} s | {100 * (tell / off - 1):+.1f} % |\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
