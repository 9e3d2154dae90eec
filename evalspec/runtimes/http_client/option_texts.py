"""Options of a row scored by the likelihood of their texts, as a server that echoes a prompt with logprobs tells it.

The prompt is sent with each option after it; the option's tokens are those beyond the prompt's own, as
lm-evaluation-harness and `kind: transformers` part them. A server that answers ``echo`` with what it generates alone
(llama.cpp, issue 27174) tells of fewer tokens than it was sent, which is an error and never a likelihood of 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from evalspec.language.timings import NOT_UNDERSTOOD
from evalspec.pipeline.options import MultipleChoice, brought_back, rotated
from evalspec.runtimes.http_client.openai import refuse_error
from evalspec.runtimes.http_client.wire import HttpError, Reply, parse_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from evalspec.pipeline.prompt import Prompt
    from evalspec.redaction import Redaction

REMEDY = "use a server that does (vLLM), the model itself as `kind: transformers`, or `score: letter`"


class EchoedPrompt:
    """Tokens of a prompt as a server counts and scores them.

    Args:
        reply: To a request of `body`.
        hidden: Takes secrets out of what the server says.

    Raises:
        HttpError: It is not a completion, or tells less than was asked for.
    """

    def __init__(self, reply: Reply, hidden: Redaction) -> None:
        answer = parse_json(reply.body)
        if isinstance(answer, dict):
            refuse_error(answer, hidden)
        usage = answer.get("usage") if isinstance(answer, dict) else None
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        choices = answer.get("choices") if isinstance(answer, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise HttpError(NOT_UNDERSTOOD, "the answer is not a completion")
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise HttpError(NOT_UNDERSTOOD, "the server does not report how many tokens a prompt has (`usage`)")
        logprobs = choices[0].get("logprobs")
        told = logprobs.get("token_logprobs") if isinstance(logprobs, dict) else None
        self.tokens = count
        self._logprobs: list[Any] = told if isinstance(told, list) else []

    def after(self, begin: int) -> tuple[float, int]:
        """Logarithm of the likelihood of the prompt's tokens from one on, and how many they are.

        Raises:
            HttpError: The server does not tell it, or there are none.
        """
        if len(self._logprobs) < self.tokens:
            raise HttpError(
                NOT_UNDERSTOOD,
                f"the server was sent {self.tokens:,} tokens with `echo` and `logprobs` but reported "
                f"{len(self._logprobs):,}, so options have no likelihood",
                remedy=REMEDY,
            )
        values = self._logprobs[begin : self.tokens]
        if not values:
            raise HttpError(NOT_UNDERSTOOD, "an option adds no token to the prompt", remedy="give every option a text")
        if not all(isinstance(one, int | float) and math.isfinite(one) and one <= 0.0 for one in values):
            raise HttpError(NOT_UNDERSTOOD, "the server reports no probability for a token of an option", remedy=REMEDY)
        return math.fsum(values), len(values)


def body(model_name: str | None, prompt: str) -> bytes:
    """A request for the likelihood of each token of a prompt."""
    named = {} if model_name is None else {"model": model_name}
    return to_json(
        named | {"prompt": prompt, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0.0, "stream": False}
    )


def scored(
    options: MultipleChoice,
    prompt: Prompt,
    values: Mapping[str, str],
    listed: Sequence[str],
    order: int,
    ask: Callable[[str], EchoedPrompt],
) -> NDArray[Any]:
    """Probabilities of the options of one row in the row's own order, shape (k,).

    Args:
        options: How they are scored.
        prompt: What is asked.
        values: Input: its text.
        listed: The options, in the row's own order.
        order: Rotation in which they are shown.
        ask: Sends a prompt.

    Raises:
        HttpError: The server does not tell their likelihoods.
    """
    import numpy as np

    context = prompt.plain(values)
    plain = context.rstrip()
    between = context[len(plain) :] or " "
    begin = ask(plain).tokens
    found = []
    for choice in rotated(listed, order):
        total, count = ask(plain + between + choice).after(begin)
        divisor = {"per_token": count, "per_byte": max(1, len(choice.encode()))}.get(options.score, 1)
        found.append(total / divisor)
    likely = np.exp(np.array(found) - max(found))
    return brought_back(likely / likely.sum(), order)
