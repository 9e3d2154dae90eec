"""Trainings that are run by the gate itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializeAsAny, WithJsonSchema, model_validator

from evalspec.errors import Problem, did_you_mean
from evalspec.evidence.units import format_number
from evalspec.evidence.words import duration, plural
from evalspec.language.header import Header, choose
from evalspec.language.parts import Access, Model, ModelName, Part, Training
from evalspec.language.parts.training import OF_ROWS
from evalspec.language.registry import discover
from evalspec.language.units import Duration, custom_error
from evalspec.trainings.reading.log import TrainingLog
from evalspec.trainings.reading.run import COLUMNS, TrainingRun, supervised_table

if TYPE_CHECKING:
    import pyarrow as pa

SEED, WORKERS, OUT = "{seed}", "{workers}", "{out}"
MOST_RUNS = 1000
OWN_FIELDS = ("seeds", "limit", "cost", "workers")
"""Fields that the training has, and not its log."""


def _read_log(value: Any) -> Any:
    """The log of each run, as its kind reads it."""
    if isinstance(value, TrainingLog):
        return value
    if not isinstance(value, Mapping) or not isinstance(value.get("kind"), str):
        remedy = f"write such as {{kind: jsonl, path: '{OUT}/log.jsonl', time: t}}"
        raise custom_error(Problem(f"{value!r} is not a log", remedy=remedy))
    kinds = log_kinds()
    if value["kind"] not in kinds:
        raise custom_error(
            Problem(f"a run can't be followed by a log of kind {value['kind']!r}", choices=tuple(sorted(kinds)))
        )
    own = next((key for key in OWN_FIELDS if key in value), None)
    if own is not None:
        raise custom_error(Problem(f"`{own}` belongs to the training, not to its log", remedy=f"move `{own}:` up"))
    part = kinds[value["kind"]]
    known = sorted({field.alias or name for name, field in part.model_fields.items()} - OF_ROWS - set(OWN_FIELDS))
    other = next((key for key in value if key not in known), None)
    if other is not None:
        raise custom_error(
            Problem(f"unknown key {other!r}", choices=tuple(known), remedy=did_you_mean(str(other), known))
        )
    return part.model_validate(dict(value))


def log_kinds() -> dict[str, type[TrainingLog]]:
    """Kinds of log that are files, by name."""
    registry = discover()
    found = {kind: registry.training(kind) for kind in registry.kinds("trainings") if kind != "command"}
    return {kind: part for kind, part in found.items() if issubclass(part, TrainingLog)}


class RoundTrip(Part):
    """A start of a training that goes on from its newest checkpoint, saves it again at once, and ends."""

    add: tuple[str, ...] = Field(min_length=1, description="Arguments behind the command for it: [--save-and-end].")
    holds: tuple[str, ...] = Field(
        min_length=1,
        description="Names that each checkpoint must have, with * for any text: ['model.*', 'optimizer.*', schedule].",
    )
    may_change: tuple[str, ...] = Field(
        (), description="Names, or files, that may change when it is saved again, such as a clock: [elapsed_s]."
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        for field, patterns in (("holds", self.holds), ("may_change", self.may_change)):
            if any(not one.strip() for one in patterns):
                raise custom_error(Problem(f"`{field}` has a name without letters", remedy="remove it"))
        loose = next((one for one in self.holds if not one.strip("*?")), None)
        if loose is not None:
            why = "any checkpoint has such a name, so that nothing is missed"
            remedy = "name what the training's state is: ['model.*', 'optimizer.*', step]"
            raise custom_error(Problem(f"`holds` names {loose!r}: {why}", remedy=remedy))
        for change in self.may_change:
            hidden = next((one for one in self.holds if fnmatchcase(one, change)), None)
            if hidden is not None:
                why = f"`may_change` sets {change!r} aside, and with it {hidden!r}, which `holds` says is state"
                raise custom_error(Problem(why, remedy="remove it from one of the two"))
        return self


class CommandTraining(Training):
    """A command that trains once: it is run under supervision, for each seed once, alone on the machine.

    Runs come one after the other, each in a process group of its own that ends with the gate. `{seed}`, `{workers}` and
    `{out}`, a folder of each run's own, stand in the command for what they are.
    """

    kind: Literal["command"] = "command"
    supervised = True
    run: tuple[str, ...] = Field(
        min_length=1, description="The command: [python, train.py, --seed, '{seed}', --out, '{out}']."
    )
    seeds: int | tuple[Annotated[int, Field(ge=0)], ...] = Field(
        description="Number of runs, whose seeds are drawn from that of the spec, or a list of seeds."
    )
    limit_s: Duration = Field(
        alias="limit", gt=0, description="Longest time of a run; one that takes longer is killed, and not reached."
    )
    log: Annotated[
        SerializeAsAny[TrainingLog],
        BeforeValidator(_read_log),
        WithJsonSchema({"type": "object", "required": ["kind", "path"], "properties": {"kind": {"type": "string"}}}),
    ] = Field(description="Log of each run: {kind: jsonl, path: '{out}/log.jsonl', time: t}, with the kind's fields.")
    also_workers: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="Further numbers of workers that each seed is trained on, for the check `scaling`."
    )
    checkpoint: str | None = Field(
        None,
        description="Folder of its checkpoints, '{out}/checkpoints', or their file, from which it goes on.",
    )
    without_checkpoints: tuple[str, ...] = Field(
        (), description="Arguments behind the command that switch checkpoints off: [--keep, '0']."
    )
    round_trip: RoundTrip | None = Field(
        None, description="How it reads a checkpoint and saves it again: {add: [--save-and-end], holds: ['model.*']}."
    )
    makes: ModelName | None = Field(
        None,
        description="Model that each run saves. With a path in '{out}' it is that of the first run, whichever that is.",
    )
    saves: str | None = Field(
        None, description="Where a run saves it, '{out}/model.onnx', if the model's own path is that of what ships."
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        text = " ".join(self.run)
        where = {"run": text, "log": self.log.path}
        needed = [("run", SEED), ("run", OUT), *([("run", WORKERS)] if self.also_workers else [])]
        for field, place in needed:
            if place not in where[field]:
                what = {SEED: "all runs would be one", OUT: "runs would overwrite each other"}.get(
                    place, "all runs would have the same number of workers"
                )
                raise custom_error(Problem(f"`{field}` has no {place}: {what}", remedy=f"add '{place}' to it"))
        for what, path, usual in (
            ("log", self.log.path, "log.jsonl"), ("saved model", self.saves, "model.onnx"),
            ("folder of checkpoints", self.checkpoint, "checkpoints"),
        ):  # fmt: skip
            if path is not None and not _lies_in_out(path):
                name = PurePath(path).name
                remedy = f"write such as '{OUT}/{usual if name in (OUT, '..', '') else name}'"
                raise custom_error(Problem(f"the {what} {path!r} does not lie in {OUT}", remedy=remedy))
        if isinstance(self.seeds, int) and not 1 <= self.seeds <= MOST_RUNS:
            raise custom_error(
                Problem(f"{self.seeds} seeds are not a number of runs", remedy=f"write a number from 1 to {MOST_RUNS}")
            )
        if self.seeds == ():
            raise custom_error(Problem("there are no seeds", remedy="write how many runs to make, such as 14"))
        every = self.every_workers
        if len(set(every)) < len(every):
            raise custom_error(Problem(f"{every[-1]} workers are named twice", remedy="name each number once"))
        return self

    @model_validator(mode="after")
    def _has_what_it_names(self) -> Self:
        if self.saves is not None and self.makes is None:
            raise custom_error(Problem("`saves` needs a model", remedy="name it: `makes: candidate`"))
        if self.round_trip is not None and self.checkpoint is None:
            remedy = f"write where they are: `checkpoint: '{OUT}/checkpoints'`"
            raise custom_error(Problem("`round_trip` needs checkpoints", remedy=remedy))
        return self

    @property
    def count(self) -> int:
        """Runs on each number of workers."""
        return self.seeds if isinstance(self.seeds, int) else len(self.seeds)

    @property
    def every_workers(self) -> tuple[int | None, ...]:
        """Numbers of workers that each seed is trained on; None: the spec does not say how many."""
        first = self.workers if self.workers is not None or not self.also_workers else 1
        return (first, *self.also_workers)

    @property
    def longest_s(self) -> float:
        """All runs at their limit."""
        return self.count * len(self.every_workers) * self.limit_s

    @property
    def starts_of_kill(self) -> int:
        """Two, and one for a round trip."""
        return 2 if self.round_trip is None else 3

    def runs_code(self) -> tuple[str, ...]:
        """The command."""
        return (f"the command {self.run[0]}",)

    def outlook(self, confidence: float) -> tuple[str, ...]:
        """Time and cost of the runs at most, and the quantiles that so many can show."""
        from evalspec.stats.training.reached import runs_to_pass

        runs = self.count * len(self.every_workers)
        one = duration(self.limit_s)
        text = f"{plural(runs, 'run')} one after the other, each of {one} at most: {duration(self.longest_s)} in all"
        if self.cost_usd_h is not None:
            workers = sum(one or 1 for one in self.every_workers)
            usd = self.count * workers * self.cost_usd_h * self.limit_s / 3600.0
            text += f", {format_number(usd)} USD"
        lines = [text]
        for name, q in (("p50", 0.5), ("p80", 0.8), ("p90", 0.9)):
            least = runs_to_pass(q, confidence)
            if self.count < least:
                lines.append(f"{name} can't be shown by {plural(self.count, 'seed')}: it needs {least}")
                continue
            missed = next(k for k in range(self.count) if runs_to_pass(q, confidence, k + 1) > self.count)
            late = "none of them may be later" if not missed else f"{missed} of them may be later"
            lines.append(f"{name} is shown by {plural(self.count, 'seed')} where {late}")
        return tuple(lines)

    def files(self, access: Access) -> tuple[Path, ...]:
        """None: its logs are not there before the run."""
        return ()

    def header(self, access: Access) -> Header:
        """Columns; rows are not there before the run."""
        return Header(rows=None, columns=dict(COLUMNS))

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """The runs that are planned, without evaluations.

        Raises:
            InputError: A column isn't there.
        """
        runs = [
            TrainingRun(f"run {number + 1} of {self.count}", (), workers=workers, status="planned")
            if workers is None
            else TrainingRun(f"run {number + 1} of {self.count} on {workers}", (), workers=workers, status="planned")
            for workers in self.every_workers
            for number in range(self.count)
        ]
        return supervised_table(runs, self, choose(columns, tuple(COLUMNS), "a training"), self.count)

    def command(self, seed: int, workers: int | None, out: Path, more: Sequence[str] = ()) -> tuple[str, ...]:
        """The command of one run.

        Args:
            seed: Of the run.
            workers: Of the run; None: the spec does not say.
            out: Its folder.
            more: Arguments behind it.
        """
        placed = {SEED: str(seed), WORKERS: str(workers or 1), OUT: str(out)}
        return tuple(_placed(part, placed) for part in (*self.run, *more))

    def checkpoints_in(self, out: Path) -> Path | None:
        """Folder of the checkpoints of one run; None: the spec names none.

        Args:
            out: Folder of the run.
        """
        return None if self.checkpoint is None else out / self.checkpoint.removeprefix(f"{OUT}/")

    @property
    def log_in_out(self) -> str:
        """Path of the log, from the folder of a run on."""
        return self.log.path.removeprefix(f"{OUT}/")


def _lies_in_out(path: str) -> bool:
    parts = PurePath(path).parts
    return len(parts) > 1 and parts[0] == OUT and ".." not in parts


def _placed(part: str, values: Mapping[str, str]) -> str:
    for place, value in values.items():
        part = part.replace(place, value)
    return part


def awaited(model: Model) -> bool:
    """True if a model's file lies where a training is to put it."""
    return str(getattr(model, "path", "")).startswith(f"{OUT}/")
