"""How many parameters a loaded model says that it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.language.parts import Access
from evalspec.runtimes.onnx import Onnx
from evalspec.runtimes.sklearn import Sklearn
from evalspec.runtimes.torch import Torch
from tests.small_models import save_linear_onnx


def test_onnx_counts_its_initializers(tmp_path: Path, access: Access) -> None:
    save_linear_onnx(tmp_path / "linear.onnx")
    assert Onnx(kind="onnx", path="linear.onnx").load(access, threads=1).parameters() == 4 * 3 + 3


def test_torch_counts_parameters_and_no_running_statistics(tmp_path: Path, access: Access) -> None:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).eval()
    program = torch.export.export(
        module, (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("n", min=1, max=4096)},)
    )
    torch.export.save(program, tmp_path / "net.pt2")
    loaded: Any = Torch(kind="torch", path="net.pt2").load(access, threads=1)
    assert loaded.parameters() == (4 * 3 + 3) + 2 * 3
    assert loaded.peak_device_bytes() is None


@pytest.mark.parametrize(("name", "expected"), [("logistic", 3 * 4 + 3), ("mlp", 5 * 5 + 6 * 3), ("tree", None)])
def test_sklearn_counts_coefficients(name: str, expected: int | None, tmp_path: Path, access: Access) -> None:
    import skops.io
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    made = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "mlp": MLPClassifier((5,), max_iter=2000, tol=0.1, random_state=0),
        "tree": DecisionTreeClassifier(max_depth=2),
    }
    skops.io.dump(made[name].fit(x, y), tmp_path / "model.skops")
    loaded: Any = Sklearn(kind="sklearn", path="model.skops").load(access, threads=1)
    assert loaded.parameters() == expected
    loaded.close()
