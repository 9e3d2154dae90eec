"""Fields and abilities that all kinds of language model share: a prompt, and how the answer to it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from pydantic import Field

from evalspec.language.inputs import SentTexts
from evalspec.language.parts import Access, Dataset, ShownRows
from evalspec.pipeline.model_fields import RuntimeModel
from evalspec.pipeline.prompt import Generate, Prompt


class PromptedModel(RuntimeModel):
    """A model that may be asked about a row with a text."""

    prompt: Prompt | None = Field(None, description="What is sent about a row.")
    generate: Generate | None = Field(None, description="How an answer is made.")

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
        return () if self.prompt is None or self.inputs or self.preprocess else self.prompt.inputs

    @property
    def shown_rows(self) -> ShownRows | None:
        """Examples of its prompt."""
        return None if self.prompt is None else self.prompt.shown_rows

    @property
    def templates(self) -> int:
        """Texts of its prompt's user."""
        return 1 if self.prompt is None else len(self.prompt.templates)

    @property
    def samples(self) -> int:
        """As `generate` has it."""
        return 1 if self.generate is None else self.generate.samples

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
        return self.model_copy(update={"prompt": self.prompt.with_examples(access)})

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
        return SentTexts(prompt.system, tuple(one.values for one in shown), tuple(one.answer for one in shown), places)

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
