"""Makes the files of ``suites/tabular-shift``.

    python suites/tabular-shift/make_tabular_shift.py [--output DIR]
    python suites/tabular-shift/make_tabular_shift.py --check

Deliveries of parcels, made from a seed: no company's. The rows are the same everywhere; the bytes for the same version
of pyarrow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Sequence

SEED = 7
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("train.parquet", "test.parquet", "holdout.parquet", "current.parquet", "autumn.parquet")
TRAIN, TEST, CURRENT = 2400, 1500, 1500
KNOWN_COURIERS, EARLY_ROWS = 12, 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes or checks the files; 1 where a file is not the one that was made."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, default=HERE, help="folder (default: the suite's own)")
    parser.add_argument("--check", action="store_true", help=f"only compare the files with {DIGESTS}")
    options = parser.parse_args(arguments)
    if options.check:
        return check(options.output)
    options.output.mkdir(parents=True, exist_ok=True)
    for name, table in tables().items():
        pq.write_table(table, options.output / name, compression="zstd")
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


def tables() -> dict[str, pa.Table]:
    """Every file and its rows."""
    rng = np.random.default_rng(SEED)
    train = deliveries(rng, TRAIN, 0, "2026-01-01")
    holdout = deliveries(rng, TEST, 1, "2026-05-01")
    autumn = deliveries(rng, CURRENT, 2, "2026-09-01")
    current = deliveries(rng, CURRENT, 2, "2026-09-01", moved=True)
    return {
        "train.parquet": train,
        "test.parquet": broken(holdout, train),
        "holdout.parquet": holdout,
        "current.parquet": current,
        "autumn.parquet": autumn,
    }


def deliveries(rng: np.random.Generator, rows: int, part: int, day: str, moved: bool = False) -> pa.Table:
    """So many deliveries from a day on, one in 40 minutes, by couriers of this part's own.

    Args:
        rng: The source of randomness.
        rows: How many.
        part: Numbers couriers and deliveries.
        day: The first.
        moved: Longer ways, denser traffic, more of them outside the town, some in snow.
    """
    zone = rng.choice(["centre", "suburb", "rural"], rows, p=[0.3, 0.4, 0.3] if moved else [0.5, 0.4, 0.1])
    weather = rng.choice(["dry", "rain", "snow"], rows, p=[0.6, 0.25, 0.15] if moved else [0.7, 0.3, 0.0])
    distance = rng.gamma(4.0, 1.5, rows) * (1.5 if moved else 1.0)
    traffic = np.clip(rng.normal(52 if moved else 40, 15, rows), 0, 100)
    hour = rng.integers(8, 20, rows)
    parcels = 1 + rng.poisson(2.0, rows)
    strain = 0.25 * (distance - 6) + 0.05 * (traffic - 40) + 0.6 * (weather != "dry") + 0.3 * (parcels - 3)
    late = rng.random(rows) < 1 / (1 + np.exp(1.2 - strain))
    started = np.datetime64(day) + np.arange(rows) * np.timedelta64(40, "m")
    return pa.table(
        {
            "delivery": 10_000 * part + np.arange(rows),
            "courier": pa.array([f"C{300 * part + one:03d}" for one in rng.integers(0, 60, rows)], pa.string()),
            "started": pa.array(started.astype("datetime64[us]")),
            "distance_km": np.round(distance, 2),
            "traffic": np.round(traffic, 1),
            "hour": hour,
            "parcels": parcels,
            "weather": pa.array(weather, pa.string()),
            "zone": pa.array(zone, pa.string()),
            "late": pa.array(np.where(late, "yes", "no"), pa.string()),
        }
    )


def broken(holdout: pa.Table, train: pa.Table) -> pa.Table:
    """The holdout with 12 rows of couriers who were trained on, and 20 others from the time of training."""
    columns = {name: holdout[name].to_pylist() for name in ("courier", "started")}
    columns["courier"][100 : 100 + KNOWN_COURIERS] = train["courier"].to_pylist()[:KNOWN_COURIERS]
    columns["started"][500 : 500 + EARLY_ROWS] = train["started"].to_pylist()[-EARLY_ROWS:]
    for name, values in columns.items():
        place = holdout.column_names.index(name)
        holdout = holdout.set_column(place, name, pa.array(values, holdout.schema.field(name).type))
    return holdout


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
