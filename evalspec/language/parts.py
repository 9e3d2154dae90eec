"""Base classes of everything that a spec is made of: models, datasets, checks.

A part only validates. It never probes: no network, no clock, no environment, no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema

from evalspec.errors import InputError, Problem, ProblemCode, SpecError
from evalspec.evidence.metric import Metric, Shows
from evalspec.evidence.model_card import Benchmark
from evalspec.language.bounded import no_file
from evalspec.language.declarations import datasets_named
from evalspec.language.names import DatasetName, ModelName, Name, Sentence, SpecNames, check_where
from evalspec.language.reach import check_rows
from evalspec.language.requirement import Requirement, Same, parse_requirement, sentence_schema
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
    from evalspec.evidence.frozen import Cell
    from evalspec.evidence.record import Counts
    from evalspec.evidence.remedies import AnyRemedy
    from evalspec.language.defects import Defect
    from evalspec.language.header import Header, Matched, Misfit
    from evalspec.language.inputs import Inputs, Predictions, RowScores
    from evalspec.language.scans import Scan


BATCH_ROWS = 65_536
"""Rows that are held at a time where data are read in batches."""


class Part(BaseModel):
    """Base of every part of a spec: frozen, and nothing unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


@dataclass(frozen=True, slots=True)
class Access:
    """Where a part may look and what it may run.

    Args:
        folder: The spec's folder; relative paths start here.
        trust: Code that the spec names may run, and pickles may be read.
        allow_outside: Paths may leave the folder.
        hub: Names on a model or data-set hub may be looked up.
        hosts: Machines beside this one that may be asked.
        env: Variables of the environment that hold secrets which may be read.
        memory: Folder of what the calling program handed over in memory; None: it handed nothing over.
        searched: Folders in which that program finds modules.
    """

    folder: Path
    trust: bool = False
    allow_outside: bool = False
    hub: bool = False
    hosts: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    memory: Path | None = None
    searched: tuple[str, ...] = ()

    def handed_over(self, name: str) -> Path:
        """The file in which something lies that the calling program had in memory.

        Args:
            name: Of the file, in `memory`.

        Raises:
            InputError: Nothing of this name was handed over.
        """
        path = None if self.memory is None or Path(name).name != name else self.memory / name
        if path is None or not path.is_file():
            remedy = "hand it over: evalspec.run(spec, models={...}, datasets={...}), or name a file and its kind"
            raise InputError("kind memory is what a program hands over, and none did", remedy=remedy)
        return path

    def path(self, relative: str) -> Path:
        """The absolute path of a path in the spec.

        Raises:
            InputError: It leaves the spec's folder and may not, or there is no such file.
        """
        path = self.folder / relative
        try:
            path = path.resolve()
            there = path.exists()
            other = no_file(path)
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{_shortened(relative)} can't be looked up: {reason}") from error
        if not self.allow_outside and not path.is_relative_to(self.folder.resolve()):
            message = f"{relative!r} lies outside the spec's folder"
            raise InputError(message, remedy="pass --allow-outside if it is meant")
        if other is not None:
            raise InputError(f"{relative!r} is no file: it is {other}", remedy="name a regular file or a folder")
        if not there:
            message = f"there is no file or folder {relative!r} in {self.folder}"
            raise InputError(message, code=ProblemCode.NO_FILE)
        return path


