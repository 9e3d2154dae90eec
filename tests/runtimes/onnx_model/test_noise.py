"""Signal-to-noise ratios of tensors: a quantized graph against its float one, on real files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.abilities import ComparesTensors
from evalspec.language.parts import Access
from evalspec.runtimes.onnx import Onnx

DIGITS = Path(__file__).parents[3] / "suites/digits"


def loaded(path: str = "int8.onnx") -> ComparesTensors:
    model = Onnx(path=path).load(Access(DIGITS))
    assert isinstance(model, ComparesTensors)
    return model


def batches(n: int = 2) -> list[dict[str, np.ndarray]]:
    draw = np.random.default_rng(2)
    return [{"image": draw.random((16, 64)).astype(np.float32)} for _ in range(n)]


def test_every_activation_has_a_ratio() -> None:
    noise = loaded().tensor_noise(DIGITS / "fp32.onnx", "fp32.onnx", batches())
    assert "y" in noise.names
    assert len(noise.names) == len(noise.decibels) > 4
    # Eight bits tell about 6 dB each apart; what is far below 20 would have lost the answer.
    assert ((noise.decibels > 15) & (noise.decibels < 80)).all()


def test_another_network_has_no_tensor_in_common(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Relu", ["image"], ["other"])], "other",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 64])],
        [helper.make_tensor_value_info("other", TensorProto.FLOAT, ["n", 64])],
    )  # fmt: skip
    path = tmp_path / "other.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    with pytest.raises(NotRunError, match="no quantized tensor in common"):
        loaded().tensor_noise(path, "other.onnx", batches())


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "none.onnx").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"the tensors of none.onnx can't be seen"):
        loaded().tensor_noise(tmp_path / "none.onnx", "none.onnx", batches())
