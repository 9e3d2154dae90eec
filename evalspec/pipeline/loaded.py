"""Facts about a model in memory beyond the protocol, for good errors and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalspec.evidence.frozen import Cell
from evalspec.language.parts import LoadedModel, OutputName

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Tensor:
    """One input, as the model states it.

    Args:
        shape: Rows first; None for a size that is free, or None where nothing is known.
        dtype: numpy's name of the type, or None.
    """

    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None


@dataclass(kw_only=True)
class Loaded:
    """Base of the loaded models of this package.

    Args:
        observed: What was got: precision, device, provider, threads, framework.
        input_names: Tensors that it takes; empty: any.
        output_names: What it gives; empty: known when it has answered.
        fixed_batch: The only batch size it takes, or None.
        tensors: What it states of its inputs.
        classes: Its own labels in the order of its output, as values; None where it has none.
        by_column: Its inputs are columns by name, not tensors.
        default_outputs: What its outputs are, where the spec does not say.
    """

    observed: Mapping[str, Cell]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    fixed_batch: int | None = None
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    by_column: bool = False
    default_outputs: Mapping[OutputName, str] = field(default_factory=dict)

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""

    def parameters(self) -> int | None:
        """Numbers that training has set; None where the model doesn't tell."""
        told = self.observed.get("parameters")
        return told if isinstance(told, int) and told > 0 else None

    def close(self) -> None:
        """Give back what it holds."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The optional facts of `Loaded`, read from any loaded model."""

    tensors: Mapping[str, Tensor]
    classes: tuple[Any, ...] | None
    by_column: bool
    default_outputs: Mapping[OutputName, str]


def traits(loaded: LoadedModel) -> Traits:
    """Facts beyond the protocol, with what holds where a runtime does not give them."""
    return Traits(
        tensors=getattr(loaded, "tensors", {}),
        classes=getattr(loaded, "classes", None),
        by_column=getattr(loaded, "by_column", False),
        default_outputs=getattr(loaded, "default_outputs", {}),
    )
