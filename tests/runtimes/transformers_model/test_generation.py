"""Texts of kind `transformers`: those of transformers' own `generate`, with the time of each token."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError, InvalidError, NotRunError
from evalspec.language.inputs import Schedule
from evalspec.language.parts import Access
from evalspec.language.streams import FINISHES, StreamedAnswer
from evalspec.measure.loop import single_stream
from evalspec.measure.open_loop import open_loop
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Rotation, streamed_by
from evalspec.measure.streams import read_streams
from evalspec.pipeline.digest import artifact_digest
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.transformers import Transformers
from evalspec.runtimes.transformers_model import device_clock
from evalspec.runtimes.transformers_model import generation as generation_module
from evalspec.runtimes.transformers_model.device_clock import DeviceClock
from evalspec.runtimes.transformers_model.generation import drawn_tokens
from evalspec.runtimes.transformers_model.loaded import LoadedLanguageModel
from evalspec.runtimes.transformers_model.prompts import prompt_tokens
from evalspec.runtimes.transformers_model.rows import together
from evalspec.runtimes.transformers_model.text_pieces import TextPieces
from tests.causal_models import CONTEXT, tokenizer
from tests.shared import shared_folder

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}] {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant] {% endif %}"
)
QUESTIONS = ["What is 2 + 2?", "Name three colours.", "Why?", "naïve café ☃ 🎉, and then what?", "x"]
ASKED: dict[str, Any] = {"inputs": {"question": "question"}, "prompt": {"user": "{question}"},
                         "generate": {"max_tokens": 12}}  # fmt: skip


def chat_model(folder: Path) -> None:
    """Random weights, a tokenizer of bytes, a template; defaults that would change every text."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer(folder, merges=60)
    from tokenizers import Tokenizer

    size = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size()
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=size, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=CONTEXT, bos_token_id=0, eos_token_id=1, pad_token_id=None,
        initializer_range=0.5,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    model.generation_config.update(do_sample=True, temperature=0.7, repetition_penalty=1.8)
    model.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(TEMPLATE)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_folder(tmp_path_factory, "chat-model", chat_model)


@pytest.fixture
def folder(base: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(base, tmp_path / "m")).parent


def load(folder: Path, **changes: Any) -> LoadedLanguageModel:
    return Transformers(path="m", **(ASKED | changes)).load(Access(folder), threads=1)


def asked(model: LoadedLanguageModel, questions: list[str]) -> list[StreamedAnswer]:
    answers: list[StreamedAnswer] = model.predict({"question": np.array(questions, dtype=object)})["streamed"].tolist()
    return answers


def own_text(model: LoadedLanguageModel, ids: list[int], most: int) -> str:
    """As `generate` of transformers has it, greedy."""
    import torch
    from transformers import GenerationConfig

    plain = GenerationConfig(do_sample=False, eos_token_id=1, pad_token_id=0, max_new_tokens=most)
    model.module.generation_config = plain
    made = model.module.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return str(model.coder.decode(made[0, len(ids) :], skip_special_tokens=True))


@pytest.mark.proof
def test_greedy_text_is_that_of_transformers_and_of_no_default_in_the_folder(folder: Path) -> None:
    model = load(folder, prompt={"system": "Be brief.", "user": "Q: {question}"}, generate={"max_tokens": 40})
    assert "repetition_penalty 1.8" in str(model.observed["defaults_not_used"])
    answers = asked(model, QUESTIONS)
    assert len({one.text for one in answers}) == len(QUESTIONS)
    for question, answer in zip(QUESTIONS, answers, strict=True):
        chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Q: {question}"}]
        ids = model.coder.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)["input_ids"]
        assert model.prompt is not None
        assert prompt_tokens("chat", model.prompt, {"question": question}, model.coder) == ids
        assert answer.text == own_text(model, ids, 40)
        assert answer.prompt_tokens == len(ids)


def test_a_batch_answers_as_each_alone(folder: Path) -> None:
    model = load(folder, generate={"max_tokens": 30})
    alone = [asked(model, [one])[0] for one in QUESTIONS]
    both = asked(model, QUESTIONS)
    assert [one.text for one in both] == [one.text for one in alone]
    assert [(one.finish, one.usage_tokens, len(one.piece_ns)) for one in both] == [
        (one.finish, one.usage_tokens, len(one.piece_ns)) for one in alone
    ]


