"""A check of a table of many leaves, looked at by one process and by several children: time, memory, equal records.

    python tests/benchmarks/leaves.py [--what integrity] [--rows 20000000] [--children 2] [--rounds 1] [--keep] [--make]

Tables of `large_tables.py`, the reference with a tenth of the rows. Each figure is of a process of its own, through the
inputs that a run hands to a check; both sides must give the same record. Processor time is that of all processes, then
that of the process that merges and that of the busiest child. The last line is the gain: by the clock, and by the
processor time of one process over that of the busiest of several. The files in the folder stay with ``--keep``; with
``--make`` they are only made, so that a machine can become quiet before they are scanned.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]


def measure(what: str, folder: Path, rows: int, children: int) -> dict[str, float | str]:
    import psutil
    from large_tables import SPEC

    from evalspec.language.parts import Access
    from evalspec.loading import load
    from evalspec.planning import plan
    from evalspec.running.children.checking import check_record
    from evalspec.running.children.inputs import RunInputs
    from evalspec.running.children.jobs import CheckJob, SpecParts
    from evalspec.running.children.leaf_journal import remove_leaves
    from evalspec.running.children.process import Limits
    from evalspec.running.engines.choice import EngineChoice
    from evalspec.running.engines.local import LocalEngine
    from evalspec.running.journal.replay import Replay

    spent_s, peaks = [0.0], [0.0]
    close = LocalEngine.close

    def closing(self: LocalEngine) -> None:
        """Read what the children used before they are ended: nobody waits for them."""
        for child in self._children.values():
            for one in (psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)):
                spent_s.append(sum(one.cpu_times()[:2]))
                peaks.append(peak_mib(one.pid))
        close(self)

    LocalEngine.close = closing  # type: ignore[method-assign]

    spec = folder / "evalspec.yaml"
    spec.write_text(SPEC.format(test=f"test-{rows}.parquet", traffic=f"traffic-{rows}.parquet"))
    read = load(spec)
    parts = SpecParts(models={}, datasets=dict(read.datasets), slices={}, access=Access(folder))
    remove_leaves(folder)
    begun, spent = time.perf_counter(), time.process_time()
    check = next(one.check for one in plan(read).checks if one.check.check == what)
    job = CheckJob(
        parts=parts, check=check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01, seed=1,
        draft=False, evidence=folder / "evidence", limits=Limits(), threads=1,
        environment={"OMP_NUM_THREADS": "1"}, engine=EngineChoice(children=children),
    )  # fmt: skip
    job.evidence.mkdir(exist_ok=True)
    result = check.run(RunInputs(job, lambda *_: None, Replay(folder, "none")))
    record = json.dumps(check_record(job, result, []).model_dump(mode="json"), sort_keys=True)
    return {
        "seconds": time.perf_counter() - begun,
        "cpu_s": time.process_time() - spent + sum(spent_s),
        "own_s": time.process_time() - spent,
        "child_s": max(spent_s),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "child_mib": max(peaks),
        "record": hashlib.sha256(record.encode()).hexdigest()[:16],
    }


def peak_mib(pid: int) -> float:
    """Largest resident size of a process so far."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--what", choices=("shift", "integrity"), default="shift")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--children", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "evalspec-leaves")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--side", type=int)
    options = parser.parse_args()
    if options.side is not None:
        print(json.dumps(measure(options.what, options.folder, options.rows, options.side)))
        return
    from large_tables import make

    options.folder.mkdir(parents=True, exist_ok=True)
    files = [options.folder / f"{name}-{options.rows}.parquet" for name in ("test", "traffic")]
    for seed, (path, rows) in enumerate(zip(files, (options.rows // 10, options.rows), strict=True), 1):
        if not path.exists():
            make(path, rows, seed)
    if options.make:
        return
    names = "children | seconds | processor s | of the process itself | of one child | peak MiB | of one child | record"
    print(f"| {names} |\n|---|---|---|---|---|---|---|---|")
    records, gains = set(), []
    for _ in range(options.rounds):
        sides = []
        for side in (1, options.children):
            command = [
                sys.executable,
                __file__,
                "--side",
                str(side),
                "--rows",
                str(options.rows),
                "--what",
                options.what,
            ]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
            done = subprocess.run(
                [*command, "--folder", str(options.folder)], check=True, stdout=subprocess.PIPE, text=True,
                env=environment,
            )  # fmt: skip
            one = json.loads(done.stdout.splitlines()[-1])
            records.add(one["record"])
            sides.append(one)
            figures = [f"{one[name]:.1f}" for name in ("seconds", "cpu_s", "own_s", "child_s", "peak_mib", "child_mib")]
            cells = " | ".join(figures)
            print(f"| {side} | {cells} | {one['record']} |", flush=True)
        alone, several = sides
        busiest_s = max(several["own_s"], several["child_s"])
        gains.append((alone["seconds"] / several["seconds"], alone["cpu_s"] / busiest_s))
    clock, processor = (median(one) for one in zip(*gains, strict=True))
    print(f"{options.children} children: {clock:.2f} times by the clock, {processor:.2f} times by processor time")
    if not options.keep:
        for path in files:
            path.unlink()
    if len(records) > 1:
        raise SystemExit("the records differ")


if __name__ == "__main__":
    main()
