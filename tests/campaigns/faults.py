"""Random faults at random moments of a real run: what was measured is kept, nothing false is READY, nothing is left.

By hand: ``python -m tests.campaigns.faults --runs 1000 --seed 1 FOLDER``; each fault is a line.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from evalspec.errors import EvalspecError
from evalspec.records.verify import verify
from tests.commands import forking

MARK = "EVALSPEC_TEST_CAMPAIGN"
LIMIT_S = 120.0
MODEL = """
import time
import numpy as np

def answer(inputs):
    time.sleep(0.02)
    x = np.asarray(inputs["x"]).reshape(-1)
    p = np.where(SIGN * x > 0, 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""
SPEC = """evalspec: 1
name: faults
seed: 1
models:
  candidate: {kind: python, function: "own:answer", artifact: own.py, inputs: {x: x}, classes: [a, b]}
datasets:
  test: {kind: parquet, path: test.parquet, label: y, key: id}
  other: {kind: parquet, path: other.parquet, label: y, key: id}
system:
  - {check: memory, dataset: test, batch_sizes: [1], require: [peak_host_memory <= 4 GiB]}
model:
  - {check: quality, id: one, dataset: test, require: [accuracy >= 90 %]}
  - {check: quality, id: two, dataset: other, require: [accuracy >= 90 %]}
data:
  - {check: integrity, dataset: test, require: [duplicate_rows == 0 rows]}
"""
CHECKS = ("memory", "one", "two", "integrity")
CODES = {0, 1, 2, 3, 4, 130, 128 + signal.SIGTERM, 128 + signal.SIGHUP, 128 + signal.SIGQUIT}


@dataclass
class Scene:
    """A run that goes on, and the dice."""

    folder: Path
    running: subprocess.Popen[str]
    rng: np.random.Generator
    beside: list[subprocess.Popen[str]] = field(default_factory=list)
    """Runs that were started meanwhile."""

    @property
    def run(self) -> Path:
        """Folder of the run."""
        return self.folder / "run"


def write(folder: Path) -> None:
    """A spec whose model is always right."""
    (folder / "evalspec.yaml").write_text(SPEC)
    (folder / "own.py").write_text(MODEL.replace("SIGN", "1"))
    rng = np.random.default_rng(0)
    for name in ("test", "other"):
        x = rng.normal(size=300)
        pq.write_table(
            pa.table({"id": np.arange(300), "x": x, "y": np.where(x > 0, "b", "a")}), folder / f"{name}.parquet"
        )


def start(folder: Path, *options: str, most_bytes: int | None = None, forks: bool = False) -> subprocess.Popen[str]:
    """A run in a process of its own.

    Args:
        folder: Of the spec.
        options: Of the command.
        most_bytes: Of a file.
        forks: Its children are forked, as those of most tests are.
    """
    environment = os.environ | {MARK: str(folder)}
    words = forking(environment) if forks else [sys.executable, "-m", "evalspec"]

    def limited() -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        if most_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

    return subprocess.Popen(
        [*words, "run", "evalspec.yaml", "--trust", "--output", "run", *options],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limited, env=environment,
    )  # fmt: skip


def _files(scene: Scene) -> list[Path]:
    return sorted(path for path in scene.run.rglob("*") if path.is_file()) if scene.run.exists() else []


def _signal(*numbers: int, apart_s: float = 0.0) -> Callable[[Scene], None]:
    def fault(scene: Scene) -> None:
        for number in numbers:
            scene.running.send_signal(number)
            time.sleep(apart_s)

    return fault


def _kill_child(scene: Scene) -> None:
    children = psutil.Process(scene.running.pid).children(recursive=True)
    if children:
        children[int(scene.rng.integers(len(children)))].kill()


def _remove(scene: Scene) -> None:
    if files := _files(scene):
        files[int(scene.rng.integers(len(files)))].unlink()


def _truncate(scene: Scene) -> None:
    if files := _files(scene):
        path = files[int(scene.rng.integers(len(files)))]
        size = path.stat().st_size
        os.truncate(path, int(scene.rng.integers(size + 1)))


def _scribble(scene: Scene) -> None:
    files = [path for path in _files(scene) if path.stat().st_size]
    if files:
        path = files[int(scene.rng.integers(len(files)))]
        with path.open("r+b") as file:
            file.seek(int(scene.rng.integers(path.stat().st_size)))
            file.write(b"\x00\xff?")


def _remove_all(scene: Scene) -> None:
    shutil.rmtree(scene.run, ignore_errors=True)


def _swap_rows(scene: Scene) -> None:
    """Every label becomes the other one."""
    table = pq.read_table(scene.folder / "test.parquet")
    y = np.where(np.asarray(table["y"]) == "a", "b", "a")
    new = scene.folder / "new.parquet"
    pq.write_table(table.set_column(2, "y", pa.array(y)), new)
    new.replace(scene.folder / "test.parquet")


def _swap_model(scene: Scene) -> None:
    (scene.folder / "own.py").write_text(MODEL.replace("SIGN", "-1"))


def _swap_spec(scene: Scene) -> None:
    (scene.folder / "evalspec.yaml").write_text(SPEC.replace("90 %", "10 %"))


def _remove_rows(scene: Scene) -> None:
    (scene.folder / "test.parquet").unlink()


def _race(scene: Scene) -> None:
    scene.beside.append(start(scene.folder, *(["--resume"] if scene.rng.random() < 0.5 else [])))


FAULTS: dict[str, Callable[[Scene], None]] = {
    "kill": _signal(signal.SIGKILL),
    "interrupt": _signal(signal.SIGINT),
    "terminate": _signal(signal.SIGTERM),
    "hang up": _signal(signal.SIGHUP),
    "interrupt three times": _signal(signal.SIGINT, signal.SIGINT, signal.SIGINT, apart_s=0.02),
    "interrupt and kill": _signal(signal.SIGINT, signal.SIGKILL, apart_s=0.01),
    "stop for a while": _signal(signal.SIGSTOP, signal.SIGCONT, apart_s=0.7),
    "stop and kill": _signal(signal.SIGSTOP, signal.SIGKILL, apart_s=0.2),
    "kill a child": _kill_child,
    "fill": lambda scene: None,
    "remove a file": _remove,
    "truncate a file": _truncate,
    "scribble on a file": _scribble,
    "remove the folder": _remove_all,
    "swap the rows": _swap_rows,
    "swap the model": _swap_model,
    "swap the spec": _swap_spec,
    "remove the rows": _remove_rows,
    "race": _race,
}
"""Name: what it does. Of a full disk the limit is set at the start."""
DAMAGES = {"remove a file", "truncate a file", "scribble on a file", "remove the folder", "race"}
"""After these, what the journal says may be gone, or another run's."""


def one(folder: Path, seed: int, *, forks: bool = False) -> tuple[str, list[str]]:
    """One run with one fault, and what is wrong with how it ended.

    Args:
        folder: Empty; it is not cleaned up.
        seed: Decides the fault and its moment.
        forks: Where the run is gone on with, its children are forked.

    Returns:
        What was done, and everything that should not be; empty: all is well.
    """
    rng = np.random.default_rng(seed)
    name = list(FAULTS)[int(rng.integers(len(FAULTS)))]
    write(folder)
    most = int(np.exp(rng.uniform(np.log(500), np.log(200_000)))) if name == "fill" else None
    scene = Scene(folder, start(folder, most_bytes=most), rng)
    moment = float(rng.uniform(0.0, 6.0))
    with contextlib.suppress(subprocess.TimeoutExpired):
        scene.running.wait(moment)
    done = f"{name} at {moment:.2f} s"
    wrong: list[str] = []
    early = scene.running.poll() is None
    try:
        if early:
            FAULTS[name](scene)
        else:
            done += " (too late)"
        for process in (scene.running, *scene.beside):
            wrong += _end(process)
    finally:
        for process in (scene.running, *scene.beside):
            process.kill()
            process.wait()
    left = list(_orphans(folder))
    wrong += [f"left behind: {one}" for one in left]
    codes = [process.returncode for process in (scene.running, *scene.beside)]
    if not early and name != "fill" and codes != [0]:
        wrong.append(f"without a fault the exit code is {codes[0]}")
    wrong += [f"exit code {code}" for code in codes if code >= 0 and code not in CODES]
    if early and 0 in codes:
        wrong += _false_ready(folder)
    kept = _journaled(scene.run)
    if name not in DAMAGES and not wrong:
        wrong += _resumed(folder, kept, forks)
    return done, wrong


def _end(process: subprocess.Popen[str]) -> list[str]:
    try:
        said = process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        return [f"it hangs for {LIMIT_S:.0f} s"]
    return [f"a traceback: {said[-2000:]}"] if "Traceback" in said else []


def _orphans(folder: Path) -> Iterator[str]:
    """Processes of a run that is over."""
    until = time.monotonic() + 3.0
    left: dict[int, str] = {}
    while time.monotonic() < until:
        left = {}
        for process in psutil.process_iter():
            try:
                if process.pid != os.getpid() and process.environ().get(MARK) == str(folder):
                    left[process.pid] = " ".join(process.cmdline())
            except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
                continue
        if not left:
            break
        time.sleep(0.02)
    yield from left.values()


def _false_ready(folder: Path) -> list[str]:
    """What is wrong with a READY: it is of other rows than those that are always right, or of not all checks."""
    try:
        record = json.loads((folder / "run" / "record.json").read_text())
    except (ValueError, OSError):
        # It was damaged after it was written.
        return []
    if record["verdict"]["word"] != "READY":
        return []
    values = {check["id"]: [test["value"] for test in check["tests"]] for check in record["checks"]}
    wrong = [] if set(values) == set(CHECKS) else [f"READY with {sorted(values)}"]
    if values.get("one") != [1.0] or values.get("two") != [1.0]:
        wrong.append(f"READY of other rows or another model: {values}")
    return wrong


def _journaled(run: Path) -> set[str]:
    """Checks that the journal says were measured."""
    try:
        lines = (run / "journal.jsonl").read_text().splitlines()
    except (OSError, ValueError):
        return set()
    found = set()
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("event") == "check" and event.get("record", {}).get("status") == "measured":
            found.add(str(event["record"]["id"]))
    return found


def _resumed(folder: Path, kept: set[str], forks: bool) -> list[str]:
    """The run is gone on with, everything put back: it ends READY, and nothing is measured again."""
    finished = (folder / "run" / "record.json").exists()
    write(folder)
    process = start(folder, *(["--resume"] if (folder / "run").exists() else []), forks=forks)
    wrong = _end(process)
    said = f"after --resume the exit code is {process.returncode}"
    if process.returncode == 2 and (finished or not kept):
        # There is nothing to go on with.
        return wrong
    if process.returncode != 0:
        return [*wrong, said]
    record = json.loads((folder / "run" / "record.json").read_text())
    resumption = record.get("resumption") or {"kept": [], "again": {}}
    lost = kept - set(resumption["kept"])
    wrong += [f"measured again: {sorted(lost)}, {resumption['again']}"] if lost else []
    try:
        wrong += [f"verify: {line}" for line in verify(folder / "run").differs]
    except EvalspecError as error:
        wrong.append(f"verify: {error}")
    return wrong


def main() -> int:
    """A campaign by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    for index in range(options.runs):
        folder = options.folder / str(options.seed + index)
        folder.mkdir(parents=True)
        done, wrong = one(folder, options.seed + index)
        ends["wrong" if wrong else "well"] += 1
        sys.stdout.write(f"{options.seed + index}: {done}: {'; '.join(wrong) or 'well'}\n")
        sys.stdout.flush()
        if not wrong:
            shutil.rmtree(folder)
    sys.stdout.write(f"{dict(ends)}\n")
    return 1 if ends["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
