"""Options scored by kind `transformers`: those of a loop of plain torch, whatever the batch, order and label."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.runtimes.transformers import Transformers
from evalspec.runtimes.transformers_model.choice import likelihoods
from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel
from tests.causal_models import hardly_trained

QUESTIONS = ["A list is", "The operator", "An object's type is a", "Names refer to"]
CHOICES = [
    ["mutable.", "a sequence of numbers", "é☃", "no"],
    ["and", "is not defined", "yields true", "x"],
    ["type", "type", "value of the object", "None"],
    ["objects", "names", "a", "the first one of these"],
]
TEXTS: dict[str, Any] = {"show": "none", "score": "sum"}


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hardly_trained(tmp_path_factory)


def load(folder: Path, options: dict[str, Any], user: str = "{question}", **changes: Any) -> LoadedLanguageModel:
    asked = {"path": "fp32", "api": "completions", "prompt": {"user": user},
             "options": {"column": "choices", **options}}  # fmt: skip
    return Transformers(**(asked | changes)).load(Access(folder), threads=1)


def arrays(choices: list[list[str]] = CHOICES) -> dict[str, Any]:
    return {"question": np.array(QUESTIONS, dtype=object), "choices": np.array(choices, dtype=object)}


def plain_likelihood(folder: Path, context: str, after: str) -> tuple[float, int]:
    """Token by token, everything computed anew each time: logarithm and tokens of what comes after."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    coder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    begin = coder.encode(context, add_special_tokens=False).ids
    whole = coder.encode(context + after, add_special_tokens=False).ids
    module = LlamaForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    total = 0.0
    for at in range(len(begin), len(whole)):
        with torch.no_grad():
            logits = module(torch.tensor([[0, *whole[:at]]])).logits[0, -1].double()
        total += float(logits.log_softmax(0)[whole[at]])
    return total, len(whole) - len(begin)


@pytest.mark.proof
@pytest.mark.parametrize("score", ["sum", "per_byte", "per_token", "pmi"])
def test_texts_have_the_likelihoods_of_plain_torch(models: Path, score: str) -> None:
    given = load(models, TEXTS | {"score": score}).predict(arrays())
    for row, (question, choices) in enumerate(zip(QUESTIONS, CHOICES, strict=True)):
        values = []
        for choice in choices:
            total, tokens = plain_likelihood(models / "fp32", question, f" {choice}")
            if score == "pmi":
                values.append(total - plain_likelihood(models / "fp32", "", f" {choice}")[0])
            else:
                values.append(total / {"sum": 1, "per_byte": len(choice.encode()), "per_token": tokens}[score])
        shares = np.exp(values) / np.exp(values).sum()
        np.testing.assert_allclose(given["probabilities"][row], shares, rtol=1e-4)
    assert given["probabilities"].shape == (4, 4)
    np.testing.assert_array_equal(given["option_mass"], 1.0)


def test_the_logarithms_are_those_of_plain_torch_to_a_millionth(models: Path) -> None:
    model = load(models, TEXTS)
    context = [0, *model.coder("The value of", add_special_tokens=False)["input_ids"]]
    after = list(model.coder(" an object", add_special_tokens=False)["input_ids"])
    plain, _ = plain_likelihood(models / "fp32", "The value of", " an object")
    assert likelihoods(model, [(context, after)])[0] == pytest.approx(plain, rel=1e-6)


@pytest.mark.parametrize("options", [TEXTS, {"score": "letter"}, {"score": "sum"}])
def test_the_batch_changes_nothing(models: Path, options: dict[str, Any]) -> None:
    user = "{question}" if options.get("show") == "none" else "{question}\n{choices}\nAnswer:"
    alone, together = (load(models, options, user, batch=batch).predict(arrays()) for batch in (1, 64))
    for name in alone:
        np.testing.assert_allclose(alone[name], together[name], rtol=1e-4)


def letter_logits(folder: Path, text: str) -> dict[str, float]:
    """Probability that a text goes on with each letter."""
    import torch
    from tokenizers import Tokenizer
    from transformers import LlamaForCausalLM

    coder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    module = LlamaForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        ids = torch.tensor([[0, *coder.encode(text, add_special_tokens=False).ids]])
        shares = module(ids).logits[0, -1].double().softmax(0)
    return {letter: float(shares[coder.token_to_id(letter)]) for letter in "ABCD"}


