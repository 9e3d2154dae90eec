"""Likelihoods of texts: equal to plain torch, whatever the batch; each token once, each byte once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.likelihoods import ARRAYS, BESIDE, TokenLikelihoods, Windows
from evalspec.language.parts import Access
from evalspec.runtimes.transformers import Transformers
from evalspec.runtimes.transformers_model import loaded as loaded_module
from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel
from evalspec.runtimes.transformers_model.windows import cut
from tests.causal_models import altered, copied, documents, hardly_trained, language_models

TEXTS = [*documents(40), "é" * 300, "naïve café ☃ 🎉" * 9, "x", "ab"]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hardly_trained(tmp_path_factory)


def load(folder: Path, name: str, **changes: Any) -> LoadedLanguageModel:
    return Transformers(path=name, **changes).load(Access(folder), threads=1)


def ask(
    model: LoadedLanguageModel, texts: Sequence[str], windows: Windows, beside: LoadedLanguageModel | None = None
) -> TokenLikelihoods:
    return model.likelihoods(texts, windows, beside, lambda *_: None)


def plain_logits(folder: Path, ids: list[int]) -> Any:
    import torch
    from transformers import LlamaForCausalLM

    module = LlamaForCausalLM.from_pretrained(folder, local_files_only=True).eval()
    with torch.no_grad():
        return module(torch.tensor([ids])).logits[0].double()


def plain_ids(folder: Path, text: str, context: int) -> list[int]:
    """Begin token and at most ``context`` tokens."""
    from tokenizers import Tokenizer

    coder = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return [0, *coder.encode(text, add_special_tokens=False).ids[:context]]


@pytest.mark.proof
def test_equal_to_cross_entropy_and_divergence_of_plain_torch(tmp_path_factory: pytest.TempPathFactory) -> None:
    models = language_models(tmp_path_factory)
    import torch
    from torch.nn import functional

    texts = documents(12)
    found = ask(load(models, "int4"), texts, Windows(96, 96), load(models, "fp32"))
    assert found.beside is not None
    for at, text in enumerate(texts):
        ids = plain_ids(models / "fp32", text, 96)
        after = torch.tensor(ids[1:])
        rough, exact = (plain_logits(models / name, ids)[:-1] for name in ("int4", "fp32"))
        nll = float(functional.cross_entropy(rough, after, reduction="sum"))
        assert found.nll[at] == pytest.approx(nll, rel=1e-6)
        assert found.beside.nll[at] == pytest.approx(
            float(functional.cross_entropy(exact, after, reduction="sum")), rel=1e-6
        )
        apart = functional.kl_div(rough.log_softmax(1), exact.log_softmax(1), reduction="sum", log_target=True)
        assert found.beside.divergence[at] == pytest.approx(float(apart), rel=1e-4)
        assert found.right[at] == int((rough.argmax(1) == after).sum())
        assert found.beside.flips[at] == int((rough.argmax(1) != exact.argmax(1)).sum())
        assert found.tokens[at] == len(after)


@pytest.mark.proof
@pytest.mark.parametrize("context,stride,most", [(16, 16, None), (16, 5, None), (64, 64, 1), (32, 8, 3), (2, 1, None)])
def test_each_token_is_scored_once_knowing_what_a_window_lets_it_know(
    models: Path, context: int, stride: int, most: int | None
) -> None:
    """A loop over tokens says the same: each is foreseen from the latest window that scores it first."""
    text = TEXTS[0][:90]
    ids = plain_ids(models / "fp32", text, 10**6)
    found = ask(load(models, "fp32"), [text], Windows(context, stride, most))
    total, scored = 0.0, 0
    for target in range(1, len(ids)):
        window = max(0, -(-(target - context) // stride))
        if most is not None and window >= most:
            break
        seen = ids[window * stride : target]
        assert 1 <= len(seen) <= context
        total -= float(plain_logits(models / "fp32", seen)[-1].log_softmax(0)[ids[target]])
        scored += 1
    assert found.tokens[0] == scored
    assert found.nll[0] == pytest.approx(total, rel=1e-5)


@pytest.mark.proof
def test_the_batch_changes_nothing_and_holds_no_more_than_it_may(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(64, 32, None)
    alone = ask(load(models, "fp32", batch=1), TEXTS, windows)
    held: list[int] = []
    plain = LoadedLanguageModel.scores

    def scores(self: LoadedLanguageModel, seen: Any) -> Any:
        given = plain(self, seen)
        held.append(given.numel() * given.element_size())
        return given

    monkeypatch.setattr(LoadedLanguageModel, "scores", scores)
    for most in (1 << 28, 300_000):
        monkeypatch.setattr(loaded_module, "BATCH_BYTES", most)
        held.clear()
        together = ask(load(models, "fp32", batch=64), TEXTS, windows)
        np.testing.assert_allclose(together.nll, alone.nll, rtol=1e-6)
        np.testing.assert_array_equal(together.right, alone.right)
        assert max(held) <= most
    assert len(held) > 40


@pytest.mark.parametrize("name", ["fp32", "other_tokens"])
@pytest.mark.parametrize("windows", [Windows(16, 16, None), Windows(16, 16, 1), Windows(20, 7, 2)])
def test_bytes_are_those_of_the_text_up_to_its_last_token(models: Path, name: str, windows: Windows) -> None:
    found = cut(TEXTS, load(models, name).coder, windows)
    for text, size, end in zip(TEXTS, found.bytes.tolist(), found.ends.tolist(), strict=True):
        assert size == len(text[:end].encode())
        assert windows.most is not None or end == len(text)
        # A character that the window would cut in two is left out.
        assert end > 0


def test_what_begins_and_ends_a_text_is_seen_and_not_scored(models: Path) -> None:
    model = load(models, "fp32")
    found = ask(model, ["abc", "", "<s>abc</s>"], Windows(16, 16))
    np.testing.assert_array_equal(found.tokens, [3, 0, 3])
    np.testing.assert_array_equal(found.bytes, [3, 0, 3])
    assert found.begins_twice == 1
    assert found.first[0] == 0 and found.first[1] != 0


def test_a_tokenizer_that_begins_twice_is_counted_and_scores_the_same_tokens(models: Path) -> None:
    twice, once = (ask(load(models, name), TEXTS, Windows(64, 64)) for name in ("begins_twice", "fp32"))
    assert twice.begins_twice == len(TEXTS) and once.begins_twice == 0
    assert twice.first[:2] == (0, 0)
    assert twice.digest == once.digest
    assert (twice.nll != once.nll)[:40].all()
    for windows in (Windows(16, 16, None), Windows(20, 7, 2)):
        one, other = (cut(TEXTS, load(models, name).coder, windows) for name in ("begins_twice", "fp32"))
        assert one.digest == other.digest and len(one.windows) == len(other.windows)
    with pytest.raises(InputError, match="set context: 255"):
        ask(load(models, "begins_twice"), ["x" * 999], Windows(256, 256))


def test_without_a_begin_token_the_end_token_is_put_before_a_text_and_without_either_the_first_is_not_scored(
    models: Path, tmp_path: Path
) -> None:
    import json

    from tokenizers import Tokenizer

    for told, first, tokens in (({"eos_token": "</s>"}, 1, 3), ({}, None, 2)):
        folder = Path(tmp_path / str(first))
        copied(models / "fp32", "without").rename(folder)
        coder = Tokenizer.from_file(str(folder / "tokenizer.json"))
        plain = json.loads(coder.to_str()) | {"post_processor": None}
        (folder / "tokenizer.json").write_text(json.dumps(plain))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", **told}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
        found = ask(load(tmp_path, folder.name), ["abc"], Windows(16, 16))
        assert found.tokens[0] == found.bytes[0] == tokens
        assert (found.first[0] == first) == (first is not None)


def test_equal_models_do_not_diverge(models: Path) -> None:
    found = ask(load(models, "fp32"), TEXTS[:5], Windows(64, 64), load(models, "fp32"))
    assert found.beside is not None
    np.testing.assert_array_equal(found.beside.nll, found.nll)
    assert found.beside.divergence.max() < 1e-5 and found.beside.flips.sum() == 0


def test_other_tokens_are_no_pair(models: Path) -> None:
    with pytest.raises(NotRunError, match="different tokens"):
        ask(load(models, "fp32"), TEXTS, Windows(64, 64), load(models, "other_tokens"))


def test_a_context_that_the_model_does_not_have_is_refused(models: Path) -> None:
    with pytest.raises(InputError, match="takes at most 256"):
        ask(load(models, "fp32"), TEXTS, Windows(257, 257))


def test_weights_that_are_no_numbers_give_no_likelihood(models: Path, tmp_path: Path) -> None:
    altered(models / "fp32", tmp_path / "broken", lambda name, weight: weight * float("nan"))
    with pytest.raises(InputError, match="not a finite number"):
        ask(load(tmp_path, "broken"), TEXTS[:3], Windows(64, 64))


def test_what_is_observed_is_what_it_computes_in(models: Path) -> None:
    assert load(models, "fp32").observed["precision"] == "fp32"
    bf16 = load(models, "fp32", dtype="bf16", attention="eager")
    assert bf16.observed["precision"] == "bf16" and bf16.observed["attention"] == "eager"
    rough = ask(bf16, TEXTS[:9], Windows(64, 64), load(models, "fp32"))
    assert rough.beside is not None
    assert 1e-6 < rough.beside.divergence.sum() / rough.tokens.sum() < 0.01


def test_every_array_has_a_number_for_each_text(models: Path) -> None:
    found = ask(load(models, "fp32"), TEXTS, Windows(64, 64), load(models, "fp16"))
    assert found.beside is not None
    for one, names in ((found, ARRAYS), (found.beside, BESIDE)):
        arrays = [getattr(one, name) for name in names]
        assert len(arrays) >= 4
        assert {array.shape for array in arrays} == {(len(TEXTS),)}