def test_answers_of_exactly_so_many_tokens_go_on_past_their_end(folder: Path) -> None:
    said = asked(load(folder, generate={"max_tokens": 30}), QUESTIONS)
    exact = asked(load(folder, generate={"tokens": "exactly 30"}), QUESTIONS)
    assert [(one.usage_tokens, FINISHES[one.finish]) for one in exact] == [(30, "length")] * len(QUESTIONS)
    assert all(b.text.startswith(a.text) for a, b in zip(said, exact, strict=True))


def test_the_cache_of_keys_and_values_changes_no_token(folder: Path) -> None:
    """A loop that computes everything anew each time says the same."""
    import torch

    model = load(folder)
    ids = list(model.coder.apply_chat_template([{"role": "user", "content": "Why?"}], add_generation_prompt=True,
                                               return_dict=True)["input_ids"])  # fmt: skip
    said: list[int] = []
    while len(said) < 12 and 1 not in said:
        with torch.inference_mode():
            logits = model.module(input_ids=torch.tensor([ids + said]), use_cache=False).logits
        said.append(int(logits[0, -1].argmax()))
    assert asked(model, ["Why?"])[0].text == model.coder.decode(said, skip_special_tokens=True)


@pytest.mark.proof
def test_the_begin_token_stands_once(folder: Path) -> None:
    assert str(load(folder).observed["first_ids"]).split()[:2].count("0") == 1
    assert load(folder).observed["begins_twice"] is False
    assert load(folder, api="completions").observed["begins_twice"] is False
    (folder / "m" / "chat_template.jinja").write_text("{{ bos_token }}" + TEMPLATE)
    twice = load(folder)
    assert twice.observed["begins_twice"] is True and str(twice.observed["first_ids"]).startswith("0 0 ")
    tokenizer(folder / "m", begins=2, merges=60)
    assert load(folder, api="completions").observed["begins_twice"] is True


def test_a_plain_text_is_gone_on_with(folder: Path) -> None:
    (folder / "m" / "chat_template.jinja").unlink()
    with pytest.raises(InputError, match=r"no chat template.*api: completions"):
        load(folder)
    model = load(folder, api="completions", prompt={"system": "S", "user": "{question}"})
    assert model.prompt is not None
    assert prompt_tokens("completions", model.prompt, {"question": "ab"}, model.coder) == model.coder("S\nab").input_ids


def test_pieces_come_one_after_the_other_and_stop_texts_are_held_back(folder: Path) -> None:
    answers = zip(QUESTIONS, asked(load(folder, generate={"max_tokens": 40}), QUESTIONS), strict=True)
    question, whole = next((one, answer) for one, answer in answers if answer.finish == FINISHES.index("length"))
    assert whole.usage_tokens == 40
    assert len(whole.piece_ns) > 5
    assert all(a < b for a, b in itertools.pairwise(whole.piece_ns))
    stop = whole.text[6:9]
    assert len(stop) == 3
    cut = asked(load(folder, generate={"max_tokens": 40, "stop": [stop]}), [question])[0]
    assert cut.text == whole.text[: whole.text.find(stop)] and cut.finish == FINISHES.index("stop")
    assert cut.usage_tokens < 40


class Letters:
    """Tokenizer of bytes."""

    def decode(self, ids: list[int], **_: Any) -> str:
        return bytes(ids).decode("utf-8", "replace")


def test_half_a_character_is_no_piece() -> None:
    pieces = TextPieces(Letters(), ())
    for at, byte in enumerate("é☃a".encode()):
        assert pieces.take(byte, 100 + at) is False
    pieces.end("length", 200)
    answer = pieces.answer(7)
    assert answer.text == "é☃a" and answer.piece_ns == (101, 104, 105) and answer.first_tokens == 2
    half = TextPieces(Letters(), ())
    half.take("☃".encode()[0], 5)
    half.end("length", 6)
    assert half.answer(1).text == "\ufffd" and half.answer(1).piece_ns == (6,)


