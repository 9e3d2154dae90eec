"""`training_recovery`: what becomes of a training that is killed, at random steps and while a checkpoint is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from evalspec.checks.system.training_recovery.defects import recovery_defects
from evalspec.errors import InputError
from evalspec.evidence.metric import Metric
from evalspec.language.declarations import Effort
from evalspec.language.parts import Check, Need, NeedRows, SpecNames, TrainingName, TrialRuns
from evalspec.language.units import Duration
from evalspec.timing.targets import EVALUATION_COLUMNS, is_planned

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.language.defects import Defect
    from evalspec.language.requirement import Requirement

RECOVERED, STEPS, RESUME, STATE, OVERHEAD = (
    "recovered", "steps_lost", "time_to_resume", "state_lost", "checkpoint_overhead",
)  # fmt: skip
COLUMNS = (*EVALUATION_COLUMNS, "kill", "pair")


class TrainingRecovery(Check):
    """Losses of a training that is killed and whose command is started again.

    ## What it measures
    Of a training that the gate runs (`kind: command`): `recovered` [%], the share of kills after which the same command
    comes to the same end; `steps_lost` [steps], the most that were logged and had to be made again; `time_to_resume`
    [s], from the second start to the first evaluation beyond the kill; `state_lost`, kills after which the numbers of
    the run differ from those without the kill; `checkpoint_overhead` [%], how much longer a run takes with checkpoints.

    ## Why it matters
    A long training is killed: by a node, by a queue, by preemption. A checkpoint that a kill has torn, and that
    *latest* points to, ends the training. One without the state of the optimizer, of the schedule or of the order of
    the data continues and reaches the same accuracy within its noise, so that no accuracy gate sees it.

    ## Method
    Each kill has a run of its own, with the seed of a run that was not killed, in a fresh folder. The process group
    gets SIGKILL at a random step, in every other one while a file in the folder of checkpoints (`checkpoint:`) changes.
    Then the same command is started once more. It has recovered if it ends with code 0 within the training's limit, its
    log has the last step of the run without a kill, and has no step twice. `recovered` has Clopper-Pearson's bounds: 14
    of 14 show 80.7 %, 29 of 29 show 90.2 %. `steps_lost` is counted by the evaluations that the log keeps: it is as
    fine as they are, and of a log that begins anew its first step counts. `time_to_resume` is held by Student's t over
    the kills after which the run went on; others are told.
    `state_lost` is told in two ways, and a kill that either shows counts. *Equal numbers*: all numbers that were logged
    after the second start must be equal to those of the run with this seed that was not killed. One further run without
    a kill shows first which numbers a seed repeats at all; only these count, and some of them must differ between seeds
    with as many workers; with one seed, all must be repeated. What stays the same in each run, or is whole and never
    falls, counts something and tells nothing; the result names what told. A kill after which no such number is logged
    tells nothing: the run without a kill must log it at that step, and another seed must have another value there.
    *Round trip*, for any training, `round_trip:`: after every other kill the command is started with arguments with
    which it reads its newest checkpoint, saves it again at once, and ends. Names that are gone, and values, types or
    shapes that are not what they were, are lost, to the byte; so are names in `holds:` that no checkpoint has, that
    hold nothing (None, no entries), or that only the round trip has saved, files of the checkpoint that are not saved
    again, and that two tensors of a file of torch are one. Files are those of numpy, safetensors, JSON, text, and of
    torch.save as far as they hold tensors, numpy's arrays and plain values. Nothing in them is run, and of any other
    file only its bytes are compared, as of one that holds several archives. What only gets another name is not saved
    again, and of two names in turn the older may be written over. Then the folder is put back as it was. A round trip
    that fails makes `state_lost` NOT RUN, even where numbers are equal; one before the first whole checkpoint tells
    nothing, and where none tells anything it is NOT RUN, too.
    `checkpoint_overhead` needs `without_checkpoints:`, and is held by Student's t on the log ratios of pairs of runs
    with and without checkpoints, of one seed each. They are made for it one after the other, in the order A B B A, so
    that a machine that becomes slower meanwhile is not told as overhead. With `checkpoint_every:`, which says what a
    checkpoint costs, and `failure_every:`, the report has the interval that loses the least time, by Young's formula.

    References: Clopper and Pearson (1934), Biometrika 26. Young (1974), CACM 17(9). Daly (2006), FGCS 22.

    ## What it cannot show
    A power failure: what the operating system had not yet written to the disk is still there after a kill. A node that
    is lost with its disk. Kills of one worker among many. State that neither a number in the log nor a name in `holds:`
    shows, such as digits that a checkpoint of fewer bits never held; a number that follows from the data alone, such as
    a mean length of rows, shows no weights. That the arguments of a round trip read what the training goes on from, the
    newest of `best` and `last` too, and do not copy a file. That the older of two files which differ in a number alone
    is a shard that must be saved again, and no older checkpoint, where no third one is kept.

    ## Example
    ```yaml
    - check: training_recovery
      training: recipe
      kills: 14
      require:
        - recovered >= 80 %
        - steps_lost <= 500 steps
        - time_to_resume <= 60 s
    ```
    """

    dimension: ClassVar[Literal["system", "model", "data"]] = "system"
    uses_model: ClassVar[bool] = False
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(RECOVERED, "%", "higher", "Share of kills after which the same command comes to the same end.",
               interval="Clopper-Pearson"),
        Metric(STEPS, "steps", "lower", "The most steps that were logged and had to be made again.", exact=True),
        Metric(RESUME, "s", "lower", "From the second start to the first evaluation beyond the kill.",
               interval="t over kills", least=0.0),
        Metric(STATE, "count", "lower", "Kills after which the numbers of the run are different.", exact=True),
        Metric(OVERHEAD, "%", "lower", "How much longer a run takes with checkpoints than without.",
               interval="t on log ratios of pairs", neutral=1.0, least=-1.0, most=1000.0),
    )  # fmt: skip

    check: Literal["training_recovery"] = "training_recovery"
    training: TrainingName = Field(description="The training, of `kind: command`.")
    kills: Annotated[int, Effort()] = Field(14, ge=2, le=1000, description="Runs that are killed once each.")
    pairs: Annotated[int, Effort()] = Field(
        5, ge=2, le=1000, description="Pairs of runs with and without checkpoints, if a requirement is about them."
    )

    checkpoint_every_s: Annotated[Duration | None, Effort()] = Field(
        None, alias="checkpoint_every", gt=0, description="Time between two checkpoints of a run, as it is made here."
    )
    failure_every_s: Annotated[Duration | None, Effort()] = Field(
        None,
        alias="failure_every",
        gt=0,
        description="Mean time between failures where it will run: the report says what interval loses the least.",
    )

    def check_names(self, names: SpecNames) -> str | None:
        """Half of what the best interval of checkpoints follows from."""
        pair = {"checkpoint_every": self.checkpoint_every_s, "failure_every": self.failure_every_s}
        absent = [name for name, value in pair.items() if value is None]
        if len(absent) == 1:
            return f"what interval loses the least can't be said: write `{absent[0]}:` too, or neither of the two"
        if not absent and all(one.metric != OVERHEAD for one in self.requirements):
            return f"what interval loses the least needs the cost of checkpoints: require {OVERHEAD}"
        return None

    def needs(self) -> tuple[Need, ...]:
        """The rows of the training."""
        return (NeedRows(self.training, COLUMNS),)

    def trials_of(self, training: str) -> TrialRuns:
        """The kills, a run that repeats a seed, and pairs of runs with and without checkpoints."""
        if training != self.training:
            return TrialRuns()
        asked = {one.metric for one in self.requirements}
        return TrialRuns(kills=self.kills, twins=int(STATE in asked), plain=self.pairs if OVERHEAD in asked else 0)

    def inspects(self) -> tuple[NeedRows, ...]:
        """Kinds of run of the training, which say whether it can be run at all."""
        return (NeedRows(self.training, ("status", "part")),)

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """Nothing; refuses a training of which only logs are there."""
        table = tables[self.training]
        if not is_planned(table) and not set(table.column("part").to_pylist()) - {"run"}:
            raise InputError(
                f"{self.training} is read from logs, so that it can't be killed",
                remedy="give the training as `kind: command`",
            )
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why so few kills can't show a share."""
        if requirement.metric != RECOVERED or requirement.threshold >= 100.0:
            return None
        share = requirement.threshold / 100.0
        most = (1.0 - confidence) ** (1.0 / self.kills)
        if most >= share:
            return None
        needed = next(n for n in range(self.kills, 100_000) if (1.0 - confidence) ** (1.0 / n) >= share)
        return f"{self.kills} kills show {100 * most:.1f} % at most, and {needed} are needed"

    def defects(self) -> tuple[Defect, ...]:
        """Kills that end the training, lose steps or state, or take long."""
        return tuple(recovery_defects(self.training))
