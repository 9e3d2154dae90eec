"""Declarations that a check can make of its own fields, so that nothing else has to know them.

A field says it in its type: ``queries: Annotated[int, Effort()] = 500``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

RowsRole = Literal["judged", "beside", "trained"]


@dataclass(frozen=True, slots=True)
class Effort:
    """A field that sets how much is measured or shown, not what: its value does not affect comparability."""


@dataclass(frozen=True, slots=True)
class Circumstance:
    """A field whose value is a condition of every number, under the field's name."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A field that lists parts: a part that is in two different lists is the same part."""


@dataclass(frozen=True, slots=True)
class ClassOfModel:
    """A field that names a class of the model; refused if the spec states the classes without it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A field that names one or more datasets.

    Args:
        role: Role of the rows in the check. ``judged``: the check is about them. ``beside``: the check compares them,
            and the model is judged on one of the two sides. ``trained``: the model was trained on them.
    """

    role: RowsRole


Saying = type[Effort] | type[Circumstance] | type[Listing] | type[ClassOfModel]


def fields_that_say(check: type[BaseModel], what: Saying) -> Mapping[str, str]:
    """Fields whose type says something, in the order of the class: key in a spec, name of the attribute."""
    return {
        about.alias or name: name
        for name, about in check.model_fields.items()
        if any(isinstance(one, what) for one in about.metadata)
    }


def datasets_named(check: BaseModel, *roles: RowsRole) -> tuple[str, ...]:
    """Datasets that a check's fields name in one of these roles, without roles all of them.

    Of a field that says several roles the last one counts.
    """
    return tuple(dict.fromkeys(_named(check, roles)))


def _named(check: BaseModel, roles: tuple[RowsRole, ...]) -> Iterator[str]:
    for name, about in type(check).model_fields.items():
        said = [one.role for one in about.metadata if isinstance(one, Rows)]
        if not said or (roles and said[-1] not in roles):
            continue
        value = getattr(check, name)
        many = (value,) if isinstance(value, str) else value if isinstance(value, tuple) else ()
        yield from (one for one in many if isinstance(one, str))
