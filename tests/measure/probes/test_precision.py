"""`precision`: number types and places of a real model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.errors import NotRunError
from evalspec.measure.probes.precision import probe
from evalspec.runtimes.onnx import Onnx
from evalspec.runtimes.torch import Torch
from tests.measure.probes.contexts import bare, context
from tests.runtimes.onnx_model.test_profile import save_small_net

FIELDS = {"outputs": {"logits": "y"}, "classes": tuple("abcdefghij")}


def test_an_onnx_model_in_fp32_says_so(tmp_path: Path, linear_onnx: Path) -> None:
    """Also where the spec calls it int8."""
    model = Onnx(path="linear.onnx", precision="int8", outputs={"logits": "y"}, classes=("cat", "dog", "owl"))
    found = probe(context(model, tmp_path, np.ones((6, 4), np.float32), {"batch": 2}))
    assert set(found.texts["computes"]) == {"float32"} and set(found.texts["weights"]) == {"float32"}
    assert set(found.texts["places"]) == {"cpu"}
    assert set(found.texts["providers"]) == {"CPUExecutionProvider"}
    assert found.series["operations"].sum() == 2 * 2 * 4 * 3
    assert found.facts["device_observed"] == "cpu" and found.facts["flag_tf32"] is False


def test_operators_in_two_types(tmp_path: Path) -> None:
    save_small_net(tmp_path / "net.onnx", quantized=True)
    rows = np.ones((6, 192), np.float32)
    model = Onnx(path="net.onnx", **FIELDS)
    made = context(model, tmp_path, rows, {"batch": 2})

    def shaped(index: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
        return {"x": np.ones((len(index), 3, 8, 8), np.float32)}

    found = probe(replace(made, tensors=shaped))
    by_kind = dict(zip(found.texts["kinds"], found.texts["computes"], strict=True))
    assert by_kind["MatMulInteger"] == "int8"
    assert any(kind.endswith("Conv") and computes == "float32" for kind, computes in by_kind.items())
    families = dict(zip(found.texts["written_kinds"], found.texts["written_families"], strict=True))
    assert (families["Conv"], families["Relu"], families["MatMulInteger"]) == ("convolution", "", "product")
    assert len(found.series["took_us"]) == len(found.texts["names"])
    assert 0.0 < found.series["took_us"].sum() <= float(str(found.facts["run_us"]))


@pytest.mark.proof
def test_a_torch_model(tmp_path: Path, linear_pt2: Path) -> None:
    model = Torch(path="linear.pt2", outputs={"logits": "output"}, classes=("cat", "dog", "owl"))
    found = probe(context(model, tmp_path, np.ones((6, 4), np.float32), {"batch": 3}))
    assert "aten.addmm" in found.texts["kinds"]
    lengths = {len(words) for words in found.texts.values()} | {len(values) for values in found.series.values()}
    assert lengths == {len(found.texts["names"])}


def test_a_model_that_shows_no_operators() -> None:
    with pytest.raises(NotRunError, match="operators of kind 'python' can't be seen"):
        probe(bare(SimpleNamespace(observed={}), batch=1))
