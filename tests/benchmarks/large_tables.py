"""`shift` and `integrity` of tables that are larger than memory: time and largest resident size by number of rows.

    python tests/benchmarks/large_tables.py [--rows 20000000 40000000 100000000] [--folder DIR]

Ten columns of parquet (six of numbers, two of whole numbers, two of categories), made from a seed in row groups; the
reference has a tenth of the rows. Each figure is of a process of its own, through the inputs that a run hands to a
check. No peer: Evidently and alibi-detect hold all rows in memory.
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
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
GROUP = 1_000_000
SPEC = """
evalspec: 1
name: large
datasets:
  test: {{kind: parquet, path: "{test}"}}
  traffic: {{kind: parquet, path: "{traffic}"}}
data:
  - check: shift
    reference: test
    current: traffic
    tolerance: 0.015
    require: [drifted_columns <= 10 %]
  - check: integrity
    dataset: traffic
    table_schema:
      x0: {{type: number, min: -20, max: 20, nullable: false}}
      site: {{values: [a, b, c, d]}}
      id: {{unique: true}}
    require: [schema_violations == 0, duplicate_rows == 0]
"""
WHAT = ("shift", "integrity", "digest")


def make(path: Path, rows: int, seed: int) -> None:
    """Rows in groups of a million, so that making them needs little memory as well."""
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, GROUP):
        n = min(GROUP, rows - start)
        columns: dict[str, object] = {f"x{i}": rng.normal(0, 1, n) for i in range(6)}
        columns["id"] = np.arange(start, start + n)
        columns["count"] = rng.poisson(40, n)
        columns["site"] = pa.DictionaryArray.from_arrays(rng.integers(0, 4, n).astype(np.int8), ["a", "b", "c", "d"])
        columns["kind"] = pa.DictionaryArray.from_arrays(
            rng.integers(0, 300, n).astype(np.int16), [f"kind {i}" for i in range(300)]
        )
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none")
        writer.write_table(table)
    assert writer is not None
    writer.close()


def measure(what: str, folder: Path, rows: int) -> dict[str, float]:
    from evalspec.language.parts import Access
    from evalspec.loading import load
    from evalspec.planning import plan
    from evalspec.running.children.inputs import RunInputs
    from evalspec.running.children.jobs import CheckJob, SpecParts
    from evalspec.running.children.process import Limits
    from evalspec.running.children.reader import dataset_record
    from evalspec.running.journal.replay import Replay

    spec = folder / "evalspec.yaml"
    spec.write_text(SPEC.format(test=f"test-{rows}.parquet", traffic=f"traffic-{rows}.parquet"))
    read = load(spec)
    access = Access(folder)
    parts = SpecParts(models={}, datasets=dict(read.datasets), slices={}, access=access)
    begun, spent = time.perf_counter(), time.process_time()
    if what == "digest":
        dataset_record("traffic", parts)
    else:
        check = next(one.check for one in plan(read).checks if one.check.check == what)
        job = CheckJob(
            parts=parts, check=check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01, seed=1,
            draft=False, evidence=folder, limits=Limits(), threads=1, environment={},
        )  # fmt: skip
        check.run(RunInputs(job, lambda *_: None, Replay(folder, "none")))
    return {
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - spent,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[20_000_000, 40_000_000, 100_000_000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evalspec-large-tables")
    parser.add_argument("--what", choices=WHAT)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.what is not None:
        print(json.dumps(measure(options.what, options.folder, options.rows[0])))
        return
    print("| rows | what | seconds | processor s | s per million rows | peak MiB |\n|---|---|---|---|---|---|")
    for rows in options.rows:
        files = options.folder / f"test-{rows}.parquet", options.folder / f"traffic-{rows}.parquet"
        make(files[0], rows // 10, 1)
        make(files[1], rows, 2)
        for what in WHAT:
            command = [sys.executable, __file__, "--what", what, "--rows", str(rows), "--folder", str(options.folder)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
            one = json.loads(done.stdout.splitlines()[-1])
            figures = one["seconds"], one["cpu_s"], one["cpu_s"] / rows * 1e6
            cells = " | ".join(f"{figure:.1f}" for figure in figures)
            print(f"| {rows:,} | {what} | {cells} | {one['peak_mib']:.0f} |", flush=True)
        for file in files:
            file.unlink()


if __name__ == "__main__":
    main()
