"""Two `shift` checks and an `integrity` of one spec: a pass over each dataset for all of them, or one for each.

    python tests/benchmarks/shared_scan.py [--rows 2000000] [--rounds 3] [--folder DIR]

Ten columns of parquet (`large_tables.py`); both shift checks have the same reference, whose rows `integrity` looks at
too. The peer is evalspec itself, without the checks that come. Each figure is of a process of its own, through what the
child of a run does; both sides must write the same records.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import pickle
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

SIDES = ("shared", "apart")
SPEC = """
evalspec: 1
name: shared
datasets:
  test: {kind: parquet, path: test.parquet}
  monday: {kind: parquet, path: monday.parquet}
  sunday: {kind: parquet, path: sunday.parquet}
data:
  - {check: shift, id: monday, reference: test, current: monday, tolerance: 0.015, report_only: true}
  - {check: shift, id: sunday, reference: test, current: sunday, tolerance: 0.015, report_only: true}
  - check: integrity
    dataset: test
    table_schema: {x0: {type: number, min: -20, max: 20, nullable: false}, site: {values: [a, b, c, d]}}
    require: [schema_violations == 0, duplicate_rows == 0]
"""


def measure(folder: Path, shared: bool) -> dict[str, float]:
    from evalspec.language.parts import Access
    from evalspec.loading import load
    from evalspec.planning import plan
    from evalspec.running.children import sharing
    from evalspec.running.children.jobs import CheckJob, SpecParts, seed_of
    from evalspec.running.children.process import Limits
    from evalspec.running.children.scans import Scans

    give, passes_s = Scans.give, [0.0]

    def timed(*how: Any) -> Any:
        entered = time.process_time()
        found = give(*how)
        passes_s[0] += time.process_time() - entered
        return found

    Scans.give = timed  # type: ignore[method-assign]

    spec = load(folder / "evalspec.yaml")
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=Access(folder))
    checks = [one.check for one in plan(spec).checks]
    handle = sharing.start(None)
    begun, spent, records = time.perf_counter(), time.process_time(), []
    for index, check in enumerate(checks):
        job = CheckJob(
            parts=parts, check=check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01,
            seed=seed_of(7, check.name), draft=False, evidence=folder, limits=Limits(), threads=1, environment={},
        )  # fmt: skip
        ahead = tuple((one, seed_of(7, one.name)) for one in checks[index + 1 :]) if shared else ()
        packed = base64.b64encode(pickle.dumps((job, ahead, None))).decode("ascii")
        records.append(handle({"do": "run", "job": packed}, lambda *_: None)["record"])
    digest = hashlib.sha256(json.dumps(records, sort_keys=True).encode()).hexdigest()
    return {
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - spent,
        "passes_s": passes_s[0],
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "records": int(digest[:12], 16),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evalspec-shared-scan")
    parser.add_argument("--side", choices=SIDES)
    options = parser.parse_args()
    if options.side is not None:
        print(json.dumps(measure(options.folder, options.side == "shared")))
        return
    from beside import column, head, in_turn, row
    from large_tables import make

    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "evalspec.yaml").write_text(SPEC)
    for seed, name in enumerate(("test", "monday", "sunday")):
        make(options.folder / f"{name}.parquet", options.rows, seed)
    found = in_turn(__file__, SIDES, options.rounds, ["--folder", str(options.folder)])
    if len({one["records"] for side in SIDES for one in found[side]}) > 1:
        raise SystemExit("the records differ")
    print(head(f"three tables of {options.rows:,} x 10", "one pass for all checks", "a pass for each"))
    names = {
        "seconds": "seconds", "cpu_s": "processor s", "passes_s": "processor s of the passes",
        "peak_mib": "largest resident size, MiB",
    }  # fmt: skip
    for what, name in names.items():
        print(row(name, *(column(found[side], what) for side in SIDES)))


if __name__ == "__main__":
    main()
