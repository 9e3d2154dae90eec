"""The whole spec, validated and frozen."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StringConstraints, WithJsonSchema, field_validator

from evalspec.errors import Problem
from evalspec.evidence.frozen import is_number
from evalspec.evidence.policy import Claim, Policy, Rollback, Waiver
from evalspec.evidence.profile import Profile, Without
from evalspec.language.header import Header
from evalspec.language.parts import Access, Check, Dataset, Model, Name, Part, SpecNames, Training, check_where
from evalspec.language.units import Duration, custom_error
from evalspec.loading.in_memory import Handover

SpecName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]


def _as_text(value: Any) -> Any:
    return str(value) if is_number(value) else value


def _day(value: str) -> str:
    try:
        return datetime.date.fromisoformat(value).isoformat()
    except ValueError as error:
        raise custom_error(Problem(f"{value!r} is not a day", remedy="write such as 2026-12-31")) from error


NOT_LOADED = "models were found but not loaded: inputs, outputs, classes and devices"
"""What is not verified of a spec whose models were not loaded."""


class Slice(Part):
    """A named subset of rows."""

    name: Name = Field(description="Its name in requirements: `accuracy(dark) >= 88 %`.")
    where: str = Field(description="Its rows: `lux < 100`, `site in ['lab', 'field'] and occlusion > 0.5`.")

    @field_validator("where")
    @classmethod
    def _readable(cls, value: str) -> str:
        return check_where(value)


class SpecPolicy(Policy):
    """How requirements are decided."""

    confidence: float = Field(0.95, ge=0.8, lt=1, description="Confidence of each decision; at 0.95, 1 in 20 is wrong.")
    inconclusive: Literal["block", "allow"] = Field(
        "block", description="`allow` lets undecided requirements pass; the report then says so at the top."
    )
    screens: Literal["tell", "block", "off"] = Field(
        "tell",
        description="What to do about defects that screens find although no requirement covers them: report them "
        "under the verdict, decide NOT READY, or skip the screens.",
    )
    stop: Literal["early", "full"] = Field(
        "early",
        description="`early` ends a timed check as soon as every requirement of it is far from its threshold; `full` "
        "measures all that is planned.",
    )


NOT_BLANK = r"\S"
"""Whoever sets something aside says so in words."""


class SpecWaiver(Waiver):
    """A requirement that is deliberately set aside; shown first in the report."""

    of: str = Field(description="Name of the requirement: <check id>/<metric>[(part)][ vs <model>], or `subject`.")
    why: str = Field(pattern=NOT_BLANK, description="Why it may be set aside.")
    owner: str = Field(pattern=NOT_BLANK, description="Who is responsible.")
    expires: str = Field(description="Last day of validity: 2026-12-31.")

    @field_validator("expires")
    @classmethod
    def _is_a_day(cls, value: str) -> str:
        return _day(value)


class SpecWithout(Without):
    """A mandatory item of the profile that is deliberately set aside; shown first in the report, like a waiver."""

    of: str = Field(description="Name of the item: energy.")
    why: str = Field(pattern=NOT_BLANK, description="Why it may be set aside.")
    owner: str = Field(pattern=NOT_BLANK, description="Who is responsible.")
    expires: str | None = Field(None, description="Last day of validity; default: no end.")

    @field_validator("expires")
    @classmethod
    def _is_a_day(cls, value: str | None) -> str | None:
        return None if value is None else _day(value)


class SpecClaim(Claim):
    """Claim that somebody makes about the model; shown beside what was measured, never used as evidence."""

    metric: str = Field(description="Name of a metric.")
    value: Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"type": ["string", "number"]})] = Field(
        description="The claimed value with its unit: 1200 qps."
    )
    by: str = Field(description="Who claims it.")


class SpecRollback(Part):
    """When production should roll back to the previous model; written to monitoring.json, never decided here."""

    when: str = Field(min_length=1, description="Bad condition in production: latency_p99 > 50 ms.")
    for_s: Duration = Field(0.0, alias="for", description="For how long without a break: 10 min.")


class SpecFields(Part):
    """Requirements that must hold before a model ships: of the system, of the model, of the data it was judged on."""

    evalspec: Literal[1] = Field(description="Version of the spec's language.")
    name: SpecName = Field(description="Name of the spec, and of the folder of its reports.")
    seed: int = Field(0, ge=0, lt=2**53, description="Seed of all random draws.")
    slices: tuple[Slice, ...] = Field((), description="Named subsets of rows.")
    policy: SpecPolicy = Field(default_factory=SpecPolicy, description="How requirements are decided.")
    waivers: tuple[SpecWaiver, ...] = Field((), description="Requirements that are deliberately set aside.")
    profile: str | None = Field(
        None, min_length=1, description="The deployment context: a name, or a file in the folder of the spec."
    )
    without: tuple[SpecWithout, ...] = Field((), description="Items of the profile that are deliberately set aside.")
    claims: tuple[SpecClaim, ...] = Field((), description="Claims that others make about the model.")
    rollback: tuple[SpecRollback, ...] = Field(
        (), description="When production should roll back to the previous model."
    )


@dataclass(frozen=True, slots=True)
class Spec:
    """A spec that holds together. Nothing in it was measured.

    Args:
        name: Its name.
        seed: Seed of all random draws.
        models: By name.
        datasets: By name; trainings are among them, as rows of evaluations.
        slices: Named subsets of rows.
        system, model, data: The checks of each dimension.
        policy: How requirements are decided.
        waivers: Requirements set aside.
        claims: Claims that others make about the model.
        rollback: When production is to go back.
        file: As the user named it.
        folder: Absolute; relative paths start here.
        text: The spec as it was run: as written, or with the overrides in it.
        digest: Of its content, in hexadecimal; comments and layout don't count.
        overrides: ``--set`` arguments that are in it.
        headers: Dataset: rows and columns, where they were looked up.
        unverified: Sentences: what validation could not know.
        seen: Check: what it saw of the rows that it looks at, where they were read.
        asks: Sentences: what a run must be allowed.
        profile: What its profile asks for and what of the spec answers it; None: it names none.
        profile_text: The text of the profile's file.
        without: Items of the profile that are set aside.
        memory: What the calling program handed over in memory; None: it handed nothing over.
    """

    name: str
    seed: int
    models: Mapping[str, Model]
    datasets: Mapping[str, Dataset]
    slices: tuple[Slice, ...]
    system: tuple[Check, ...]
    model: tuple[Check, ...]
    data: tuple[Check, ...]
    policy: Policy
    waivers: tuple[Waiver, ...]
    claims: tuple[Claim, ...]
    rollback: tuple[Rollback, ...]
    file: str
    folder: Path
    text: str
    digest: str
    overrides: tuple[str, ...] = ()
    headers: Mapping[str, Header] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()
    seen: Mapping[str, object] = field(default_factory=dict)
    asks: tuple[str, ...] = ()
    profile: Profile | None = None
    profile_text: str = ""
    without: tuple[Without, ...] = ()
    memory: Handover | None = None

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks, system first."""
        return self.system + self.model + self.data

    @property
    def names(self) -> SpecNames:
        """The names that it defines."""
        return SpecNames(
            models=tuple(self.models),
            datasets=tuple(name for name in self.datasets if name not in self.trainings),
            slices=tuple(one.name for one in self.slices),
            origins={name: dataset.origin for name, dataset in self.datasets.items()},
            quantization={name: model.quantization for name, model in self.models.items()},
            trainings=tuple(self.trainings),
        )

    @property
    def trainings(self) -> Mapping[str, Training]:
        """The trainings among its datasets."""
        return {name: one for name, one in self.datasets.items() if isinstance(one, Training)}

    def check(self, name: str) -> Check | None:
        """The check of this name."""
        return next((check for check in self.checks if check.name == name), None)

    def access(
        self,
        *,
        trust: bool = False,
        allow_outside: bool = False,
        hub: bool = False,
        hosts: frozenset[str] = frozenset(),
        env: frozenset[str] = frozenset(),
        cloud_credentials: bool = False,
    ) -> Access:
        """Where its parts may look, and what they may run."""
        access = Access(self.folder, trust, allow_outside, hub, hosts, env, cloud_credentials)
        return access if self.memory is None else self.memory.given_to(access)
