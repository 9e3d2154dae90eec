"""Replay of earlier measurements, given back in the order in which a check asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evalspec.errors import NotRunError
from evalspec.evidence.frozen import Cells
from evalspec.evidence.record import LOOK
from evalspec.language.inputs import Probe, Samples, Schedule, Variant
from evalspec.running.children.jobs import probes_file, samples_file
from evalspec.running.children.messages import Progress
from evalspec.running.children.workers import kept_answers, kept_likelihoods
from evalspec.running.probes import read_probes
from evalspec.running.samples import read_samples
from evalspec.running.timing import WHOLE, AtLook

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from evalspec.language.likelihoods import Windows


class Replay:
    """`evalspec.running.timing.Timing` over the evidence of a check."""

    def __init__(self, evidence: Path, check: str) -> None:
        """``evidence``: the folder that holds the raw samples, and what probes found, of this check."""
        self._evidence, self._check = evidence, check
        samples, probes = evidence / samples_file(check), evidence / probes_file(check)
        self._left = read_samples(samples) if samples.exists() else []
        self._probes = read_probes(probes) if probes.exists() else []
        self.samples: tuple[Samples, ...] = tuple(self._left)
        self.probes: tuple[Probe, ...] = tuple(self._probes)

    @property
    def last_look(self) -> int:
        """Number of the last look that was measured for; 0: these were measured without looks."""
        told = [one.details.get(LOOK) for one in self.samples] + [one.facts.get(LOOK) for one in self.probes]
        return max((look for look in told if isinstance(look, int)), default=0)

    def measure(
        self, schedule: Schedule, dataset: str, model: str, progress: Progress, stage: AtLook = WHOLE
    ) -> list[Samples]:
        """Samples of the next processes.

        Raises:
            NotRunError: The file holds others, or none.
        """
        if schedule.repeats > 1 and not (self._left and _repeats(self._left[0]) > 1):
            raise NotRunError("no item was sent twice when these timings were made")
        first, seed = self._left[0] if self._left else None, schedule.seed + stage.first
        if first is not None and schedule.seed and first.details.get("order_seed", seed) != seed:
            raise NotRunError("the raw samples have different processes here: no further ones were measured then")
        taken = self._next(schedule.processes - stage.first, model)
        other = next((one for one in taken if one.details.get("kind", schedule.kind) != schedule.kind), None)
        if other is not None:
            raise NotRunError(f"the raw samples have {other.details['kind']} here, where {schedule.kind} is needed")
        other = next((one for one in taken if one.batch != schedule.batch), None)
        if other is not None:
            raise NotRunError(f"the raw samples have batches of {other.batch} here, where {schedule.batch} is needed")
        if any(one.details.get("repeats", schedule.repeats) != schedule.repeats for one in taken):
            raise NotRunError(f"the raw samples have a different number of repeats here from {schedule.repeats}")
        return taken

    def measure_paired(
        self,
        schedule: Schedule,
        dataset: str,
        model: str,
        baseline: str,
        progress: Progress,
        stage: AtLook = WHOLE,
    ) -> tuple[list[Samples], list[Samples]]:
        """Samples of the next pairs, as in `measure`."""
        pairs = schedule.processes - stage.first
        return self._next(pairs, model), self._next(pairs, baseline)

    def probe(
        self, probe: str, dataset: str, model: str, processes: int, options: Cells, telemetry_s: float | None,
        progress: Progress, stage: AtLook = WHOLE,
    ) -> list[Probe]:  # fmt: skip
        """Findings of the next processes; refused where others follow: a model that told nothing has none here."""
        processes -= stage.first
        taken = self._probes[:processes]
        if len(taken) < processes or any((one.model, one.probe) != (model, probe) for one in taken):
            raise NotRunError(f"the evidence has no {processes} probes {probe} of {model} here")
        self._probes = self._probes[processes:]
        return taken

    def predict(
        self, rows: pa.Table, dataset: str, name: str, model: str, variant: Variant, progress: Progress
    ) -> Path:
        """The file that was written then.

        Raises:
            NotRunError: There is none, or it is about other rows.
        """
        return kept_answers(self._evidence, self._check, rows, dataset, name, model)

    def likelihoods(
        self, texts: Sequence[str], name: str, windows: Windows, model: str, beside: str | None, progress: Progress
    ) -> Path:
        """As `predict`."""
        return kept_likelihoods(self._evidence, self._check, texts, name, windows, model, beside)

    def _next(self, count: int, model: str) -> list[Samples]:
        taken = self._left[:count]
        if len(taken) < count or any(one.model != model for one in taken):
            raise NotRunError(f"the raw samples do not have {count} processes of {model} here")
        self._left = self._left[count:]
        return taken


def _repeats(one: Samples) -> int:
    """Times that each item was asked for in a row; older samples show it by their blocks."""
    told = one.details.get("repeats")
    return int(told) if isinstance(told, int) else 1 + int((one.block > 0).any())
