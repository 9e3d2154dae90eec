"""`scaling`: gain of more workers in a training, split into throughput and convergence, from logs of its runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from evalspec.errors import InputError, Problem
from evalspec.evidence.metric import Metric
from evalspec.evidence.words import and_list
from evalspec.language.declarations import Circumstance, Listing
from evalspec.language.parts import Check, Need, NeedRows, SpecNames, TrainingName
from evalspec.language.units import custom_error
from evalspec.timing.targets import EVALUATION_COLUMNS, Target, TargetSentence, check_training, is_planned, read_target
from evalspec.timing.training_defects import worker_defects

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.defects import Defect

TOTAL, THROUGHPUT, SAMPLES = "scaling_efficiency", "throughput_efficiency", "sample_efficiency"
_WELCH = "Welch's t on logarithms of runs"


class WorkerScaling(Check):
    """Efficiency of a training on more workers, split into throughput and convergence.

    ## What it measures
    Of a training with runs on several numbers of workers, against the first of `workers:`, k1:
    `scaling_efficiency(k)` [%] = k1 x T(k1) / (k x T(k)), T the time to the target; `throughput_efficiency(k)` [%],
    samples a second and worker; and `sample_efficiency(k)` [%], samples to the target on k1 workers over those on k.
    The first is exactly the product of the other two. Without (k) all numbers of workers must hold.

    ## Why it matters
    Eight times the workers with eight times the batch may have 95 % of the throughput each and need 1.7 times the
    samples: throughput is what gets reported, and the training takes longer than the machines cost. 512 GPUs at 28.6 x
    80.8 = 23 %, and at 68.7 x 43.7 = 30 %: in the one the network is the loss, in the other the batch.

    ## Method
    Each run reaches the target as in `time_to_accuracy`. Efficiencies are ratios of geometric means, decided by Welch's
    t on logarithms, with 3 runs on each side at least; over all numbers of workers by partial conjunction. Where all
    runs stop at one evaluation, the interval between evaluations is their spread. A run that missed the target leaves
    no bound of `scaling_efficiency` and `sample_efficiency`.
    `mode: weak` has no target to reach: it compares samples a second and worker, up to the last evaluation.
    The clock starts with the process (`clock: process`), or where the log's own does (`clock: run_start`).

    References: Welch (1947), Biometrika 34. MLPerf Training rules.

    ## What it cannot show
    More workers than were measured: a requirement about them is refused. Where in the machine time goes. That runs on
    few and on many workers had the same code and data.

    ## Example
    ```yaml
    - check: scaling
      training: recipe
      target: val_accuracy >= 94 %
      workers: [1, 2, 4]
      require:
        - scaling_efficiency(4) >= 75 %
      warn:
        - sample_efficiency(4) >= 95 %
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(TOTAL, "%", "higher", "Time to the target on the fewest workers over that on k, worker by worker.",
               parts="workers", interval=_WELCH, neutral=1.0),
        Metric(THROUGHPUT, "%", "higher", "Samples a second and worker on k workers over those on the fewest.",
               parts="workers", interval=_WELCH, neutral=1.0),
        Metric(SAMPLES, "%", "higher", "Samples to the target on the fewest workers over those on k.",
               parts="workers", interval=_WELCH, neutral=1.0),
    )  # fmt: skip

    check: Literal["scaling"] = "scaling"
    training: TrainingName = Field(description="The training.")
    target: Annotated[TargetSentence, Circumstance()] = Field(
        description="Measure of its logs that a run must reach: `val_accuracy >= 94 %`."
    )
    workers: Annotated[tuple[int, ...], Listing()] = Field(
        min_length=2, description="Numbers of workers; the first is what the others are compared with."
    )
    mode: Annotated[Literal["strong", "weak"], Circumstance()] = Field(
        "strong", description="`strong`: the same target on more workers; `weak`: throughput alone."
    )
    held: Annotated[int, Circumstance()] = Field(
        1, ge=1, le=1000, description="Evaluations in a row that must be at the target; the first of them counts."
    )
    clock: Annotated[Literal["process", "run_start"], Circumstance()] = Field(
        "process", description="Where times start: with the process, or with the log's own clock."
    )

    @model_validator(mode="after")
    def _workers_rise(self) -> Self:
        if any(one < 1 for one in self.workers) or list(self.workers) != sorted(set(self.workers)):
            raise custom_error(
                Problem(f"{list(self.workers)} does not rise, or begins below 1", remedy="write such as [1, 2, 4]")
            )
        return self

    @property
    def goal(self) -> Target:
        """The target, taken apart."""
        return read_target(self.target)

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """All numbers of workers but the first."""
        return tuple(str(one) for one in self.workers[1:])

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of a requirement that this mode does not measure."""
        for one in self.requirements:
            if self.mode == "weak" and one.metric != THROUGHPUT:
                return f"{one.metric} needs runs to one target: with `mode: weak` require {THROUGHPUT}"
        return None

    def needs(self) -> tuple[Need, ...]:
        """The rows of the training."""
        return (NeedRows(self.training, EVALUATION_COLUMNS),)

    def measures_read(self, training: str) -> tuple[str, ...]:
        """The measure of the target."""
        return (self.goal.metric,)

    def inspects(self) -> tuple[NeedRows, ...]:
        """Runs and measures of the training."""
        return (NeedRows(self.training, ("run", "status", "workers", "metric", "value")),)

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """Runs by number of workers; refuses a measure that is not logged, and workers that no run has."""
        table = tables[self.training]
        planned = is_planned(table)
        if not planned:
            check_training(self.goal, self.training, table)
        pairs = set(zip(table.column("run").to_pylist(), table.column("workers").to_pylist(), strict=True))
        counts = {number: sum(other == number for _, other in pairs) for number in self.workers}
        absent = [str(number) for number, count in counts.items() if not count]
        if absent:
            there = sorted({other for _, other in pairs if other is not None})
            said = (
                f"its runs are on {and_list([str(one) for one in there])}"
                if there
                else "its logs do not say on how many"
            )
            raise InputError(
                f"no run of {self.training} is on {and_list(absent)} workers: {said}",
                remedy="name the place of the number in the path with {workers}, or the column that has it",
            )
        return counts

    def defects(self) -> tuple[Defect, ...]:
        """Runs on more workers that take longer, or need more samples."""
        return tuple(worker_defects(self.training, self.workers[0]))
