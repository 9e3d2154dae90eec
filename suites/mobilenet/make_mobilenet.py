"""Makes the files of ``suites/mobilenet``: the answers of MobileNetV2 in FP32 and in INT8 to 50,000 pictures.

    python suites/mobilenet/make_mobilenet.py [--output DIR]
    python suites/mobilenet/make_mobilenet.py --check

No network stands behind them: rows are drawn so that every rate is exactly that of a worked table (top-1, top-5,
calibration error, edge cases), and what is drawn beside it (which row, which class) is from a seed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

SEED = 11
ROWS, EDGE = 50_000, 2_500
CLASSES = ("bird", "cat", "dog", "fish", "food", "furniture", "tool", "vehicle")
SHARES = np.array([0.46, 0.24, 0.12, 0.08, 0.05, 0.03, 0.02])
"""Of what the first class leaves, by rank."""
LEVELS = 10
"""Different confidences, so that each bin of equal mass is one of them."""
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("test.parquet", "fp32.parquet", "int8.parquet")


@dataclass(frozen=True)
class Copy:
    """What one copy of the network must come to.

    Args:
        right: Rows that it gets right.
        right_edge: Those of them that are edge cases.
        known: Rows that it gets wrong with the truth among its first five classes.
        too_sure: By how much its confidence is above its accuracy, at every level of confidence.
        spread: Right answers by which two neighbouring levels of 5,000 rows differ.
    """

    right: int
    right_edge: int
    known: int
    too_sure: float
    spread: int


FP32 = Copy(right=35_900, right_edge=1_705, known=9_600, too_sure=0.031, spread=250)
INT8 = Copy(right=35_450, right_edge=1_535, known=9_750, too_sure=0.089, spread=200)
WON_EDGE, WON_REST = 10, 65
"""Rows that only the INT8 copy gets right."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    make(options.output)
    digests = {name: digest(options.output / name) for name in FILES}
    (options.output / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")
    return 0


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    stated: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    wrong = [name for name in FILES if not (folder / name).is_file() or digest(folder / name) != stated.get(name)]
    for name in wrong:
        sys.stdout.write(f"{name} is not the file that was made\n")
    return 1 if wrong else 0


def digest(path: Path) -> str:
    """The sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def make(folder: Path) -> None:
    """Write the table and the answers of both copies."""
    import pyarrow as pa

    rng = np.random.default_rng(SEED)
    edge = np.zeros(ROWS, dtype=bool)
    edge[rng.permutation(ROWS)[:EDGE]] = True
    truth = rng.integers(0, len(CLASSES), ROWS)
    columns = {"id": np.arange(ROWS, dtype=np.int32), "label": np.array(CLASSES)[truth], **pictures(rng, edge)}
    _write(pa.table(columns), folder / "test.parquet")
    before, after = ranks(rng, edge)
    for name, copy, rank in (("fp32", FP32, before), ("int8", INT8, after)):
        sure = confidences(rng, rank == 0, copy)
        by_rank = np.concatenate([sure[:, None], (1 - sure)[:, None] * SHARES], axis=1)
        place = (np.arange(len(CLASSES)) - truth[:, None] + rank[:, None]) % len(CLASSES)
        said = np.take_along_axis(by_rank, place, axis=1)
        # In another order than the table on purpose: rows are joined by key. Like rows together make a small file.
        order = np.lexsort((np.arange(ROWS), rank, truth, sure))
        made = {"id": order.astype(np.int32)} | {f"p_{one}": said[order, k] for k, one in enumerate(CLASSES)}
        _write(pa.table(made), folder / f"{name}.parquet")


def pictures(rng: np.random.Generator, edge: NDArray[np.bool_]) -> dict[str, NDArray[np.int16]]:
    """What is known of each picture: light, how much is hidden, how far it is turned. An edge case has one too much.

    Args:
        rng: Draws it.
        edge: shape (n,).
    """
    n = len(edge)
    lux, occlusion, rotation = (
        rng.integers(2, 21, n) * 50, rng.integers(0, 6, n) * 10, rng.integers(0, 7, n) * 5,
    )  # fmt: skip
    cause = rng.integers(0, 3, n)
    lux = np.where(edge & (cause == 0), rng.integers(1, 20, n) * 5, lux)
    occlusion = np.where(edge & (cause == 1), rng.integers(6, 10, n) * 10, occlusion)
    rotation = np.where(edge & (cause == 2), rng.integers(7, 19, n) * 5, rotation)
    found = {"lux": lux, "occlusion": occlusion, "rotation": rotation}
    return {name: values.astype(np.int16) for name, values in found.items()}


def ranks(rng: np.random.Generator, edge: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rank of the truth among a copy's classes, from 0, of FP32 and of INT8; two arrays of shape (n,).

    Where both are wrong they are wrong alike.
    """
    before = np.full(len(edge), -1)
    for some, right in ((edge, FP32.right_edge), (~edge, FP32.right - FP32.right_edge)):
        before[rng.permutation(np.flatnonzero(some))[:right]] = 0
    wrong = rng.permutation(np.flatnonzero(before))
    before[wrong[: FP32.known]] = rng.integers(1, 5, FP32.known)
    before[wrong[FP32.known :]] = rng.integers(5, len(CLASSES), len(wrong) - FP32.known)
    after = before.copy()
    known = (before > 0) & (before < 5)
    lost = 0
    for some, won, right in (
        (edge, WON_EDGE, INT8.right_edge), (~edge, WON_REST, INT8.right - INT8.right_edge),
    ):  # fmt: skip
        ours = rng.permutation(np.flatnonzero(some & (before == 0)))
        gone = ours[: len(ours) + won - right]
        lost += len(gone)
        after[gone] = 1
        after[rng.permutation(np.flatnonzero(some & known))[:won]] = 0
    still = rng.permutation(np.flatnonzero(known & (after > 0)))
    after[still[INT8.known - lost :]] = 5
    return before, after


def confidences(rng: np.random.Generator, right: NDArray[np.bool_], copy: Copy) -> NDArray[np.float64]:
    """What a copy says of each answer: at every level too sure by the same, so that its calibration error is that.

    Args:
        rng: Draws which row has which level.
        right: shape (n,).
        copy: What it must come to.

    Returns:
        shape (n,).
    """
    each = len(right) // LEVELS
    steps = np.arange(LEVELS) - (LEVELS - 1) / 2
    hits = (copy.right / LEVELS + copy.spread * steps).astype(int)
    level = np.empty(len(right), dtype=np.int64)
    level[rng.permutation(np.flatnonzero(right))] = np.repeat(np.arange(LEVELS), hits)
    level[rng.permutation(np.flatnonzero(~right))] = np.repeat(np.arange(LEVELS), each - hits)
    return (hits / each + copy.too_sure)[level]


def _write(table: pa.Table, path: Path) -> None:
    import pyarrow.parquet as pq

    repeated = [name for name in table.column_names if name != "id"]
    pq.write_table(table, path, compression="zstd", use_dictionary=repeated)


if __name__ == "__main__":
    sys.exit(main())
