"""Two sides in turn, A B A B, each time in a process of its own; and LoadGen in a folder of its own."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOADGEN = "mlcommons-loadgen==6.0.17"
PREPARED = Path(tempfile.gettempdir()) / "evalspec-benchmarks"

Figures = dict[str, float]


def loadgen_folder() -> Path:
    """LoadGen's Python binding, installed here at the first time; all else comes from this environment."""
    folder = PREPARED / LOADGEN
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), LOADGEN]
        subprocess.run(command, check=True)
    return folder


def in_turn(
    script: str, sides: Sequence[str], rounds: int, arguments: Sequence[str], loadgen: Path | None = None
) -> dict[str, list[Figures]]:
    """What each side printed (one line of JSON), round by round; in every other round the second side comes first."""
    found: dict[str, list[Figures]] = {side: [] for side in sides}
    paths = [str(ROOT), *([str(loadgen)] if loadgen else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
    for turn in range(rounds):
        for side in sides if turn % 2 == 0 else tuple(reversed(sides)):
            command = [sys.executable, script, "--side", side, *arguments]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            found[side].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def row(name: str, ours: Sequence[float], peers: Sequence[float]) -> str:
    """Medians of both and of the rounds' ratios, with the smallest and the largest of these."""
    ratios = [a / b for a, b in zip(ours, peers, strict=True)]
    return (
        f"| {name} | {statistics.median(ours):.4g} | {statistics.median(peers):.4g} | "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}) |"
    )


def head(title: str, ours: str, peer: str) -> str:
    """Of a table in Markdown."""
    return f"| {title} | {ours} | {peer} | ratio of a round: median (range) |\n|---|---|---|---|"


def summary(folder: Path) -> Mapping[str, float]:
    """Numbers of LoadGen's ``mlperf_log_summary.txt``."""
    found = {}
    for line in (folder / "mlperf_log_summary.txt").read_text().splitlines():
        name, _, value = line.partition(" : ")
        if value:
            try:
                found[name.strip()] = float(value)
            except ValueError:
                continue
    return found


def column(found: Sequence[Figures], name: str) -> list[float]:
    """One figure, round by round."""
    return [one[name] for one in found]
