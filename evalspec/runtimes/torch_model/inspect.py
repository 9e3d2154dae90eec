"""Operators of a model under torch: every one of one batch, seen as it is dispatched.

References:
    torch.utils.flop_counter: the formulas for products, convolutions and attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from evalspec.errors import EvalspecError, InputError
from evalspec.evidence.frozen import Cells
from evalspec.language.abilities import Operator, OperatorTrace
from evalspec.pipeline.untrusted_code import first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOVES = (
    "_to_copy", "_to_dense", "arange", "as_strided", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_",
    "embedding", "empty", "empty_like", "empty_strided", "expand", "fill_", "full", "full_like", "gather", "index",
    "index_select", "lift_fresh_copy", "masked_fill", "new_empty", "new_zeros", "ones", "ones_like", "repeat",
    "scatter", "slice_scatter", "stack", "where", "zeros", "zeros_like", "_local_scalar_dense", "scalar_tensor",
)  # fmt: skip
"""Operators that only make, move or rename numbers."""
MATRIX = ("_int_mm", "pack_mm")
ATTENTION = "_scaled_dot_product_"
VECTORS = ("mv", "addmv", "dot", "vdot")
RECURRENT = ("mkldnn_rnn_layer", "_cudnn_rnn", "miopen_rnn")
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "_scaled_mm", *VECTORS)
MATRIX_AXES = 2
KNOWN = ("aten", "prims", "prim")
"""Namespaces of torch's own operators: what others do is counted by the element."""


def inspect_module(
    call: Callable[[Mapping[str, Any]], Any],
    tensors: Mapping[str, Any],
    held: Iterable[Any],
    inputs: Mapping[str, NDArray[Any]],
) -> OperatorTrace:
    """Operators of one batch, with torch's own formulas for their operations.

    What torch has no formula for counts one operation for each element that it writes (elementwise operators) or reads
    (reductions, normalizations). Views cost nothing.

    Args:
        call: The module, uncompiled.
        tensors: The batch on its device.
        held: Its parameters and buffers.
        inputs: The batch as it came.

    Raises:
        InputError: The model refuses the batch.
    """
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    watch = watcher(held)
    fast = torch.backends.mha.get_fastpath_enabled()
    # The fused layers of torch.nn.Transformer are single operators without a formula.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.inference_mode(), watch, FlopCounterMode(display=False) as counter:
            outputs = call(tensors)
    except EvalspecError:
        raise
    except Exception as error:
        raise InputError(f"the model raised {type(error).__name__}: {first_line(error)}") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    operators: tuple[Operator, ...] = tuple(watch.operators)
    counted = float(counter.get_total_flops())
    own = sum(one.operations for one in operators)
    leaves = torch.utils._pytree.tree_leaves(outputs)
    return OperatorTrace(
        operators=operators,
        operations=max(counted, own),
        input_bytes=float(sum(array.nbytes for array in inputs.values())),
        output_bytes=float(sum(value.nbytes for value in leaves if torch.is_tensor(value))),
        flags=flags(),
        uncounted=tuple(sorted({one.kind for one in operators if one.kind.partition(".")[0] not in KNOWN})),
        how="torch's FlopCounterMode, and one operation per element elsewhere",
    )


