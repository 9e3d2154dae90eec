"""Graph of an ONNX file, read without its weights.

References:
    The ONNX specification, onnx/onnx.proto: the field numbers below.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from evalspec.errors import InputError
from evalspec.runtimes.guards.observe import precision_of
from evalspec.sources.reading.protobuf import Message

MODEL_GRAPH, MODEL_FUNCTIONS = 7, 25
GRAPH_NODE, GRAPH_INITIALIZER, GRAPH_INPUT, GRAPH_OUTPUT, GRAPH_SPARSE = 1, 5, 11, 12, 15
FUNCTION_NODE = 7
NODE_OPERATOR, NODE_ATTRIBUTE = 4, 5
ATTRIBUTE_TENSOR, ATTRIBUTE_GRAPH, ATTRIBUTE_TENSORS, ATTRIBUTE_GRAPHS = 5, 6, 10, 11
SPARSE_VALUES = 1
TENSOR_DIMS, TENSOR_TYPE, TENSOR_NAME, TENSOR_EXTERNAL = 1, 2, 8, 13
ENTRY_KEY, ENTRY_VALUE = 1, 2
VALUE_NAME, VALUE_TYPE, TYPE_TENSOR, TENSOR_ELEMENT = 1, 2, 1, 1

TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8e4m3fn", 18: "float8e4m3fnuz",
    19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
}  # fmt: skip
WEIGHT_TYPES = ("float", "bfloat", "int8", "uint8", "int4", "uint4")
INTEGER_OPERATORS = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")
WEIGHT_AXES = 2
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Graph:
    """An ONNX model, weights left where they are.

    Args:
        external: Files beside it that hold weights, as it names them.
        precision: Of its weights (matrices and kernels), or of its inputs where it has none; None: unknown.
        parameters: Numbers in its weights.
        operators: Kinds of operators in it.
        inputs: Names of what it takes.
        outputs: Names of what it gives.
    """

    external: tuple[str, ...]
    precision: str | None
    parameters: int
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Weights:
    """One stored tensor."""

    name: str
    kind: str
    dims: tuple[int, ...]
    location: str | None


def read_graph(path: Path, shown: str) -> Graph:
    """Read the file's structure, neither its weights nor those beside it.

    Raises:
        InputError: It is no ONNX model, or a truncated one.
    """
    try:
        with path.open("rb") as file:
            # Closed when the last view of it is gone, which an error may hold on to.
            graph = _graph(Message(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))))
    except (OSError, ValueError) as error:
        raise InputError(f"{shown!r} is not an ONNX model, or a truncated one: {error}") from error
    if not graph.operators:
        raise InputError(f"{shown!r} is not an ONNX model: it has no operators")
    return graph


def _graph(model: Message) -> Graph:
    operators: set[str] = set()
    weights: list[_Weights] = []
    inputs: list[Message] = []
    outputs: list[Message] = []
    for graph in model.messages(MODEL_GRAPH):
        inputs += list(_inputs(graph))
        outputs += list(graph.messages(GRAPH_OUTPUT))
        _walk(graph, GRAPH_NODE, operators, weights)
    for function in model.messages(MODEL_FUNCTIONS):
        _walk(function, FUNCTION_NODE, operators, weights)
    counts: dict[str, int] = {}
    for one in weights:
        if len(one.dims) >= WEIGHT_AXES:
            counts[one.kind] = counts.get(one.kind, 0) + math.prod(one.dims)
    precision = precision_of(counts)
    if precision is None:
        # Tree ensembles keep their numbers in attributes; they compute in the type of their inputs.
        precision = precision_of(
            {kind: 1 for one in inputs for kind in _types(one) if kind.startswith(("float", "bfloat"))}
        )
    elif operators & set(INTEGER_OPERATORS) and precision not in ("int8", "int4"):
        precision = "mixed"
    return Graph(
        external=tuple(dict.fromkeys(one.location for one in weights if one.location is not None)),
        precision=precision,
        parameters=sum(math.prod(one.dims) for one in weights if one.kind.startswith(WEIGHT_TYPES)),
        operators=tuple(sorted(operators)),
        inputs=tuple(one.text(VALUE_NAME) for one in inputs),
        outputs=tuple(one.text(VALUE_NAME) for one in outputs),
    )


def _walk(start: Message, node_field: int, operators: set[str], weights: list[_Weights]) -> None:
    """Collect what a graph and the graphs inside its nodes hold."""
    waiting = [(start, node_field, 0)]
    while waiting:
        graph, field, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"graphs nested more than {DEEPEST} levels deep")
        if field == GRAPH_NODE:
            weights += [_weights(tensor) for tensor in graph.messages(GRAPH_INITIALIZER)]
            sparse = graph.messages(GRAPH_SPARSE)
            weights += [_weights(tensor) for one in sparse for tensor in one.messages(SPARSE_VALUES)]
        for node in graph.messages(field):
            operators.add(node.text(NODE_OPERATOR))
            for attribute in node.messages(NODE_ATTRIBUTE):
                for number, value in attribute.fields():
                    if isinstance(value, int):
                        continue
                    if number in (ATTRIBUTE_TENSOR, ATTRIBUTE_TENSORS):
                        weights.append(_weights(Message(value)))
                    elif number in (ATTRIBUTE_GRAPH, ATTRIBUTE_GRAPHS):
                        waiting.append((Message(value), GRAPH_NODE, depth + 1))


def _weights(tensor: Message) -> _Weights:
    entries = {entry.text(ENTRY_KEY): entry.text(ENTRY_VALUE) for entry in tensor.messages(TENSOR_EXTERNAL)}
    return _Weights(
        name=tensor.text(TENSOR_NAME),
        kind=TYPES.get(tensor.number(TENSOR_TYPE), ""),
        dims=tuple(tensor.numbers(TENSOR_DIMS)),
        location=entries.get("location"),
    )


def _inputs(graph: Message) -> Iterator[Message]:
    """The graph's inputs that are no stored weights."""
    stored = {tensor.text(TENSOR_NAME) for tensor in graph.messages(GRAPH_INITIALIZER)}
    return (value for value in graph.messages(GRAPH_INPUT) if value.text(VALUE_NAME) not in stored)


def _types(value: Message) -> Iterator[str]:
    """Of what an input's tensors are made."""
    for kind in value.messages(VALUE_TYPE):
        for tensor in kind.messages(TYPE_TENSOR):
            yield TYPES.get(tensor.number(TENSOR_ELEMENT), "")


def weight_files(path: Path, shown: str, external: Iterable[str]) -> tuple[Path, ...]:
    """The model file and the files beside it that hold its weights.

    Raises:
        InputError: One is missing, or lies outside the model's folder.
    """
    folder = path.parent.resolve()
    files = [path]
    for name in external:
        beside = (folder / name).resolve()
        if not beside.is_relative_to(folder):
            raise InputError(f"{shown!r} keeps weights in {name!r}, outside its own folder")
        if not beside.is_file():
            raise InputError(
                f"{shown!r} keeps weights in {name!r}, which does not exist", remedy="put it next to the model"
            )
        files.append(beside)
    return tuple(files)