def test_what_may_begin_a_stop_text_is_shown_when_it_does_not() -> None:
    pieces = TextPieces(Letters(), ("##",))
    assert [pieces.take(byte, at) for at, byte in enumerate(b"a#b##")] == [False, False, False, False, True]
    answer = pieces.answer(1)
    assert answer.text == "a#b" and answer.piece_ns == (0, 2) and answer.usage_tokens == 5


@pytest.mark.parametrize("top_p,allowed", [(None, {0, 1, 2}), (0.6, {1, 2}), (0.5, {1})])
def test_drawn_tokens_have_their_shares(top_p: float | None, allowed: set[int]) -> None:
    shares = np.array([0.1, 0.5, 0.4])
    rng = np.random.default_rng(1)
    drawn = drawn_tokens(np.tile(shares, (20_000, 1)), top_p, rng.random)
    kept = np.where(np.isin(np.arange(3), list(allowed)), shares, 0)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / len(drawn), kept / kept.sum(), atol=0.012)


def test_a_seed_says_what_is_drawn(folder: Path) -> None:
    told = {"max_tokens": 20, "temperature": 1.0, "top_p": 0.9}
    once, again, other = (asked(load(folder, generate=told | {"seed": seed}), QUESTIONS)[0].text for seed in (1, 1, 2))
    assert once == again != other
    model = Transformers(path="m", **(ASKED | {"generate": told}))
    assert model.sampled and not model.unsampled().sampled


def rows(model: LoadedLanguageModel, folder: Path) -> Any:
    spec = Transformers(path="m", **ASKED)
    table = pa.table({"question": QUESTIONS})
    return Served(spec, model, Access(folder), DatasetFacts()).rows(table)


def test_times_of_tokens_stand_beside_the_times_of_queries(folder: Path, tmp_path: Path) -> None:
    served = rows(load(folder), folder)
    assert streamed_by(served) is not None
    for way in ("single", "open"):
        sink = Sink(tmp_path / way, 1, 16)
        asks = Schedule(kind="single_stream", queries=8, processes=1, seed=1)
        if way == "open":
            arrivals = np.arange(8, dtype=np.int64) * 1_000_000
            asks = Schedule(kind="open_loop", queries=8, processes=1, seed=1, arrivals_ns=arrivals, timeout_s=20.0)
            assert open_loop(served, asks, sink, Rotation(5, 1, 1))
        else:
            assert single_stream(served, asks, sink, Rotation(5, 1, 1))
        sink.close()
        found = read_streams(tmp_path / way, np.arange(8))
        assert found is not None
        kept = sink.rows(0)
        for query in range(8):
            pieces = found.piece_ns[found.offsets[query] : found.offsets[query + 1]]
            assert kept["sent"][query] < pieces[0] <= pieces[-1] <= kept["end"][query]
            assert 0 < len(pieces) <= found.usage_tokens[query] <= 12


def test_queries_that_are_answered_together_have_no_times_of_their_own(folder: Path, tmp_path: Path) -> None:
    asks = Schedule(kind="open_loop", queries=2, processes=1, seed=1, max_batch=4, arrivals_ns=np.array([0, 1]))
    with pytest.raises(NotRunError, match="leave `max_batch:` out"):
        open_loop(rows(load(folder), folder), asks, Sink(tmp_path / "s", 1, 4), Rotation(5, 1, 1))


def test_an_answer_of_no_text_has_failed_where_it_is_timed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(folder)
    assert model.generator is not None
    model.generator.ends = tuple(range(model.vocabulary))
    assert asked(model, ["Why?"])[0].text == ""
    with pytest.raises(InputError, match="before a piece of text") as refused:
        served = rows(model, folder)
        served.serve(served.take(np.array([0])))
    from evalspec.language.timings import EMPTY

    assert getattr(refused.value, "outcome", None) == EMPTY


def test_a_batch_is_one_query_of_all_its_tokens(folder: Path) -> None:
    answers = asked(load(folder), QUESTIONS)
    one = together(answers)
    assert one.usage_tokens == sum(each.usage_tokens for each in answers)
    assert list(one.piece_ns) == sorted(at for each in answers for at in each.piece_ns)
    assert one.text == answers[0].text


