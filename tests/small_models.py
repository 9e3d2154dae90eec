"""Small models, made once a session."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.language.parts import Access

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")

WEIGHT = np.array([[1.0, -1.0, 0.5], [0.0, 2.0, -0.5], [0.25, 0.0, 1.0], [-1.0, 0.5, 0.0]], dtype=np.float32)
BIAS = np.array([0.1, -0.2, 0.0], dtype=np.float32)


def expected_probabilities(x: NDArray[Any]) -> NDArray[np.float64]:
    """Of the linear model that the ONNX and torch files hold, shape (n, 3)."""
    logits = np.asarray(x, dtype=np.float64) @ WEIGHT.astype(np.float64) + BIAS.astype(np.float64)
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(exp / exp.sum(axis=1, keepdims=True))


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the models made so far in this session."""
    return tmp_path_factory.mktemp("models")


@pytest.fixture
def access(tmp_path: Path) -> Access:
    """A spec's folder without trust."""
    return Access(folder=tmp_path)


@pytest.fixture
def trusted(tmp_path: Path) -> Access:
    """A spec's folder with trust."""
    return Access(folder=tmp_path, trust=True)


@pytest.fixture
def rows() -> pa.Table:
    """10 rows: key, four numbers, the same as a list, a label."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(10, 4)).astype(np.float32)
    labels = [["cat", "dog", "owl"][i] for i in expected_probabilities(x).argmax(axis=1)]
    columns: dict[str, Any] = {f"x{i}": x[:, i] for i in range(4)}
    columns["x"] = pa.array(list(x))
    columns["label"] = labels
    columns["key"] = [f"row-{i}" for i in range(10)]
    return pa.table(columns)


def array(table: pa.Table) -> NDArray[np.float32]:
    """The numbers of `rows`, shape (10, 4)."""
    return np.array(table.column("x").to_pylist(), dtype=np.float32)


def save_linear_onnx(path: Path, *, batch: int | str = "n", external: bool = False, half: bool = False) -> None:
    """y = x W + b as an ONNX file."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    dtype = np.float16 if half else np.float32
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        "linear",
        [helper.make_tensor_value_info("x", kind, [batch, 4])],
        [helper.make_tensor_value_info("y", kind, [batch, 3])],
        [numpy_helper.from_array(WEIGHT.astype(dtype), "w"), numpy_helper.from_array(BIAS.astype(dtype), "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save_model(model, str(path), save_as_external_data=external, location=path.name + ".data", size_threshold=0)


@pytest.fixture(scope="session")
def once(made: Path) -> Callable[[str, Callable[[Path], None]], bytes]:
    """Bytes of a model file, made at its first use in the session."""

    def read(name: str, save: Callable[[Path], None]) -> bytes:
        path = made / name
        if not path.exists():
            save(path)
        return path.read_bytes()

    return read


@pytest.fixture
def linear_onnx(tmp_path: Path, once: Callable[[str, Callable[[Path], None]], bytes]) -> Path:
    """``linear.onnx`` in the spec's folder."""
    path = tmp_path / "linear.onnx"
    path.write_bytes(once("linear.onnx", save_linear_onnx))
    return path


@pytest.fixture(scope="session")
def estimators(made: Path) -> dict[str, bytes]:
    """skops and joblib files: a classifier without and one with named columns, a regressor."""
    import joblib
    import pandas as pd
    import skops.io
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 4))
    y = np.array(["cat", "dog", "owl"])[expected_probabilities(x).argmax(axis=1)]
    plain = LogisticRegression().fit(x, y)
    named = make_pipeline(StandardScaler(), LogisticRegression()).fit(
        pd.DataFrame(x, columns=["x0", "x1", "x2", "x3"]), y
    )
    regressor = LinearRegression().fit(x, x @ [1.0, 2.0, 3.0, 4.0])
    found = {}
    for name, estimator in {"plain": plain, "named": named, "regressor": regressor}.items():
        path = made / f"{name}.skops"
        skops.io.dump(estimator, path)
        found[path.name] = path.read_bytes()
    joblib.dump(plain, made / "plain.joblib")
    found["plain.joblib"] = (made / "plain.joblib").read_bytes()
    return found


def save_linear_pt2(path: Path, *, fixed: bool = False) -> None:
    """The same linear model as an exported program."""
    import torch

    module = torch.nn.Linear(4, 3)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(WEIGHT.T.copy()))
        module.bias.copy_(torch.from_numpy(BIAS))
    shapes = None if fixed else ({0: torch.export.Dim("n")},)
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(4, 4),), dynamic_shapes=shapes), path)


@pytest.fixture
def linear_pt2(tmp_path: Path, once: Callable[[str, Callable[[Path], None]], bytes]) -> Path:
    """``linear.pt2`` in the spec's folder."""
    path = tmp_path / "linear.pt2"
    path.write_bytes(once("linear.pt2", save_linear_pt2))
    return path
