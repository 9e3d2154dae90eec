"""``record.json``: everything that a verdict and a report are made from."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Literal

from pydantic import Field

from evalspec.evidence.blocks import AnyBlock
from evalspec.evidence.declaration import Declaration
from evalspec.evidence.frozen import Cell, Frozen
from evalspec.evidence.model_card import Benchmark
from evalspec.evidence.policy import Claim, Policy, Rollback, Waiver
from evalspec.evidence.profile import Profile, Without
from evalspec.evidence.remedies import AnyRemedy
from evalspec.evidence.screens import Screening
from evalspec.evidence.test import Test
from evalspec.evidence.verdict import Status, Verdict, Word

RECORD_VERSION = 1

Dimension = Literal["system", "model", "data"]
CheckStatus = Literal["measured", "not_run", "invalid", "error"]
Control = Literal["applied", "unavailable", "not attempted"]
Direction = Literal["loosened", "tightened", "changed"]
RunPart = Literal["run", "kill", "twin", "plain", "paired"]
"""``kill``: it is killed once and started again; ``twin``: a seed that another run has too; ``plain``: without
checkpoints; ``paired``: with them, beside one without."""
RunEnd = Literal["ended", "failed", "out_of_memory", "limit", "cut"]
"""``ended``: with code 0; ``out_of_memory``, ``limit``: it was killed for one; ``cut``: a draft stopped it."""


PROMPT, TEMPLATE, TEMPLATE_PLANNED = "prompt_digest", "template_digest", "template_planned"
"""Details of a language model: digests of what is sent around the inputs, of its chat template, of the one planned."""


class ContentFile(Frozen):
    """A file that decides what a model answers."""

    path: str = Field(description="From the folder of the spec.")
    digest: str = Field(description="sha256 of its bytes.")
    what: str = Field(description="What it is to the model: model, function ..., answers on ..., classes, code.")


class ModelRecord(Frozen):
    """A model as it was run."""

    name: str
    kind: str
    digest: str | None = Field(description="sha256 over the artifact's files; None where it is not shown.")
    files: int = Field(1, description="Files that the digest is over; of several it is that of their list.")
    digest_stated: bool = Field(False, description="The digest is as its maker stated it; nothing here checked it.")
    in_memory: bool = Field(False, description="A program handed it over in memory: no file that ships was judged.")
    path: str | None = None
    size_bytes: int | None = None
    precision: str | None = None
    precision_observed: str | None = None
    device: str = "cpu"
    device_observed: str | None = None
    batch: int = 1
    preprocess_digest: str = ""
    preprocess: tuple[str, ...] = ()
    quantization: dict[str, str] = Field(default_factory=dict)
    classes: tuple[str, ...] | None = None
    details: dict[str, Cell] = Field(default_factory=dict, description="Provider got, framework, threads, flags.")
    content_digest: str | None = Field(
        None, description="sha256 over `contents`; None: nothing here shows what answers, or the record is older."
    )
    contents: tuple[ContentFile, ...] = Field((), description="Files here that it answers from, whatever is stated.")
    code_read: tuple[ContentFile, ...] = Field(
        (), description="Files that its code was seen to read while it ran: modules beside it, and what they open."
    )


class ObjectStamp(Frozen):
    """An object in object storage, as it was listed and read."""

    key: str
    size: int = Field(description="Bytes.")
    etag: str = Field(description="What the store calls these contents; each read asked for them and no others.")
    version: str | None = Field(None, description="Where the store gives each version a name and says so.")


class DatasetRecord(Frozen):
    """A dataset as it was read."""

    name: str
    kind: str
    digest: str
    rows: int
    columns: dict[str, str] = Field(default_factory=dict, description="Column: type.")
    label: str | None = None
    label_unit: str | None = None
    cluster: str | None = None
    in_memory: bool = Field(False, description="A program handed its rows over in memory.")
    path: str | None = None
    where: str | None = Field(None, description="Only rows that meet this condition were used.")
    rows_read: int | None = Field(None, description="Rows before `where`.")
    origin: dict[str, str] = Field(default_factory=dict)
    hub: Benchmark | None = Field(None, description="The benchmark of the hub that these rows are.")
    objects: tuple[ObjectStamp, ...] = Field((), description="In object storage: the objects that it was read from.")
    may_repeat: bool = Field(False, description="A hundredth of its rows or more may be copies of others.")


class Counts(Frozen):
    """Counts of the rows or queries that a check set out to use: used, failed, left out."""

    attempted: int = 0
    used: int = 0
    dropped: int = 0
    errored: int = 0


class EvidenceFile(Frozen):
    """A file of raw samples beside the record."""

    path: str
    digest: str
    rows: int
    what: str


class LostState(Frozen):
    """Something of a checkpoint that is not as it was when it was read and saved again."""

    name: str = Field(description="Of the tensor or value, with that of its file where there are several; or a file.")
    what: Literal["gone", "type", "size", "value", "absent", "blank", "unsaved", "passed over"] = Field(
        description="`gone`: not saved again; `absent`: the spec says that it must be there; `blank`: it is there, and "
        "holds nothing; `unsaved`: only the round trip has saved it; `passed over`: a newer checkpoint than the one "
        "that was saved again."
    )
    then: str = Field("", description="Type or shape before.")
    now: str = Field("", description="Type or shape after.")


class Resaved(Frozen):
    """A checkpoint that a training has read and saved again at once."""

    file: str = Field("", description="Newest file that was compared.")
    names: int = Field(0, description="Tensors and values that were compared.")
    lost: int = Field(0, description="Those that are not as they were.")
    first: tuple[LostState, ...] = Field((), description="The first of them.")
    unknown: str | None = Field(None, description="Why nothing can be said; None: it can.")
    early: bool = Field(False, description="Nothing can be said since the kill came before the first whole checkpoint.")


class Kill(Frozen):
    """A kill of a run's whole process group, after which the same command was started again."""

    growing: bool = Field(description="It was to come while a checkpoint was being written.")
    step: int = Field(description="Last step that the run had logged.")
    killed_s: float = Field(description="From the start of the process to the kill.")
    newest: str = Field("", description="File in the folder of checkpoints that changed last.")
    kept: int = Field(description="Evaluations of before the kill with which the log begins at the end.")
    resume_s: float | None = Field(
        None, description="From the second start to the first evaluation beyond the step; None: it got to none."
    )
    resaved: Resaved | None = Field(None, description="Round trip of its newest checkpoint; None: none was made.")