@pytest.mark.parametrize("changes,words", [
    ({"generate": {"max_tokens": 250}}, "but the model takes at most 256"),
    ({"prompt": {"user": "{question} " + "word " * 300}}, "but the model takes at most 256"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(folder: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        asked(load(folder, **changes), ["Why is that so?"])


def test_a_row_without_a_question_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="row 1 of a batch has no 'question'"):
        load(folder).predict({"question": np.array(["a", None], dtype=object)})


@pytest.mark.proof
def test_a_tokenizer_of_another_model_is_refused(folder: Path) -> None:
    tokenizer(folder / "m", merges=90)
    with pytest.raises(InputError, match=r"has 348 tokens, but the model embeds 318.*that the model was trained with"):
        load(folder)


def test_a_template_that_refuses_says_so(folder: Path) -> None:
    refuses = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + TEMPLATE
    (folder / "m" / "chat_template.jinja").write_text(refuses)
    load(folder)
    with pytest.raises(InputError, match=r"no system here.*without `system`"):
        load(folder, prompt={"system": "S", "user": "{question}"})


@pytest.mark.parametrize("changes,words", [
    ({"generate": None}, "`prompt` needs `generate:`"),
    ({"prompt": None}, "`generate` needs `prompt:`"),
    ({"generate": {"temperature": 0}}, "max_tokens"),
    ({"prompt": {"user": "no place"}}, "no place for an input"),
    ({"inputs": {"questions": "question"}}, "a place for 'question'"),
    ({"prompt": None, "generate": None, "api": "chat"}, "`api` needs a `prompt`"),
])  # fmt: skip
def test_half_a_question_is_refused_when_the_spec_is_read(changes: dict[str, Any], words: str) -> None:
    given = {name: value for name, value in (ASKED | changes).items() if value is not None}
    with pytest.raises(ValidationError, match=words):
        Transformers(path="m", **given)


def test_without_a_prompt_it_gives_likelihoods_only(folder: Path) -> None:
    model = Transformers(path="m")
    assert not model.answers_rows and Transformers(path="m", **ASKED).answers_rows
    with pytest.raises(NotRunError, match="without `prompt:`"):
        model.load(Access(folder), threads=1).predict({})


@pytest.mark.parametrize("name", ["chat_template.jinja", "generation_config.json", "tokenizer.json", "config.json",
                                  "model.safetensors"])  # fmt: skip
def test_each_file_that_decides_the_answers_is_part_of_the_subject(folder: Path, name: str) -> None:
    model = Transformers(path="m", **ASKED)
    before = artifact_digest(model.files(Access(folder)))
    path = folder / "m" / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert artifact_digest(model.files(Access(folder))) != before


class Event:
    """A CUDA event that was recorded at a time of a fake device."""

    def __init__(self, at_ms: float) -> None:
        self.at_ms = at_ms

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: Event) -> float:
        return other.at_ms - self.at_ms


class Place:
    type = "cuda"


@pytest.mark.parametrize(
    "device_ms,holds", [((0, 10, 20, 30), True), ((0, 0.2, 0.3, 0.4), False), ((0, 10, 25, 30), False)]
)
def test_times_on_the_device_must_be_those_of_the_clock(
    monkeypatch: pytest.MonkeyPatch, device_ms: tuple[float, ...], holds: bool
) -> None:
    events = iter(Event(at) for at in device_ms)
    monkeypatch.setattr("torch.cuda.synchronize", lambda _: None)
    monkeypatch.setattr(DeviceClock, "tick", lambda self: self._events.append(next(events)))
    monkeypatch.setattr(device_clock, "now_ns", lambda: 1_000)
    clock = DeviceClock(Place())
    for step in (1, 2, 3):
        clock.tick()
        clock.heard(1_000 + step * 10_000_000)
    if holds:
        clock.check()
        return
    with pytest.raises(InvalidError, match="the device reports that tokens took"):
        clock.check()


def test_a_void_clock_ends_the_measurement(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(self: DeviceClock) -> None:
        raise InvalidError("the device says otherwise")

    monkeypatch.setattr(generation_module.DeviceClock, "check", check)
    asks = Schedule(kind="single_stream", queries=3, processes=1, seed=1)
    with pytest.raises(InvalidError):
        single_stream(rows(load(folder), folder), asks, Sink(tmp_path / "s", 1, 4), Rotation(5, 1, 1))
