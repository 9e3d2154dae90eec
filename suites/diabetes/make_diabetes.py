"""Makes the files of ``suites/diabetes``.

    python suites/diabetes/make_diabetes.py [--output DIR]
    python suites/diabetes/make_diabetes.py --check

The data are the same bytes everywhere for the same versions of scikit-learn and pyarrow; the model is the same bytes
on the same processor and versions.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

SEED = 7
HELD_OUT = 110
SHARE = 0.9
HERE = Path(__file__).resolve().parent
DIGESTS = "digests.json"
FILES = ("train.parquet", "test.parquet", "regression.onnx")


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
    """Writes data and model: half of the rows train, and the other half is the test."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = all_rows()
    order = np.random.default_rng(SEED).permutation(len(rows))
    train, test = (rows.iloc[np.sort(part)] for part in np.array_split(order, 2))
    for name, part in (("train", train), ("test", test)):
        table = pa.Table.from_pandas(part, preserve_index=False).replace_schema_metadata(None)
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")
    (folder / "regression.onnx").write_bytes(graph(*fitted(train)))


def all_rows() -> pd.DataFrame:
    """The 442 rows of scikit-learn's set, in the units in which they were measured."""
    from sklearn.datasets import load_diabetes

    bunch = load_diabetes(as_frame=True, scaled=False)
    frame: pd.DataFrame = bunch.frame.rename(columns={"target": "progression"})
    frame["sex"] = np.where(frame["sex"] == 1, "a", "b")
    frame.insert(0, "id", range(len(frame)))
    return frame


def inputs_of(frame: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What the model reads, shape (n, 9): all measurements but the sex."""
    return frame.drop(columns=["id", "sex", "progression"]).to_numpy(dtype=np.float64)


def fitted(train: pd.DataFrame) -> tuple[np.ndarray[Any, np.dtype[np.float64]], float, float]:
    """Weights of a ridge regression, its constant, and half the width of an interval that holds 9 rows in 10.

    The width is the quantile of the errors on rows that the weights were not fitted on (split conformal prediction).
    """
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    order = np.random.default_rng(SEED).permutation(len(train))
    held, used = train.iloc[order[:HELD_OUT]], train.iloc[order[HELD_OUT:]]
    model = make_pipeline(StandardScaler(), Ridge(alpha=20.0))
    model.fit(inputs_of(used), used["progression"])
    scaler, ridge = model[0], model[1]
    weights = ridge.coef_ / scaler.scale_
    constant = float(ridge.intercept_ - weights @ scaler.mean_)
    errors = np.abs(inputs_of(held) @ weights + constant - held["progression"].to_numpy())
    rank = min(1.0, np.ceil(SHARE * (len(held) + 1)) / len(held))
    return weights, constant, float(np.quantile(errors, rank, method="higher"))


def graph(weights: np.ndarray[Any, np.dtype[np.float64]], constant: float, half: float) -> bytes:
    """An ONNX graph: ``x`` of shape (n, 9) in; ``value``, ``lower`` and ``upper`` of shape (n, 1) out."""
    from onnx import TensorProto, helper, numpy_helper

    def number(name: str, value: object) -> Any:
        return numpy_helper.from_array(np.asarray(value, dtype=np.float32), name)

    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("Add", ["product", "constant"], ["value"]),
        helper.make_node("Sub", ["value", "half"], ["lower"]),
        helper.make_node("Add", ["value", "half"], ["upper"]),
    ]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", 1]) for n in ("value", "lower", "upper")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", len(weights)])]
    known = [number("weights", weights[:, None]), number("constant", [constant]), number("half", [half])]
    whole = helper.make_graph(nodes, "diabetes", inputs, outputs, known)
    model = helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def digest(path: Path) -> str:
    """Sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
