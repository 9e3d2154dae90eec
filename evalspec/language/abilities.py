"""Abilities that a loaded model may have beside answering, and the facts that come of them: one protocol for each.

A runtime implements those that its framework allows; who needs one asks for it with ``isinstance``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from evalspec.evidence.frozen import Cells
from evalspec.language.parts import Access, LoadedModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Batch = Mapping[str, NDArray[Any]]


FAMILIES = ("convolution", "product", "attention", "recurrent")
"""What does most of the work of a network, and keeps its number whatever a runtime calls it or fuses it with."""


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
        family: One of `FAMILIES`; empty: of none.
        took_us: Time that the host spent on it, microseconds; None: not measured.
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
    family: str = ""
    took_us: float | None = None


@dataclass(frozen=True, slots=True)
class OperatorTrace:
    """Operators that ran on one batch.

    Args:
        operators: In the order in which they ran.
        operations: Of the model as it is written: where a runtime fuses or pads, the operators' own may differ.
        input_bytes: Of the batch.
        output_bytes: Of the answer.
        flags: What changes the precision or the speed beside the graph: TF32, autocast, optimization, CUDA graphs.
        uncounted: Kinds of operators that do more than is counted for them.
        how: How it was found out, in a few words.
        written: The operators of the model as it is written, where a runtime runs others; empty: they are the same.
        run_us: Time of the run in which ``took_us`` was measured, microseconds; None: not measured.
    """

    operators: tuple[Operator, ...]
    operations: float
    input_bytes: float
    output_bytes: float
    flags: Cells = field(default_factory=dict)
    uncounted: tuple[str, ...] = ()
    how: str = ""
    written: tuple[Operator, ...] = ()
    run_us: float | None = None


@dataclass(frozen=True, slots=True)
class KillPlan:
    """Plan of killing a server, again and again.

    Args:
        repeats: How often.
        rate_qps: Queries come at random at this rate meanwhile (Poisson).
        kill_after_s: The server is killed so long after the first of them.
        within_s: It is given so long to be ready again.
        settle_s: Queries go on for so long after it is.
        timeout_s: A query that takes longer has failed.
        connections: To the server, at the most.
        seed: Of times and rows.
        pid: Process group of the server that runs now.
        log: File for what the servers that are started write.
    """

    repeats: int
    rate_qps: float
    kill_after_s: float
    within_s: float
    settle_s: float
    timeout_s: float
    connections: int
    seed: int
    pid: int
    log: Path


@dataclass(frozen=True, slots=True)
class KillResult:
    """Outcome of one kill. Times count from the moment of the kill.

    Args:
        healthy_s: When the server said that it is ready again, or None: not in time.
        due_s: shape (q,), when each query was due.
        end_s: shape (q,), when it was answered, or given up.
        outcome: shape (q,), index into `evalspec.language.timings.OUTCOMES`.
        lag_p99_ms: How late the client sent, by its own fault; None: nothing was sent.
        first_token_s: When the first piece of any answer came to what was sent after the kill; None: the model does not
            stream, or none came.
    """

    healthy_s: float | None
    due_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    outcome: NDArray[np.int64]
    lag_p99_ms: float | None
    first_token_s: float | None = None


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """Outcome of a query of a server; times on `evalspec.clocks.now_ns`.

    Args:
        query: Its number, from 0.
        sent_ns: When its first byte was handed over; 0: it never was.
        first_ns: When the first byte of its answer was read; 0: there was none.
        end_ns: When the last one was, or when it was given up.
        outcome: Index into `evalspec.language.timings.OUTCOMES`.
        outputs: What the rows' servable makes answers of; None where nothing was answered.
    """

    query: int
    sent_ns: int
    first_ns: int
    end_ns: int
    outcome: int
    outputs: Any


@runtime_checkable
class Inspectable(Protocol):
    """A loaded model whose operators can be seen."""

    def inspect(self, inputs: Batch) -> OperatorTrace:
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
    """A loaded model, or rows that it serves, whose single call is several stages that can be told apart."""

    def steps(self) -> Sequence[tuple[str, Callable[[Any], Any]]]:
        """Name and call of each stage; each takes what the one before gave, the last gives what ``predict`` gives."""
        ...


@runtime_checkable
class Serializes(Protocol):
    """Rows whose queries are written out before they are timed: where stages are timed, writing is one of them."""

    def raw(self, rows: NDArray[np.int64]) -> Any:
        """These rows, shape (k,), copied, before anything is done to them. Not timed."""
        ...

    def written(self, raw: Any) -> Any:
        """The query about them, as it is served."""
        ...


@dataclass(frozen=True, slots=True)
class ServerTiming:
    """Times that a server tells of itself: for the requests of a query, or, as counters do, for all that it ever had.

    Args:
        requests: So many.
        parts_ns: What it did, in its order: how long that took, for all of these requests together.
        total_ns: How long all took that it did; None: it does not say.
        unread: What it said that can't be read, in words.
    """

    requests: int
    parts_ns: Mapping[str, float]
    total_ns: float | None = None
    unread: tuple[str, ...] = ()

    @property
    def says_something(self) -> bool:
        """There is a time in it."""
        return bool(self.parts_ns) or self.total_ns is not None


@runtime_checkable
class ReportsTiming(Protocol):
    """Rows of a server that may say what it does while it is waited for."""

    @property
    def waits(self) -> str:
        """The stage in which it is waited for."""
        ...

    def told(self, outputs: Any) -> ServerTiming:
        """Times in its answers to one query; ``outputs`` are what that stage gave. Not timed."""
        ...

    def counted(self) -> ServerTiming | None:
        """Counts until now; None: it does not tell. Not timed."""
        ...


@dataclass(frozen=True, slots=True)
class TensorNoise:
    """Tensors of a quantized graph against those of the same network in floats.

    Args:
        names: Of the tensors.
        decibels: shape (k,), signal-to-noise ratio of each; 200 where the two are alike.
    """

    names: tuple[str, ...]
    decibels: NDArray[np.float64]


@runtime_checkable
class ComparesTensors(Protocol):
    """A loaded model whose tensors can be held against those of another file."""

    fixed_batch: int | None

    def tensor_noise(self, floats: Path, shown: str, batches: Sequence[Batch]) -> TensorNoise:
        """Every tensor that both have, over some batches; ``shown`` names the file in sentences.

        Raises:
            InputError: The other file can't be read, or takes other inputs.
            NotRunError: The two have no tensor in common.
        """
        ...


@runtime_checkable
class Counted(Protocol):
    """A loaded model that knows how many parameters it has."""

    def parameters(self) -> int | None:
        """Numbers that training has set; None where it can't tell."""
        ...


