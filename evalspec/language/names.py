"""Names in a spec, what they may refer to, and the other types that fields of parts are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo, WithJsonSchema

from evalspec.errors import Problem, SpecError, did_you_mean
from evalspec.language.declarations import Rows
from evalspec.language.requirement import Requirement
from evalspec.language.units import custom_error
from evalspec.language.where import parse_where


@dataclass(frozen=True, slots=True)
class SpecNames:
    """The names a spec defines, for checks that validate against them."""

    models: tuple[str, ...]
    datasets: tuple[str, ...]
    slices: tuple[str, ...]
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Dataset: where and when it was collected, as far as the spec says."""
    quantization: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Model: how it was quantized, as far as the spec says."""
    trainings: tuple[str, ...] = ()


Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]


def _known(group: Literal["models", "datasets", "trainings"]) -> AfterValidator:
    """Refuses a name that the spec does not define, where the names are handed over as pydantic's context."""

    def check(name: str, info: ValidationInfo) -> str:
        if isinstance(info.context, SpecNames):
            names = getattr(info.context, group)
            if name not in names:
                message = f"unknown {group[:-1]} {name!r}"
                raise custom_error(Problem(message, choices=names, remedy=did_you_mean(name, names)))
        return name

    return AfterValidator(check)


DatasetName = Annotated[
    Name,
    _known("datasets"),
    Field(description="Name of a dataset in `datasets:`.", json_schema_extra={"x-names": "datasets"}),
    Rows("judged"),
]
"""A dataset; a field of this type says which rows the check is about, unless it says more (`Rows`)."""
ModelName = Annotated[
    Name,
    _known("models"),
    Field(description="Name of a model in `models:`.", json_schema_extra={"x-names": "models"}),
]
TrainingName = Annotated[
    Name,
    _known("trainings"),
    Field(description="Name of a training in `trainings:`.", json_schema_extra={"x-names": "trainings"}),
    Rows("judged"),
]
Sentence = Annotated[Requirement, WithJsonSchema({"type": "string"})]
"""A requirement, written as a sentence such as ``accuracy >= 95 %``."""


def check_where(text: str) -> str:
    """The text itself, if it is a ``where``; for validators."""
    try:
        parse_where(text)
    except SpecError as error:
        raise custom_error(error.problems[0]) from error
    return text
