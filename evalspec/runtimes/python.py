"""Any callable as a model: code that the spec names, run under ``--trust``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from evalspec.language.parts import Access
from evalspec.pipeline.loaded import Loaded
from evalspec.pipeline.model_fields import RuntimeModel
from evalspec.pipeline.preprocess import Reference
from evalspec.pipeline.untrusted_code import call, checked_arrays, load_reference, source_file

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Python(RuntimeModel):
    """A function that takes a dict of arrays and returns a dict of arrays, rows first in both.

    Its inputs are the keys of ``inputs``; left out, it gets every column that is neither label nor named elsewhere.
    A class is made once, without arguments, and then called. Returned names such as ``probabilities`` need no
    ``outputs``.
    """

    needs_trust: ClassVar[bool] = True

    kind: Literal["python"] = "python"
    function: Reference
    weights: tuple[str, ...] = Field((), description="Files that it reads; they are part of the artifact's digest.")

    def runs_code(self) -> tuple[str, ...]:
        """The stages that are code, and the function by its name."""
        return (f"the function {self.function}", *super().runs_code()[1:])

    def files(self, access: Access) -> tuple[Path, ...]:
        """The source of the function, and ``weights``."""
        return (source_file(self.function, access), *(access.path(path) for path in self.weights))

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        source, *weights = self.files(access)
        return {"weights": weights, f"function {self.function}": (source,)}

    def load(self, access: Access, *, threads: int | None = None) -> Loaded:
        for path in self.weights:
            access.path(path)
        function = load_reference(self.function, access, "the model")
        return LoadedPython(
            observed={"framework": "python", "threads": threads},
            input_names=(),
            output_names=(),
            function=function,
            reference=self.function,
        )


@dataclass(kw_only=True)
class LoadedPython(Loaded):
    """A callable in memory."""

    function: Callable[[dict[str, NDArray[Any]]], Any]
    reference: str

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return checked_arrays(call(self.function, self.reference, dict(inputs)), self.reference)
