"""Base of the checks: what one declares, knows before it runs and needs, and what comes of it, a `CheckResult`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, GetJsonSchemaHandler, ValidationInfo, field_validator
from pydantic_core import CoreSchema

from evalspec.errors import Problem, SpecError
from evalspec.evidence.metric import Metric, Shows
from evalspec.language.declarations import datasets_named
from evalspec.language.names import ModelName, Name, Sentence, SpecNames
from evalspec.language.parts.model import Model
from evalspec.language.parts.part import Part
from evalspec.language.reach import check_rows
from evalspec.language.requirement import Requirement, Same, parse_requirement, sentence_schema
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    import pyarrow as pa

    from evalspec.evidence.blocks import AnyBlock
    from evalspec.evidence.estimate import Comparison, ComparisonParts, Estimate, Fact, Measured, Parts
    from evalspec.evidence.frozen import Cell
    from evalspec.evidence.record import Counts
    from evalspec.evidence.remedies import AnyRemedy
    from evalspec.language.defects import Defect
    from evalspec.language.header import Header, Matched, Misfit
    from evalspec.language.inputs import Inputs, Predictions, RowScores
    from evalspec.language.scans import Scan


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
    compares_with: ClassVar[Literal["model", "training"]] = "model"
    """Names on the right of its requirements are those of models, or of trainings, which it reads."""
    each_template: ClassVar[bool] = False
    """What it requires must hold for each template of its model's prompt."""
    between_templates: ClassVar[tuple[str, ...]] = ()
    """Metrics that are about several templates at once."""
    shows: ClassVar[tuple[Shows, ...]] = ()
    """What all of its metrics show to those who read its record and do not know it."""

    check: str
    id: Name | None = Field(None, description="Name of the check where a spec has two of a kind; default: its kind.")
    model: ModelName = Field("candidate", description="The model to check.")
    require: tuple[Sentence, ...] = Field((), description="What must hold; blocks.")
    warn: tuple[Sentence, ...] = Field((), description="What should hold; never blocks.")
    slo: Sentence | None = Field(
        None, description="A service level objective: a blocking requirement at a tail percentile."
    )
    sla: Sentence | None = Field(
        None, description="What was promised to customers: looser than the SLO, reported as headroom."
    )
    report_only: bool = Field(False, description="Measure and report; decide nothing.")
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
            raise custom_error(Problem(f"{kind} checks data only, so it has no model", remedy="remove `model:`"))
        return value

    @field_validator("require", "warn", mode="before")
    @classmethod
    def _read_list(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            raise custom_error(Problem(f"{value!r} is not a list", remedy=f"write a list: [{value}]"))
        if not isinstance(value, list | tuple):
            return value
        return tuple(cls.read_sentence(one, blocking=info.field_name == "require") for one in value)

    @field_validator("slo", "sla", mode="before")
    @classmethod
    def _read_one(cls, value: Any, info: ValidationInfo) -> Any:
        return cls.read_sentence(value, blocking=info.field_name == "slo")

    @classmethod
    def under(cls, dimension: str) -> type[Check]:
        """The class for entries under a dimension; a kind that is allowed under several may have one for each."""
        return cls

    @classmethod
    def metrics_of(cls, entry: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Metrics that the requirements of an entry may name; its fields may define some.

        Args:
            entry: The entry as written in the spec.
        """
        return cls.metrics

    @classmethod
    def read_sentence(cls, value: Any, *, blocking: bool) -> Any:
        """Parse a sentence as a requirement on this check's metrics; return anything else unchanged."""
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
        """All requirements, blocking ones first."""
        return self.blocking + self.warn

    @property
    def baselines(self) -> tuple[str, ...]:
        """Models on the right side of its requirements."""
        return self.sides_named if self.compares_with == "model" else ()

    @property
    def sides_named(self) -> tuple[str, ...]:
        """Names on the right side of its requirements: models or trainings."""
        return tuple(dict.fromkeys(r.model for r in self.requirements if r.model is not None))

    @property
    def own_metrics(self) -> tuple[Metric, ...]:
        """Metrics of this check: those of its class, or those that its fields define."""
        return self.metrics

    def metric(self, name: str) -> Metric | None:
        """The metric of this name; None: it has none."""
        return next((metric for metric in self.own_metrics if metric.name == name), None)

    def part_names(self, metric: Metric, names: SpecNames) -> tuple[str, ...] | None:
        """Parts of ``metric``, if the spec alone determines them; None: they are known only when the check runs."""
        return None

    def check_names(self, names: SpecNames) -> str | None:
        """Error in its fields, given the spec's names, as one sentence with the remedy; None: there is none."""
        return None

    def runs_code(self) -> tuple[str, ...]:
        """Parts of it that run only under --trust, as text for messages."""
        return ()

    def measures_read(self, training: str) -> tuple[str, ...]:
        """Measures that it reads of the logs of a training, so that one that is not logged is noticed early.

        Args:
            training: Name of the training.
        """
        return ()

    def trials_of(self, training: str) -> TrialRuns:
        """Runs of a training that it needs beside those that count.

        Args:
            training: Name of the training.
        """
        return TrialRuns()

    def columns_read(self, names: SpecNames) -> Mapping[str, tuple[str, ...]]:
        """Further columns that its datasets must have, if they depend on the spec's names; others are in `needs`."""
        return {}

    def needs(self) -> tuple[Need, ...]:
        """Needs of the check: rows, predictions, timings or likelihoods."""
        raise NotImplementedError

    def timings(self, known: Known) -> tuple[NeedTiming, ...]:
        """Timings that it will take, as exactly as is known; by default those of `needs`."""
        return tuple(need for need in self.needs() if isinstance(need, NeedTiming))

    def inspects(self) -> tuple[NeedRows, ...]:
        """Rows whose content determines what is measured, such as a trace; they are read before the measurement.

        Of an entry without columns only the number of rows is read.
        """
        return ()

    def inspect_rows(self, tables: Mapping[str, pa.Table], rows: Mapping[str, int | None]) -> object:
        """Facts for the plan, from the rows that `inspects` names.

        Args:
            tables: Dataset: the columns in question, of all rows that meet ``where``.
            rows: Dataset: number of these rows; None: not known yet.

        Raises:
            InputError: A value can't be used; names its row and the remedy.
        """
        return None

    def check_requirement(
        self, requirement: Requirement, rows: Mapping[str, int | None], confidence: float = 0.95
    ) -> str | None:
        """Reason why this requirement can never pass at the known n, with the n needed; None: it can.

        The base class compares a limit on rows with the rows of the dataset, if the check names only one dataset.

        Args:
            requirement: One of its own.
            rows: Dataset: number of rows; None: not known.
            confidence: Confidence of the policy.

        Raises:
            SpecError: It can never fail (`evalspec.language.reach.never_fails`).
        """
        named = datasets_named(self)
        return check_rows(requirement, named[0], rows.get(named[0])) if len(named) == 1 else None

    def check_headers(self, headers: Mapping[str, Header], labels: Mapping[str, str]) -> Iterable[Misfit]:
        """Errors in its fields, given the columns of its datasets; missing columns of `needs` are reported elsewhere.

        Args:
            headers: Dataset: its columns. Those of other datasets are not known yet.
            labels: Dataset: its label. Other datasets have none.
        """
        return ()

    def matched(self, labels: Mapping[str, str]) -> Iterable[Matched]:
        """Columns of one dataset that other datasets must have too.

        Args:
            labels: Dataset: its label. Other datasets have none.
        """
        return ()

    def sides(self) -> Iterable[tuple[str, str]]:
        """Pairs of datasets that it compares, which must not be the same rows."""
        return ()

    def files_named(self) -> Iterable[tuple[tuple[str | int, ...], str]]:
        """Files that its fields name, each with its place inside the entry; not those of models and datasets."""
        return ()

    def holds_files_of(self) -> Iterable[str]:
        """Datasets whose files it compares byte by byte, and not only by their rows."""
        return ()

    def paired_by_token(self) -> Iterable[tuple[Requirement, str]]:
        """Requirements that compare two models token by token, each with the other model."""
        return ()

    def looks(self, known: Known) -> tuple[Self, ...]:
        """Forms of this check, rising in length, the last one whole: each may end the measurement. None by default.

        What a form measures, the forms after it only add to: the same schedules, with more processes or more of them.

        Args:
            known: What is known of the models before anything is measured.
        """
        return ()

    @property
    def assumed_design_effect(self) -> float | None:
        """Design effect of queries that the plan assumes; None: none."""
        return None

    def missing_from(self, requirement: Requirement, model: Model) -> str | None:
        """Reason why a requirement does not apply to a model as the spec defines it; None: it applies.

        Args:
            requirement: One of its own.
            model: The check's model, or the one that the requirement names.
        """
        return None

    def fault_of_made(self, training: str, model: Model) -> str | None:
        """Reason why the models that a training makes can't be judged as the check says; None: they can.

        Args:
            training: Name of the training.
            model: As the spec defines the model that it makes.
        """
        return None

    def same(self, requirement: Requirement) -> Same | None:
        """Claim of this requirement, if a requirement of another check may make the same claim: both count once.

        Equal claims must come from the same test of the same rows. None: no other requirement makes it.
        """
        return None

    def defects(self) -> tuple[Defect, ...]:
        """Defects that `evalspec selftest` plants for this check, mildest first; those of its evidence follow."""
        return ()

    def scans(self, inputs: Inputs) -> tuple[Scan, ...]:
        """Scans that it will pass to `Inputs.scan`; checks on the same rows share one pass over them.

        Called once for the same inputs, before anything else draws from their ``rng``. Watchers draw from it too, so
        they draw the same numbers whichever check reads the rows.

        Args:
            inputs: Names of columns, files, randomness; rows are not read here.

        Raises:
            InputError: A dataset, column or file is missing.
        """
        return ()

    @property
    def passing(self) -> tuple[str, ...]:
        """Datasets whose rows go by once while it runs, beside those of `scans`; `plan` names them."""
        return ()

    @classmethod
    def room(cls, name: str) -> ModuleType:
        """Import a module of the check's own package, when it is needed.

        Args:
            name: Name of the module, such as ``measure``.
        """
        return import_module(cls.room_path(name))

    @classmethod
    def room_path(cls, name: str) -> str:
        """Path of a module of the check's own package, as `room` imports it."""
        return f"{cls.__module__.rpartition('.')[0]}.{name}"

    def run(self, inputs: Inputs) -> CheckResult:
        """Measure, by ``measure(check, inputs)`` in the module ``measure`` beside the check's ``spec``.

        A check in a single file overrides this.

        Args:
            inputs: Rows, answers and timings.

        Raises:
            InputError: Model or data can't be used.
            NotRunError: It can't be measured here.
        """
        result: CheckResult = self.room("measure").measure(self, inputs)
        return result

    def row_scores(self, answers: Predictions) -> RowScores | None:
        """Score of each answer, if this check scores answers row by row; None: it does not.

        The scores serve to compare answers given while timing with those that the check itself judges.

        Args:
            answers: Answers of its model, or a different one, to rows of its dataset.
        """
        return None


def _no_counts() -> Counts:
    # Reading a spec takes no record, and a record's classes are a tenth of the time that it takes.
    from evalspec.evidence.record import Counts

    return Counts()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of a check. It holds evidence and decides nothing.

    Args:
        estimates: Metric: estimate, fact or parts. Every metric in a requirement must be here, or in ``missing`` with
            the reason.
        comparisons: (metric, model): the comparison, for requirements that name a model.
        missing: Metric, or ``metric(part)``: reason why there is no value.
        blocks: Blocks for the report.
        counts: How many rows or queries were used, left out or failed.
        conditions: Conditions of the numbers: batch, precision, device, boundary, threads.
        notes: Sentences for the reader.
        weakens: Sentences for the list of what weakens the verdict.
        evidence: (file in ``inputs.evidence``, its content).
        remedies: Changes that would help to meet requirements, if the check knows any.
        blind: Metric, or ``metric(part)``: the score of an answer that ignores the row, and which answer it is.
        by_template: Name of another template of the model's prompt: its result. Requirements must hold for each.
        answers_each: Metric: answers to each row, if its estimates and comparisons count answers (samples, orders of
            options) instead of rows.
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


@dataclass(frozen=True, slots=True)
class TrialRuns:
    """Runs of a training that are made to try it.

    Args:
        kills: Runs that are killed once and started again; half of them while a checkpoint is written.
        twins: Runs of a seed that another run has too.
        plain: Pairs of runs with and without checkpoints, of seeds that others have too.
    """

    kills: int = 0
    twins: int = 0
    plain: int = 0


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
    """Number of calls of `Inputs.predict` on such rows: altered copies, or the same rows again."""


@dataclass(frozen=True, slots=True)
class NeedTiming:
    """The check times a model on this dataset. ``queries`` is the number for the plan, over all processes."""

    dataset: str
    model: str
    queries: int
    seconds: float
    """A guess at how long it takes, for the plan; measured ones replace it."""
    more: str = ""
    """What else may be asked for, in words, where it is known only when it runs."""
    ahead: bool = False
    """Its processes are the first that it times, and may have loaded the model long before."""
    shares_processes: bool = False
    """Its first processes may be those in which the check before it timed the same model on the same rows.

    If that says ``ahead``, and the model `forgets`. A check that audits for caching has to have its own.
    """


@dataclass(frozen=True, slots=True)
class NeedLikelihoods:
    """The check needs a model's likelihoods of texts from this dataset (`Inputs.token_likelihoods`)."""

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
