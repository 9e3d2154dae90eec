"""Our side of every other benchmark, in this checkout and in another one, A B B A: what a change made slower.

    python tests/benchmarks/two_commits.py CHECKOUT [--rounds 4] [--only mmd shift]

CHECKOUT is a work tree of another commit; both run with this Python, so it must have what both need. Each figure is of
a process of its own. A ratio above 1 says that this checkout takes more of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from beside import ROOT, Figures, column, head, row

FOLDER = Path(tempfile.gettempdir()) / "evalspec-two-commits"
SIDES: dict[str, tuple[str, ...]] = {
    "single_stream": ("--side", "ours"),
    "open_loop 1,000/s": ("--side", "ours", "--rates", "1000", "--seconds", "3"),
    "open_loop 20,000/s": ("--side", "ours", "--rates", "20000", "--seconds", "3"),
    "bca": ("--side", "ours"),
    "bca resampled": ("--side", "resampled"),
    "calibration": ("--side", "ours"),
    "mmd": ("--side", "ours"),
    "slices": ("--side", "evalspec"),
    "contamination": ("--side", "check"),
    "contamination scan": ("--side", "scan"),
    "contamination stream": ("--stream-mb", "300"),
    "shift": ("--side", "evalspec"),
    "screens on": ("--side", "tell"),
    "screens off": ("--side", "off"),
    "shared_scan": ("--side", "shared"),
    "shared_scan apart": ("--side", "apart"),
    "large_tables shift": ("--what", "shift", "--rows", "5000000"),
    "large_tables integrity": ("--what", "integrity", "--rows", "5000000"),
    "large_tables digest": ("--what", "digest", "--rows", "5000000"),
    "leaves in one process": ("--side", "1", "--rows", "5000000"),
    "leaves in two children": ("--side", "2", "--rows", "5000000"),
}
"""Benchmark: what its script is told for our side alone; the first word is the script."""
TABLES = {"screens": "churn", "shared_scan": "shared", "large_tables": "large", "leaves": "large"}
"""Script: folder with its tables."""
UNITS = ("s", "seconds", "processor", "mib", "ms", "us", "kb")
"""Last words of names of figures that are costs."""


def costs(printed: str) -> Figures:
    """Those figures of a line of JSON of which less is better; of a rate its inverse."""
    found = json.loads(printed)
    if "mb_per_s" in found:
        return {"s_per_mb": 1.0 / found["mb_per_s"]}
    return {name: float(value) for name, value in found.items() if name.rpartition("_")[2] in UNITS}


def measured(checkout: Path, name: str) -> Figures:
    script = name.split()[0]
    tables = ["--folder", str(FOLDER / TABLES[script])] if script in TABLES else []
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(checkout / "tests" / "benchmarks" / f"{script}.py"), *SIDES[name], *tables]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=checkout)
    return costs(done.stdout.splitlines()[-1])


def make_tables(scripts: set[str]) -> None:
    import large_tables
    import screens
    import shared_scan

    for name in {TABLES[script] for script in scripts & TABLES.keys()}:
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        if name == "churn":
            screens.make(folder, 20_000)
        elif name == "shared":
            (folder / "evalspec.yaml").write_text(shared_scan.SPEC)
            for seed, table in enumerate(("test", "monday", "sunday")):
                large_tables.make(folder / f"{table}.parquet", 2_000_000, seed)
        else:
            large_tables.make(folder / "test-5000000.parquet", 500_000, 1)
            large_tables.make(folder / "traffic-5000000.parquet", 5_000_000, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", nargs="+", choices=sorted({name.split()[0] for name in SIDES}))
    options = parser.parse_args()
    other = options.checkout.resolve()
    sys.path.insert(0, str(ROOT))
    names = [name for name in SIDES if options.only is None or name.split()[0] in options.only]
    # A child's largest resident size begins with that of its parent.
    making = multiprocessing.Process(target=make_tables, args=({name.split()[0] for name in names},))
    making.start()
    making.join()
    print(head(f"beside {other.name}", "here", "there"))
    for name in names:
        found: dict[Path, list[Figures]] = {ROOT: [], other: []}
        for turn in range(options.rounds):
            for side in (ROOT, other) if turn % 2 == 0 else (other, ROOT):
                found[side].append(measured(side, name))
        # One process has no child, which takes nothing.
        shared = [figure for figure in found[ROOT][0] if all(one.get(figure) for one in found[other])]
        for figure in shared:
            print(row(f"{name}: {figure}", column(found[ROOT], figure), column(found[other], figure)), flush=True)


if __name__ == "__main__":
    main()
