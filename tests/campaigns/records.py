"""Records with anything changed: each is read, decided, shown and compared, or refused in a sentence.

By hand: ``python -m tests.campaigns.records --count 5000 --seed 1``.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from evalspec.errors import EvalspecError
from evalspec.records.compare import compare_records
from evalspec.records.outputs import pages, say
from evalspec.running.folders import read_record
from evalspec.verdict import decide

ROOT = Path(__file__).parents[2]
BASES = (
    ROOT / "reports" / "sample", ROOT / "tests" / "records" / "fixtures" / "run-0.1.0",
    *(ROOT / "tests" / "records" / "fixtures" / "run-0.2.0" / name for name in ("labels", "predictions")),
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**63, -(2**70), 0.5, 1e-300, 1e300, float("nan"), float("inf"), "", "nan", "x" * 5000,
    "\x1b[31m", "\u202e", "<script>", "..", "2026-13-45", [], {}, [[]], {"a": 1}, [None], "PASS", "READY", "<=",
    "measured",
)  # fmt: skip
LIMIT_S = 5.0

Steps = tuple[str | int, ...]


def leaves(tree: Any, path: Steps = ()) -> Iterator[Steps]:
    """Every place in a tree."""
    yield path
    for step, inner in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from leaves(inner, (*path, step))


def changed(tree: Any, places: list[Steps], rng: np.random.Generator) -> str:
    """The text of a record with one to three things changed, or its bytes."""
    tree = copy.deepcopy(tree)
    for _ in range(int(rng.integers(1, 4))):
        path = places[int(rng.integers(len(places)))]
        inner = tree
        try:
            for step in path[:-1]:
                inner = inner[step]
            if not path:
                continue
            how = rng.integers(3)
            if how == 0:
                del inner[path[-1]]
            elif how == 1 and isinstance(inner, list):
                inner.append(copy.deepcopy(inner[path[-1]]))
            else:
                inner[path[-1]] = VALUES[int(rng.integers(len(VALUES)))]
        except (KeyError, IndexError, TypeError):
            # It went with what was changed before.
            continue
    text = json.dumps(tree)
    if rng.random() < 0.1:
        place = int(rng.integers(len(text)))
        text = text[:place] + chr(int(rng.integers(1, 256))) + text[place + int(rng.integers(3)) :]
    return text


class Records:
    """Runs whose records are changed."""

    def __init__(self) -> None:
        trees = [json.loads((folder / "record.json").read_text()) for folder in BASES]
        self._trees = [(tree, list(leaves(tree))) for tree in trees]
        self._whole = [read_record(folder) for folder in BASES]

    def one(self, folder: Path, seed: int) -> str | None:
        """What is wrong with how a changed record is taken; None: nothing."""
        rng = np.random.default_rng(seed)
        index = int(rng.integers(len(BASES)))
        (folder / "record.json").write_text(changed(*self._trees[index], rng), errors="replace")
        began = time.monotonic()
        try:
            record = read_record(folder)
            decided = record.model_copy(update={"verdict": decide(record)})
            pages(decided)
            say(decided, folder)
            compare_records(self._whole[index], decided)
        except EvalspecError as error:
            if not str(error):
                return "it is refused without a word"
        except Exception as error:  # noqa: BLE001  # any other one is what is looked for
            return f"{type(error).__name__}: {error}"
        spent_s = time.monotonic() - began
        return f"it takes {spent_s:.1f} s" if spent_s > LIMIT_S else None


def main() -> int:
    """A campaign by hand."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    records, wrong = Records(), 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.count):
            fault = records.one(Path(folder), seed)
            if fault is not None:
                wrong += 1
                sys.stdout.write(f"{seed}: {fault}\n")
                sys.stdout.flush()
    sys.stdout.write(f"{options.count} records, {wrong} wrong\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
