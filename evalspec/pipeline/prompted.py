"""Fields and abilities that all kinds of language model share: a prompt, and how the answer to it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from evalspec.errors import Problem
from evalspec.language.inputs import SentTexts
from evalspec.language.parts import Access, Dataset, OptionScore, ShownRows
from evalspec.language.units import custom_error
from evalspec.pipeline.model_fields import RuntimeModel
from evalspec.pipeline.options import ChoiceLayout, MultipleChoice
from evalspec.pipeline.prompt import Generate, Prompt


class PromptedModel(RuntimeModel):
    """A model that may be asked about a row with a text."""

    prompt: Prompt | None = Field(None, description="What is sent for a row.")
    generate: Generate | None = Field(None, description="How an answer is generated.")
    options: MultipleChoice | None = Field(
        None,
        description="Options to choose from: the answer is a probability for each. With `generate` the model also "
        "writes a text, which is what is timed and what `answers` checks.",
    )

    @model_validator(mode="after")
    def _can_choose(self) -> Self:
        problem = None if self.options is None else self._options_problem(self.options)
        if problem is not None:
            raise custom_error(problem)
        return self

    def _options_problem(self, options: MultipleChoice) -> Problem | None:
        if self.prompt is None:
            remedy = 'such as prompt: {user: "{question}\\n{choices}\\nAnswer:"}'
            return Problem("`options` needs `prompt:`", remedy=remedy)
        shown = self.options_input in self.prompt.inputs
        if options.show == "letters" and not shown:
            message = f"the options are shown with letters, but `prompt` has no place for {options.column!r}"
            return Problem(message, remedy=f'put "{{{self.options_input}}}" into `user`, or set `show: none`')
        if options.show == "none" and shown:
            message = f"`show: none` is set, but `prompt` has a place for {options.column!r}"
            return Problem(message, remedy="remove one of them")
        if options.score == "letter" and options.show == "none":
            return Problem(
                "a letter is scored, but no letters are shown", remedy="set `show: letters`, or `score: sum`"
            )
        if self.classes is not None:
            return Problem("`classes` and `options` can't be combined: the options are the classes", remedy="keep one")
        if self.answer is not None and self.generate is None:
            remedy = "remove it, or add `generate:`, so that the model also writes a text"
            return Problem(
                "`answer` locates the answer in a text, but a model with `options` writes none", remedy=remedy
            )
        if self.outputs:
            return Problem("`outputs` of a model with `options` are probabilities", remedy="remove it")
        return None

    @property
    def options_input(self) -> str:
        """Input of the model that lists the options; empty: it chooses from none."""
        if self.options is None:
            return ""
        column = self.options.column
        return next((name for name, fed in self.inputs.items() if fed == column), column)

    @property
    def texts_taken(self) -> tuple[str, ...]:
        """Inputs that it takes: the places of the prompt, and the list of options."""
        places = () if self.prompt is None else self.prompt.inputs
        return places if self.options is None else tuple(dict.fromkeys((*places, self.options_input)))

    @property
    def sampled(self) -> bool:
        """At a temperature over 0."""
        return self.generate is not None and self.generate.temperature > 0

    def unsampled(self) -> Self:
        """At a temperature of 0."""
        if self.generate is None:
            return self
        return self.model_copy(update={"generate": self.generate.model_copy(update={"temperature": 0.0, "samples": 1})})

    @property
    def prompt_columns(self) -> tuple[str, ...]:
        """All places of the prompt, unless `inputs` feeds them, or stages make what feeds them."""
        return () if self.prompt is None or self.inputs or self.preprocess else self.texts_taken

    @property
    def shown_rows(self) -> ShownRows | None:
        """Examples of its prompt."""
        shown = None if self.prompt is None else self.prompt.shown_rows
        if shown is None or self.options is None or self.options.show != "none":
            return shown
        return replace(shown, columns=tuple(dict.fromkeys((*shown.columns, self.options.column))))

    @property
    def templates(self) -> int:
        """Texts of its prompt's user."""
        return 1 if self.prompt is None else len(self.prompt.templates)

    @property
    def orders(self) -> int:
        """As `options` has it."""
        return 1 if self.options is None else self.options.orders

    @property
    def chooses(self) -> OptionScore | None:
        """By what `options` says."""
        return None if self.options is None else self.options.score

    @property
    def writes_texts(self) -> bool:
        """With `generate`."""
        return self.generate is not None

    @property
    def samples(self) -> int:
        """As `generate` has it."""
        return 1 if self.generate is None else self.generate.samples

    @property
    def exact_tokens(self) -> int | None:
        """As `generate` has it."""
        return None if self.generate is None or self.generate.tokens is None else self.generate.max_tokens

    def bound(self, datasets: Mapping[str, Dataset]) -> Self:
        """With the dataset of its prompt's examples."""
        if self.prompt is None or self.prompt.shots is None:
            return self
        return self.model_copy(update={"prompt": self.prompt.bound(datasets)})

    def with_examples(self, access: Access) -> Self:
        """With the examples of its prompt read.

        Raises:
            InputError: As `evalspec.pipeline.prompt.Shots.examples`.
        """
        if self.prompt is None or self.prompt.shots is None:
            return self
        choice = None if self.options is None else ChoiceLayout(self.options, self.options_input)
        return self.model_copy(update={"prompt": self.prompt.with_examples(access, choice)})

    def sent_texts(self, access: Access) -> SentTexts | None:
        """Texts that it is sent with every row; None: it has no prompt.

        Raises:
            InputError: As `evalspec.pipeline.prompt.Shots.examples`.
        """
        prompt = self.with_examples(access).prompt
        if prompt is None:
            return None
        fed = {place: self.inputs.get(place, place) for place in prompt.inputs}
        places = {place: column for place, column in fed.items() if isinstance(column, str)}
        shown = prompt.examples
        letters = (self.options.column,) if self.options is not None and self.options.show == "letters" else ()
        examples, said = tuple(one.values for one in shown), tuple(one.answer for one in shown)
        return SentTexts(
            prompt.system, examples, said, places, letters, chooses=self.chooses is not None, writes=self.writes_texts
        )

    def otherwise(self, template: int, sample: int) -> Self:
        """As it is asked with another of its templates, or for another sample.

        Args:
            template: Place in the prompt's list.
            sample: Number; over 0 its seed is another one too, where it has one.
        """
        made = {} if self.prompt is None else {"prompt": self.prompt.with_template(template)}
        generate = self.generate
        if generate is not None and generate.seed is not None:
            generate = generate.model_copy(update={"seed": (generate.seed + sample) % 2**31})
        return self.model_copy(update={**made, "generate": generate})

    def example_files(self, access: Access) -> Mapping[str, Sequence[Path]]:
        """Files of its prompt's examples, by what they are to it; empty where it shows none.

        Raises:
            InputError: One is missing.
        """
        return {} if self.prompt is None else self.prompt.example_files(access)
