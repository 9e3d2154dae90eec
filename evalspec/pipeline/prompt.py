"""Prompts of language models: texts with places for inputs, and how the answer to them is made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

from pydantic import ConfigDict, Field, PrivateAttr, StringConstraints, field_validator, model_validator

from evalspec.cells import values_of
from evalspec.errors import InputError, Problem
from evalspec.evidence.record import PROMPT
from evalspec.language.parts import Access, Dataset, DatasetName, Part, ShownRows
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    from evalspec.pipeline.options import ChoiceLayout

PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""A brace that stands for itself, a place for an input, or a brace that is neither."""

EXACTLY = re.compile(r"^exactly ([1-9][0-9]{0,5})$")
Text = Annotated[str, StringConstraints(min_length=1, max_length=1_000_000)]


BETWEEN_EXAMPLES = "\n\n"
"""What ends an example in a plain text."""
Role = Literal["system", "user", "assistant"]


class Turn(NamedTuple):
    """One message: its role and its text."""

    role: Role
    text: str


class Shot(NamedTuple):
    """A row that a prompt shows with its answer: what fills each place, and the answer."""

    values: Mapping[str, str]
    answer: str


class Shots(Part):
    """Examples shown in the prompt: the first rows of a dataset, the same for every question."""

    dataset: DatasetName = Field(description="Dataset of the examples; not the dataset that is evaluated.")
    rows: int = Field(ge=1, le=1000, description="How many: the first rows of the dataset.")
    ask: Text | dict[str, Text] | None = Field(
        None,
        description="Column for the prompt's place, or {place: column}; default: the columns with the names of the "
        "places.",
    )
    answer: Text = Field(description="Column with the assistant's answer.")
    _source: Dataset | None = PrivateAttr(None)

    @property
    def source(self) -> Dataset | None:
        """The dataset, once the spec is whole."""
        return self._source

    def bound(self, datasets: Mapping[str, Dataset]) -> Shots:
        """The same with its dataset, where there is one of that name."""
        copy = self.model_copy()
        copy._source = datasets.get(self.dataset)
        return copy

    def columns(self, places: Sequence[str]) -> dict[str, str]:
        """Place: the column that fills it in an example."""
        if isinstance(self.ask, str):
            return dict.fromkeys(places, self.ask)
        return {place: (self.ask or {}).get(place, place) for place in places}

    def examples(self, places: Sequence[str], access: Access, choice: ChoiceLayout | None = None) -> tuple[Shot, ...]:
        """The rows.

        Args:
            places: Of the prompt.
            access: Where the dataset may be read from.
            choice: How options are laid out and answered; None: there are none.

        Raises:
            InputError: The dataset can't be read, has too few rows, lacks a column, or a cell is empty; an answer names
                none of its row's options.
        """
        from evalspec.sources.reading.open import open_dataset

        if self._source is None:
            raise InputError(
                f"the examples of the prompt come from {self.dataset!r}, which is not a dataset of the spec"
            )
        columns = self.columns(places)
        listed = "" if choice is None else columns.get(choice.place, choice.options.column)
        read = (*columns.values(), self.answer, *((listed,) if listed else ()))
        table = open_dataset(self._source, access, tuple(dict.fromkeys(read)))
        if table.num_rows < self.rows:
            raise InputError(
                f"the prompt shows {self.rows:,} examples and {self.dataset!r} has {table.num_rows:,} rows",
                remedy=f"set rows: {table.num_rows}, or add rows",
            )
        rows = table.slice(0, self.rows)
        if choice is not None:
            rows = choice.laid_out(rows, listed, self.answer, self.dataset)
        texts = {name: self._texts(name, values_of(rows.column(name))) for name in {*columns.values(), self.answer}}
        return tuple(
            Shot({place: texts[column][row] for place, column in columns.items()}, texts[self.answer][row])
            for row in range(self.rows)
        )

    def _texts(self, column: str, cells: Sequence[Any]) -> list[str]:
        for row, cell in enumerate(cells):
            if cell is None or cell != cell or not str(cell).strip():
                raise InputError(
                    f"row {row} of {self.dataset!r} has no {column!r}, but is an example of the prompt",
                    remedy="fill it, or exclude the row with `where:`",
                )
        return [str(cell) for cell in cells]


