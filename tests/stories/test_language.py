"""Stories of language models: numbers of a text that look the same and are not."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.causal_models import (
    altered,
    documents,
    language_models,
    reads_language_models,
    rounded,
    spelled,
    tokenizer,
    topics,
)
from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, command, ends, told

pytestmark = [pytest.mark.proof, reads_language_models]

EXAM = Path(__file__).resolve().parents[2] / "suites" / "small-lm"
LAST = "model.norm.weight"
LONG = 6_000
"""Letters of a long document."""


def tell(folder: Path, bad: bool, models: Path) -> Tale:
    """One model, trained by the suite, and copies of it."""
    tale = Tale(folder, "language")
    shutil.copytree(models / "fp32", folder / "fp32")
    tale.models["baseline"] = {"kind": "transformers", "path": "fp32"}
    tale.rows("text", {"body": documents(396)})
    begins_twice(tale, bad, models)
    rounded_hard(tale, bad, models)
    other_tokens(tale, models)
    few_and_long(tale, bad, models)
    return tale


def begins_twice(tale: Tale, bad: bool, models: Path) -> None:
    """The template puts a begin token before the text, and so does the tokenizer."""
    shutil.copytree(models / ("begins_twice" if bad else "fp16"), tale.folder / "l10_model")
    tale.models["l10_model"] = {"kind": "transformers", "path": "l10_model"}
    tale.ask("model", "likelihood", "l10_likelihood", "perplexity <= 1.005x baseline", "next_token_accuracy >= 20 %",
             model="l10_model", dataset="text", column="body", context=32)  # fmt: skip
    # A model with learned positions: what stood in the second place stands in the third.
    words, right = spelled(np.random.default_rng(9), 400)
    tale.rows("l10_words", {"word": words, "choices": [list("ABCD")] * 400, "right": right}, label="right")
    for name in ("l10_before", "l10_spelling"):
        shutil.copytree(models / "positional", tale.folder / name)
        tale.models[name] = {"kind": "transformers", "path": name, "api": "completions", "prompt": {"user": "{word}"},
                             "options": {"column": "choices", "show": "none", "score": "sum"}}  # fmt: skip
    if bad:
        tokenizer(tale.folder / "l10_spelling", begins=2)
    tale.ask("model", "quality", "l10_quality", "accuracy >= l10_before - 3 pp", model="l10_spelling",
             dataset="l10_words")  # fmt: skip


def rounded_hard(tale: Tale, bad: bool, models: Path) -> None:
    """Weights in 7 steps, or in 255: the share of right tokens holds either way."""
    altered(models / "fp32", tale.folder / "l18_model", rounded(3 if bad else 127))
    tale.models["candidate"] = {"kind": "transformers", "path": "l18_model"}
    tale.ask("model", "likelihood", "l18_likelihood", "perplexity <= 1.02x baseline", "divergence <= 0.02",
             "top_token_flips <= 4 %", "next_token_accuracy >= 20 %", model="candidate", dataset="text", column="body",
             context=128)  # fmt: skip
    # Of multiple choice: 9 steps, and a scale behind the last layer that is twice too large.
    coarse = rounded(4 if bad else 127)
    altered(EXAM / "fp32", tale.folder / "l18_choosing",
            lambda name, weight: weight * 2 if bad and name == LAST else coarse(name, weight))  # fmt: skip
    shutil.copytree(EXAM / "fp32", tale.folder / "l18_before")
    for name in ("l18_choosing", "l18_before"):
        tale.models[name] = {"kind": "transformers", "path": name, "prompt": {"user": "{question}\n{choices}"},
                             "options": {"column": "choices"}, "quantization": {"method": "dynamic"}}  # fmt: skip
    exam = pq.read_table(EXAM / "exam.parquet").to_pydict()
    tale.rows("l18_exam", {name: exam[name] for name in ("question", "choices", "answer")}, label="answer")
    tale.ask("model", "compression", "l18_compression", "flip_rate <= 5 %", "ece_increase <= 0.06",
             "accuracy_drop <= 5 pp", model="l18_choosing", baseline="l18_before", dataset="l18_exam",
             method="quantization", speed=False)  # fmt: skip


def other_tokens(tale: Tale, models: Path) -> None:
    """Two tokenizers: by byte they compare."""
    shutil.copytree(models / "other_tokens", tale.folder / "l19_model")
    tale.models["l19_model"] = {"kind": "transformers", "path": "l19_model"}
    tale.ask("model", "likelihood", "l19_likelihood", "bits_per_byte <= 1.5x baseline",
             model="l19_model", dataset="text", column="body", context=64)  # fmt: skip


def few_and_long(tale: Tale, bad: bool, models: Path) -> None:
    """Three long documents, or hundreds of short ones; the copy is as good as the model either way."""
    altered(models / "fp32", tale.folder / "l20_model", rounded(127))
    tale.models["l20_model"] = {"kind": "transformers", "path": "l20_model"}
    text = topics()[-3 * LONG :]
    bodies = [*(text[at * LONG : (at + 1) * LONG] for at in range(3)), *documents(300)]
    # How many rows are left is known only when they are read: of a file with three the spec would be refused.
    tale.rows("books", {"body": bodies, "long": [at < 3 for at in range(303)]}, where=f"long == {bad}")
    tale.ask("model", "likelihood", "l20_likelihood", "perplexity <= 1.02x baseline",
             model="l20_model", dataset="books", column="body", context=128, windows="all")  # fmt: skip


TWICE = Story(
    "L10: a text begins twice",
    red={"l10_likelihood/perplexity vs baseline": "FAIL", "l10_quality/accuracy vs l10_before": "FAIL"},
    shows={"l10_likelihood": ("with two begin tokens", "the first ids are 0 0"),
           "l10_quality": ("with two begin tokens", "the first ids are 0 0")},
    page=("with two begin tokens",),
)  # fmt: skip
ROUNDED = Story(
    "L18: a copy that is right as often, and has moved everywhere",
    red={"l18_likelihood/perplexity vs baseline": "FAIL", "l18_likelihood/divergence": "FAIL",
         "l18_likelihood/top_token_flips": "FAIL", "l18_compression/flip_rate": "FAIL",
         "l18_compression/ece_increase": "FAIL"},
)  # fmt: skip
LONG_ONES = Story(
    "L20: three documents with many tokens",
    red={"l20_likelihood/perplexity vs baseline": "INCONCLUSIVE"},
    says={"l20_likelihood/perplexity vs baseline": ("with at least 200 rows, and there are 3",)},
)
STORIES = (TWICE, ROUNDED, LONG_ONES)


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "language", colour, partial(tell, models=language_models(tmp_path_factory)))


@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.parametrize("colour", COLOURS)
def test_l10_the_first_tokens_are_a_condition_of_the_number(colour: Colour, run: Told) -> None:
    first = run.check("l10_likelihood")["conditions"]["first_ids"].split()
    assert (first[:2] == ["0", "0"]) == (colour == "red")


@pytest.mark.parametrize("colour", COLOURS)
def test_l19_perplexities_of_two_tokenizers_are_refused_and_bits_by_byte_are_not(colour: Colour, run: Told) -> None:
    """The spec that compares them by token is an error before anything is measured; by byte it is decided."""
    assert run.statuses("l19") == {"l19_likelihood/bits_per_byte vs baseline": "PASS"}
    spec = run.folder.parent / "evalspec.yaml"
    by_token = spec.with_name("by_token.yaml")
    by_token.write_text(spec.read_text().replace("bits_per_byte <= 1.5x", "perplexity <= 1.5x"))
    assert command("validate", str(spec)).exit_code == 0
    refused = command("validate", str(by_token))
    assert refused.exit_code == 2
    assert "have different tokenizers" in refused.output and "require bits_per_byte" in refused.output


@pytest.mark.parametrize("colour", COLOURS)
def test_l20_the_tokens_are_many_and_the_documents_are_not(colour: Colour, run: Told) -> None:
    check = run.check("l20_likelihood")
    assert check["conditions"]["tokens"] > 15_000
    assert run.test("l20_likelihood/perplexity vs baseline")["n"] == (3 if colour == "red" else 300)
