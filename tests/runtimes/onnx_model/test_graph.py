"""Reading an ONNX file's structure without the onnx package, held against the onnx package."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalspec.errors import InputError
from evalspec.runtimes.onnx_model.graph import read_graph
from evalspec.sources.reading.protobuf import Message
from tests.small_models import save_linear_onnx


def save_branching(path: Path) -> None:
    """A graph with weights in an attribute, in the branches of an If, and in a sparse tensor."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def branch(name: str, value: float) -> onnx.GraphProto:
        weight = numpy_helper.from_array(np.full((4, 3), value, dtype=np.float32), f"w_{name}")
        out = helper.make_tensor_value_info(f"y_{name}", TensorProto.FLOAT, ["n", 3])
        return helper.make_graph(
            [helper.make_node("MatMul", ["x", f"w_{name}"], [f"y_{name}"])], name, [], [out], [weight]
        )

    constant = numpy_helper.from_array(np.ones((2, 5), dtype=np.float16), "c")
    nodes = [
        helper.make_node("Constant", [], ["c"], value=constant),
        helper.make_node("If", ["flag"], ["y"], then_branch=branch("then", 1.0), else_branch=branch("else", 2.0)),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])])
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def test_weights_are_found_wherever_they_are(tmp_path: Path) -> None:
    save_branching(tmp_path / "m.onnx")
    graph = read_graph(tmp_path / "m.onnx", "m.onnx")
    assert graph.operators == ("Constant", "If", "MatMul")
    assert graph.parameters == 2 * 12 + 10
    # 24 of 34 numbers are fp32, 10 fp16: no type has nine tenths.
    assert graph.precision == "mixed"


def test_graphs_without_weights_compute_in_the_type_of_their_inputs(tmp_path: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    value = [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", value[:1], value[1:])
    onnx.save_model(helper.make_model(graph), str(tmp_path / "m.onnx"))
    assert read_graph(tmp_path / "m.onnx", "m.onnx").precision == "fp64"


def test_the_messages_are_those_that_onnx_reads(tmp_path: Path) -> None:
    import onnx

    save_linear_onnx(tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    theirs = onnx.load_from_string(content)
    ours = next(Message(memoryview(content)).messages(7))
    assert [node.text(4) for node in ours.messages(1)] == [node.op_type for node in theirs.graph.node]
    assert [one.numbers(1) for one in ours.messages(5)] == [list(one.dims) for one in theirs.graph.initializer]
    assert ours.text(2) == theirs.graph.name


def test_every_truncation_is_a_sentence_or_a_model(tmp_path: Path) -> None:
    save_branching(tmp_path / "m.onnx")
    content = (tmp_path / "m.onnx").read_bytes()
    refused = 0
    for kept in range(1, len(content)):
        (tmp_path / "m.onnx").write_bytes(content[:kept])
        try:
            read_graph(tmp_path / "m.onnx", "m.onnx")
        except InputError as error:
            assert "is not an ONNX model" in str(error)
            refused += 1
    assert refused >= len(content) - 10


@settings(max_examples=300)
@given(st.binary(min_size=1, max_size=60))
def test_any_bytes_are_fields_or_a_value_error(content: bytes) -> None:
    message = Message(memoryview(content))
    try:
        fields = list(message.fields())
    except ValueError:
        return
    assert sum(1 if isinstance(value, int) else len(value) for _, value in fields) <= len(content)


@pytest.mark.parametrize("content", [b"\x0a\xff", b"\x80" * 12, b"\x0b", b"\x00\x01", b"\x0d\x01"])
def test_broken_messages(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"ends in the middle|too long|wire type|without a number"):
        list(Message(memoryview(content)).fields())