class LoadedModel(Protocol):
    """A model in memory. Arrays in, arrays out, under the names that the model itself uses."""

    @property
    def observed(self) -> Mapping[str, Cell]:
        """Facts observed when it ran: ``precision``, ``device``, ``provider``, ``threads``, ``framework``."""
        ...

    @property
    def input_names(self) -> tuple[str, ...]:
        """Tensors that it takes."""
        ...

    @property
    def output_names(self) -> tuple[str, ...]:
        """Tensors that it gives."""
        ...

    @property
    def fixed_batch(self) -> int | None:
        """The only batch size the file takes, or None."""
        ...

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """One batch."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


OptionScore = Literal["letter", "sum", "per_byte", "per_token", "pmi"]
OutputName = Literal[
    "logits", "probabilities", "label", "value", "lower", "upper", "text", "finish_reason", "tokens", "boxes", "scores",
    "mask", "embedding",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownRows:
    """The first rows of a dataset, shown to a model before each question.

    Args:
        dataset: Its name.
        rows: How many.
        columns: Columns that must be there.
    """

    dataset: str
    rows: int
    columns: tuple[str, ...]


class Model(Part):
    """A model under test. Its kind is served by a runtime: one file of ``evalspec/runtimes``."""

    extra_name: ClassVar[str] = ""
    """The extra of the distribution that this kind needs; empty: none."""
    packages: ClassVar[tuple[str, ...]] = ()
    """Import names that must be there."""
    timed: ClassVar[bool] = True
    """It can be run, so it can be timed."""
    gives_likelihoods: ClassVar[bool] = False
    """It gives each token of a text a likelihood."""
    needs_trust: ClassVar[bool] = False
    """It always runs code that the spec names."""
    served: ClassVar[bool] = False
    """It is a server, so no file here shows what it is: its digest is as stated."""
    remembered: ClassVar[bool] = False
    """Its answers were kept by an earlier run: nothing that was timed then is a baseline for what is timed now."""
    in_memory: ClassVar[bool] = False
    """It was an object of the calling program, so no file that ships is judged."""
    inspects_in_subprocess: ClassVar[bool] = False
    """`may_hide_code` imports a framework, so it is asked in a process of its own."""

    kind: str
    precision: Literal["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4", "mixed"] | None = Field(
        None, description="What the maker says it computes in; compared with what is observed."
    )
    quantization: dict[str, str] = Field(
        default_factory=dict, description="How it was quantized: method, calibration (a dataset's name)."
    )
    device: Annotated[str, StringConstraints(pattern=r"^(cpu|cuda(:\d+)?)$")] = Field(
        "cpu", description="cpu or cuda:0."
    )
    batch: int = Field(32, ge=1, description="What quality is computed at.")
    preprocess: tuple[Any, ...] = Field(
        (), description="Stages between dataset columns and the model's inputs, in order."
    )
    inputs: dict[str, str | tuple[str, ...]] = Field(
        default_factory=dict, description="The model's tensor: a column, or columns stacked in this order."
    )
    outputs: dict[OutputName, str | int] = Field(
        default_factory=dict, description="What it is: what the model calls it."
    )
    classes: str | tuple[str | int | bool | float, ...] | None = Field(
        None, description="Label of each output index: a list, or a text file with one a line."
    )
    multilabel: bool = Field(
        False,
        description="A row may have any number of classes: logits become probabilities by sigmoid, each by itself.",
    )
    trained_until: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")] | None = Field(
        None, description="Last day of what it learned from, as its maker says: 2026-01-31."
    )
    artifact: str | None = Field(
        None,
        description="What stands for the subject where the model itself is no file here: a path, or sha256:... as "
        "stated. Of a model that is read here it can only be what is read.",
    )

    @field_validator("trained_until")
    @classmethod
    def _is_a_day(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                date.fromisoformat(value)
            except ValueError as error:
                raise custom_error(Problem(f"{value!r} is no day", remedy="write such as 2026-01-31")) from error
        return value

    @property
    def answers_rows(self) -> bool:
        """True if it gives an answer for each row, which can be judged and timed."""
        return True

    def artifact_model(self, access: Access) -> Model | None:
        """Model that loads the artifact behind answers that are read from files; None: there is none, or no way to."""
        return None

    @property
    def sampled(self) -> bool:
        """Its answers are drawn at random, so that the same row is answered otherwise each time."""
        return False

    def unsampled(self) -> Model:
        """The same, with the likeliest answer to each row."""
        return self

    @property
    def prompt_columns(self) -> tuple[str, ...]:
        """Columns that its prompt names; none where ``inputs`` says what feeds the places, or stages make it."""
        return ()

    @property
    def shown_rows(self) -> ShownRows | None:
        """Rows of a dataset that its prompt shows as examples; None: it shows none."""
        return None

    @property
    def templates(self) -> int:
        """Number of ways in which its prompt puts a question."""
        return 1

    @property
    def orders(self) -> int:
        """Number of rotations of its options in which it is asked."""
        return 1

    @property
    def chooses(self) -> OptionScore | None:
        """Score by which it chooses from options of each row; None: it does not."""
        return None

    @property
    def writes_texts(self) -> bool:
        """True of a language model that is told how to write an answer."""
        return False

    @property
    def samples(self) -> int:
        """Number of answers to each row that its fields ask for."""
        return 1

    @property
    def exact_tokens(self) -> int | None:
        """Tokens that each of its answers has, whatever it says; None: it ends where it ends."""
        return None

    def bound(self, datasets: Mapping[str, Dataset]) -> Model:
        """The same, knowing those datasets of the spec that it reads itself."""
        return self

    @property
    def writes_slowly(self) -> bool:
        """True of one that writes token after token, so that few rows are asked about for its own sake."""
        return False

    @property
    def always_new(self) -> bool:
        """No two queries that are timed are the same, so that nothing remembers one."""
        return False

    @property
    def elsewhere(self) -> bool:
        """True if it runs on another machine, whose counters can't be read here."""
        return False

    @property
    def starts_server(self) -> bool:
        """True if it names the command by which its server is started for the time of a run."""
        return False

    def runs_code(self) -> tuple[str, ...]:
        """Parts of it that run only under --trust, in words; empty: nothing that its fields could tell."""
        return ("code that the spec names",) if self.needs_trust else ()

    def doubts(self) -> tuple[str, ...]:
        """Sentences on what its fields allow and hardly anybody means; told by ``validate``, they forbid nothing."""
        return ()

    def may_hide_code(self, access: Access) -> str | None:
        """Content of its files that may be read under --trust only, in words; None: nothing that could be seen.

        Looked at before a run starts, so that it is refused then; what loads a file looks again, and decides.

        Raises:
            InputError: A file is missing, or of another kind.
        """
        return None

    def secrets_read(self) -> tuple[str, ...]:
        """Variables of the environment that it reads, each only under --env NAME."""
        return ()

    def files(self, access: Access) -> tuple[Path, ...]:
        """Every file that makes up the artifact, weights beside it included; their bytes are its digest."""
        raise NotImplementedError

    def answers_from(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Files here that decide what it answers, whatever ``artifact:`` states, by what each is to the model.

        Folders stand for all files in them. Part of every key under which an answer is kept.

        Raises:
            InputError: One is missing.
        """
        return {"model": self.files(access)}

    def answer_files(self) -> Mapping[str, str]:
        """Dataset: the file with its answers, of a model that is read and not run; empty: it is run."""
        return {}

    def answer_tables(self) -> Mapping[str, str]:
        """Those of them that are tables, whose columns the spec names."""
        return self.answer_files()

    def kept_answers(self, access: Access, dataset: str, digest: str) -> Path | None:
        """The file with its answers on a dataset, written by an earlier run; None: it is asked now.

        Args:
            access: Where it may be looked for.
            dataset: Name of the dataset.
            digest: Of its rows as they are now.

        Raises:
            InputError: What was kept can't be read.
            NotRunError: It was not asked about these rows then.
        """
        return None

    def vocabulary(self, access: Access) -> str | None:
        """Digest of what makes tokens of a plain text, where it has tokens; None: it has none.

        Raises:
            InputError: It can't be read.
        """
        return None

    def kept_facts(self, access: Access) -> Mapping[str, Cell]:
        """Facts about what was asked for the kept answers: digests of its prompt and chat template; empty: none.

        Raises:
            InputError: What was kept can't be read.
        """
        return {}

    def kept_digest(self, access: Access) -> str | None:
        """Digest of the artifact that gave the kept answers; None: there is none.

        Raises:
            InputError: What was kept can't be read.
        """
        return None

    def load(self, access: Access, *, threads: int | None = None) -> LoadedModel:
        """The model in memory; heavy libraries are imported here.

        Raises:
            InputError: The file can't be loaded, or asks for something that isn't here.
        """
        raise NotImplementedError


class Dataset(Part):
    """A named table or collection. Its kind is read by a source: one file of ``evalspec/sources``."""

    extra_name: ClassVar[str] = ""
    packages: ClassVar[tuple[str, ...]] = ()
    plain_header: ClassVar[bool] = False
    """Its header can be read without its packages, so that ``validate`` may."""
    in_memory: ClassVar[bool] = False
    """Its rows were held by the calling program."""
    rows_fit: ClassVar[bool] = True
    """Memory holds `BATCH_ROWS` of its rows, so that they can be handed on so many at a time, whatever else is read."""

    kind: str
    label: str | None = Field(None, description="Column with the truth.")
    label_unit: str | None = Field(None, description="Unit of a regression label: `min` makes `mae <= 3 min`.")
    key: str | None = Field(None, description="Column that names a row; joins predictions made elsewhere.")
    cluster: str | None = Field(
        None, description="Column of what rows share (patient, session): rows of one cluster are not independent."
    )
    where: str | None = Field(None, description="Only rows for which this holds: `lux < 100 and site == 'lab'`.")
    origin: dict[str, str] = Field(
        default_factory=dict, description="Where and when it was collected: site, collected, device."
    )
    hub: Benchmark | None = Field(
        None, description="The benchmark of the hub that these rows are, for a model card: {id, task, metric}."
    )

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        return check_where(value) if value is not None else None

    def header(self, access: Access) -> Header:
        """Rows and columns, without reading rows where the format allows (before ``where``).

        Raises:
            InputError: Missing, empty, truncated or of another format.
        """
        raise NotImplementedError

    def label_names(self, access: Access) -> tuple[str, ...]:
        """Names that the data give to the labels 0, 1, ..., where these are read as numbers; empty: none.

        Raises:
            InputError: As `header`.
        """
        return ()

    def files(self, access: Access) -> tuple[Path, ...]:
        """The files it is read from; empty where it comes with a package."""
        raise NotImplementedError

    def read(self, access: Access, columns: Sequence[str] | None = None) -> pa.Table:
        """All rows (before ``where``), these columns.

        Raises:
            InputError: As `header`, or a column isn't there.
        """
        raise NotImplementedError

    def batches(
        self, access: Access, columns: Sequence[str] | None = None, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of `read`, with the same values and types, some at a time; each call begins with the first.

        A source that can holds no more than a batch in memory; others read all rows first.

        Args:
            access: Where it may be read from.
            columns: These columns; None: all.
            rows: Rows of a batch at most.

        Raises:
            InputError: As `read`; where the damage lies further on, when a batch is asked for.
        """
        return iter(self.read(access, columns).to_batches(max_chunksize=rows))


@dataclass(frozen=True, slots=True)
class NeedRows:
    """The check reads rows of this dataset."""

    dataset: str
    columns: tuple[str, ...] = ()
    """Columns that must be there (beside the label, where ``label`` is set)."""
    label: bool = False


@dataclass(frozen=True, slots=True)
class NeedPredictions:
    """The check reads predictions of a model on this dataset."""

    dataset: str
    model: str
    label: bool = True
    copies: int = 0
    """So often the check asks about rows like these itself (`Inputs.predict`): altered copies, or the same again."""


@dataclass(frozen=True, slots=True)
class NeedTiming:
    """The check times a model, fed from this dataset. ``queries`` is what the plan counts with (all processes)."""

    dataset: str
    model: str
    queries: int
    seconds: float
    """A guess at how long it takes, for the plan; measured ones replace it."""
    more: str = ""
    """What else may be asked for, in words, where it is known only when it runs."""


@dataclass(frozen=True, slots=True)
class NeedLikelihoods:
    """The check asks a model for likelihoods of texts that it takes from this dataset (`Inputs.token_likelihoods`)."""

    dataset: str
    model: str
    together: str | None = None
    """A model that is asked about the same tokens at the same time, in the same process; None: none."""


Need = NeedRows | NeedPredictions | NeedTiming | NeedLikelihoods


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that a plan knows when it counts.

    Args:
        served: Models that are servers.
        seen: What the check saw of the rows that it looks at (`Check.inspect_rows`); None: they were not read.
    """

    served: frozenset[str] = frozenset()
    seen: object = None


def _no_counts() -> Counts:
    # Reading a spec takes no record, and a record's classes are a tenth of the time that it takes.
    from evalspec.evidence.record import Counts

    return Counts()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. It does not decide.

    Args:
        estimates: Metric: estimate, fact or parts. Every metric that a requirement names must be there, or in
            ``missing`` with the reason.
        comparisons: (metric, model): the comparison, for requirements that name a model.
        missing: Metric, or ``metric(part)``: why there is no value.
        blocks: What to show.
        counts: What became of the rows or queries.
        conditions: Batch, precision, device, boundary, threads: what the numbers hold for.
        notes: Sentences for the reader.
        weakens: Sentences that stand with the verdict, among what makes it weaker than it reads.
        evidence: (file in ``inputs.evidence``, what it holds).
        remedies: What would help to meet requirements, where the check knows it.
        blind: Metric, or ``metric(part)``: what an answer that never looks at the row would score, and which one.
        by_template: Name of another template of the model's prompt: the result for it. What is required must hold for
            each.
        answers_each: Metric: answers to each row, where its estimates and comparisons count answers (samples, orders of
            options). What a requirement rests on are rows.
    """

    estimates: Mapping[str, Estimate | Fact | Parts | Measured]
    comparisons: Mapping[tuple[str, str], Comparison | ComparisonParts] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    blocks: Sequence[AnyBlock] = ()
    counts: Counts = field(default_factory=_no_counts)
    conditions: Mapping[str, Cell] = field(default_factory=dict)
    notes: Sequence[str] = ()
    weakens: Sequence[str] = ()
    evidence: Sequence[tuple[str, str]] = ()
    remedies: Sequence[AnyRemedy] = ()
    blind: Mapping[str, tuple[float, str]] = field(default_factory=dict)
    invalid: str | None = None
    """Voids every measurement of the check."""
    by_template: Mapping[str, CheckResult] = field(default_factory=dict)
    answers_each: Mapping[str, int] = field(default_factory=dict)


class Check(Part):
    """One entry under a dimension: the class in ``evalspec/checks/<dimension>/<kind>/spec.py``.

    The docstring has the sections What it measures, Why it matters, Method, What it cannot show, Example, each under a
    heading such as ``## Method``. The example is a yaml block: a list with this check, and a requirement in it.
    """

    dimension: ClassVar[Literal["system", "model", "data"]]
    metrics: ClassVar[tuple[Metric, ...]] = ()
    detects_mismatch: ClassVar[bool] = False
    """That a model ran otherwise than it was asked to is what it finds; for others it voids what they measured."""
    uses_model: ClassVar[bool] = True
    """False for checks that look at data only, as those under ``data`` do: the ``model`` field is refused."""
    needs_start: ClassVar[bool] = False
    """It is about a server that the spec starts itself."""
    dated: ClassVar[bool] = False
    """What it finds depends on the day of the run."""
    compares: ClassVar[bool] = False
    """All that it can require is about the model beside another one."""
    each_template: ClassVar[bool] = False
    """What it requires must hold for each template of its model's prompt."""
    between_templates: ClassVar[tuple[str, ...]] = ()
    """Metrics that are about several templates at once."""
    shows: ClassVar[tuple[Shows, ...]] = ()
    """What all of its metrics show to those who read its record and do not know it."""

    check: str
    id: Name | None = Field(None, description="Names the check where two of a kind stand in a spec; default: its kind.")
    model: ModelName = Field("candidate", description="The model it is about.")
    require: tuple[Sentence, ...] = Field((), description="What must hold; blocks.")
    warn: tuple[Sentence, ...] = Field((), description="What should hold; never blocks.")
    slo: Sentence | None = Field(
        None, description="A service level objective: a blocking requirement at a tail percentile."
    )
    sla: Sentence | None = Field(
        None, description="What was promised to others: looser than the SLO, reported as headroom."
    )
    report_only: bool = Field(False, description="Measure and show; decide nothing.")
    why: str | None = Field(None, description="Printed with a failure.")
    owner: str | None = Field(None, description="Printed with a failure.")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Checks of data have no model, unless they say so."""
        super().__pydantic_init_subclass__(**kwargs)
        if vars(cls).get("dimension") == "data":
            cls.uses_model = vars(cls).get("uses_model", False)

    @field_validator("model", mode="before")
    @classmethod
    def _no_model(cls, value: Any) -> Any:
        if not cls.uses_model:
            kind = cls.model_fields["check"].default
            raise custom_error(Problem(f"{kind} looks at data only, so it has no model", remedy="take `model:` out"))
        return value

    @field_validator("require", "warn", mode="before")
    @classmethod
    def _read_list(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            raise custom_error(Problem(f"{value!r} stands alone", remedy=f"write a list: [{value}]"))
        if not isinstance(value, list | tuple):
            return value
        return tuple(cls.read_sentence(one, blocking=info.field_name == "require") for one in value)

    @field_validator("slo", "sla", mode="before")
    @classmethod
    def _read_one(cls, value: Any, info: ValidationInfo) -> Any:
        return cls.read_sentence(value, blocking=info.field_name == "slo")

    @classmethod
    def under(cls, dimension: str) -> type[Check]:
        """The class of this kind for entries under a dimension; another than its own where it stands under several."""
        return cls

    @classmethod
    def metrics_of(cls, entry: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Metrics that the sentences of an entry may name, where its fields name some; else those of the class.

        Args:
            entry: As it stands in the spec.
        """
        return cls.metrics

    @classmethod
    def read_sentence(cls, value: Any, *, blocking: bool) -> Any:
        """A sentence as a requirement on this check's metrics; everything else as it is."""
        if not isinstance(value, str):
            return value
        try:
            return parse_requirement(value, cls.metrics, blocking=blocking)
        except SpecError as error:
            raise custom_error(error.problems[0]) from error

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema that an editor completes from: beginnings of sentences for the check's own metrics."""
        shown = handler.resolve_ref_schema(handler(schema))
        properties = shown.get("properties", {})
        sentence = sentence_schema(cls.metrics)
        for key in ("require", "warn"):
            properties.get(key, {})["items"] = sentence
        for key in ("slo", "sla"):
            properties[key] = {"description": properties.get(key, {}).get("description", "")} | sentence
        if not cls.uses_model:
            properties.pop("model", None)
        return shown

    @property
    def name(self) -> str:
        """Its id, or its kind."""
        return self.id or self.check

    @property
    def blocking(self) -> tuple[Requirement, ...]:
        """Requirements that block: ``require`` and the SLO."""
        return self.require + ((self.slo,) if self.slo else ())

    @property
    def requirements(self) -> tuple[Requirement, ...]:
        """All of them, blocking first."""
        return self.blocking + self.warn

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models named on the right of its requirements."""
        return tuple(dict.fromkeys(r.model for r in self.requirements if r.model is not None))

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Metrics of this check: those of its class, or what its fields name."""
        return self.metrics

    def metric(self, name: str) -> Metric | None:
        """The declared metric of this name."""
        return next((metric for metric in self.own_metrics if metric.name == name), None)

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Parts that ``metric`` will have, as far as the spec tells; None: known only when it runs."""
        return None

    def check_names(self, names: SpecNames) -> str | None:
        """Fault of it, given the spec's names, in one sentence with the remedy; None: nothing is wrong."""
        return None

    def runs_code(self) -> tuple[str, ...]:
        """Parts of it that run only under --trust, in words."""
        return ()

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Columns that its datasets must have beside those in `needs`, where that depends on the spec's names."""
        return {}

    def needs(self) -> tuple[Need, ...]:
        """Needs that must be met before it runs."""
        raise NotImplementedError

    def timings(self, known: Known) -> tuple[NeedTiming, ...]:
        """Timings that it takes, counted as it will ask for them; where nothing more is known, those of `needs`."""
        return tuple(need for need in self.needs() if isinstance(need, NeedTiming))

    def inspects(self) -> tuple[NeedRows, ...]:
        """Rows whose contents say what will be measured, such as a trace: they are looked at before anything is.

        Of those without columns only the number counts.
        """
        return ()

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """Facts for the plan from the rows that `inspects` names.

        Args:
            tables: Dataset: its columns that are looked at, all rows for which ``where`` holds.
            rows: Dataset: number of these rows; None: not known yet.

        Raises:
            InputError: A value that can't be used, with its row and the remedy.
        """
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Why this requirement can never pass at the known n, with the n needed; None: it can.

        As it stands here it holds a count of rows against those of the dataset, where the check names one alone.

        Args:
            requirement: One of its own.
            rows: Dataset: its rows, None where they are not known.
            confidence: The policy's, at which it must be shown.

        Raises:
            SpecError: It can never fail (`evalspec.language.reach.never_fails`).
        """
        named = datasets_named(self)
        return check_rows(requirement, named[0], rows.get(named[0])) if len(named) == 1 else None

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterable[Misfit]:
        """Faults of it, given the columns of its datasets, beside columns of `needs` that are not there.

        Args:
            headers: Dataset: its columns; others are not known yet.
            labels: Dataset: its label; others have none.
        """
        return ()

    def matched(self, labels: Mapping[str, str]) -> Iterable[Matched]:
        """Columns of one dataset that it looks for in others.

        Args:
            labels: Dataset: its label; others have none.
        """
        return ()

    def sides(self) -> Iterable[tuple[str, str]]:
        """Datasets that it holds against each other: of the same rows nothing would be found."""
        return ()

    def files_named(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Files that it names beside those of models and datasets, each with its place inside the entry."""
        return ()

    def holds_files_of(self) -> Iterable[str]:
        """Datasets of which the bytes of the files count, beside the rows that are read from them."""
        return ()

    def paired_by_token(self) -> Iterable[tuple[Requirement, str]]:
        """Requirements that hold two models against each other token by token, each with the other model."""
        return ()

    @property
    def assumed_design_effect(self) -> float | None:
        """Design effect of queries that it plans with; None: it plans with none."""
        return None

    def missing_from(self, requirement: Requirement, model: Model) -> str | None:
        """Reason why a requirement says nothing about its model, as the spec has that; None: it does.

        Args:
            requirement: One of its own.
            model: The check's model, or the one that the requirement names.
        """
        return None

    def same(self, requirement: Requirement) -> Same | None:
        """Claim of this requirement, where a requirement of another check may claim the same: both count once.

        Equal claims must come from the same test of the same rows. None: it is a claim of its own.
        """
        return None

    def defects(self) -> tuple[Defect, ...]:
        """Defects that `evalspec selftest` plants for this check before those of its evidence; mildest first."""
        return ()

    def scans(self, inputs: Inputs) -> tuple[Scan, ...]:
        """Scans that it will ask `Inputs.scan` for, so that checks which look at the same rows share a pass over them.

        Asked of the same inputs once, before anything else is drawn from their ``rng``: whatever a watcher draws comes
        from there, so that it is the same whoever had the rows go by.

        Args:
            inputs: Names of columns, files, randomness; rows are not read here.

        Raises:
            InputError: What it is about is not there.
        """
        return ()

    @classmethod
    def room(cls, name: str) -> ModuleType:
        """A module of the check's own package, imported when it is asked for.

        Args:
            name: Such as ``measure``.
        """
        return import_module(f"{cls.__module__.rpartition('.')[0]}.{name}")

    def run(self, inputs: Inputs) -> CheckResult:
        """Measure: ``measure(check, inputs)`` of the module ``measure`` beside the check's ``spec``.

        A check that is one file overrides this.

        Args:
            inputs: Rows, answers and timings.

        Raises:
            InputError: What is to be measured can't be used.
            NotRunError: It can't be measured here.
        """
        result: CheckResult = self.room("measure").measure(self, inputs)
        return result

    def row_scores(self, answers: Predictions) -> RowScores | None:
        """How good each answer is, where this check scores answers row by row; None: it does not.

        Answers that were given while timing are held by it against those that the check itself is about.

        Args:
            answers: Of its model, or of another one, to rows of its dataset.
        """
        return None


__all__ = [
    "Access",
    "Check",
    "CheckResult",
    "Dataset",
    "DatasetName",
    "Known",
    "LoadedModel",
    "Model",
    "ModelName",
    "Name",
    "Need",
    "NeedLikelihoods",
    "NeedPredictions",
    "NeedRows",
    "NeedTiming",
    "OutputName",
    "Part",
    "Sentence",
    "SpecNames",
    "check_where",
]
