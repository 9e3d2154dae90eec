"""What an ONNX file says of itself, read without its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.runtimes._code import first_line
from evalspec.runtimes._observe import precision_of

INTEGER_OPS = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
WEIGHT_AXES = 2


@dataclass(frozen=True, slots=True)
class Graph:
    """An ONNX model, weights left where they are.

    Args:
        external: Files beside it that hold weights, as it names them.
        precision: Of its weights (matrices and kernels), or None where it has none.
        parameters: Numbers in its weights.
        operators: Kinds of operators in it.
    """

    external: tuple[str, ...]
    precision: str | None
    parameters: int
    operators: tuple[str, ...]


def read_graph(path: Path, shown: str) -> Graph:
    """Parse the file, not the weights beside it.

    Raises:
        InputError: It is no ONNX model, or a truncated one.
    """
    import onnx

    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise InputError(f"{shown!r} is no ONNX model, or a truncated one: {first_line(error)}") from error
    nodes = list(_nodes(model))
    if not nodes:
        raise InputError(f"{shown!r} is no ONNX model: it has no operators")
    tensors = list(_tensors(model, nodes))
    names = {number: name for name, number in onnx.TensorProto.DataType.items()}
    counts: dict[str, int] = {}
    parameters = 0
    for tensor in tensors:
        size = _product(tensor.dims)
        kind = _numpy_name(names.get(tensor.data_type, ""))
        parameters += size if kind.startswith(("float", "bfloat", "int8", "uint8", "int4", "uint4")) else 0
        if len(tensor.dims) >= WEIGHT_AXES:
            counts[kind] = counts.get(kind, 0) + size
    operators = tuple(sorted({node.op_type for node in nodes}))
    precision = precision_of(counts)
    if precision is None:
        precision = _io_precision(model, names)
    elif set(operators) & set(INTEGER_OPS) and precision not in ("int8", "int4"):
        precision = "mixed"
    return Graph(tuple(dict.fromkeys(_external(tensors))), precision, parameters, operators)


def weight_files(path: Path, shown: str, external: Iterable[str]) -> tuple[Path, ...]:
    """The model file and the files beside it that hold its weights.

    Raises:
        InputError: One is missing, or lies outside the model's folder.
    """
    folder = path.parent.resolve()
    found = [path]
    for name in external:
        beside = (folder / name).resolve()
        if not beside.is_relative_to(folder):
            raise InputError(f"{shown!r} keeps weights in {name!r}, outside its own folder")
        if not beside.is_file():
            raise InputError(
                f"{shown!r} keeps weights in {name!r}, which is not there", remedy="put it beside the model"
            )
        found.append(beside)
    return tuple(found)


def _external(tensors: Iterable[Any]) -> Iterator[str]:
    for tensor in tensors:
        for entry in tensor.external_data:
            if entry.key == "location":
                yield entry.value


def _nodes(model: Any) -> Iterator[Any]:
    waiting = list(model.graph.node)
    for function in model.functions:
        waiting.extend(function.node)
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting.extend(graph.node)


def _tensors(model: Any, nodes: Iterable[Any]) -> Iterator[Any]:
    yield from _initializers(model.graph)
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in (attribute.g, *attribute.graphs):
                yield from _initializers(graph)


def _initializers(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values


def _product(sizes: Iterable[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _numpy_name(onnx_name: str) -> str:
    """Numpy's name of an ONNX type: FLOAT is float32."""
    name = onnx_name.lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def _io_precision(model: Any, names: dict[int, str]) -> str | None:
    """Precision of the inputs, for graphs without weights of their own (tree ensembles keep them in attributes)."""
    stored = {tensor.name for tensor in model.graph.initializer}
    kinds = [
        _numpy_name(names.get(value.type.tensor_type.elem_type, ""))
        for value in model.graph.input
        if value.name not in stored
    ]
    return precision_of({kind: 1 for kind in kinds if kind.startswith(("float", "bfloat"))})
