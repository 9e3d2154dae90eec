"""Prompts of language models: texts with places for inputs, and how the answer to them is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from evalspec.errors import Problem
from evalspec.language.parts import Part
from evalspec.language.units import custom_error

PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""A brace that stands for itself, a place for an input, or a brace that is neither."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=1_000_000)]


class Prompt(Part):
    """Texts that a language model is sent about a row.

    ``{name}`` in a text is the input of that name; ``{{`` and ``}}`` are braces. Nothing in it is run.
    """

    system: Text | None = Field(None, description="System text; left out, there is none.")
    user: Text = Field(description='What the user says: "Question: {question}".')

    @field_validator("system", "user")
    @classmethod
    def _has_whole_places(cls, value: str | None) -> str | None:
        for match in PLACE.finditer(value or ""):
            if match[0] in ("{", "}") or match[1] == "":
                remedy = "write {{ and }} for braces, {name} for an input"
                raise custom_error(
                    Problem(f"a brace stands alone in the text: {_near(value or '', match)}", remedy=remedy)
                )
        return value

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that its texts have a place for, in their order."""
        texts = (self.system or "", self.user)
        return tuple(dict.fromkeys(match[1] for text in texts for match in PLACE.finditer(text) if match[1]))

    def texts(self, values: Mapping[str, str]) -> tuple[str | None, str]:
        """System text, or None, and the user's, with the inputs in their places.

        Args:
            values: Input: its text.
        """
        return None if self.system is None else _filled(self.system, values), _filled(self.user, values)


class Generate(Part):
    """How an answer is made. All of it is sent, since servers have defaults of their own."""

    max_tokens: int = Field(ge=1, le=1_000_000, description="Tokens of an answer at the most.")
    temperature: float = Field(0.0, ge=0, le=2, description="0: always the most likely token.")
    top_p: float | None = Field(None, gt=0, le=1, description="Sample from the likeliest tokens of this mass only.")
    stop: tuple[Text, ...] = Field((), max_length=4, description="Texts that end an answer.")
    seed: int | None = Field(None, ge=0, lt=2**31, description="Of the server's sampling, where it has one.")

    def fields(self) -> dict[str, Any]:
        """Fields of a request."""
        fields: dict[str, Any] = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        if self.top_p is not None:
            fields["top_p"] = self.top_p
        if self.stop:
            fields["stop"] = list(self.stop)
        if self.seed is not None:
            fields["seed"] = self.seed
        return fields


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACE.sub(lambda match: values[match[1]] if match[1] else match[0][0], text)


def _near(text: str, match: re.Match[str]) -> str:
    return repr(text[max(0, match.start() - 20) : match.end() + 20])
