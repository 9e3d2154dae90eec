"""The model of an entry that is being made up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Model
from evalspec.language.registry import Registry


def validated(registry: Registry, fields: Mapping[str, Any]) -> Model:
    """The model of an entry.

    Raises:
        InputError: The entry is wrong.
    """
    try:
        return registry.runtime(str(fields["kind"])).model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{fields.get('path') or fields.get('url')}: {error.errors()[0]['msg']}") from error