@runtime_checkable
class OnDevice(Protocol):
    """A loaded model that knows what its framework has taken of the device's memory."""

    def peak_device_bytes(self) -> int | None:
        """The most that the framework held at once; None on the CPU."""
        ...


@runtime_checkable
class PerDataset(Protocol):
    """A loaded model that answers by key, from one file for each dataset."""

    def for_dataset(self, facts: Any, rows: Any) -> LoadedModel:
        """The answers for one dataset, whose table this is; ``facts`` are what is known of it."""
        ...


@runtime_checkable
class MakesClient(Protocol):
    """A loaded model that is a server: timing it is sending requests that were made before."""

    def client(self, served: Any, arrays: Batch) -> Any:
        """These rows (tensor: shape (n, ...), before preprocessing) as requests of ``served``, the whole pipeline."""
        ...


@runtime_checkable
class GivesVariants(Protocol):
    """A language model whose question can be put in several ways, and answered several times at random."""

    def otherwise(self, template: int, sample: int, order: int, *, writes: bool = False) -> LoadedModel:
        """The same in memory, as it is asked with another template of its prompt, or for another sample.

        Args:
            template: Place in the prompt's list.
            sample: Number, from 0.
            order: Rotation in which options are shown.
            writes: Of one that chooses and writes: it writes.
        """
        ...


@runtime_checkable
class AsksAgain(Protocol):
    """A loaded model that is asked over connections, which may break."""

    patient: bool
    """Ask again whatever went wrong, and not only where a connection broke."""

    @property
    def failed(self) -> Mapping[str, int]:
        """Outcome: requests for answers that had it and were sent again."""
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A loaded model that is a server which can be killed and started."""

    def recover(
        self, rows: Any, kill: KillPlan, access: Access, progress: Callable[[float, float, str], None]
    ) -> list[KillResult]:
        """Kill it under load and start it again, as often as asked; fewer times where it does not come back.

        Args:
            rows: The servable of this model.
            kill: What is done.
            access: Where commands run.
            progress: Tell how far it has come.

        Raises:
            InputError: It can't be started.
            InvalidError: The client did not say of each query that was due the outcome of it.
        """
        ...
