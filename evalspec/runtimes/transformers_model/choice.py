"""Options of each row scored by a causal language model: by their letters, or by the likelihood of their texts.

Where a text is scored, context and option are made into tokens together and parted where the context's own end, as
lm-evaluation-harness does (``lm_eval/models/huggingface.py``, ``_encode_pair``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from evalspec.errors import InputError
from evalspec.pipeline.options import (
    LETTERS,
    MultipleChoice,
    brought_back,
    chosen_outputs,
    letter_shares,
    rotated,
)
from evalspec.runtimes.transformers_model.prompts import prompt_text, prompt_tokens, row_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.pipeline.prompt import Prompt
    from evalspec.runtimes.transformers_model.prompts import Api

LEAST = 1e-300


class LanguageScores(Protocol):
    """As much of a loaded model as scoring needs."""

    coder: Any
    api: Api
    batch: int
    longest: int | None
    options_input: str
    order: int

    def scores(self, seen: NDArray[np.int64]) -> Any:
        """Logarithms of the likelihoods of all next tokens, shape (k, t, vocabulary)."""
        ...


def chosen(
    model: LanguageScores, prompt: Prompt, options: MultipleChoice, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Probabilities of the options of some rows, in the order in which they are shown.

    Args:
        model: Gives likelihoods.
        prompt: What it is asked.
        options: How they are shown and scored.
        inputs: Input: shape (n,), and of the options (n, k).

    Raises:
        InputError: A row can't be asked about, or is too long.
    """
    listed = [[str(one) for one in row] for row in inputs[model.options_input].tolist()]
    count = len(listed[0])
    options.check_orders(count)
    others = {name: array for name, array in inputs.items() if name != model.options_input}
    values = row_values(others) if others else [{} for _ in listed]
    turned = [rotated(one, model.order) for one in listed]
    asked = [one | {model.options_input: options.listed(choices)} for one, choices in zip(values, turned, strict=True)]
    scored = (
        _by_letter(model, prompt, asked, count)
        if options.score == "letter"
        else _by_text(model, prompt, options, asked, turned)
    )
    return chosen_outputs([(brought_back(shares, model.order), mass) for shares, mass in scored])


