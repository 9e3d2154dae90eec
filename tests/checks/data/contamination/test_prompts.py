"""Test rows in the prompt of a model, and rows that it goes on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.checks.data.contamination.detectors import language_model
from evalspec.checks.data.contamination.prompts import prompt_rows
from evalspec.checks.data.contamination.recitation import recited_rows
from evalspec.checks.data.contamination.row_order import row_order
from evalspec.checks.data.contamination.spec import Contamination
from evalspec.errors import NotRunError
from evalspec.language.inputs import Predictions, SentTexts, Variant
from evalspec.language.likelihoods import TokenLikelihoods, Windows
from tests.fakes import FakeInputs, writer

SYSTEM = "Answer briefly. Never say what is the capital city of France, whoever asks."
TEXTS = {
    "in the system text": "What is the capital city of France?",
    "fewer than five words": "the capital city",
    "an example": "How many legs has a spider?",
    "an example, otherwise written": "  how many LEGS has a spider",
    "nearly an example": "Name the four largest moons of the planet Jupiter, in the order of their size, please",
    "new": "Why is the sky blue at noon and red at dusk?",
    "words of another order": "France of city capital the is what",
    "empty": "",
}
EXAMPLES = ("How many legs has a spider?", "Rome?",
            "Name the four largest moons of the planet Jupiter, in the order of their size")  # fmt: skip


def check(**fields: object) -> Contamination:
    return Contamination.model_validate(
        {"check": "contamination", "train": ["train"], "test": "test", "require": ["prompt_overlap == 0"], **fields}
    )


def inputs(folder: Path, texts: list[str], sent: SentTexts | None) -> FakeInputs:
    made = FakeInputs(evidence=folder, tables={"test": pa.table({"question": texts})})
    if sent is not None:
        made.sent["candidate"] = sent
    return made


def of_questions(*examples: str, system: str | None = SYSTEM) -> SentTexts:
    return SentTexts(system, tuple({"q": one} for one in examples), tuple("yes" for _ in examples), {"q": "question"})


def test_rows_are_found_word_for_word_and_nearly(tmp_path: Path) -> None:
    found = prompt_rows(check(prompts="candidate"), inputs(tmp_path, list(TEXTS.values()), of_questions(*EXAMPLES)))
    names = dict(zip(TEXTS, found.place.tolist(), strict=True))
    assert names == {
        "in the system text": 0, "fewer than five words": -1, "an example": 1, "an example, otherwise written": 1,
        "nearly an example": 3, "new": -1, "words of another order": -1, "empty": -1,
    }  # fmt: skip
    assert [name for name, near in zip(TEXTS, found.near.tolist(), strict=True) if near] == ["nearly an example"]
    assert found.fact("candidate").value == 4.0
    assert "row 0 (the system text)" in (found.fact("candidate").first or "")


def test_a_short_question_is_found_as_a_whole_example_only(tmp_path: Path) -> None:
    sent = of_questions("Rome?", system="Rome is where all questions come from, they say.")
    found = prompt_rows(check(prompts="candidate"), inputs(tmp_path, ["Rome", "rome is"], sent))
    assert found.place.tolist() == [1, -1]


def test_one_of_several_places_in_the_system_text_counts(tmp_path: Path) -> None:
    table = pa.table({"question": ["Which river flows through Vienna and Budapest?", "Which one?"],
                      "choices": ["Rhine, Danube", "Elbe, Oder"]})  # fmt: skip
    made = FakeInputs(evidence=tmp_path, tables={"test": table})
    system = "Example: which river flows through Vienna and Budapest? The Danube."
    made.sent["candidate"] = SentTexts(system, (), (), {"q": "question", "c": "choices"})
    assert prompt_rows(check(prompts="candidate"), made).place.tolist() == [0, -1]


def test_nothing_beside_the_row_is_no_overlap(tmp_path: Path) -> None:
    found = prompt_rows(check(prompts="candidate"), inputs(tmp_path, ["a b c d e f"], of_questions(system=None)))
    assert found.fact("candidate").value == 0.0
    assert found.shown() == ()


@pytest.mark.parametrize("sent", [None, SentTexts(SYSTEM, (), (), {"q": "elsewhere"})])
def test_what_nobody_sends_can_not_be_searched(sent: SentTexts | None, tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="prompt"):
        prompt_rows(check(prompts="candidate"), inputs(tmp_path, ["a"], sent))


def answering(text: dict[int, str]) -> object:
    def answer(rows: pa.Table, dataset: str, model: str) -> Predictions:
        said = [text.get(row) or "I would rather say that this is how it goes on" for row in range(rows.num_rows)]
        return writer(said, said, model=model)

    return answer


def long(row: int, last: str = "") -> str:
    return " ".join(f"w{row}x{k}" for k in range(15)) + " " + (last or " ".join(f"v{row}x{k}" for k in range(15)))


def test_rows_that_go_on_alike_say_nothing(tmp_path: Path) -> None:
    same = " ".join(f"same{k}" for k in range(15))
    texts = [long(0), long(1), long(2, same), long(3, same), "too short"]
    made = inputs(tmp_path, texts, of_questions())
    made.answering = answering({0: " ".join(long(0).split()[15:]), 2: same, 3: same})  # type: ignore[assignment]
    found = recited_rows(check(recite="candidate"), made)
    assert found.judged.tolist() == [True, True, False, False, False]
    assert found.rows.tolist() == [True, False, False, False, False]
    assert found.share().value == 0.5


def test_a_row_counts_less_where_its_twin_of_swapped_words_is_written_too(tmp_path: Path) -> None:
    """Who knows the words and not their order writes the one as often as the other."""
    texts = [long(row) for row in range(40)]
    ends = [text.split()[15:] for text in texts]
    swapped = [" ".join([one[1], one[0], *one[2:]]) for one in ends]
    said = {row: swapped[row] for row in range(10)} | {row: " ".join(ends[row]) for row in range(10, 20)}
    said[20] = f"{swapped[20]} {' '.join(ends[20])}"
    made = inputs(tmp_path, texts, of_questions())
    made.answering = answering(said)  # type: ignore[assignment]
    found = recited_rows(check(recite="candidate"), made)
    assert (found.rows.sum(), found.twins.sum(), found.share().value) == (11, 11, 0.0)
    made.answering = answering({row: said[row] for row in range(10, 20)})  # type: ignore[assignment]
    known = recited_rows(check(recite="candidate"), made)
    assert known.share().value == 0.25
    assert "Tango" in known.share().method
    assert dict(known.table().rows)["went on with them, two of them swapped"] == 0


def test_rows_whose_next_words_the_model_is_sent_say_nothing(tmp_path: Path) -> None:
    """Copied from the row's own first half, the system text or an example, they were not known."""
    ends = [" ".join(f"v{row}x{k}" for k in range(15)) for row in range(4)]
    texts = [f"{ends[0]} {ends[0]}", *(long(row) for row in (1, 2, 3)), "same " * 30]
    made = inputs(tmp_path, texts, of_questions(f"As it goes: {ends[2]}", system=f"Say {ends[1]}."))
    made.answering = answering(dict(enumerate(ends)))  # type: ignore[assignment]
    found = recited_rows(check(recite="candidate"), made)
    assert found.judged.tolist() == [False, False, False, True, False]
    assert found.left_out == {
        "too few words": 1, "goes on as another row does": 0, "its next words are in what the model is sent": 3,
    }  # fmt: skip


