"""Noise that quantization adds to each tensor of a graph: signal-to-noise ratios against the float graph."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError, NotRunError
from evalspec.language.abilities import TensorNoise
from evalspec.pipeline.untrusted_code import first_line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Batch = Mapping[str, NDArray[Any]]

LARGEST_DB = 200.0
"""Beyond what float64 can tell: alike."""


def tensor_noise(quantized: Path, floats: Path, shown: str, batches: Sequence[Batch]) -> TensorNoise:
    """Run both graphs and hold every activation that both have against the other.

    Args:
        quantized: ONNX file in QDQ format.
        floats: ONNX file of the same network in floats.
        shown: Its name, for sentences.
        batches: What both take.

    Raises:
        InputError: A file can't be read, or takes other inputs.
        NotRunError: The two have no quantized tensor in common.

    References:
        onnxruntime, quantization.qdq_loss_debug (MIT).
    """
    from onnxruntime.quantization.qdq_loss_debug import compute_activation_error, create_activation_matching

    with tempfile.TemporaryDirectory() as folder:
        theirs = _activations(floats, shown, Path(folder) / "float.onnx", batches)
        ours = _activations(quantized, quantized.name, Path(folder) / "quantized.onnx", batches)
    both = {name: match for name, match in create_activation_matching(ours, theirs).items() if match.get("float")}
    ratios = {name: error["xmodel_err"] for name, error in compute_activation_error(both).items()}
    if not ratios:
        raise NotRunError(
            f"{quantized.name} and {shown} have no quantized tensor in common: are they the same network?"
        )
    decibels = np.nan_to_num(np.array(list(ratios.values()), dtype=np.float64), nan=LARGEST_DB, posinf=LARGEST_DB)
    return TensorNoise(tuple(ratios), np.minimum(decibels, LARGEST_DB))


class _Reader:
    """Batches as onnxruntime's debugger asks for them."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        return iter([dict(batch) for batch in self._batches])


def _activations(path: Path, shown: str, out: Path, batches: Sequence[Batch]) -> Any:
    from onnxruntime.quantization.qdq_loss_debug import collect_activations, modify_model_output_intermediate_tensors

    # It says on the root logger that a model was not preprocessed for quantization, which this one needs not be.
    logging.getLogger().setLevel(logging.ERROR)
    try:
        modify_model_output_intermediate_tensors(str(path), str(out))
        return collect_activations(str(out), _Reader(batches))
    except Exception as error:
        raise InputError(f"the tensors of {shown} can't be seen: {first_line(error)}") from error
