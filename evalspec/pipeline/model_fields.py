"""Fields that several kinds of model share."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import ClassVar, Self

from pydantic import Field, model_validator

from evalspec.errors import InputError, Problem
from evalspec.language.parts import Access, Model
from evalspec.language.units import custom_error
from evalspec.pipeline.answer_place import AnswerPlace, words_sent
from evalspec.pipeline.preprocess import AnyStage, PythonStage


class RuntimeModel(Model):
    """A model whose preprocessing stages are checked when the spec is read."""

    preprocess: tuple[AnyStage, ...] = Field(
        (), description="Stages between dataset columns and the model's inputs, in order."
    )
    answer: AnswerPlace | None = Field(
        None,
        description="For a model that writes text: where in the text the answer is; default: the whole text is "
        "compared.",
    )

    @model_validator(mode="after")
    def _answer_is_in_a_text(self) -> Self:
        if self.answer is not None and self.outputs and "text" not in self.outputs:
            named = ", ".join(self.outputs)
            raise custom_error(
                Problem(f"`answer:` locates the answer in a text, but `outputs` names {named}", choices=("text",))
            )
        return self

    def doubts(self) -> tuple[str, ...]:
        """Sentences on what ``answer:`` would take for an answer and is none."""
        if self.answer is None:
            return ()
        return tuple(self.answer.doubts(words_sent(self.model_dump(mode="json"))))

    def runs_code(self) -> tuple[str, ...]:
        """The stages that are code."""
        stages = tuple(f"the stage {stage.python}" for stage in self.preprocess if isinstance(stage, PythonStage))
        return (*super().runs_code(), *stages)


class FileModel(RuntimeModel):
    """A model that is one file, or a file with others beside it."""

    suffixes: ClassVar[tuple[str, ...]] = ()
    """Endings of the files that this kind reads; empty: any. A name without an ending is let through."""

    path: str = Field(min_length=1, description="The model file, relative to the spec's folder.")

    def files(self, access: Access) -> tuple[Path, ...]:
        return (self.model_file(access),)

    def model_file(self, access: Access) -> Path:
        """The model file, which holds something.

        Raises:
            InputError: It is missing, a folder, empty, outside the spec's folder, or ends in what this kind can't read.
        """
        path = access.path(self.path)
        if not path.is_file():
            raise InputError(f"{self.path!r} is a folder, not a model file")
        if path.stat().st_size == 0:
            raise InputError(f"the model file {self.path!r} is empty")
        suffix = PurePath(self.path).suffix.lower()
        if suffix and self.suffixes and suffix not in self.suffixes:
            raise InputError(
                f"{self.path!r} ends in {suffix}, which kind {self.kind!r} can't read", choices=self.suffixes
            )
        return path


def usable_cpus() -> int:
    """CPUs that this process may run on."""
    import os

    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1
