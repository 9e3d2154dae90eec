"""`linear_json`: a linear rule in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from evalspec.api import Access, InputError, Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evalspec.api import Cell


class Rule(BaseModel):
    """What stands in the file: ``{"weights": [0.3, -1.2], "bias": 0.5}``."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    weights: list[float] = Field(min_length=1)
    bias: float = 0.0


class LinearJson(Model):
    """A linear rule in a JSON file. Input ``x``, shape (n, weights); output ``score``, shape (n, 1), a logit."""

    kind: Literal["linear_json"] = "linear_json"
    path: str = Field(description="The JSON file, relative to the spec's folder.")

    def files(self, access: Access) -> tuple[Path, ...]:
        """The JSON file."""
        return (access.path(self.path),)

    def load(self, access: Access, *, threads: int | None = None) -> LoadedRule:
        """The rule in memory; it always runs in one thread.

        Raises:
            InputError: The file is no rule.
        """
        import numpy as np

        try:
            rule = Rule.model_validate(json.loads(access.path(self.path).read_text(encoding="utf-8")))
        except (ValueError, ValidationError) as error:
            raise InputError(f"{self.path!r} is no linear rule: {error}") from error
        return LoadedRule(weights=np.asarray(rule.weights, dtype=np.float64), bias=rule.bias)


@dataclass(frozen=True, slots=True)
class LoadedRule:
    """A linear rule.

    Args:
        weights: shape (k,).
        bias: Added to the weighted sum.
    """

    weights: NDArray[np.float64]
    bias: float

    @property
    def observed(self) -> Mapping[str, Cell]:
        """What it computes in, and on."""
        return {"precision": "fp64", "device": "cpu", "threads": 1, "framework": "evalspec-plugin-example"}

    @property
    def input_names(self) -> tuple[str, ...]:
        """One tensor."""
        return ("x",)

    @property
    def output_names(self) -> tuple[str, ...]:
        """One logit."""
        return ("score",)

    @property
    def fixed_batch(self) -> int | None:
        """Any."""
        return None

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch.

        Raises:
            InputError: Rows of another width than the rule has weights.
        """
        rows = inputs["x"]
        if rows.ndim != 2 or rows.shape[1] != len(self.weights):
            raise InputError(f"the rule has {len(self.weights)} weights, and the rows have the shape {rows.shape[1:]}")
        return {"score": (rows @ self.weights + self.bias)[:, None]}

    def close(self) -> None:
        """Nothing to give back."""
