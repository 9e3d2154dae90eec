"""Places of a prompt, or of a request, held against the inputs that a model is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.errors import Problem, did_you_mean


def unplaced(inputs: Mapping[str, Any], names: Sequence[str], where: str) -> Problem | None:
    """A place for an input that there is not, or an input without a place.

    Args:
        inputs: As the model has them; empty: any.
        names: Places.
        where: Field with the places.
    """
    for name in names if inputs else ():
        if name not in inputs:
            choices = tuple(inputs)
            return Problem(f"`{where}` has a place for {name!r}", choices=choices, remedy=did_you_mean(name, choices))
    unused = [name for name in inputs if name not in names]
    if unused:
        return Problem(f"`{where}` has no place for the input {unused[0]!r}", remedy=f'put "{{{unused[0]}}}" into it')
    return None
