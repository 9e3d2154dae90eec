"""Rows that a language model in this process answers: what the measuring loops are handed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.errors import InputError
from evalspec.language.streams import FINISHES, NOT_COUNTED, StreamedAnswer
from evalspec.language.timings import EMPTY
from evalspec.pipeline.serve import ServedRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from evalspec.language.parts import OutputName

OUTPUTS: Mapping[OutputName, str] = {"text": "text", "finish_reason": "finish_reason", "tokens": "tokens"}
"""Of a model that writes."""
STREAM = "streamed"
"""Name under which answers stand beside the outputs that are read from them."""


class EmptyAnswerError(InputError):
    """An answer without a piece of text: no answer, as over a network."""

    outcome = EMPTY


class WrittenRows(ServedRows):
    """Rows in memory and a model that writes about them; a query of several rows is one batch."""

    streams = True
    """As `evalspec.measure.servable.Streaming`."""

    def serve(self, query: Any) -> dict[str, NDArray[Any]]:
        """Preprocessing, tokens of the prompt, and the model until its last token. Timed.

        Raises:
            EmptyAnswerError: An answer has no text.
        """
        outputs: dict[str, NDArray[Any]] = super().serve(query)
        if any(not one.piece_ns for one in outputs[STREAM]):
            raise EmptyAnswerError("the model ends its answer before a piece of text")
        return outputs

    def streamed(self, outputs: dict[str, NDArray[Any]]) -> StreamedAnswer:
        """As `evalspec.measure.servable.Streaming`."""
        return together(outputs[STREAM].tolist())


def outputs_of(answers: list[StreamedAnswer]) -> dict[str, NDArray[Any]]:
    """Answers as outputs, shape (n,) each."""
    streamed = np.empty(len(answers), dtype=object)
    streamed[:] = answers
    return {
        "text": np.array([one.text for one in answers], dtype=object),
        "finish_reason": np.array([FINISHES[one.finish] for one in answers], dtype=object),
        "tokens": np.array([one.usage_tokens for one in answers], dtype=np.int64),
        STREAM: streamed,
    }


def together(answers: list[StreamedAnswer]) -> StreamedAnswer:
    """Answers of a batch as one: pieces of all in their order, tokens of all, the text of the first row."""
    if len(answers) == 1:
        return answers[0]
    pieces = sorted((at, kind) for one in answers for at, kind in zip(one.piece_ns, one.piece_kind, strict=True))
    begun = min(pieces)[0]
    return StreamedAnswer(
        text=answers[0].text,
        finish=FINISHES.index("length")
        if any(FINISHES[one.finish] == "length" for one in answers)
        else answers[0].finish,
        piece_ns=tuple(at for at, _ in pieces),
        piece_kind=tuple(kind for _, kind in pieces),
        first_tokens=sum(one.first_tokens for one in answers if one.piece_ns[0] == begun),
        usage_tokens=sum(one.usage_tokens for one in answers),
        counted_tokens=NOT_COUNTED,
        reasoning_tokens=NOT_COUNTED,
        prompt_tokens=sum(one.prompt_tokens for one in answers),
        cached_tokens=NOT_COUNTED,
    )
