"""`likelihood`: sums over documents held against each other, and sentences that it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.model.likelihood.defects import planted
from evalspec.checks.model.likelihood.spec import Likelihood
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Comparison, Estimate
from evalspec.language.likelihoods import TokenLikelihoods, Windows
from evalspec.language.parts import CheckResult, NeedLikelihoods, NeedRows, SpecNames
from tests.checks.deciding import outcome, the
from tests.checks.model.likelihood.planted import case, language_model
from tests.fakes import FakeInputs

NAMES = SpecNames(models=("candidate", "baseline"), datasets=("text",), slices=())


def check(*require: str, **fields: Any) -> Likelihood:
    asked = {"check": "likelihood", "dataset": "text", "column": "body", "require": list(require)}
    return Likelihood.model_validate(asked | fields)


def value(result: CheckResult, metric: str) -> float:
    found = result.estimates[metric]
    assert isinstance(found, Estimate) and found.value is not None
    return found.value


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stride": 600}, "steps over tokens"),
        ({"windows": 0}, "hold no text"),
        ({"context": 1}, "greater than or equal to 2"),
        ({"column": ""}, "at least 1 character"),
        ({"windows": "some"}, "all"),
    ],
)
def test_windows_that_miss_tokens_are_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check("perplexity <= 20", **fields)


@pytest.mark.parametrize("sentence", ["divergence <= 0.02", "top_token_flips <= 3 %"])
def test_distributions_need_a_baseline(sentence: str) -> None:
    assert check(sentence).check_names(NAMES) is None
    assert check("perplexity <= 20").check_names(replace(NAMES, models=("candidate",))) is None
    assert "is not a model of the spec" in str(check(sentence).check_names(replace(NAMES, models=("candidate",))))
    assert "is the model itself" in str(check(sentence, baseline="candidate").check_names(NAMES))


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("divergence <= 1.1x baseline", "against `baseline:` already"),
        ("perplexity <= baseline + 0.3", "as a ratio; write perplexity <= 1.02x baseline"),
        ("perplexity <= 1.02x baseline + 0.3", "as a ratio"),
    ],
)
def test_sentences_that_nothing_decides_are_refused(sentence: str, words: str) -> None:
    asked = check(sentence)
    assert words in str(asked.check_requirement(asked.requirements[0], {"text": 10_000}))


@pytest.mark.parametrize(
    ("sentence", "needed"),
    [
        ("perplexity <= 20", 200),
        ("perplexity <= 1.02x baseline", 200),
        ("bits_per_byte <= 1.4", 200),
        ("divergence <= 0.02", 200),
        ("next_token_accuracy >= 50 %", 5),
        ("top_token_flips <= 3 %", 99),
    ],
)
def test_documents_are_what_a_plan_counts(sentence: str, needed: int) -> None:
    asked = check(sentence)
    few, enough = (asked.check_requirement(asked.requirements[0], {"text": n}) for n in (needed - 1, needed))
    assert f"{needed} are needed; add documents" in str(few)
    assert enough is None


def test_it_needs_texts_and_likelihoods_and_holds_two_models_together_for_distributions_alone() -> None:
    plain = check("perplexity <= 1.02x baseline", "bits_per_byte <= other")
    assert plain.needs() == (
        NeedRows("text", columns=("body",)),
        NeedLikelihoods("text", "candidate"),
        NeedLikelihoods("text", "baseline"),
        NeedLikelihoods("text", "other"),
    )
    both = check("perplexity <= 1.02x baseline", "divergence <= 0.02")
    assert both.needs()[1:] == (NeedLikelihoods("text", "candidate", "baseline"),)
    assert [(one.metric, other) for one, other in both.paired_by_token()] == [
        ("perplexity", "baseline"), ("divergence", "baseline")
    ]  # fmt: skip
    assert list(check("bits_per_byte <= 1.02x baseline", "perplexity <= 20").paired_by_token()) == []


def test_numbers_are_sums_over_documents(tmp_path: Path) -> None:
    inputs, _ = case(tmp_path, "perplexity <= 20")
    assert isinstance(inputs, FakeInputs) and inputs.likelihoods is not None
    asked = check("perplexity <= 1.02x baseline", "bits_per_byte <= 2", "divergence <= 0.02", context=64)
    texts = inputs.table("text").column("body").to_pylist()
    told = inputs.likelihoods(texts, Windows(64, 64), "candidate", "baseline")
    result = asked.run(inputs)
    tokens = told.tokens.sum()
    assert told.beside is not None
    assert value(result, "perplexity") == pytest.approx(np.exp(told.nll.sum() / tokens))
    assert value(result, "bits_per_byte") == pytest.approx(told.nll.sum() / np.log(2) / told.bytes.sum())
    assert value(result, "next_token_accuracy") == pytest.approx(told.right.sum() / tokens)
    assert value(result, "divergence") == pytest.approx(told.beside.divergence.sum() / tokens)
    pair = result.comparisons["perplexity", "baseline"]
    assert isinstance(pair, Comparison)
    ratio = pair.ratio()
    assert ratio is not None
    assert ratio.value == pytest.approx(np.exp((told.nll - told.beside.nll).sum() / tokens))
    assert result.counts.used == len(texts)
    assert result.conditions["first_ids"] == "0 5 6"
    assert result.blind["bits_per_byte"][0] == 8.0 and result.blind["perplexity"][0] == 1000.0


def test_rows_without_a_text_are_counted_and_left_out(tmp_path: Path) -> None:
    inputs, asked = case(tmp_path, "perplexity <= 22")
    assert isinstance(inputs, FakeInputs)
    bodies = inputs.table("text").column("body").to_pylist()
    inputs.tables = {"text": pa.table({"body": pa.array([None, "", "aaa", *bodies], pa.string())})}
    result = asked.run(inputs)
    # Three letters are no token of this model.
    assert (result.counts.attempted, result.counts.used, result.counts.dropped) == (403, 400, 3)
    assert any("3 rows of text without a token" in note for note in result.notes)
    assert outcome(result, the(asked, "perplexity <= 22")) == "PASS"


@pytest.mark.parametrize("column", [pa.array([1, 2]), pa.array([None, ""], pa.string()), pa.array(["a", "bb"])])
def test_a_column_without_texts_is_a_reason(column: pa.Array, tmp_path: Path) -> None:
    inputs, asked = case(tmp_path, "perplexity <= 22")
    assert isinstance(inputs, FakeInputs)
    inputs.tables = {"text": pa.table({"body": column})}
    with pytest.raises(InputError, match="text"):
        asked.run(inputs)


def test_documents_of_a_cluster_are_one(tmp_path: Path) -> None:
    inputs, asked = case(tmp_path, "perplexity <= 22")
    assert isinstance(inputs, FakeInputs)
    apart = asked.run(inputs)
    inputs.cluster_of = {"text": np.arange(400) // 4}
    together = asked.run(inputs)
    assert outcome(apart, the(asked, "perplexity <= 22")) == "PASS"
    # A hundred clusters are too few for a bound.
    assert outcome(together, the(asked, "perplexity <= 22")) == "INCONCLUSIVE"


Asked = list[tuple[str, Windows, int]]


def with_other_tokens(name: str) -> tuple[FakeInputs, Asked]:
    """Inputs of which one model has tokens of two bytes, and what is required of them: model, windows, letters."""
    inputs = language_model()
    plain = inputs.likelihoods
    assert plain is not None
    asked: Asked = []

    def likelihoods(texts: Sequence[str], windows: Windows, model: str, beside: str | None) -> TokenLikelihoods:
        asked.append((model, windows, sum(len(text) for text in texts)))
        if beside is not None:
            raise NotRunError("the two models split these texts into different tokens")
        assert plain is not None
        found = plain(texts, windows, model, beside)
        if model != name:
            return found
        tokens = 2 * found.tokens
        if windows.most is None:
            tokens = np.array([len(text) // 2 for text in texts])
        return replace(found, tokens=tokens, bytes=2 * tokens, ends=2 * tokens, digest="other")

    inputs.likelihoods = likelihoods
    return inputs, asked


def test_another_tokenizer_is_compared_by_bytes_of_the_same_text(tmp_path: Path) -> None:
    plain, _ = case(tmp_path, "perplexity <= 22")
    inputs, asked_of = with_other_tokens("baseline")
    inputs.tables = {"text": plain.table("text")}
    asked = check(
        "bits_per_byte <= 1.1x baseline", "perplexity <= 1.02x baseline", "divergence <= 0.02", "perplexity <= 22",
        context=64,
    )  # fmt: skip
    result = asked.run(inputs)
    assert ("bits_per_byte", "baseline") in result.comparisons
    assert ("perplexity", "baseline") not in result.comparisons
    assert "require bits_per_byte" in result.missing["perplexity vs baseline"]
    assert "different tokens" in result.missing["divergence"]
    assert outcome(result, the(asked, "perplexity <= 22")) == "PASS"
    model, windows, letters = asked_of[-1]
    # The second time the baseline is asked about the candidate's characters, however many tokens they are.
    assert (model, windows.most) == ("baseline", None)
    first = asked_of[-2][2]
    assert letters < first


def test_a_text_that_begins_twice_stands_with_the_verdict(tmp_path: Path) -> None:
    inputs, asked = case(tmp_path, "perplexity <= 22")
    assert isinstance(inputs, FakeInputs)
    plain = inputs.likelihoods
    assert plain is not None
    inputs.likelihoods = lambda *asks: replace(plain(*asks), begins_twice=7, first=(0, 0, 5))
    result = asked.run(inputs)
    assert any("7 texts of text with two begin tokens (the first ids are 0 0 5)" in one for one in result.weakens)
    assert result.conditions["first_ids"] == "0 0 5"


def test_planted_defects_are_of_the_model_and_of_nothing_else(tmp_path: Path) -> None:
    inputs, _ = case(tmp_path, "perplexity <= 22")
    assert isinstance(inputs, FakeInputs) and inputs.likelihoods is not None
    texts = inputs.table("text").column("body").to_pylist()
    own, other = (inputs.likelihoods(texts, Windows(64, 64), name, "baseline") for name in ("candidate", "baseline"))
    for defect in planted("candidate"):
        assert defect.likelihoods(other) is other
        changed = defect.likelihoods(own)
        assert changed is not own
        assert changed.beside is not None and own.beside is not None
        np.testing.assert_array_equal(changed.beside.nll, own.beside.nll)
        assert (changed.right <= changed.tokens).all() and (changed.beside.flips <= changed.tokens).all()
