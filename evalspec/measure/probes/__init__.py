"""Probes of a worker, one file each: ``probe(context)`` gives facts and series.

A probe runs in a fresh process that holds one model. It measures and counts; it decides nothing. What only a
framework knows (operators of a graph, tensor types, flags) it asks of the loaded model, through a protocol of
`evalspec.language.abilities` that a runtime may implement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evalspec.evidence.frozen import Cells
from evalspec.language.inputs import Probe
from evalspec.language.parts import Access, LoadedModel, Model
from evalspec.language.timings import Telemetry
from evalspec.measure.servable import Servable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Context:
    """Context of a probe.

    Args:
        model: As the spec has it.
        loaded: The same in memory.
        rows: Rows in memory, with preprocessing and model.
        tensors: What the model takes for these rows (the numbers of rows in a batch), after preprocessing.
        access: Where it may look and what may run.
        options: What the check asked for.
        seed: For whatever is random.
        progress: Tell how far it has come.
    """

    model: Model
    loaded: LoadedModel
    rows: Servable
    tensors: Callable[[NDArray[np.int64]], Mapping[str, NDArray[Any]]]
    access: Access
    options: Mapping[str, Any]
    seed: int
    progress: Callable[[float, float, str], None]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Result of a probe; see `evalspec.language.timings.Probe`."""

    facts: Cells = field(default_factory=dict)
    series: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_probe(
        self, probe: str, model: str, process: int, *, begin: Cells | None = None, telemetry: Telemetry | None = None
    ) -> Probe:
        """With where it was found.

        Args:
            probe: Its name.
            model: Name of the model that the process held.
            process: Index of the fresh process.
            begin: Facts of the process, before its own.
            telemetry: What was read of the machine meanwhile.
        """
        return Probe(
            probe=probe, model=model, process=process, facts={**(begin or {}), **self.facts}, series=self.series,
            texts=self.texts, telemetry=telemetry,
        )  # fmt: skip
