"""Makes the files of ``suites/breast_cancer``.

    python suites/breast_cancer/make_breast_cancer.py [--output DIR]
    python suites/breast_cancer/make_breast_cancer.py --check

The data are the same bytes everywhere for the same versions of scikit-learn and pyarrow; the model is the same bytes
on the same processor and versions.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

SEED = 7
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("train.parquet", "test.parquet", "classifier.skops")


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
        sys.stdout.write(f"{folder / name} is missing or not the file whose digest stands in {DIGESTS}\n")
    return 1 if wrong else 0


def make(folder: Path) -> None:
    """Writes data and model: half of the rows of each diagnosis train, the other half is the test."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import train_test_split
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = all_rows()
    train, test = train_test_split(rows, test_size=0.5, stratify=rows["diagnosis"], random_state=SEED)
    train, test = train.sort_values("id"), test.sort_values("id")
    for name, part in (("train", train), ("test", test)):
        table = pa.Table.from_pandas(part, preserve_index=False).replace_schema_metadata(None)
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, class_weight="balanced", max_iter=5000))
    classifier.fit(train.drop(columns=["id", "diagnosis"]), train["diagnosis"].to_numpy(dtype=str))
    (folder / "classifier.skops").write_bytes(settled(skops.io.dumps(classifier)))


def settled(archive: bytes) -> bytes:
    """The same skops archive without what differs from run to run: memory addresses and times."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        parts = {info.filename: source.read(info) for info in source.infolist()}
    schema = parts.pop("schema.json").decode()
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], str(len(numbers)))

    schema = re.sub(r'(?<="__id__": )\d+|(?<="file": ")\d+', number, schema)
    renamed = {f"{numbers[Path(name).stem]}.npy": data for name, data in parts.items()}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as result:
        for name, data in {**dict(sorted(renamed.items())), "schema.json": schema.encode()}.items():
            result.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def all_rows() -> pd.DataFrame:
    """The 569 rows of scikit-learn's set: an id, 30 measurements, the diagnosis as a word."""
    import pandas as pd
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    frame = pd.DataFrame(bunch.data, columns=[name.replace(" ", "_") for name in bunch.feature_names])
    frame.insert(0, "id", range(len(frame)))
    frame["diagnosis"] = [str(bunch.target_names[code]) for code in bunch.target]
    return frame


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
