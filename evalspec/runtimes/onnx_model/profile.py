"""The operators of an ONNX model as onnxruntime ran them, read from its profile.

References:
    onnxruntime documentation, Profiling: events of the category Node, one for each kernel.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from evalspec.errors import NotRunError
from evalspec.language.abilities import Operator

Shape = tuple[int, ...]
Typed = tuple[str, Shape]

KERNEL = "_kernel_time"
NAMES = {"float": "float32", "double": "float64"}
BYTES = {
    "float32": 4.0, "float64": 8.0, "float16": 2.0, "bfloat16": 2.0, "int8": 1.0, "uint8": 1.0, "int16": 2.0,
    "uint16": 2.0, "int32": 4.0, "uint32": 4.0, "int64": 8.0, "uint64": 8.0, "bool": 1.0, "int4": 0.5, "uint4": 0.5,
}  # fmt: skip
ONE_BYTE = 1.0

CONVOLUTIONS = ("Conv", "FusedConv", "NhwcFusedConv", "NhwcConv", "ConvInteger", "QLinearConv")
PRODUCTS = (
    "MatMul", "FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", "MatMulInteger", "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul", "QLinearMatMul", "Gemm", "FusedGemm", "QGemm",
)  # fmt: skip
RECURRENT = ("LSTM", "GRU", "RNN", "DynamicQuantizeLSTM")
WEIGHT_PLACE = {"QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3}
"""Where the second factor stands among the inputs; elsewhere it is the second one."""
FIRST = ("Reduce", "Softmax", "LogSoftmax", "LayerNormalization", "Skip", "BatchNormalization", "InstanceNormal",
         "GroupNorm", "LpNormalization", "SimplifiedLayer", "AveragePool", "MaxPool", "Global", "ArgMax", "ArgMin",
         "CumSum", "TopK")  # fmt: skip
"""Operators (by the start of their name) that do at least one operation for each element that they read."""
MOVES = (
    "Cast", "Concat", "ConstantOfShape", "Constant", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "If", "Loop", "MemcpyFromHost", "MemcpyToHost", "NonZero", "OneHot", "Pad", "Range", "ReorderInput",
    "ReorderOutput", "Reshape", "Scan", "ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze",
    "Tile", "Transpose", "Unsqueeze", "DepthToSpace", "SpaceToDepth", "CastLike", "Where",
)  # fmt: skip
"""Operators that only move or rename numbers."""
INTEGER = ("MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul", "QGemm", "MatMulIntegerToFloat",
           "DynamicQuantizeMatMul", "DynamicQuantizeLSTM")  # fmt: skip
ALIASES = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Of these, those that give the same bytes another shape."""
UNCOUNTED = (
    "Einsum",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "TreeEnsemble",
    "SVMClassifier",
    "SVMRegressor",
)
"""Operators that do more than is counted for them."""
MOST_INPUTS = 12
MODEL_RUN = "model_run"