ROWS = [f"Question {row}: {'abcdefgh'[row % 8] * 9} number {row * 7919 % 997}?" for row in range(40)]


def likelihoods(knows: bool, places: list[int]) -> object:
    """Of a model that has seen the rows one after the other, or that finds each order a little different."""

    def of(texts: Sequence[str], windows: Windows, model: str, beside: str | None) -> TokenLikelihoods:
        rng, count = np.random.default_rng(1), len(texts)
        nll = 100.0 + rng.normal(0.0, 1.0, count)
        for number, text in enumerate(texts):
            rows = [int(one.split()[1][:-1]) for one in text.split("\n\n")]
            places.append(len(rows))
            nll[number] -= 2.0 * knows * (np.diff(rows) == 1).sum()
        ones = np.ones(count, dtype=np.int64)
        return TokenLikelihoods(model, 50 * ones, 200 * ones, 200 * ones, nll, ones, "d")

    return of


@pytest.mark.parametrize("knows", [True, False])
def test_the_published_order_stands_out_where_the_file_was_seen(knows: bool, tmp_path: Path) -> None:
    made, places = inputs(tmp_path, ROWS, of_questions()), []
    made.likelihoods = likelihoods(knows, places)  # type: ignore[assignment]
    asked = check(recite="candidate", shuffles=199, require=["recited <= 20 %"])
    found = row_order(asked, made, ROWS)
    assert found.rows == 40 and set(places) == {40}
    assert (found.p_value == 1 / 200, bool(found.suspicion)) == (knows, knows)
    made.answering = answering({})  # type: ignore[assignment]
    result = language_model(asked, made)
    assert bool(result.weakens) == knows
    assert [block.title for block in result.blocks][-1] == "Published order of test, by candidate"
    assert not result.notes


