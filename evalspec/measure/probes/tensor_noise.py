"""`tensor_noise`: what quantization did to each tensor, against the same network in floats."""

from __future__ import annotations

from evalspec.errors import NotRunError
from evalspec.language.abilities import ComparesTensors
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation

BATCHES = 4
BATCH = 32


def probe(context: Context) -> ProbeResult:
    """Run a few batches through both graphs.

    Options: ``float_model``, a file.

    Returns:
        Texts ``names``, one for each tensor; series ``signal_to_noise_db``, shape (tensors,).

    Raises:
        NotRunError: The model's kind shows no tensors.
    """
    loaded = context.loaded
    if not isinstance(loaded, ComparesTensors):
        raise NotRunError(f"the tensors of kind {context.model.kind!r} can't be seen; only those of onnx can")
    shown = str(context.options["float_model"])
    rotation = Rotation(context.rows.n, loaded.fixed_batch or min(BATCH, context.rows.n), context.seed)
    batches = [context.tensors(rotation.rows(index)) for index in range(BATCHES)]
    noise = loaded.tensor_noise(context.access.path(shown), shown, batches)
    return ProbeResult(
        facts={"tensors": len(noise.names), "batches": BATCHES, "float_model": shown},
        series={"signal_to_noise_db": noise.decibels},
        texts={"names": noise.names},
    )
