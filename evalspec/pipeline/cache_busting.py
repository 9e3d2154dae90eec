"""Rows changed by a hair: new to whoever remembers rows exactly, and as much work as the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

FURTHEST, FURTHEST_OF_16 = 1024, 4
"""Units in the last place by which a floating number is moved at the most; of 16 bits."""


def ranges(arrays: Mapping[str, NDArray[Any]]) -> dict[str, tuple[float, float]]:
    """Tensor of whole numbers: the smallest and the largest of these rows."""
    return {
        name: (float(array.min()), float(array.max()))
        for name, array in arrays.items()
        if array.dtype.kind in "iu" and array.size
    }


def altered(
    arrays: Mapping[str, NDArray[Any]], within: Mapping[str, tuple[float, float]], rng: np.random.Generator
) -> dict[str, NDArray[Any]] | None:
    """Rows with one number of each changed.

    A floating number is moved by 1 to 1,024 units in its last place (of 32 bits at most; by 4 of 16 bits); a whole one
    by 1, inside of the range that the dataset has. Rather a floating one: a whole one may name a word or a class.

    Args:
        arrays: Tensor: shape (k, ...), each of the same k rows.
        within: As `ranges` of the dataset.
        rng: Which number, and by how much.

    Returns:
        Copies; None where there are no numbers to change.
    """
    floating = [name for name, array in arrays.items() if array.dtype.kind == "f" and array.size]
    whole = [name for name, (low, high) in within.items() if arrays[name].size and low < high]
    names = floating or whole
    if not names:
        return None
    changed = {name: np.array(array) for name, array in arrays.items()}
    name = names[int(rng.integers(len(names)))]
    flat = changed[name].reshape(len(changed[name]), -1)
    at = np.arange(len(flat)), rng.integers(flat.shape[1], size=len(flat))
    flat[at] = _moved(flat[at], rng) if floating else _next(flat[at], within[name], rng)
    changed[name] = flat.reshape(changed[name].shape)
    return changed


def _moved(old: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    # A server may read 64 bits as 32 before it looks them up, and take zero's own neighbours for zero.
    coarse = np.float32 if old.dtype.itemsize > 4 else old.dtype
    unit = np.abs(np.spacing(np.where(old == 0, 1e-3, old).astype(coarse))).astype(old.dtype)
    furthest = FURTHEST if old.dtype.itemsize > 2 else FURTHEST_OF_16
    return np.asarray(old + rng.integers(1, furthest + 1, size=len(old)).astype(old.dtype) * unit)


def _next(old: NDArray[Any], within: tuple[float, float], rng: np.random.Generator) -> NDArray[Any]:
    numbers = old.astype(np.int64)
    step = np.where(rng.random(len(old)) < 0.5, 1, -1)
    step = np.where(numbers + step > within[1], -1, np.where(numbers + step < within[0], 1, step))
    return np.asarray((numbers + step).astype(old.dtype))