def test_letters_are_the_next_token_of_the_prompt_with_the_list(models: Path) -> None:
    given = load(models, {"score": "letter"}, "{question}\n{choices}\nAnswer:").predict(arrays())
    for row, (question, choices) in enumerate(zip(QUESTIONS, CHOICES, strict=True)):
        lines = "\n".join(f"{letter}. {choice}" for letter, choice in zip("ABCD", choices, strict=True))
        shares = letter_logits(models / "fp32", f"{question}\n{lines}\nAnswer:")
        whole = sum(shares.values())
        np.testing.assert_allclose(given["probabilities"][row], [one / whole for one in shares.values()], rtol=1e-3)
        assert given["option_mass"][row] == pytest.approx(whole, rel=1e-3)


def test_each_order_is_a_rotated_list_brought_back(models: Path) -> None:
    user = "{question}\n{choices}\nAnswer:"
    model = load(models, {"score": "letter", "orders": 4}, user)
    for order in range(4):
        turned = [choices[order:] + choices[:order] for choices in CHOICES]
        asked = load(models, {"score": "letter"}, user).predict(arrays(turned))["probabilities"]
        back = [[row[turn.index(choice, 0) if choices.count(choice) == 1 else (k - order) % 4]
                 for k, choice in enumerate(choices)]
                for row, turn, choices in zip(asked, turned, CHOICES, strict=True)]  # fmt: skip
        alone = model.otherwise(0, 0, order).predict(arrays())["probabilities"]
        np.testing.assert_allclose(alone, back, rtol=1e-5)
        if order == 0:
            np.testing.assert_array_equal(model.predict(arrays())["probabilities"], alone)


def test_the_likelier_text_wins_and_its_length_counts_as_the_score_says(models: Path) -> None:
    """A long option that is plain English loses as a sum against one letter, and wins by its bytes."""
    choices = [["q", "a function of the object that is the value of the expression"]] * 4
    summed = load(models, TEXTS).predict(arrays(choices))["probabilities"]
    by_byte = load(models, TEXTS | {"score": "per_byte"}).predict(arrays(choices))["probabilities"]
    assert (summed[:, 0] > 0.9).all()
    assert (by_byte[:, 1] > by_byte[:, 0]).all()


def test_a_space_that_ends_the_prompt_belongs_to_the_option(models: Path) -> None:
    bare, spaced = (
        load(models, TEXTS, user).predict(arrays())["probabilities"] for user in ("{question}", "{question} ")
    )
    np.testing.assert_allclose(bare, spaced, rtol=1e-6)


def test_a_text_longer_than_the_model_sees_is_said(models: Path) -> None:
    choices = [["a b " * 100, "c"]] * 4
    with pytest.raises(InputError, match=r"a prompt with its option has \d+ tokens, but the model takes at most 256"):
        load(models, TEXTS).predict(arrays(choices))


def test_an_option_without_a_text_is_said(models: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(models / "fp32", tmp_path / "fp32"))
    (folder / "chat_template.jinja").write_text("{% for one in messages %}{{ one['content'] }}{% endfor %}:")
    with pytest.raises(InputError, match="the option '' adds no token to the prompt"):
        load(tmp_path, TEXTS, api="chat").predict(arrays([["", "x"]] * 4))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prompt": None}, "`options` needs `prompt:`"),
        ({"options": {"column": "choices", "show": "none"}}, "a letter is scored, but no letters are shown"),
        ({"classes": ["x", "y"]}, "`classes` and `options` can't be combined: the"),
        ({"outputs": {"text": "text"}}, "`outputs` of a model with `options` are probabilities"),
        ({"options": {"column": "choices", "score": "max"}}, "Input should be"),
        ({"options": {"column": "choices", "orders": 27}}, "less than or equal to 26"),
    ],
)
def test_contradictions_are_said(changes: dict[str, Any], words: str) -> None:
    asked: dict[str, Any] = {"path": "m", "prompt": {"user": "{question}"},
                             "options": {"column": "choices", **TEXTS}}  # fmt: skip
    with pytest.raises(ValidationError, match=words.replace("(", r"\(")):
        Transformers(**(asked | changes))


def test_nothing_is_drawn(models: Path) -> None:
    first, second = (load(models, TEXTS).predict(arrays())["probabilities"] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert math.isclose(float(first.sum()), 4.0, rel_tol=1e-9)
