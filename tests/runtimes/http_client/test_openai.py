"""`protocol: openai`: what is sent, and of every fault the truth, whatever the server says of itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.evidence.record import ModelRecord
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import Access
from evalspec.language.timings import (
    ANSWERED,
    BROKE,
    CUT_OFF,
    EMPTY,
    ERROR_IN_STREAM,
    NOT_UNDERSTOOD,
    REFUSED,
    SERVER_ERROR,
)
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.redaction import NOTHING
from evalspec.running.samples import read_samples as read_kept
from evalspec.running.samples import write_samples
from evalspec.running.subjects import not_as_asked
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client import loaded, readiness
from evalspec.runtimes.http_client.openai import events, read
from evalspec.runtimes.http_client.wire import HttpError, Reply, again_after_s
from evalspec.timing.streams import counts_differ, facts, miscounted, times_ms, tokens, truncated
from tests.runtimes.llm_server import Playing, playing

ROWS = 24
FIRST_MS, GAP_MS, TOKENS = 60.0, 5.0, 20
TABLE = pa.table({"question": [f"What is {k}?" for k in range(ROWS)], "id": list(range(ROWS))})


@pytest.fixture(scope="module")
def server() -> Iterator[Playing]:
    with playing(first_ms=FIRST_MS, gap_ms=GAP_MS, tokens=TOKENS) as running:
        yield running


@pytest.fixture(scope="module")
def quick() -> Iterator[Playing]:
    """One whose times nobody looks at."""
    with playing(first_ms=4.0, gap_ms=0.5, tokens=TOKENS) as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Counts words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    counter = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    counter.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    path = tmp_path_factory.mktemp("words") / "tokenizer.json"
    counter.save(str(path))
    return path


def fields(server: Playing, mode: str, **others: Any) -> dict[str, Any]:
    return {
        "kind": "http", "protocol": "openai", "url": server.url(mode), "model_name": "small",
        "tokenizer": "tokenizer.json",
        "inputs": {"question": "question"}, "prompt": {"system": "Be short.", "user": "Q: {question}"},
        "generate": {"max_tokens": 64},
    } | others  # fmt: skip


def timed(model: Mapping[str, Any], folder: Path, queries: int = 8, **others: Any) -> Samples:
    """Of queries one after the other, or at times; as they are kept in a record."""
    access = Access(folder)
    http = Http.model_validate(model)
    served = Served(http, http.load(access), access, DatasetFacts("d"))
    try:
        schedule = Schedule(
            kind="single_stream", queries=queries, processes=1, warmup_queries=3, warmup_s=0.0, settle=False, **others
        )
        session = Session(served.rows(TABLE), schedule, folder / "raw.samples")
        if schedule.arrivals_ns is None:
            session.warm_up()
        session.block(0, queries, 0.0)
        details = session.finish()
    finally:
        served.loaded.close()
    samples = read_samples(folder / "raw.samples", model="m", process=0, details=details)
    write_samples([samples], folder / "kept.parquet")
    kept = read_kept(folder / "kept.parquet")[0]
    assert kept.streams is None or kept.streams.texts.tolist() == samples.streams.texts.tolist()  # type: ignore[union-attr]
    return kept


def median(values: Any) -> float:
    return float(np.median(values))


TRUTH: dict[str, dict[str, float]] = {
    # mode: first token, first of the answer, by token, longest gap [ms]; tokens
    "none": {"ttft": 60, "ttfa": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "role": {"ttft": 60, "ttfa": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "role_with_word": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "burst": {"ttft": 60, "tpot": 5, "longest_gap": 95, "tokens": 20, "pieces": 2},
    "characters": {"ttft": 60, "tpot": 5, "tokens": 20, "pieces": 97},
    "no_usage": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "length": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "slow": {"ttft": 240, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "pairs": {"ttft": 65, "tpot": 5, "longest_gap": 10, "tokens": 20, "pieces": 10},
    "split": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "comments": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "reasoning": {"ttft": 60, "ttfa": 110, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "tool": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
    "usage3": {"ttft": 60, "tpot": 5, "longest_gap": 5, "tokens": 20, "pieces": 20},
}


ROOM_MS = {"ttft": 15.0, "ttfa": 15.0, "tpot": 1.0, "longest_gap": 12.0}
"""What a server of Python may wake up late, beside what a median does not see."""
TRIES = 4
"""A disturbed machine delays some runs; a client that counts wrongly does so in each."""


def untrue_medians(mode: str, samples: Samples) -> dict[str, float]:
    """Medians that are not the true ones."""
    assert samples.ok.all() and samples.streams is not None
    counts = {"tokens": tokens(samples.streams), "pieces": np.diff(samples.streams.offsets)}
    values = {name: median(one) for name, one in (times_ms(samples) | counts).items()}
    room = {name: ROOM_MS.get(name, 0.0) for name in values}
    return {
        name: values[name]
        for name, truth in TRUTH[mode].items()
        if not truth - 0.5 * (room[name] > 0) <= values[name] <= truth + room[name]
    }


@pytest.mark.proof
@pytest.mark.parametrize("mode", TRUTH)
def test_every_time_is_the_true_one_whatever_the_server_sends(
    mode: str, server: Playing, tokenizer: Path, tmp_path: Path
) -> None:
    for number in range(TRIES):
        (folder := tmp_path / f"{number}").mkdir()
        (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
        samples = timed(fields(server, mode), folder, queries=5)
        untrue = untrue_medians(mode, samples)
        if not untrue:
            break
    assert not untrue and samples.streams is not None
    assert truncated(samples.streams).all() == (mode == "length")
    assert (miscounted([samples]) is not None) == (mode == "usage3")
    assert counts_differ(samples.streams).all() == (mode == "usage3")
    pieces = facts([samples])["tokens_per_piece"]
    assert pieces is not None and (pieces < 0.5) == (mode == "characters")
    text = samples.streams.texts[0]
    assert text.startswith(" one" if mode == "reasoning" else "" if mode == "tool" else "one")
    assert ("é" in text) == (mode == "split") and "�" not in text


@pytest.mark.parametrize(
    ("mode", "outcome"),
    [
        ("error", ERROR_IN_STREAM), ("cut", CUT_OFF), ("no_done", CUT_OFF), ("broken", BROKE), ("empty", EMPTY),
        ("401", REFUSED), ("429", REFUSED), ("500", SERVER_ERROR), ("404", REFUSED), ("html", NOT_UNDERSTOOD),
    ],
)  # fmt: skip
def test_what_is_no_answer_has_failed_by_name_and_is_slower_than_any_threshold(
    mode: str, outcome: int, quick: Playing, tokenizer: Path, tmp_path: Path
) -> None:
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    # The first of a run must not all fail, so every third does.
    samples = timed(fields(quick, f"{mode}@3"), tmp_path, queries=12)
    assert samples.outcome is not None
    failed = ~samples.ok
    assert 3 <= failed.sum() <= 5
    assert set(samples.outcome[failed].tolist()) == {outcome} and set(samples.outcome[~failed].tolist()) == {ANSWERED}
    for spent in times_ms(samples).values():
        assert np.isinf(spent[failed]).all() and np.isfinite(spent[~failed]).all()


@pytest.mark.proof
def test_an_open_loop_keeps_the_same_times(server: Playing, tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    arrivals = (np.arange(40) * 25_000_000).astype(np.int64)
    access = Access(tmp_path)
    http = Http.model_validate(fields(server, "none"))
    served = Served(http, http.load(access), access, DatasetFacts("d"))
    schedule = Schedule(kind="open_loop", queries=40, processes=1, arrivals_ns=arrivals, connections=32, settle=False)
    session = Session(served.rows(TABLE), schedule, tmp_path / "raw.samples")
    session.block(0, 40, 0.0)
    details = session.finish()
    served.loaded.close()
    samples = read_samples(tmp_path / "raw.samples", model="m", process=0, details=details)
    times = times_ms(samples)
    assert samples.ok.all()
    assert 59.5 <= median(times["ttft"]) <= 80 and 4.9 <= median(times["tpot"]) <= 6.5
    # Every prompt that is timed begins with a word of its own.
    salts = [body["messages"][0]["content"].split("]")[0] for body in server.requests[-40:]]
    assert len(set(salts)) == 40 and all(len(one) == 13 for one in salts)


def test_what_is_sent(server: Playing, tmp_path: Path) -> None:
    del server.requests[:]
    access = Access(tmp_path)
    plain = fields(server, "none", generate={"max_tokens": 9, "stop": ["\n"], "seed": 3})
    plain.pop("tokenizer")
    for changed in ({}, {"api": "completions", "prompt": {"user": "{{Q}} {question}"}}):
        http = Http.model_validate(plain | changed)
        served = Served(http, http.load(access), access, DatasetFacts("d"))
        answers = served.predict_all(TABLE.slice(0, 1))
        served.loaded.close()
        assert answers.texts is not None and answers.texts[0].startswith("one two")
    common = {"model": "small", "max_tokens": 9, "temperature": 0.0, "stop": ["\n"], "seed": 3, "stream": True,
              "stream_options": {"include_usage": True}}  # fmt: skip
    said = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "Q: What is 0?"}]
    assert server.requests[0] == {"messages": said} | common
    assert server.requests[1] == {"prompt": "{Q} What is 0?"} | common


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("401", "--env NAME"), ("404", "one of: small, large"), ("500", "--resume"),
        pytest.param("429", "raise its limit", marks=pytest.mark.proof),
        ("context", "exclude long rows with `where:`"), ("slot", "exclude long rows"), ("window", "longer context"),
        ("unknown", "one of: small, large"), ("template", "api: completions"), ("logprobs", "--max-logprobs"),
        ("field", "what is sent is in `generate:` and `prompt:`"), ("error", "engine died"),
        ("cut", "no finish reason"), ("html", "`url:` is where /chat/completions begins"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_one_sentence(mode: str, words: str, quick: Playing, tmp_path: Path) -> None:
    http = Http.model_validate({k: v for k, v in fields(quick, mode).items() if k != "tokenizer"})
    access = Access(tmp_path)
    served = Served(http, http.load(access), access, DatasetFacts("d"))
    with pytest.raises(InputError) as caught:
        served.predict_all(TABLE.slice(0, 1))
    served.loaded.close()
    assert words in str(caught.value), str(caught.value)


def test_a_row_is_asked_again_when_the_server_says_so(
    quick: Playing, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(loaded, "time", SimpleNamespace(sleep=waits.append))
    monkeypatch.setattr(loaded, "again_after_s", lambda _: 7.0 if len(waits) else 100.0)
    http = Http.model_validate({k: v for k, v in fields(quick, "429").items() if k != "tokenizer"})
    access = Access(tmp_path)
    served = Served(http, http.load(access), access, DatasetFacts("d"))
    with pytest.raises(InputError):
        served.predict_all(TABLE.slice(0, 1))
    served.loaded.close()
    assert waits == [loaded.LONGEST_WAIT_S, *[7.0] * (readiness.TRIES - 2)]


def observed(model: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    loaded = Http.model_validate(model).load(Access(folder))
    loaded.close()  # type: ignore[attr-defined]
    return loaded.observed


def test_what_a_server_tells_of_itself_is_kept(tmp_path: Path) -> None:
    with playing(first_ms=1.0, gap_ms=0.0, tokens=2, template="{{ messages }}\n") as told, playing() as silent:
        digest = hashlib.sha256(b"{{ messages }}").hexdigest()
        (tmp_path / "template.jinja").write_text("{{ messages }}\n")
        plain = {k: v for k, v in fields(told, "none", chat_template="template.jinja").items() if k != "tokenizer"}
        known = observed(plain, tmp_path)
        assert known | {
            "models_listed": "small, large", "server_version": "b10549", "server_slots": 4, "server_context": 512,
            "served_from": "/models/small.gguf", "template_digest": digest, "template_planned": digest,
        } == known  # fmt: skip
        other = plain | {"url": silent.url(), "chat_template": f"sha256:{'0' * 64}"}
        known = observed(other, tmp_path)
        assert known["template_planned"] == "0" * 64 and not {"template_digest", "server_version"} & set(known)
    missing = Http.model_validate(plain | {"chat_template": "gone.jinja"})
    with pytest.raises(InputError, match=r"no file or folder 'gone\.jinja'"):
        missing.files(Access(tmp_path))


@pytest.mark.parametrize(
    ("details", "words"),
    [
        ({}, None), ({"template_digest": "a" * 64}, None),
        ({"template_digest": "a" * 64, "template_planned": "a" * 64}, None),
        ({"template_digest": "a" * 64, "template_planned": "b" * 64}, "its server has aaaaaaaaaaaa"),
        ({"template_planned": "b" * 64}, "its server does not report its own"),
    ],
)  # fmt: skip
def test_another_template_than_planned_voids_what_was_measured(details: dict[str, Any], words: str | None) -> None:
    found = not_as_asked([ModelRecord(name="m", kind="http", digest=None, details=details)])
    assert (found is None) == (words is None)
    assert words is None or (words in str(found) and "models.m.chat_template" in str(found))


@pytest.mark.parametrize(("mode", "answered"), [("length", True), ("none", False), ("usage3", False)])
def test_an_answer_of_exactly_so_many_tokens_is_one_or_has_failed(
    mode: str, answered: bool, server: Playing, tmp_path: Path
) -> None:
    """`length` is a server that knows `ignore_eos`; the others end when they have said all."""
    plain = {k: v for k, v in fields(server, mode).items() if k != "tokenizer"}
    http = Http.model_validate(plain | {"generate": {"tokens": f"exactly {TOKENS}"}})
    assert http.exact_tokens == TOKENS
    served = Served(http, http.load(Access(tmp_path)), Access(tmp_path), DatasetFacts("d"))
    try:
        if answered:
            assert served.predict_all(TABLE.slice(0, 1)).texts is not None
        else:
            with pytest.raises(InputError, match="does not know `ignore_eos`"):
                served.predict_all(TABLE.slice(0, 1))
    finally:
        served.loaded.close()
    sent = server.requests[-1]
    assert (sent["ignore_eos"], sent["min_tokens"], sent["max_tokens"]) == (True, TOKENS, TOKENS)


@pytest.mark.parametrize(("mode", "tokens"), [("none", [TOKENS] * 2), ("empty", [0, 0]), ("no_usage", None)])
def test_tokens_of_answers_are_counted_where_somebody_does(
    mode: str, tokens: list[int] | None, server: Playing, tmp_path: Path
) -> None:
    http = Http.model_validate({k: v for k, v in fields(server, mode).items() if k != "tokenizer"})
    served = Served(http, http.load(Access(tmp_path)), Access(tmp_path), DatasetFacts("d"))
    answers = served.predict_all(TABLE.slice(0, 2))
    served.loaded.close()
    assert (None if answers.tokens is None else answers.tokens.tolist()) == tokens


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None), ({b"retry-after": b"7"}, 7.0), ({b"retry-after": b"soon"}, None),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:09 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 GMT"}, 9.0),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:27:00 GMT", b"date": b"Wed, 21 Oct 2026 07:28:00 GMT"}, 0.0),
        ({b"retry-after": b"Wed, 21 Oct 2026 07:28:09 GMT"}, None),
    ],
)  # fmt: skip
def test_a_server_says_when_to_ask_again(headers: dict[bytes, bytes], seconds: float | None) -> None:
    assert again_after_s(Reply(429, headers, b"")) == seconds


def test_a_stream_without_a_piece_is_an_empty_answer(server: Playing, tmp_path: Path) -> None:
    http = Http.model_validate({k: v for k, v in fields(server, "empty").items() if k != "tokenizer"})
    served = Served(http, http.load(Access(tmp_path)), Access(tmp_path), DatasetFacts("d"))
    answers = served.predict_all(TABLE.slice(0, 2))
    served.loaded.close()
    assert answers.texts is not None and answers.texts.tolist() == ["", ""]


def test_the_key_is_sent_and_never_written(server: Playing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEY", "sk-secret")
    plain = {k: v for k, v in fields(server, "401", api_key={"env": "CHAT_KEY"}).items() if k != "tokenizer"}
    http = Http.model_validate(plain)
    assert http.secrets_read() == ("CHAT_KEY",)
    with pytest.raises(InputError, match="--env CHAT_KEY"):
        http.load(Access(tmp_path))
    access = Access(tmp_path, env=frozenset({"CHAT_KEY"}))
    served = Served(http, http.load(access), access, DatasetFacts("d"))
    answers = served.predict_all(TABLE.slice(0, 1))
    served.loaded.close()
    assert answers.texts is not None and server.headers[-1]["Authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in repr(http)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"prompt": None}, "needs `prompt:`"), ({"generate": None}, "needs `generate:`"),
        ({"generate": {}}, "max_tokens"), ({"generate": {"tokens": "exactly 8", "max_tokens": 8}}, "both set the "
            "length of an answer"),
        ({"generate": {"tokens": "exactly 8", "stop": ["x"]}}, "nothing may end an answer early, but"),
        ({"generate": {"tokens": "exactly 0"}}, "pattern"), ({"generate": {"tokens": "about 8"}}, "pattern"),
        ({"prompt": {"user": "no place"}}, "no place for an input"),
        ({"prompt": {"user": "{question} {topic}"}}, "'topic'"), ({"prompt": {"user": "a { b {question}"}}, "brace"),
        ({"url": "http://127.0.0.1:1/v1/chat/completions"}, "names one path"),
        ({"request": {"a": "{question}"}}, "belongs to `protocol: json`"),
        ({"protocol": "json", "request": {"a": "{question}"}, "response": {"text": "a"}}, "to `protocol: openai`"),
        ({"inputs": {"question": "question", "topic": "topic"}}, "no place for the input 'topic'"),
        ({"api_key": {"env": "K"}, "headers": {"authorization": {"env": "K"}}}, "twice"),
    ],
)  # fmt: skip
def test_what_a_spec_may_not_say(changed: dict[str, Any], words: str, server: Playing) -> None:
    wanted = {k: v for k, v in (fields(server, "none") | changed).items() if v is not None}
    with pytest.raises(ValidationError) as caught:
        Http.model_validate(wanted)
    assert words in str(caught.value), str(caught.value)


def test_events_are_read_as_the_standard_has_them() -> None:
    stream = b": hello\n\ndata: a\r\n\r\nevent: x\ndata:b\ndata: c\n\n\ndata: [DONE]"
    assert [data for data, _ in events(stream)] == [b"a", b"b\nc", b"[DONE]"]
    assert [stream[:end].count(b"data") for _, end in events(stream)] == [1, 3, 4]


@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_any_cut_of_a_stream_is_a_failure_with_a_name(cut: int) -> None:
    chunk = b'data: {"choices":[{"index":0,"delta":{"content":"w\xc3\xa9"},"finish_reason":null}]}\n\n'
    end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    whole = chunk * 2 + end
    headers = {b"content-type": b"text/event-stream"}
    assert read(Reply(200, headers, whole), None, NOTHING).text == "wéwé"
    with pytest.raises(HttpError) as caught:
        read(Reply(200, headers, whole[: len(whole) - 8 - cut]), None, NOTHING)
    assert caught.value.outcome in (CUT_OFF, NOT_UNDERSTOOD)