def laid_out(
    options: MultipleChoice, place: str, order: int, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Inputs of a prompt that a text is written to, with options as it shows them.

    Args:
        options: How they are shown.
        place: Input that lists them.
        order: Rotation in which they are shown.
        inputs: Input: shape (n,), and of the options (n, k).

    Raises:
        InputError: They can't be chosen from.
    """
    listed = [[str(one) for one in row] for row in inputs[place].tolist()]
    options.check_orders(len(listed[0]))
    texts = np.array([options.listed(rotated(one, order)) for one in listed], dtype=object)
    return {**inputs, place: texts}


def _by_letter(
    model: LanguageScores, prompt: Prompt, asked: Sequence[Mapping[str, str]], count: int
) -> list[tuple[NDArray[Any], float]]:
    letters = _letter_tokens(model.coder, count)
    sequences = [prompt_tokens(model.api, prompt, one, model.coder) for one in asked]
    found = []
    for first in range(0, len(sequences), model.batch):
        part = sequences[first : first + model.batch]
        ends = [len(one) - 1 for one in part]
        given = _scores(model, part)
        for row, end in enumerate(ends):
            likely = given[row, end].double().exp().cpu().numpy()
            tops = {letter: max(float(likely[ids].sum()), LEAST) for letter, ids in letters.items()}
            found.append(letter_shares(tops, count))
    return found


def _by_text(
    model: LanguageScores,
    prompt: Prompt,
    options: MultipleChoice,
    asked: Sequence[Mapping[str, str]],
    turned: Sequence[Sequence[str]],
) -> list[tuple[NDArray[Any], float]]:
    pairs = [
        text_pair(model, prompt, one, choice) for one, choices in zip(asked, turned, strict=True) for choice in choices
    ]
    values = np.array(likelihoods(model, pairs))
    if options.score == "per_token":
        values /= [len(after) for _, after in pairs]
    elif options.score == "per_byte":
        values /= [max(1, len(choice.encode())) for choices in turned for choice in choices]
    elif options.score == "pmi":
        values -= _alone(model, pairs)
    each = values.reshape(len(asked), -1)
    shares = np.exp(each - each.max(axis=1, keepdims=True))
    # A sum of likelihoods of texts says nothing of how likely it is that one of them comes: all of it counts.
    return [(row / row.sum(), 1.0) for row in shares]


def _alone(model: LanguageScores, pairs: Sequence[tuple[list[int], list[int]]]) -> NDArray[np.float64]:
    """Logarithm of the likelihood of each option at the beginning of a text, shape (n,)."""
    begin = model.coder.bos_token_id if model.coder.bos_token_id is not None else model.coder.eos_token_id
    if begin is None:
        raise InputError(
            "the tokenizer has no token that begins or ends a text, so no option has a likelihood without its prompt",
            remedy="set `score: sum`",
        )
    each = list(dict.fromkeys(tuple(after) for _, after in pairs))
    known = dict(zip(each, likelihoods(model, [([begin], list(one)) for one in each]), strict=True))
    return np.array([known[tuple(after)] for _, after in pairs])


def likelihoods(model: LanguageScores, pairs: Sequence[tuple[list[int], list[int]]]) -> list[float]:
    """Logarithm of the likelihood of each continuation.

    Args:
        model: Gives likelihoods.
        pairs: Tokens of the context, and of what comes after it.
    """
    found = []
    for first in range(0, len(pairs), model.batch):
        part = pairs[first : first + model.batch]
        given = _scores(model, [[*context, *after][:-1] for context, after in part])
        for row, (context, after) in enumerate(part):
            at = np.arange(len(context) - 1, len(context) - 1 + len(after))
            found.append(float(given[row, at, after].double().sum().item()))
    return found


def _scores(model: LanguageScores, sequences: Sequence[Sequence[int]]) -> Any:
    longest = max(len(one) for one in sequences)
    if model.longest is not None and longest > model.longest:
        raise InputError(
            f"a prompt with its option has {longest:,} tokens, but the model takes at most {model.longest:,}",
            remedy="use shorter rows, or fewer examples",
        )
    import torch

    seen = np.full((len(sequences), longest), -1, np.int64)
    for row, one in enumerate(sequences):
        seen[row, : len(one)] = one
    with torch.inference_mode():
        return model.scores(seen)


def text_pair(
    model: LanguageScores, prompt: Prompt, values: Mapping[str, str], choice: str
) -> tuple[list[int], list[int]]:
    """Tokens of the context, and those of the option after it.

    Args:
        model: Has the tokenizer.
        prompt: What is asked.
        values: Input: its text.
        choice: The option's text.

    Raises:
        InputError: The option adds no token.
    """
    context = prompt_text(model.api, prompt, values, model.coder)
    spaces = len(context) - len(context.rstrip())
    after = choice
    if model.api == "completions":
        after = context[len(context) - spaces :] + choice if spaces else f" {choice}"
        context = context.rstrip()
    special = model.api == "completions"
    whole = list(model.coder(context + after, add_special_tokens=special, verbose=False)["input_ids"])
    begin = list(model.coder(context, add_special_tokens=special, verbose=False)["input_ids"])
    if len(begin) >= len(whole) or not begin:
        raise InputError(f"the option {choice!r} adds no token to the prompt", remedy="give every option a text")
    # The context's own tokens, so that all options of a row have one context, also where a token would span the two.
    return begin, whole[len(begin) :]


def _letter_tokens(coder: Any, count: int) -> dict[str, NDArray[np.int64]]:
    """Tokens that are each letter but for white space.

    Raises:
        InputError: A letter is no single token.
    """
    found: dict[str, list[int]] = {letter: [] for letter in LETTERS[:count]}
    for token, number in coder.get_vocab().items():
        plain = token.strip().strip("▁Ġ")
        if plain in found:
            found[plain].append(int(number))
    missing = [letter for letter, ids in found.items() if not ids]
    if missing:
        raise InputError(
            f"the tokenizer has no token for the letter {missing[0]}", remedy="score the options' texts: `score: sum`"
        )
    return {letter: np.array(ids, dtype=np.int64) for letter, ids in found.items()}
