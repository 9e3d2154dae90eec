"""Small models and rows as their users have them."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pandas as pd
from onnx import TensorProto, helper, numpy_helper
from sklearn.linear_model import LinearRegression, LogisticRegression

COLUMNS = ["age", "amount", "hour"]
CLASSES = np.array(["paid", "fraud"])


def frame(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    """Rows of three columns, whose label is mostly the sign of the first."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=COLUMNS)
    wrong = rng.random(rows) < 0.03
    table["outcome"] = CLASSES[((table["age"] > 0) ^ wrong).astype(int)]
    return table


def write_joblib(folder: Path) -> None:
    """``model.joblib``, ``test.csv`` and ``train.csv``."""
    train = frame(seed=1)
    joblib.dump(LogisticRegression().fit(train[COLUMNS], train["outcome"]), folder / "model.joblib")
    train.to_csv(folder / "train.csv", index=False)
    frame().to_csv(folder / "test.csv", index=False)


def write_regressor(folder: Path) -> None:
    """``price.joblib`` and ``price.parquet``, whose truth has a name that says nothing."""
    table = frame().drop(columns="outcome")
    table.insert(0, "id", range(len(table)))
    table["user_id"] = [f"u{row // 2}" for row in range(len(table))]
    table["site"] = ["lab", "field"] * (len(table) // 2)
    table["euros"] = table["age"] * 3 + np.random.default_rng(2).normal(size=len(table)) * 0.1
    joblib.dump(LinearRegression().fit(table[COLUMNS], table["euros"]), folder / "price.joblib")
    table.to_parquet(folder / "price.parquet", index=False)


def write_onnx(folder: Path) -> None:
    """``model.onnx``: three numbers, two logits, ``fraud`` first in training."""
    weights = np.array([[4.0, -4.0], [0.0, 0.0], [0.0, 0.0]], dtype=np.float32)[:, ::-1].copy()
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["input", "w"], ["scores"])],
        "two classes",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