class TrainedRun(Frozen):
    """A run of a training that this run of the gate has made."""

    name: str
    seed: int
    workers: int | None = None
    ended: RunEnd = Field(description="`cut` in a draft, which stops a run after two evaluations.")
    code: int | None = Field(None, description="The process ended with it; None: it was killed for a limit.")
    process_s: float = Field(description="From the start of the process to its end.")
    before_s: float | None = Field(None, description="From the start of the process to that of its log's clock.")
    lag_s: float | None = Field(None, description="By so much the log's clock fell behind that of the process.")
    peak_mib: float = Field(description="Largest resident size of the process and all that it started.")
    others_share: float | None = Field(None, description="Share of all processors that other work used meanwhile.")
    gpu_others_share: float | None = Field(
        None, description="Share of time in which others used the GPU of the run that they used most."
    )
    spoiled: str | None = Field(None, description="What the surroundings did to it, too much to be counted.")
    replaced: bool = Field(False, description="It was spoiled, and a new run replaced it.")
    said: str = Field("", description="Last line that it printed, where it did not end well.")
    part: RunPart = Field("run", description="`run`: it counts; others are made to try the recipe.")
    pair: int | None = Field(None, description="Number of the pair of runs, with and without checkpoints.")
    kill: Kill | None = Field(None, description="Kill in the middle of it; None: it was let run.")
    log: EvidenceFile | None = Field(None, description="Its log, as written; None: it left none.")
    saved: EvidenceFile | None = Field(None, description="The model that it saved; None: it saved none.")