class Prompt(Part):
    """Texts that a language model is sent about a row.

    ``{name}`` in a text is the input of that name; ``{{`` and ``}}`` are braces. Nothing in it is run.
    Of several texts in ``user`` the first is what ships; what checks of the model require must hold for each of them.
    """

    system: Text | None = Field(None, description="System text; default: none.")
    user: Text | tuple[Text, ...] = Field(
        description='User text: "Question: {question}"; or several wordings, the first being what ships.'
    )
    shots: Shots | None = Field(None, description="Examples shown first: {dataset: examples, rows: 4, answer: label}.")
    prefill: Text | None = Field(None, description="Fixed text with which the assistant's answer begins.")
    _examples: tuple[Shot, ...] = PrivateAttr(())

    @field_validator("system")
    @classmethod
    def _has_whole_places(cls, value: str | None) -> str | None:
        _check_places(value or "")
        return value

    @field_validator("user")
    @classmethod
    def _have_whole_places(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        texts = (value,) if isinstance(value, str) else value
        if not texts:
            raise custom_error(Problem("`user` is empty", remedy='write such as "Question: {question}"'))
        if len(set(texts)) < len(texts):
            raise custom_error(Problem("`user` has the same text twice", remedy="remove one"))
        for text in texts:
            _check_places(text)
        return value

    @model_validator(mode="after")
    def _fills_its_places(self) -> Self:
        problem = _shots_problem(self)
        if problem is not None:
            raise custom_error(problem)
        return self

    @property
    def templates(self) -> tuple[str, ...]:
        """Texts of the user; the first ships."""
        return (self.user,) if isinstance(self.user, str) else self.user

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs that its texts have a place for, in their order."""
        return _places((self.system or "", *self.templates))

    @property
    def shown_rows(self) -> ShownRows | None:
        """Rows that it shows as examples; None: it shows none."""
        if self.shots is None:
            return None
        columns = (*self.shots.columns(_places(self.templates)).values(), self.shots.answer)
        return ShownRows(self.shots.dataset, self.shots.rows, tuple(dict.fromkeys(columns)))

    @property
    def examples(self) -> tuple[Shot, ...]:
        """Its examples, once they are read."""
        return self._examples

    def bound(self, datasets: Mapping[str, Dataset]) -> Prompt:
        """The same, knowing the dataset of its examples."""
        return self if self.shots is None else self.model_copy(update={"shots": self.shots.bound(datasets)})

    def with_examples(self, access: Access, choice: ChoiceLayout | None = None) -> Prompt:
        """The same with the examples read.

        Args:
            access: Where they may be read from.
            choice: How options are laid out and answered; None: there are none.

        Raises:
            InputError: As `Shots.examples`.
        """
        if self.shots is None:
            return self
        copy = self.model_copy()
        copy._examples = self.shots.examples(_places(self.templates), access, choice)
        return copy

    def with_template(self, template: int) -> Prompt:
        """The same with one of its templates alone."""
        return self.model_copy(update={"user": self.templates[template]})

    def example_files(self, access: Access) -> dict[str, tuple[Path, ...]]:
        """Files of the examples, by what they are to a model; empty where it shows none.

        Raises:
            InputError: One is missing.
        """
        source = None if self.shots is None else self.shots.source
        return {} if source is None else {"examples": source.files(access)}

    def turns(self, values: Mapping[str, str]) -> tuple[Turn, ...]:
        """Messages about a row: system, examples, the question, and where it has one the begin of the answer.

        Args:
            values: Input: its text.
        """
        user = self.templates[0]
        system = () if self.system is None else (Turn("system", _filled(self.system, values)),)
        shown = tuple(
            turn
            for one in self._examples
            for turn in (Turn("user", _filled(user, one.values)), Turn("assistant", one.answer))
        )
        begun = () if self.prefill is None else (Turn("assistant", self.prefill),)
        return (*system, *shown, Turn("user", _filled(user, values)), *begun)

    def plain(self, values: Mapping[str, str]) -> str:
        """The same as one text, for a model that goes on with it: a blank line ends the system text and each example.

        Args:
            values: Input: its text.
        """
        if not self._examples and self.prefill is None:
            return "\n".join(turn.text for turn in self.turns(values))
        text, said = "", self.turns(values)
        for number, turn in enumerate(said):
            text += turn.text
            if number + 1 == len(said):
                break
            if turn.role == "user":
                text += "" if turn.text[-1].isspace() else " "
            else:
                text += BETWEEN_EXAMPLES
        return text

    def facts(self) -> dict[str, str | int]:
        """Facts for the record: digest of what is sent around the inputs, and how many examples are among it."""
        places = {name: f"{{{name}}}" for name in self.inputs}
        sent = json.dumps(self.turns(places), ensure_ascii=True)
        facts: dict[str, str | int] = {PROMPT: hashlib.sha256(sent.encode()).hexdigest()}
        return facts | ({"examples_shown": len(self._examples)} if self._examples else {})


def _either_length(schema: dict[str, Any]) -> None:
    schema["required"] = [name for name in schema["required"] if name != "max_tokens"]
    schema["anyOf"] = [{"required": [name]} for name in ("max_tokens", "tokens")]


class Generate(Part):
    """How an answer is generated. All settings are sent, since servers have their own defaults."""

    model_config = ConfigDict(json_schema_extra=_either_length)

    max_tokens: int = Field(ge=1, le=1_000_000, description="Maximum number of tokens in an answer.")
    tokens: Annotated[str, StringConstraints(pattern=EXACTLY.pattern)] | None = Field(
        None,
        description="exactly 128: that many, even if the answer would end earlier; only for capacity tests, instead "
        "of max_tokens.",
    )
    temperature: float = Field(0.0, ge=0, le=2, description="0: always the most likely token.")
    top_p: float | None = Field(
        None, gt=0, le=1, description="Sample only from the likeliest tokens with this total probability."
    )
    stop: tuple[Text, ...] = Field((), max_length=4, description="Texts that end an answer.")
    seed: int | None = Field(None, ge=0, lt=2**31, description="Seed of the server's sampling, if it supports one.")
    samples: int = Field(
        1,
        ge=1,
        le=100,
        description="Answers to each row: scores are means over all of them, and the row is the cluster; also for "
        "pass_at, pass_all, unlike. Over 1 needs a temperature.",
    )

    @model_validator(mode="before")
    @classmethod
    def _has_one_length(cls, given: Any) -> Any:
        exact = EXACTLY.fullmatch(str(given.get("tokens"))) if isinstance(given, dict) else None
        if exact is None:
            return given
        if "max_tokens" in given:
            message = f"`max_tokens` and `tokens: {given['tokens']}` both set the length of an answer"
            raise custom_error(Problem(message, remedy="keep one of them"))
        if given.get("stop"):
            message = f"with `tokens: {given['tokens']}` nothing may end an answer early, but `stop` would"
            raise custom_error(Problem(message, remedy="remove `stop`"))
        return {**given, "max_tokens": int(exact[1])}

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        if self.samples > 1 and self.temperature == 0:
            message = f"{self.samples} samples at a temperature of 0 are one and the same"
            raise custom_error(Problem(message, remedy="set a temperature such as 0.8, or remove `samples`"))
        return self

    def fields(self) -> dict[str, Any]:
        """Fields of a request."""
        fields: dict[str, Any] = {"max_tokens": self.max_tokens, "temperature": self.temperature}
        if self.top_p is not None:
            fields["top_p"] = self.top_p
        if self.tokens is not None:
            # What vLLM, llama.cpp and SGLang understand; the protocol itself has nothing of the kind.
            fields |= {"ignore_eos": True, "min_tokens": self.max_tokens}
        if self.stop:
            fields["stop"] = list(self.stop)
        if self.seed is not None:
            fields["seed"] = self.seed
        return fields


def _filled(text: str, values: Mapping[str, str]) -> str:
    return PLACE.sub(lambda match: values[match[1]] if match[1] else match[0][0], text)


def _near(text: str, match: re.Match[str]) -> str:
    return repr(text[max(0, match.start() - 20) : match.end() + 20])


def _places(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(match[1] for text in texts for match in PLACE.finditer(text) if match[1]))


def _check_places(text: str) -> None:
    for match in PLACE.finditer(text):
        if match[0] in ("{", "}") or match[1] == "":
            remedy = "write {{ and }} for braces, {name} for an input"
            raise custom_error(Problem(f"there is a single brace in the text: {_near(text, match)}", remedy=remedy))


def _shots_problem(prompt: Prompt) -> Problem | None:
    """A template that lacks a place which another one has, or examples that fill another number of places."""
    every = set(_places(prompt.templates))
    for text in prompt.templates:
        missing = sorted(every - set(_places((text,))))
        if missing:
            return Problem(
                f"the template {_shown(text)} has no place for {missing[0]!r}, but another template has",
                remedy=f'put "{{{missing[0]}}}" into it',
            )
    if prompt.shots is None:
        return None
    ask = prompt.shots.ask
    if isinstance(ask, str) and len(every) != 1:
        return Problem(
            f"`ask: {ask}` fills one place, but `user` has {len(every)}",
            remedy="name a column for each: ask: {place: column}",
        )
    for place in ask if isinstance(ask, dict) else ():
        if place not in every:
            return Problem(f"`ask` fills {place!r}, but `user` has no such place", choices=tuple(sorted(every)))
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
