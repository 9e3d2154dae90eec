"""Makes the files of ``suites/labels``.

    python suites/labels/make_labels.py [--output DIR]
    python suites/labels/make_labels.py --check

Scikit-learn's digits, a third of them in the dark, with labels as two people might have given them: slips of the hand
anywhere, and one habit that both share. A random sample has the true label beside it. The table is the same bytes
everywhere for the same versions of numpy and pyarrow; of the predictions the last digits may differ.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

SEED = 7
SLIPS = 0.03
"""Share of the pictures for which a person writes down any other digit."""
HABIT = 0.7
"""Share of the nines in the dark that both call a 4."""
AUDITED = 800
TWICE = 700
"""Pictures that a second person labelled too."""
DARK_SHARE, DARK_GAIN = 0.3, 0.6
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("test.parquet", "predictions.parquet")


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    predict(options.output, *make_data(options.output))
    digests = {name: digest(options.output / name) for name in FILES}
    (options.output / DIGESTS).write_text(json.dumps(digests, indent=2) + "\n")
    return 0


def check(folder: Path) -> int:
    """Says which files differ from their digests."""
    stated: dict[str, str] = json.loads((folder / DIGESTS).read_text())
    wrong = [name for name in FILES if not (folder / name).is_file() or digest(folder / name) != stated.get(name)]
    for name in wrong:
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


def make_data(folder: Path) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Writes the table; gives pixels and true digits back."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(SEED)
    digits = load_digits()
    order = rng.permutation(len(digits.target))
    truth, n = digits.target[order].astype(np.int64), len(order)
    dark = rng.random(n) < DARK_SHARE
    lux = np.where(dark, rng.uniform(40, 100, n), rng.uniform(250, 800, n)).round(1)
    pixels = np.rint(digits.data[order] * np.where(dark, DARK_GAIN, 1.0)[:, None])
    habit = (truth == 9) & dark & (rng.random(n) < HABIT)
    first, second = (slipped(np.where(habit, 4, truth), rng) for _ in range(2))
    looked, twice = sample(n, AUDITED, rng), sample(n, TWICE, rng)
    table = pa.table({
        "id": pa.array([f"digit-{row:04d}" for row in range(n)]),
        "pixels": pa.FixedSizeListArray.from_arrays(pa.array(pixels.astype(np.uint8).ravel(), pa.uint8()), 64),
        "lux": pa.array(lux),
        "digit": pa.array(first, pa.int8()),
        "second": pa.array(second, pa.int8(), mask=~twice),
        "audited": pa.array(truth, pa.int8(), mask=~looked),
    })  # fmt: skip
    pq.write_table(table, folder / "test.parquet", compression="zstd")
    return pixels, truth


def slipped(labels: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Labels with slips of the hand: any other digit."""
    slip = rng.random(len(labels)) < SLIPS
    return np.where(slip, (labels + rng.integers(1, 10, len(labels))) % 10, labels)


def sample(rows: int, wanted: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """So many rows, at random."""
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[rng.permutation(rows)[:wanted]] = True
    return chosen


def predict(folder: Path, pixels: NDArray[np.float64], truth: NDArray[np.int64]) -> None:
    """Writes what a model says that learned from right labels of other pictures."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
    folds = StratifiedKFold(10, shuffle=True, random_state=SEED)
    shares = cross_val_predict(model, pixels, truth, cv=folds, method="predict_proba")
    columns = {"id": [f"digit-{row:04d}" for row in range(len(truth))]}
    columns |= {f"p_{digit}": shares[:, digit].astype(np.float32) for digit in range(10)}
    pq.write_table(pa.table(columns), folder / "predictions.parquet", compression="zstd")
    weights = model.fit(pixels, truth)[-1].coef_.round(6).astype("<f4")
    sys.stdout.write(f"artifact: sha256:{hashlib.sha256(weights.tobytes()).hexdigest()}\n")


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