class TrainingRecord(Frozen):
    """A training whose runs were made under supervision."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    code: tuple[ContentFile, ...] = Field((), description="Files of its code that the command names.")
    runs: tuple[TrainedRun, ...] = ()
    trials: tuple[TrainedRun, ...] = Field((), description="Runs made to try the recipe, which count for nothing else.")


class Attempt(Frozen):
    """An earlier measurement of a check that gave no valid evidence."""

    run: str = Field(description="Folder of the run.")
    started: str = Field(description="When that run started.")
    status: CheckStatus
    reason: str = Field(description="Why it was not valid, or not made.")


class Continued(Frozen):
    """A run that this one goes on from: what was valid in it is kept."""

    run: str = Field(description="Its folder.")
    started: str


class Resumption(Frozen):
    """Checks that a resumed run kept, and those that it measured again."""

    kept: tuple[str, ...] = Field((), description="Checks whose measurements were kept.")
    again: dict[str, str] = Field(default_factory=dict, description="Check that was measured again: why.")


class AskedOtherwise(Frozen):
    """Something that a run asks otherwise than an earlier run of the same spec."""

    run: str = Field(description="Folder of the earlier run.")
    of: str = Field(description="A requirement, a check, a field of it, `waiver of ...`, `policy.confidence`.")
    before: str = Field(description="As it was; empty: it was not there.")
    after: str = Field(description="As it is; empty: it is no longer there.")
    direction: Direction = Field(description="`changed` where it is unknown whether less is required.")


class PreviousRun(Frozen):
    """The decided run of a spec before this one."""

    run: str = Field(description="Its folder.")
    started: str
    word: Word
    subject: str | None = Field(description="Digest of what it was about.")
    statuses: dict[str, Status] = Field(description="Requirement: how it ended.")


LOOK, LOOKS = "look", "looks"
"""Conditions of a check that may end early: the look at which it ended, of so many."""


class CheckRecord(Frozen):
    """One check: what it was asked, what it wrote, how it ended."""

    id: str
    check: str
    dimension: Dimension
    status: CheckStatus
    reason: str | None = None
    models: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    baseline_models: tuple[str, ...] = ()
    tests: tuple[Test, ...] = ()
    blocks: tuple[AnyBlock, ...] = ()
    measured: dict[str, Cell] = Field(default_factory=dict, description="Metric or metric(part): value, metric's unit.")
    units: dict[str, str] = Field(default_factory=dict)
    conditions: dict[str, Cell] = Field(
        default_factory=dict, description="Batch, precision, device, boundary, threads."
    )
    counts: Counts = Counts()
    notes: tuple[str, ...] = ()
    weakens: tuple[str, ...] = Field((), description="What of it makes the verdict weaker than it reads.")
    remedies: tuple[AnyRemedy, ...] = Field((), description="What it knows that would help to meet its requirements.")
    evidence: tuple[EvidenceFile, ...] = ()
    seed: int = 0
    duration_s: float = 0.0
    attempts: tuple[Attempt, ...] = Field((), description="Measurements before this one, none of them valid.")
    why: str | None = None
    owner: str | None = None
    report_only: bool = False
    summary: str = ""
    cannot_show: str = ""
    declares: Declaration | None = Field(
        None, description="What the check says of its fields and metrics; None: the record is older."
    )

    @property
    def ended_early(self) -> bool:
        """True where it ended at a look before its last."""
        look, looks = self.conditions.get(LOOK), self.conditions.get(LOOKS)
        return isinstance(look, int) and isinstance(looks, int) and look < looks


class ControlRecord(Frozen):
    """One thing that can be controlled while measuring."""

    name: str
    state: Control
    detail: str = ""


class Environment(Frozen):
    """Where the run took place."""

    facts: dict[str, Cell] = Field(default_factory=dict, description="CPU, memory, OS, GPU, driver, container, git.")
    packages: dict[str, str] = Field(default_factory=dict)
    controls: tuple[ControlRecord, ...] = ()
    load_at_start: float | None = None
    load_at_end: float | None = None
    engine: dict[str, Cell] = Field(
        default_factory=dict, description="What scanned large datasets beside the process of the check; empty: nothing."
    )


MAPPING = "the spec"
"""Name that stands for the file where a program hands a spec over as a mapping."""


class Record(Frozen):
    """A whole run. ``verdict`` is last: it is made from all the rest."""

    version: Literal[1] = 1
    evalspec: str = Field(description="Version of evalspec that made it.")
    spec: str
    spec_digest: str
    spec_file: str = Field(description="From the folder of the run to the spec.")
    started: str
    finished: str
    command: tuple[str, ...] = ()
    allowed: tuple[str, ...] = Field(
        (), description="What a file of settings allowed beyond the command line, and which file."
    )
    seed: int
    draft: bool = False
    only: tuple[str, ...] = ()
    interrupted: bool = False
    overrides: tuple[str, ...] = Field((), description="`--set` arguments that are in the spec.")
    timings_from: str | None = Field(None, description="The run whose raw timings were used instead of new ones.")
    policy: Policy
    waivers: tuple[Waiver, ...] = ()
    profile: Profile | None = Field(None, description="What the spec's profile asks for, and what answers it.")
    without: tuple[Without, ...] = Field((), description="Items of the profile that are deliberately set aside.")
    claims: tuple[Claim, ...] = ()
    rollback: tuple[Rollback, ...] = ()
    subject: str | None = Field(None, description="Digest of the candidate; None: not shown.")
    continues: tuple[Continued, ...] = Field((), description="Runs that this one goes on from, oldest first.")
    resumption: Resumption | None = Field(None, description="None: it was not interrupted.")
    earlier_runs: int = Field(0, description="Decided runs on this test set, of any subject, before this one.")
    earlier_of_subject: int = Field(0, description="Of these, runs of this subject.")
    previous: PreviousRun | None = Field(None, description="None: there was none, or the record is older.")
    asked_otherwise: tuple[AskedOtherwise, ...] = Field(
        (), description="What the decided run of this spec before this one did not ask, or otherwise."
    )
    models: tuple[ModelRecord, ...] = ()
    models_named: tuple[str, ...] = Field((), description="All models of the spec; others than `models` were not used.")
    datasets: tuple[DatasetRecord, ...] = ()
    family: tuple[str, ...] = Field((), description="Names of the blocking requirements decided from a sample.")
    family_warn: tuple[str, ...] = ()
    same: dict[str, str] = Field(
        default_factory=dict, description="Requirement: one of a family that makes the same claim; both count once."
    )
    environment: Environment = Environment()
    predictions: tuple[EvidenceFile, ...] = Field((), description="Answers that several checks read, made once.")
    trainings: tuple[TrainingRecord, ...] = Field((), description="Trainings whose runs this run has made.")
    checks: tuple[CheckRecord, ...] = ()
    screens: Screening | None = Field(
        None, description="What nobody asked; None: no screen looked, in a part of a spec, a draft or an older record."
    )
    not_tested: tuple[str, ...] = ()
    verdict: Verdict | None = None

    @property
    def from_mapping(self) -> bool:
        """True if a program passed the spec, so that its only file is the one in the run's folder."""
        return PurePosixPath(self.spec_file).name == MAPPING