def flags() -> Cells:
    """Flags that change precision or speed beside the module."""
    import torch

    return {
        "tf32": bool(torch.backends.cuda.matmul.allow_tf32),
        "tf32_convolutions": bool(torch.backends.cudnn.allow_tf32),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "autocast": bool(torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")),
        "cudnn_benchmark": bool(torch.backends.cudnn.benchmark),
        "deterministic": bool(torch.are_deterministic_algorithms_enabled()),
        "cuda_graphs": False,
    }


def watcher(held: Iterable[Any]) -> Any:
    """A dispatch mode that keeps an `Operator` of every call, in its ``operators``.

    Args:
        held: Tensors that are weights.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    stored = {tensor.untyped_storage().data_ptr() for tensor in held}

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not type it
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]  # as above
            self.operators: list[Operator] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            out = func(*args, **kwargs)
            reads = [one for one in torch.utils._pytree.tree_leaves((args, kwargs)) if torch.is_tensor(one)]
            writes = [one for one in torch.utils._pytree.tree_leaves(out) if torch.is_tensor(one)]
            if writes and not _is_view(func, reads, writes):
                self.operators.append(_operator(len(self.operators), func, (args, kwargs, out), reads, writes, stored))
            return out

    return Watch()


def _is_view(func: Any, reads: list[Any], writes: list[Any]) -> bool:
    """True if it gives another view of what it is given."""
    if func.is_view or func._schema.name.rpartition("::")[2] in ("detach", "alias", "lift_fresh", "_unsafe_view"):
        return True
    if func._schema.is_mutable:
        return False
    given = {one.untyped_storage().data_ptr() for one in reads} - {0}
    return all(one.untyped_storage().data_ptr() in given for one in writes)


def _operator(
    index: int, func: Any, called: tuple[Any, Any, Any], reads: list[Any], writes: list[Any], stored: set[int]
) -> Operator:
    kind = func._schema.name.partition("::")[2]
    weights = [one for one in reads if one.untyped_storage().data_ptr() in stored]
    place = str(writes[0].device)
    return Operator(
        name=f"{index}:{kind}",
        kind=f"{func.namespace}.{kind}",
        place=place,
        computes=_computes(func, kind, reads, writes, place),
        weights=_type(max(weights, key=lambda one: one.numel())) if weights else "",
        activations=_type(writes[0]),
        operations=_operations(func, kind, called, reads, writes),
        weight_bytes=float(sum(_bytes(one) for one in weights)),
        read_bytes=float(sum(_bytes(one) for one in reads)),
        written_bytes=float(sum(_bytes(one) for one in writes)),
        family=family(kind),
    )


def family(kind: str) -> str:
    """Which of `evalspec.language.abilities.FAMILIES` an operator is of; empty: of none.

    Args:
        kind: Name of the operator, without its namespace.
    """
    if "conv" in kind and "convert" not in kind:
        return "convolution"
    if "scaled_dot_product" in kind:
        return "attention"
    if kind in RECURRENT or kind.startswith(("lstm", "gru", "rnn_")):
        return "recurrent"
    return "product" if kind in PRODUCTS or kind.endswith(MATRIX) or kind.startswith("linear") else ""


def _type(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _bytes(tensor: Any) -> int:
    """Of a tensor that is expanded only those that are there."""
    return int(min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes()))


def _computes(func: Any, kind: str, reads: list[Any], writes: list[Any], place: str) -> str:
    import torch

    if kind in MOVES:
        return ""
    formulas = torch.utils.flop_counter.flop_registry
    product = func._overloadpacket in formulas or kind.startswith(ATTENTION) or kind.endswith(MATRIX)
    types = [_type(one) for one in reads] or [_type(writes[0])]
    if product and any(name in ("int8", "uint8", "qint8", "quint8") for name in types[:2]):
        return "int8"
    floating = next((name for name in types if name.startswith(("float", "bfloat"))), types[0])
    if product and floating == "float32" and place.startswith("cuda"):
        convolution = "conv" in kind
        allowed = torch.backends.cudnn.allow_tf32 if convolution else torch.backends.cuda.matmul.allow_tf32
        return "tf32" if allowed else floating
    return floating


def _operations(func: Any, kind: str, called: tuple[Any, Any, Any], reads: list[Any], writes: list[Any]) -> float:
    import torch

    if kind in MOVES:
        return 0.0
    args, kwargs, out = called
    formula = torch.utils.flop_counter.flop_registry.get(func._overloadpacket)
    if formula is not None:
        return float(formula(*args, **kwargs, out_val=out))
    own = _without_formula(kind, reads, writes)
    if own is not None:
        return own
    if torch.Tag.pointwise in func.tags:
        return float(writes[0].numel())
    return float(reads[0].numel()) if reads else 0.0


def _without_formula(kind: str, reads: list[Any], writes: list[Any]) -> float | None:
    """Operations of products that torch has no formula for; None: it is none of them."""
    from torch.utils.flop_counter import sdpa_flop_count

    if kind.startswith(ATTENTION):
        return float(sdpa_flop_count(*(one.shape for one in reads[:3])))  # type: ignore[no-untyped-call]  # torch's own
    if kind.endswith(MATRIX):
        return float(2 * writes[0].numel() * reads[0].shape[-1])
    if kind in VECTORS:
        return float(2 * max(one.numel() for one in reads))
    if kind in RECURRENT:
        matrices = sum(one.numel() for one in reads[1:] if one.dim() == MATRIX_AXES)
        return float(2 * reads[0].shape[0] * reads[0].shape[1] * matrices)
    return None