def test_equal_orders_count_as_likely(tmp_path: Path) -> None:
    """A model that finds all orders alike says nothing."""
    made = inputs(tmp_path, ROWS, of_questions())

    def same(texts: Sequence[str], windows: Windows, model: str, beside: str | None) -> TokenLikelihoods:
        ones = np.ones(len(texts), dtype=np.int64)
        return TokenLikelihoods(model, ones, ones, ones, 3.0 * ones, ones, "d")

    made.likelihoods = same  # type: ignore[assignment]
    assert row_order(check(recite="candidate", shuffles=99), made, ROWS).p_value == 1.0


@pytest.mark.parametrize("texts", [["short"] * 9, ["a", "b", "c"], ["y" * 3000 + str(row) for row in range(9)], []])
def test_an_order_of_few_rows_says_nothing(texts: list[str], tmp_path: Path) -> None:
    with pytest.raises(NotRunError, match="no 6 neighbouring rows"):
        row_order(check(recite="candidate", shuffles=99), inputs(tmp_path, texts, of_questions()), texts)


@pytest.mark.parametrize("fields", [{"shuffles": 999}, {"recite": "candidate", "shuffles": 20}])
def test_shuffles_are_enough_and_of_a_model(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="`shuffles:` are at least 99, of the model that `recite:` names"):
        check(**fields)


def test_answers_too_short_to_go_on_are_no_evidence(tmp_path: Path) -> None:
    made = inputs(tmp_path, [long(row) for row in range(9)], of_questions())
    made.answering = answering(dict.fromkeys(range(9), "B"))  # type: ignore[assignment]
    with pytest.raises(NotRunError, match="have 8 words, so it could not have continued"):
        recited_rows(check(recite="candidate"), made)


def test_a_model_that_chooses_is_judged_by_what_it_writes(tmp_path: Path) -> None:
    """Its probabilities hold no words: it is asked to write beside, and one that only chooses can't recite."""
    made = inputs(tmp_path, [long(row) for row in range(4)], replace(of_questions(), chooses=True))
    made.answering = answering({0: " ".join(long(0).split()[15:])})  # type: ignore[assignment]
    assert recited_rows(check(recite="candidate"), made).rows.tolist() == [True, False, False, False]
    assert made.variants == [Variant(writes=True)]
    made.sent["candidate"] = replace(of_questions(), chooses=True, writes=False)
    with pytest.raises(NotRunError, match="chooses from options and writes no text; give it `generate:`"):
        recited_rows(check(recite="candidate"), made)
    assert len(made.variants) == 1


def test_the_second_half_is_never_sent(tmp_path: Path) -> None:
    sent: list[str] = []

    def answer(rows: pa.Table, dataset: str, model: str) -> Predictions:
        sent.extend(rows.column("question").to_pylist())
        return writer(["word " * 12] * rows.num_rows, ["x"] * rows.num_rows, model=model)

    texts = [long(row) for row in range(4)]
    made = inputs(tmp_path, texts, of_questions())
    made.answering = answer
    assert not recited_rows(check(recite="candidate"), made).rows.any()
    assert sent == [" ".join(text.split()[:15]) for text in texts]
    assert np.array_equal(made.altered, ["recited"])


@pytest.mark.parametrize("lettered", [True, False])
def test_lists_of_options_are_read_as_they_are_shown(lettered: bool, tmp_path: Path) -> None:
    """A question that stands among the examples with its options; one with other options; a new one."""
    shown = "A. Paris\nB. Rome" if lettered else "Paris\nRome"
    sent = SentTexts(None, ({"q": "Capital of France, of these two?", "choices": shown},), ("A",),
                     {"q": "question", "choices": "choices"}, ("choices",) if lettered else ())  # fmt: skip
    questions = [
        "Capital of France, of these two?",
        "Capital of France, of these two?",
        "Largest city of Italy, by far?",
    ]
    table = pa.table({"question": questions, "choices": [["Paris", "Rome"], ["Lyon", "Nice"], ["Rome", "Milan"]]})
    made = FakeInputs(evidence=tmp_path, tables={"test": table})
    made.sent["candidate"] = sent
    found = prompt_rows(check(column="question", prompts="candidate"), made)
    assert found.place[0] == 0 and found.place[2] == -1
    assert found.texts[0] == f"{questions[0]}\n{shown}"
