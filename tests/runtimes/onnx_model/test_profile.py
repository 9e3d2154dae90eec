"""Operations, number types and places in onnxruntime's profile."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.abilities import Inspectable, Runner
from evalspec.language.parts import Access
from evalspec.runtimes.onnx import Onnx
from evalspec.runtimes.onnx_model.profile import computes, operations, read_profile

PLACES = {"CPUExecutionProvider": "cpu", "CUDAExecutionProvider": "cuda:0"}


def typed(kind: str, *shapes: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    return [(kind, shape) for shape in shapes]


@pytest.mark.parametrize(
    ("kind", "reads", "out", "expected"),
    [
        ("MatMul", [(3, 5), (5, 7)], (3, 7), 2 * 3 * 5 * 7),
        ("Gemm", [(3, 5), (5, 7), (7,)], (3, 7), 2 * 3 * 5 * 7),
        # Either factor may be transposed, which shapes alone do not say.
        ("Gemm", [(5, 3), (7, 5), (7,)], (3, 7), 2 * 3 * 5 * 7),
        ("MatMul", [(2, 4, 3, 5), (5, 7)], (2, 4, 3, 7), 2 * 8 * 3 * 5 * 7),
        ("MatMul", [(2, 3, 5), (2, 5, 7)], (2, 3, 7), 2 * 2 * 3 * 5 * 7),
        ("MatMul", [(5,), (5, 7)], (7,), 2 * 5 * 7),
        ("MatMul", [(3, 5), (5,)], (3,), 2 * 3 * 5),
        ("MatMulInteger", [(3, 5), (5, 7), ()], (3, 7), 2 * 3 * 5 * 7),
        ("QLinearMatMul", [(3, 5), (), (), (5, 7), (), (), (), ()], (3, 7), 2 * 3 * 5 * 7),
        ("Conv", [(2, 3, 8, 8), (4, 3, 3, 3), (4,)], (2, 4, 8, 8), 2 * 2 * 4 * 64 * 27),
        # 4 groups: each output sees a quarter of the channels.
        ("Conv", [(2, 8, 8, 8), (8, 2, 3, 3)], (2, 8, 6, 6), 2 * 2 * 8 * 36 * 18),
        ("QLinearConv", [(1, 3, 4, 4), (), (), (2, 3, 1, 1), (), (), (), ()], (1, 2, 4, 4), 2 * 32 * 3),
        ("ConvTranspose", [(1, 3, 4, 4), (3, 2, 2, 2)], (1, 2, 8, 8), 2 * 48 * 8),
        ("LSTM", [(6, 2, 5), (1, 16, 5), (1, 16, 4)], (6, 1, 2, 4), 2 * 12 * (80 + 64)),
        ("MultiHeadAttention", [(2, 6, 8), (2, 9, 8), (2, 9, 8)], (2, 6, 8), 4 * 96 * 9),
        ("Attention", [(2, 6, 8), (8, 24), (24,)], (2, 6, 8), 2 * 12 * 192 + 4 * 96 * 6),
        ("Relu", [(2, 3)], (2, 3), 6),
        ("ReduceMean", [(2, 30)], (2, 1), 60),
        ("Reshape", [(2, 3), (1,)], (6,), 0),
        ("Transpose", [(2, 3)], (3, 2), 0),
    ],
)
def test_operations_from_shapes(kind: str, reads: list[tuple[int, ...]], out: tuple[int, ...], expected: int) -> None:
    assert operations(kind, typed("float32", *reads), typed("float32", out)) == pytest.approx(expected)


def test_nothing_read_or_written_is_nothing_done() -> None:
    assert operations("MatMul", [], []) == 0.0
    assert operations("MatMul", typed("float32", (0, 5), (5, 7)), typed("float32", (0, 7))) == 0.0


@pytest.mark.parametrize(
    ("kind", "reads", "writes", "expected"),
    [
        ("MatMul", [("float32", (2, 2))], [("float32", (2, 2))], "float32"),
        ("QLinearConv", [("uint8", (2, 2)), ("float32", ())], [("uint8", (2, 2))], "int8"),
        ("MatMulInteger", [("uint8", (2, 2))], [("int32", (2, 2))], "int8"),
        ("QuantizeLinear", [("float32", (2, 2))], [("uint8", (2, 2))], "float32"),
        ("Reshape", [("float32", (2, 2))], [("float32", (4,))], ""),
        ("Add", [("int64", (2,))], [("int64", (2,))], "int64"),
    ],
)
def test_the_type_of_the_kernel(kind: str, reads: Any, writes: Any, expected: str) -> None:
    assert computes(kind, reads, writes) == expected


def event(name: str, kind: str, provider: str = "CPUExecutionProvider", **args: Any) -> dict[str, Any]:
    given = {
        "op_name": kind, "provider": provider, "parameter_size": "0",
        "input_type_shape": [{"float": [2, 4]}, {"float": [4, 3]}], "output_type_shape": [{"float": [2, 3]}],
    }  # fmt: skip
    return {"cat": "Node", "name": f"{name}_kernel_time", "args": given | args}


def test_an_operator_that_falls_back_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    events = [
        {"cat": "Session", "name": "model_run", "args": {}},
        event("first", "MatMul", "CUDAExecutionProvider", parameter_size="48"),
        {**event("first", "MatMul"), "name": "first_fence_before"},
        event("odd", "Einsum"),
    ]
    path.write_text(json.dumps(events))
    first, odd = read_profile(path, PLACES)
    assert (first.name, first.place, first.operations) == ("first", "cuda:0", 2 * 2 * 4 * 3)
    assert (first.weights, first.weight_bytes, first.read_bytes, first.written_bytes) == ("float32", 48, 80, 24)
    assert (odd.name, odd.place, odd.weights) == ("odd", "cpu", "")
    assert (first.provider, odd.provider) == ("CUDAExecutionProvider", "CPUExecutionProvider")


def test_only_the_last_run_counts(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    runs = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 40, "args": {}} for ts in (10, 60)]
    nodes = [event(f"{ts}", "MatMul") | {"ts": ts, "dur": dur} for ts, dur in ((11, 30), (61, 5), (70, 2))]
    path.write_text(json.dumps([nodes[0], runs[0], *nodes[1:], runs[1]]))
    assert [(one.name, one.took_us) for one in read_profile(path, PLACES)] == [("61", 5.0), ("70", 2.0)]


@pytest.mark.parametrize("text", ["", "[]", '[{"cat": "Node", "name": "a_kernel_time"}]', "{}", '{"cat": 3}'])
def test_what_is_no_profile_gives_a_reason(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text)
    with pytest.raises(NotRunError, match="profile"):
        read_profile(path, PLACES)


def save_small_net(path: Path, *, quantized: bool = False) -> None:
    """Convolution, product, elementwise: 8 x 8 images of 3 channels to 10 numbers."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Flatten", ["r"], ["f"], name="flat"),
    ]
    stored = {
        "k": rng.normal(size=(16, 3, 3, 3)).astype(np.float32), "kb": np.zeros(16, np.float32),
        "b": np.zeros(10, np.float32),
    }  # fmt: skip
    if quantized:
        stored |= {"w": np.ones((1024, 10), np.int8)}
        nodes += [
            helper.make_node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"], name="quantize"),
            helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"], name="product"),
            helper.make_node("Cast", ["i"], ["y"], name="cast", to=TensorProto.FLOAT),
        ]
    else:
        stored |= {"w": rng.normal(size=(10, 1024)).astype(np.float32)}
        nodes.append(helper.make_node("Gemm", ["f", "w", "b"], ["y"], name="product", transB=1))
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def inferred_operations(path: Path, batch: int) -> float:
    """The same count from onnx's own shape inference: an independent one."""
    import onnx

    model = onnx.load(path)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {one.name: tuple(one.dims) for one in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        shapes[value.name] = tuple(dim.dim_value or batch for dim in value.type.tensor_type.shape.dim)
    total = 0.0
    for node in graph.node:
        out = float(np.prod(shapes[node.output[0]]))
        if node.op_type == "Conv":
            total += 2.0 * out * float(np.prod(shapes[node.input[1]][1:]))
        elif node.op_type == "Gemm":
            total += 2.0 * out * shapes[node.input[1]][1]
        elif node.op_type == "Relu":
            total += out
    return total


@pytest.mark.parametrize("batch", [1, 6])
def test_operations_agree_with_shape_inference(tmp_path: Path, access: Access, batch: int) -> None:
    save_small_net(tmp_path / "net.onnx")
    loaded = Onnx(path="net.onnx").load(access, threads=1)
    assert isinstance(loaded, Inspectable)
    inside = loaded.inspect({"x": np.ones((batch, 3, 8, 8), np.float32)})
    assert inside.operations == inferred_operations(tmp_path / "net.onnx", batch)
    assert inside.input_bytes == batch * 3 * 64 * 4 and inside.output_bytes == batch * 40
    assert {one.place for one in inside.operators} == {"cpu"}
    assert {one.computes for one in inside.operators if one.operations} == {"float32"}
    assert sum(one.weight_bytes for one in inside.operators) >= 4 * (16 * 27 + 10240)
    assert inside.flags["tf32"] is False and not inside.uncounted


@pytest.mark.proof
def test_operations_agree_with_torch(tmp_path: Path, access: Access) -> None:
    """The same network in torch, counted by FlopCounterMode."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    save_small_net(tmp_path / "net.onnx")
    inside = Onnx(path="net.onnx").load(access, threads=1).inspect({"x": np.ones((3, 3, 8, 8), np.float32)})
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(1024, 10)
    )
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        net(torch.ones(3, 3, 8, 8))
    elementwise = 3 * 16 * 64
    assert inside.operations == counter.get_total_flops() + elementwise


def test_a_product_in_int8_and_a_convolution_that_stayed_in_fp32(tmp_path: Path, access: Access) -> None:
    save_small_net(tmp_path / "net.onnx", quantized=True)
    inside = Onnx(path="net.onnx").load(access, threads=1).inspect({"x": np.ones((2, 3, 8, 8), np.float32)})
    by_type: dict[str, float] = {}
    for one in inside.operators:
        by_type[one.computes] = by_type.get(one.computes, 0.0) + one.operations
    assert by_type["int8"] == 2 * 2 * 1024 * 10
    assert by_type["float32"] > 2 * 2 * 16 * 64 * 27
    assert {one.weights for one in inside.operators if one.computes == "int8"} == {"int8"}


def test_what_took_how_long_and_what_was_written(tmp_path: Path, access: Access) -> None:
    """The runtime fuses the convolution with what follows; as written there are both."""
    save_small_net(tmp_path / "net.onnx", quantized=True)
    inside = Onnx(path="net.onnx").load(access, threads=1).inspect({"x": np.ones((2, 3, 8, 8), np.float32)})
    took = [one.took_us for one in inside.operators]
    assert inside.run_us is not None
    assert all(one is not None and one >= 0.0 for one in took)
    assert 0.0 < sum(one for one in took if one is not None) <= inside.run_us
    assert "Relu" in {one.kind for one in inside.written} and "Relu" not in {one.kind for one in inside.operators}
    assert sorted(one.family for one in inside.written if one.family) == ["convolution", "product"]


def test_a_batch_that_the_model_refuses(tmp_path: Path, access: Access) -> None:
    save_small_net(tmp_path / "net.onnx")
    loaded = Onnx(path="net.onnx").load(access, threads=1)
    with pytest.raises(InputError, match="can't run the batch"):
        loaded.inspect({"x": np.ones((1, 4, 8, 8), np.float32)})


def test_looking_leaves_no_file_behind(tmp_path: Path, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    save_small_net(tmp_path / "net.onnx")
    Onnx(path="net.onnx").load(access, threads=1).inspect({"x": np.ones((1, 3, 8, 8), np.float32)})
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]


def test_the_runner_serves_batches_in_turn(tmp_path: Path, access: Access) -> None:
    save_small_net(tmp_path / "net.onnx")
    loaded = Onnx(path="net.onnx").load(access, threads=1)
    assert isinstance(loaded, Runner)
    run = loaded.runner([{"x": np.full((1, 3, 8, 8), value, np.float32)} for value in (0.0, 1.0)])
    for index in range(5):
        run(index)


def test_a_closed_model_can_not_be_looked_into(tmp_path: Path, access: Access) -> None:
    save_small_net(tmp_path / "net.onnx")
    loaded = Onnx(path="net.onnx").load(access, threads=1)
    loaded.reopen = None
    with pytest.raises(NotRunError, match="can't be reopened"):
        loaded.inspect({"x": np.ones((1, 3, 8, 8), np.float32)})


@pytest.mark.gpu
def test_on_a_gpu_products_run_there(tmp_path: Path, access: Access) -> None:
    save_small_net(tmp_path / "net.onnx")
    loaded = Onnx(path="net.onnx", device="cuda:0").load(access, threads=1)
    batch = {"x": np.ones((2, 3, 8, 8), np.float32)}
    inside = loaded.inspect(batch)
    assert {one.place for one in inside.operators if one.operations > 1000} == {"cuda:0"}
    assert inside.operations == inferred_operations(tmp_path / "net.onnx", 2)
    loaded.runner([batch])(0)
