"""Weights stored as integers of 8 bits with a scale a row: read as what they stand for, and computed in floats.

``NAME`` is int8, ``NAME_scale`` a float for each row (or one for all); a weight is their product. transformers reads
integers as if they were weights, and passes over the scales.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evalspec.errors import InputError
from evalspec.runtimes.transformers_model.folder import CONFIG, MOST_JSON_BYTES, read_json

INT8, SCALE = "I8", "_scale"
LENGTH_BYTES = 8


def stored_as_integers(folder: Path, weights: Sequence[Path], shown: str) -> tuple[str, ...]:
    """Names of the weights that are integers; empty: there are none, or transformers knows how they are made.

    Args:
        folder: With the model.
        weights: Its files of weights.
        shown: How sentences call it.

    Raises:
        InputError: One has no scale, so that nobody knows what it stands for.
    """
    if "quantization_config" in read_json(folder / CONFIG):
        return ()
    kinds: dict[str, str] = {}
    for path in weights:
        if path.suffix == ".safetensors":
            kinds |= _kinds(path)
    found = tuple(name for name, kind in kinds.items() if kind == INT8)
    alone = next((name for name in found if f"{name}{SCALE}" not in kinds), None)
    if alone is not None:
        raise InputError(
            f"{shown!r} stores {alone} as integers and has no {alone}{SCALE}, so nobody knows what they stand for",
            remedy="store a scale for each row beside it, or the weights as floats",
        )
    return found


def load_integers(folder: Path, weights: Sequence[Path], names: Sequence[str], made: Any, shown: str) -> Any:
    """The module with these weights in it.

    Args:
        folder: With the model.
        weights: Its files of weights.
        names: Of those that are integers.
        made: Module of this configuration, with any weights.
        shown: How sentences call it.

    Raises:
        InputError: Weights are missing, or belong to another model.
    """
    from safetensors.torch import load_file

    read: dict[str, Any] = {}
    for path in weights:
        if path.suffix == ".safetensors":
            read |= load_file(path)
    for name in names:
        scale = read.pop(f"{name}{SCALE}").float()
        weight = read[name].float()
        read[name] = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
    missing, unexpected = made.load_state_dict(read, strict=False)
    tied = set(getattr(made, "all_tied_weights_keys", None) or getattr(made, "_tied_weights_keys", None) or ())
    made.tie_weights()
    lost = [name for name in missing if name not in tied]
    if lost or unexpected:
        what = f"lack {lost[0]}" if lost else f"hold {unexpected[0]}, which the model has not"
        raise InputError(f"the weights of {shown!r} {what}", remedy="save them from this model, under its own names")
    return made


def _kinds(path: Path) -> dict[str, str]:
    """Name of each tensor of a file: what its numbers are.

    Raises:
        InputError: The file has no header that can be read.
    """
    try:
        with path.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(LENGTH_BYTES))
            header = json.loads(stream.read(length)) if length <= MOST_JSON_BYTES else None
    except (OSError, ValueError, struct.error, RecursionError) as error:
        raise InputError(f"{path.name!r} has no header of safetensors: {type(error).__name__}") from error
    if not isinstance(header, dict):
        raise InputError(f"{path.name!r} has no header of safetensors")
    return {name: str(one.get("dtype")) for name, one in header.items() if isinstance(one, dict) and "dtype" in one}
