"""Where in a text the answer is, as `answer:` of a model says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from evalspec.answers.canonical import canonical
from evalspec.errors import Problem
from evalspec.language.parts import Part
from evalspec.language.patterns import pattern_problem, ready
from evalspec.language.units import custom_error

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ORDINARY = (
    "A good question. Because dogs bark and each cat can do without, I agree.",
    "There are 3 steps: take 12 apples and 4.50 dollars, and count them.",
)
"""Words as any text may have them, in which there is no answer."""
AT_THE_END = ("$", r"\Z")
WORDS_SENT = ("prompt", "request", "system")
"""Fields of a model that hold words which it is sent with every row."""


class AnswerPlace(Part):
    """Where in a text the answer is: after a mark, or where a pattern has its one group.

    A text without it has no answer: it is wrong, and counted as unparsed. Nothing else in the text is taken instead.
    """

    # `as` is a word of Python.
    model_config = ConfigDict(serialize_by_alias=True)

    after: str | None = Field(
        None,
        min_length=1,
        description='The answer begins after the first of these marks: "####". In a text, the rest of that line.',
    )
    pattern: str | None = Field(
        None,
        min_length=1,
        description="The answer is the only group of this regular expression; no look-around, back-references or "
        "nested repeats.",
    )
    take: Literal["first", "last"] = Field("first", description="pattern: which match counts if there are several.")
    as_: Literal["text", "number", "letter"] = Field(
        "text",
        alias="as",
        description="How it is compared: as text; by its decimal value (1,200 is 1200.0); as one letter, ignoring "
        "case.",
    )

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if (self.after is None) == (self.pattern is None):
            both = "both" if self.after is not None else "neither"
            raise custom_error(Problem(f"`answer:` has {both} of `after` and `pattern`", remedy="keep one of them"))
        if self.pattern is None and "take" in self.model_fields_set:
            raise custom_error(
                Problem(
                    "`take:` belongs to `pattern:`; with `after:` the first match always counts", remedy="leave it out"
                )
            )
        problem = None if self.pattern is None else pattern_problem(self.pattern, groups=1)
        if problem is not None:
            raise custom_error(problem)
        return self

    def piece(self, text: str) -> str | None:
        """The part of a text in which the answer begins; None: there is none."""
        if self.after is not None:
            _, mark, rest = text.partition(self.after)
            rest = rest.lstrip()
            return (rest.partition("\n")[0] if self.as_ == "text" else rest) if mark else None
        assert self.pattern is not None
        if self.take == "first":
            found = ready(self.pattern).search(text)
            return None if found is None else found[1]
        piece = None
        for match in ready(self.pattern).finditer(text):
            piece = match[1]
        return piece

    def find(self, text: str) -> str | None:
        """The answer in the form in which it is compared; None: there is none."""
        piece = self.piece(text)
        return None if piece is None else canonical(piece, self.as_)

    def extracted(self, texts: Sequence[str], first_row: int) -> NDArray[np.object_]:
        """The answer inside each text, shape (n,), None where there is none.

        Args:
            texts: As the model wrote them.
            first_row: Index of the first row in its dataset, for sentences.

        Raises:
            InputError: The pattern takes too long on a text.
        """
        import numpy as np

        from evalspec.answers.search import each_found

        found = np.empty(len(texts), dtype=object)
        found[:] = each_found(self.find, texts, first_row)
        return found

    def doubts(self, sent: Sequence[str]) -> Iterator[str]:
        """Sentences on what it would take for an answer and is none.

        Args:
            sent: Texts that the model is sent with every row, of which it may say some again.
        """
        place = f"after {self.after!r}" if self.after is not None else f"pattern {self.pattern!r}"
        loose = next(((text, found) for text in ORDINARY if (found := self.find(text)) is not None), None)
        if loose is not None:
            yield (
                f"answer: {place} finds {loose[1]!r} in {loose[0]!r}, which holds no answer: name what comes "
                "right before the answer"
            )
        words = [] if self.after is not None else sent
        told = next(((text, found) for text in words if (found := self.find(text)) is not None), None)
        if told is not None:
            yield (
                f"answer: {place} finds {told[1]!r} in the prompt's own words ({told[0]!r}), which a model may repeat"
            )
        if self.take == "last" and not str(self.pattern).endswith(AT_THE_END):
            yield (
                f"answer: {place} takes the last of several: a model that runs on into another question is scored on "
                "the answer to that one"
            )


def words_sent(fields: dict[str, Any]) -> tuple[str, ...]:
    """Texts that a model is sent with every row, from those of its fields that hold them."""

    def texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for one in value.values():
                yield from texts(one)
        elif isinstance(value, list | tuple):
            for one in value:
                yield from texts(one)

    return tuple(text for name in WORDS_SENT for text in texts(fields.get(name)))