def read_profile(path: Path, places: Mapping[str, str]) -> tuple[Operator, ...]:
    """The operators of the last run in a profile.

    Args:
        path: The file that ``end_profiling`` named.
        places: Name of a provider: the device that it stands for.

    Raises:
        NotRunError: The file is no profile, or nothing ran.
    """
    try:
        events = json.loads(path.read_text(encoding="utf-8"))
        began = max((event.get("ts", 0) for event in events if event.get("name") == MODEL_RUN), default=0)
        found = [
            event
            for event in events
            if event.get("cat") == "Node" and str(event["name"]).endswith(KERNEL) and event.get("ts", began) >= began
        ]
        operators = tuple(_operator(event, places) for event in found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NotRunError(f"onnxruntime's profile can't be read: {type(error).__name__}: {error}") from error
    if not operators:
        raise NotRunError("onnxruntime's profile holds no operators")
    return operators


def _operator(event: Mapping[str, Any], places: Mapping[str, str]) -> Operator:
    args = event["args"]
    kind = str(args["op_name"])
    reads, writes = _tensors(args.get("input_type_shape", ())), _tensors(args.get("output_type_shape", ()))
    provider = str(args["provider"])
    weight_bytes = float(args.get("parameter_size", 0) or 0)
    return Operator(
        name=str(event["name"]).removesuffix(KERNEL),
        kind=kind,
        place=places.get(provider, provider),
        provider=provider,
        computes=computes(kind, reads, writes),
        weights="int4" if kind == "MatMulNBits" else _weights(reads, weight_bytes),
        activations=writes[0][0] if writes else "",
        operations=operations(kind, reads, writes),
        weight_bytes=weight_bytes,
        read_bytes=0.0 if kind in ALIASES else sum(_bytes(one) for one in reads),
        written_bytes=0.0 if kind in ALIASES else sum(_bytes(one) for one in writes),
        family=family(kind),
        took_us=float(event["dur"]) if "dur" in event else None,
    )


def family(kind: str) -> str:
    """Which of `evalspec.language.abilities.FAMILIES` an operator is of; empty: of none.

    Args:
        kind: Name of the operator.
    """
    if kind in CONVOLUTIONS or kind == "ConvTranspose":
        return "convolution"
    if kind in PRODUCTS or kind in ("MatMulNBits", "Einsum"):
        return "product"
    if kind in RECURRENT:
        return "recurrent"
    return "attention" if kind.endswith("Attention") else ""


def _tensors(listed: Sequence[Mapping[str, Sequence[int]]]) -> list[Typed]:
    return [
        (NAMES.get(kind, kind), tuple(int(size) for size in shape)) for one in listed for kind, shape in one.items()
    ]


def _bytes(tensor: Typed) -> float:
    return BYTES.get(tensor[0], ONE_BYTE) * math.prod(tensor[1])


def _weights(reads: Sequence[Typed], weight_bytes: float) -> str:
    """Type of the largest of the inputs that are stored: those that have together just as many bytes as is said.

    The profile gives their bytes only. Of several such sets the smallest that leaves out the first input is taken.
    """
    if not weight_bytes:
        return ""
    places = range(len(reads)) if len(reads) <= MOST_INPUTS else range(1, MOST_INPUTS)
    ordered = sorted(places, key=lambda place: place == 0)
    for count in range(1, len(ordered) + 1):
        for chosen in combinations(ordered, count):
            if sum(_bytes(reads[place]) for place in chosen) == weight_bytes:
                return max((reads[place] for place in chosen), key=_bytes)[0]
    return ""


def computes(kind: str, reads: Sequence[Typed], writes: Sequence[Typed]) -> str:
    """The number type that an operator computes in; empty where it only moves numbers.

    Args:
        kind: Name of the operator.
        reads: Type and shape of each input.
        writes: Type and shape of each output.
    """
    if kind in MOVES:
        return ""
    if kind in INTEGER or kind.startswith("QLinear"):
        return "int8"
    floating = [name for name, _ in (*reads, *writes) if name.startswith(("float", "bfloat"))]
    return floating[0] if floating else (reads[0][0] if reads else "")


def operations(kind: str, reads: Sequence[Typed], writes: Sequence[Typed]) -> float:
    """Operations of an operator, from the shapes it ran on.

    2 m n k for products and convolutions, recurrent layers by their matrices; one for each element of what is written
    (of what is read, for reductions and normalizations); none for what only moves numbers.

    Args:
        kind: Name of the operator.
        reads: Type and shape of each input, weights included.
        writes: Type and shape of each output.
    """
    if not reads or not writes or kind in MOVES:
        return 0.0
    second = WEIGHT_PLACE.get(kind, 1)
    if kind in FORMULAS and len(reads) > second:
        return FORMULAS[kind](reads[0][1], reads[second][1], writes[0][1])
    if kind in RECURRENT and len(reads) > 2:
        return 2.0 * math.prod(reads[0][1][:2]) * (math.prod(reads[1][1]) + math.prod(reads[2][1]))
    return float(math.prod(reads[0][1] if kind.startswith(FIRST) else writes[0][1]))


def _convolution(_: Shape, weight: Shape, out: Shape) -> float:
    return 2.0 * math.prod(out) * math.prod(weight[1:])


def _transposed(a: Shape, weight: Shape, _: Shape) -> float:
    return 2.0 * math.prod(a) * math.prod(weight[1:])


def _product(a: Shape, b: Shape, out: Shape) -> float:
    return 2.0 * math.prod(out) * _inner(a, b, out)


def _narrow_product(a: Shape, _: Shape, out: Shape) -> float:
    return 2.0 * math.prod(out) * (a[-1] if a else 0)


def _attention(a: Shape, weight: Shape, out: Shape) -> float:
    """Projections, then scores and their product with the values."""
    rows = math.prod(a[:-1])
    return 2.0 * rows * math.prod(weight) + 4.0 * math.prod(out) * (a[-2] if len(a) > 1 else 1)


def _heads(_: Shape, keys: Shape, out: Shape) -> float:
    return 4.0 * math.prod(out) * (keys[-2] if len(keys) > 1 else 1)


def _inner(a: Shape, b: Shape, out: Shape) -> float:
    """Length of the sums in a product: what both factors share, whichever of them is transposed.

    For matrices a has m k numbers, b has k n and the product m n, so k k = a b / (m n); with batches a and the product
    have them, and b may have them or not.
    """
    if len(a) <= 1 or len(b) <= 1:
        return float(a[-1] if a else 0)
    matrices = [math.prod(shape[-2:]) for shape in (a, b, out)]
    if len(out) < 2 or not matrices[2]:
        return 0.0
    return math.sqrt(matrices[0] * matrices[1] / matrices[2])


FORMULAS: Mapping[str, Callable[[Shape, Shape, Shape], float]] = {
    **dict.fromkeys(CONVOLUTIONS, _convolution),
    **dict.fromkeys(PRODUCTS, _product),
    "ConvTranspose": _transposed,
    "MatMulNBits": _narrow_product,
    "Attention": _attention,
    "MultiHeadAttention": _heads,
}
"""Kind: operations from the shapes of the first input, of the second factor and of the output."""
