"""What a loaded model tells of its inside: the operators that ran on one batch, their number types, their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from evalspec.language.inputs import Cells

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Batch = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator, as it ran on one batch.

    Args:
        name: As the graph calls it, or its place in the order of calls.
        kind: ``Conv``, ``aten.addmm``.
        place: Where it ran: ``cpu``, ``cuda:0``.
        computes: Number type that it computes in (``float32``, ``tf32``, ``int8``); empty: it computes nothing.
        weights: Number type of the stored numbers that it reads; empty: it reads none.
        activations: Number type of what it gives.
        operations: Additions and multiplications, each counted; one for each element of what has no formula.
        weight_bytes: Stored numbers that it reads.
        read_bytes: All that it reads, weights included.
        written_bytes: What it writes.
        provider: What of the runtime ran it (``CUDAExecutionProvider``); empty: there is but one.
    """

    name: str
    kind: str
    place: str
    computes: str = ""
    weights: str = ""
    activations: str = ""
    operations: float = 0.0
    weight_bytes: float = 0.0
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    provider: str = ""


@dataclass(frozen=True, slots=True)
class Inside:
    """What ran on one batch.

    Args:
        operators: In the order in which they ran.
        operations: Of the model as it is written: where a runtime fuses or pads, the operators' own may differ.
        input_bytes: Of the batch.
        output_bytes: Of the answer.
        flags: What changes the precision or the speed beside the graph: TF32, autocast, optimization, CUDA graphs.
        uncounted: Kinds of operators that do more than is counted for them.
        how: How it was found out, in a few words.
    """

    operators: tuple[Operator, ...]
    operations: float
    input_bytes: float
    output_bytes: float
    flags: Cells = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    how: str = ""


@runtime_checkable
class Inspectable(Protocol):
    """A loaded model whose operators can be seen."""

    def inspect(self, inputs: Batch) -> Inside:
        """Run one batch and say what ran.

        Raises:
            InputError: The model refuses the batch.
            NotRunError: Its operators can't be seen.
        """
        ...


@runtime_checkable
class Runner(Protocol):
    """A loaded model that can be run again and again with its inputs where it wants them."""

    def runner(self, batches: Sequence[Batch]) -> Callable[[int], object]:
        """A call that runs the k-th batch and leaves the answer on the device; on a GPU it may return before the end.

        Args:
            batches: Served in turn; they are put on the device now.
        """
        ...


@runtime_checkable
class Stepped(Protocol):
    """A loaded model whose single call is several stages that can be told apart: copies, serializing, waiting."""

    def steps(self) -> Sequence[tuple[str, Callable[[Any], Any]]]:
        """Name and call of each stage; each takes what the one before gave, the last gives what ``predict`` gives."""
        ...
