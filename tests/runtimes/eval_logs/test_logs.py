"""Logs that harnesses wrote: their answers are those in them, of the right rows, or a sentence says why not."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json
import pytest
from pydantic import ValidationError

from evalspec.answers.file import Answers
from evalspec.errors import InputError, NotRunError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.predictions import PredictionFiles

FILES = Path(__file__).parent / "files"
TEXT = {"text": "text"}
OPTIONS = {"probabilities": "probabilities"}


@pytest.fixture
def rows() -> pa.Table:
    """The questions, in another order, numbered as lm-eval counts them."""
    table = pyarrow.json.read_json(FILES / "questions.jsonl").append_column("row", pa.array(range(6)))
    return table.take(pa.array([3, 0, 5, 1, 4, 2]))


def served(file: str | Path, label: str, key: str, **fields: Any) -> Served:
    path = FILES / file
    model = PredictionFiles.model_validate({"files": {"test": path.name}, **fields})
    access = Access(path.parent)
    return Served(model, model.load(access), access, DatasetFacts("test", label=label, key=key))


def answers(file: str | Path, rows: pa.Table, label: str = "answer", key: str = "id", **fields: Any) -> Answers:
    return served(file, label, key, **fields).predict_all(rows)


def said(file: str | Path, rows: pa.Table, **fields: Any) -> dict[str, str]:
    texts = answers(file, rows, **fields).texts
    assert texts is not None
    return dict(zip(rows.column("id").to_pylist(), texts.tolist(), strict=True))


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FILES / name).read_text().splitlines()]


def write(path: Path, samples: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in samples))
    return path


def test_texts_of_the_declared_filter(rows: pa.Table) -> None:
    log = {"format": "lm_eval", "outputs": TEXT, "key_from": "doc.id"}
    strict = said("samples_sums_say.jsonl", rows, filter="strict", **log)
    assert strict == {"q1": "4", "q2": "7", "q3": "7", "q4": "[invalid]", "q5": "6", "q6": "7"}
    loose = said("samples_sums_say.jsonl", rows, filter="last-number", **log)
    assert loose == {"q1": "4", "q2": "7", "q3": "7", "q4": "3", "q5": "6", "q6": "8"}
    with pytest.raises(
        InputError, match=r"answers of 2 filters, .* which of them counts \(choices: strict, last-number\)"
    ):
        said("samples_sums_say.jsonl", rows, **log)
    with pytest.raises(InputError, match=r"no answers of the filter 'none' \(choices: strict, last-number\)"):
        said("samples_sums_say.jsonl", rows, filter="none", **log)


@pytest.mark.parametrize("file", ["samples_sums_choose.jsonl", "samples_sums_mutual.jsonl"])
@pytest.mark.parametrize("score", ["sum", "per_byte"])
def test_probabilities_are_the_softmax_of_what_the_file_has(rows: pa.Table, file: str, score: str) -> None:
    log = {"format": "lm_eval", "outputs": OPTIONS, "score": score}
    found = answers(file, rows, label="gold", key="row", **log)
    assert found.probabilities is not None and found.predicted is not None
    assert found.classes == ("0", "1", "2", "3")
    by_row = {sample["doc_id"]: sample for sample in lines(file)}
    for index, row in enumerate(rows.column("row").to_pylist()):
        sample = by_row[row]
        options = sample["doc"]["choices"]
        logs = np.array([float(pair[0]) for pair in sample["filtered_resps"][: len(options)]])
        logs = logs / [len(option) for option in options] if score == "per_byte" else logs
        expected = np.exp(logs) / np.exp(logs).sum()
        np.testing.assert_allclose(found.probabilities[index, : len(options)], expected, rtol=1e-12)
        assert (found.probabilities[index, len(options) :] == 0).all()
        if score == "sum":
            assert (found.predicted[index] == sample["doc"]["gold"]) == bool(sample["acc"])


def test_several_responses_are_refused(rows: pa.Table) -> None:
    log = {"format": "lm_eval", "outputs": TEXT, "key_from": "doc.id", "filter": "strict"}
    with pytest.raises(InputError, match=r"has 3 responses to one request \(`repeats`\)"):
        said("samples_sums_many.jsonl", rows, **log)
    with pytest.raises(InputError, match="has 2 epochs, so there are several answers to each question"):
        said("epochs.eval", rows, format="inspect", outputs=TEXT)


def test_rows_that_are_joined_wrongly(tmp_path: Path, rows: pa.Table) -> None:
    # The file counts its documents, and so does the dataset: the same numbers, other questions.
    other = rows.set_column(rows.column_names.index("row"), "row", pa.array(range(6)))
    log: dict[str, Any] = {"format": "lm_eval", "outputs": TEXT, "filter": "strict"}
    assert len(said("samples_sums_say.jsonl", rows, key="row", **log)) == 6
    with pytest.raises(InputError, match=r"'target' in .* is not 'answer' of the dataset in 5 of 6 rows"):
        said("samples_sums_say.jsonl", other, key="row", **log)
    with pytest.raises(InputError, match=r"'doc.question' in .* is not 'question' of the dataset in \d of 6 rows"):
        said("samples_sums_say.jsonl", other, key="row", agrees={"doc.question": "question"}, **log)
    with pytest.raises(InputError, match=r"'target' in .* is not 'gold' of the dataset in 4 of 6 rows"):
        answers("samples_sums_choose.jsonl", other, label="gold", key="row", format="lm_eval", outputs=OPTIONS)
    shorter = write(tmp_path / "few.jsonl", lines("samples_sums_choose.jsonl")[:4])
    with pytest.raises(InputError, match="lack 2 of 6 keys"):
        answers(shorter, rows, label="gold", key="row", format="lm_eval", outputs=OPTIONS)
    twice = write(tmp_path / "twice.jsonl", lines("samples_sums_choose.jsonl") * 2)
    with pytest.raises(InputError, match="occurs in rows 1 and 7"):
        answers(twice, rows, label="gold", key="row", format="lm_eval", outputs=OPTIONS)
    with pytest.raises(InputError, match=r"a sample has no field 'doc.key' \(choices: id, question"):
        said("samples_sums_say.jsonl", rows, key_from="doc.key", **log)


def test_labels_by_class_and_by_text(rows: pa.Table) -> None:
    letters = rows.append_column("letter", pa.array(["ABCD"[gold] for gold in rows.column("gold").to_pylist()]))
    log: dict[str, Any] = {"format": "lm_eval", "outputs": OPTIONS, "classes": ["A", "B", "C", "D"]}
    found = answers("samples_sums_choose.jsonl", letters, label="letter", key="row", **log)
    assert found.classes == ("A", "B", "C", "D")
    wrong = letters.set_column(letters.column_names.index("letter"), "letter", pa.array(list("ABCDAB")))
    with pytest.raises(InputError, match="is not 'letter' of the dataset in"):
        answers("samples_sums_choose.jsonl", wrong, label="letter", key="row", **log)


@pytest.mark.parametrize("file", ["say.eval", "say.json"])
def test_inspect(rows: pa.Table, file: str) -> None:
    one = served(file, "answer", "id", format="inspect", outputs=TEXT)
    found = one.predict_all(rows)
    assert found.texts is not None
    texts = dict(zip(rows.column("id").to_pylist(), found.texts.tolist(), strict=True))
    assert texts == {"q1": "It is\nANSWER: 4", "q2": "7", "q3": "7 I think", "q4": "3", "q5": "", "q6": "7"}
    assert one.loaded.observed["log of answers on test"] == (
        "Inspect, status success, 1 of 6 answers stopped at a limit, 0 asked again after an error; "
        "it names the model mockllm/model"
    )
    assert one.loaded.observed["unanswered on test"] == 1
    reasons = said(file, rows, format="inspect", outputs={"text": "stop_reason"})
    assert reasons["q3"] == "max_tokens" and reasons["q1"] == "stop"


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_archives_of_other_methods(tmp_path: Path, rows: pa.Table, method: int) -> None:
    """Inspect compressed by deflate before it did by zstd; a sample that was logged twice counts as it was at last."""
    log = json.loads((FILES / "say.json").read_text())
    samples = log.pop("samples")
    first = json.loads(json.dumps(samples[0]))
    first["output"]["completion"] = "of a try before"
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("header.json", json.dumps(log))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            for sample in (first, *samples):
                archive.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
        archive.writestr("samples/q1_epoch_1/messages/0.json", "[]")
    if method == zipfile.ZIP_BZIP2:
        with pytest.raises(InputError, match="is compressed by method 12"):
            said(path, rows, format="inspect", outputs=TEXT)
        return
    assert said(path, rows, format="inspect", outputs=TEXT)["q1"] == "It is\nANSWER: 4"


def test_a_scorer_is_declared_where_there_are_several(rows: pa.Table) -> None:
    log: dict[str, Any] = {"format": "inspect", "outputs": {"text": "answer"}}
    letters = rows.append_column("letter", pa.array(["ABCD"[gold] for gold in rows.column("gold").to_pylist()]))
    assert said("choose.eval", letters, label="letter", **log)["q3"] == "A"
    by_row = said("choose.eval", letters, label="letter", key="row", key_from="metadata.row", **log)
    assert by_row["q3"] == "A"
    with pytest.raises(InputError, match=r"2 scorers, .* read `answer` \(choices: match, includes\)"):
        said("say.eval", rows, **log)
    assert said("say.eval", rows, scorer="match", **log)["q5"] == ""
    with pytest.raises(InputError, match=r"no scorer 'model_graded' \(choices: match, includes\)"):
        said("say.eval", rows, scorer="model_graded", **log)


def test_a_missing_answer_is_not_the_empty_label(rows: pa.Table) -> None:
    labels = [
        "" if one == "q5" else label
        for one, label in zip(*(rows[c].to_pylist() for c in ("id", "answer")), strict=True)
    ]
    empty = rows.set_column(rows.column_names.index("answer"), "answer", pa.array(labels))
    with pytest.raises(InputError, match="has no answer to a question whose label is the empty text"):
        said("say.json", empty, format="inspect", outputs=TEXT, agrees={"input": "question"})


def test_a_log_can_not_be_timed(rows: pa.Table) -> None:
    with pytest.raises(NotRunError, match="can't be timed"):
        served("say.json", "answer", "id", format="inspect", outputs=TEXT).rows(rows)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"filter": "strict"}, "`filter` is about `format: lm_eval`"),
        ({"key_from": "doc.id"}, "`key_from` is about `format: lm_eval or inspect`"),
        ({"format": "inspect", "score": "sum"}, "`score` is about `format: lm_eval`"),
        ({"format": "lm_eval", "scorer": "match"}, "`scorer` is about `format: inspect`"),
        ({"format": "lm_eval", "outputs": {"label": "acc"}}, "no column 'acc', but text, probabilities"),
    ],
)
def test_fields_of_another_format(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        PredictionFiles.model_validate({"files": {"test": "log.jsonl"}, **fields})


def _everywhere(name: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda sample: {**sample, name: value}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_everywhere("filtered_resps", [["0.0", "False"]] * 4), "the same log-likelihood for every option"),
        (_everywhere("filtered_resps", [["-inf", "False"]] * 4), "no finite log-likelihood"),
        (_everywhere("filtered_resps", [["-1.5", "False"]] * 2), "3 options and 2 log-likelihoods"),
        (_everywhere("filtered_resps", [["many", "False"]] * 4), "not a log-likelihood: could not convert"),
        (_everywhere("filtered_resps", []), "a sample without responses"),
        (_everywhere("filtered_resps", ["-12.5"]), "neither generates a text nor chooses an"),
        (_everywhere("arguments", {}), "a sample without the texts"),
        (lambda sample: {"doc_id": 1, "answer": "4"}, "not a file of lm-eval's samples"),
        (
            lambda sample: {**sample, "arguments": {"gen_args_0": sample["arguments"]["gen_args_0"]}},
            "one log-likelihood",
        ),
    ],
)
def test_files_that_hold_no_choice(
    tmp_path: Path, rows: pa.Table, change: Callable[[dict[str, Any]], dict[str, Any]], sentence: str
) -> None:
    path = write(tmp_path / "changed.jsonl", [change(one) for one in lines("samples_sums_choose.jsonl")])
    with pytest.raises(InputError, match=sentence):
        answers(path, rows, label="gold", key="row", format="lm_eval", outputs=OPTIONS)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"samples": None}, "holds no list of samples"),
        ({"samples": []}, "has no samples"),
        ({"eval": None}, "it has no `eval`"),
        ({"samples": [{"id": 1, "epoch": 1, "target": "4"}]}, "a sample without 'output'"),
        ({"samples": [{"id": 1, "epoch": 1, "target": "4", "output": {}}]}, "a sample without `output.completion`"),
        (
            {"samples": [{"id": 1, "epoch": 1, "target": "4", "output": {}, "invalidation": {"author": "me"}}]},
            "has 1 samples? that were? declared void",
        ),
    ],
)
def test_logs_that_hold_no_answers(tmp_path: Path, rows: pa.Table, change: dict[str, Any], sentence: str) -> None:
    log = json.loads((FILES / "say.json").read_text()) | change
    (tmp_path / "log.json").write_text(json.dumps(log))
    with pytest.raises(InputError, match=sentence):
        said(tmp_path / "log.json", rows, format="inspect", outputs=TEXT)


LM_EVAL = {"format": "lm_eval", "key_from": "doc.id"}
FORMATS = [
    ("samples_sums_choose.jsonl", LM_EVAL | {"outputs": OPTIONS}, "gold"),
    ("samples_sums_say.jsonl", LM_EVAL | {"outputs": TEXT, "filter": "strict"}, "answer"),
    ("say.eval", {"format": "inspect", "outputs": TEXT}, "answer"),
    ("say.json", {"format": "inspect", "outputs": TEXT}, "answer"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "fields", "label"), FORMATS)
def test_any_damage_ends_in_a_sentence(
    tmp_path: Path, rows: pa.Table, file: str, fields: dict[str, Any], label: str
) -> None:
    whole, draw, path = (FILES / file).read_bytes(), random.Random(7), tmp_path / file
    damaged = [whole[: draw.randrange(len(whole))] for _ in range(40)]
    for _ in range(120):
        content = bytearray(whole)
        for _ in range(draw.choice((1, 3, 40))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        damaged.append(bytes(content))
    refused = 0
    for content in damaged:
        path.write_bytes(content)
        try:
            answers(path, rows, label=label, **fields)
        except InputError:
            refused += 1
    assert refused > 40
    shutil.copy(FILES / file, path)
    assert answers(path, rows, label=label, **fields).n == 6


@pytest.mark.proof
@pytest.mark.parametrize(("file", "fields", "label"), FORMATS)
def test_any_value_of_another_type_ends_in_a_sentence(
    tmp_path: Path, rows: pa.Table, file: str, fields: dict[str, Any], label: str
) -> None:
    if file.endswith(".eval"):
        pytest.skip("its members hold the same as the .json")
    strange: tuple[Any, ...] = (None, 7, "x", [], {}, [[]], [None], {"a": 1}, float("nan"), True)
    text = (FILES / file).read_text()
    documents = [json.loads(text)] if file.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    samples = documents[0]["samples"] if file.endswith(".json") else documents
    path = tmp_path / file
    for place in list(_places(samples[0])):
        for value in strange:
            before = _put(samples[0], place, value)
            path.write_text("".join(json.dumps(one) + "\n" for one in documents))
            with contextlib.suppress(InputError):
                answers(path, rows, label=label, **fields)
            _put(samples[0], place, before)


def _places(value: Any, depth: int = 3) -> list[tuple[Any, ...]]:
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, below in inside:
        found += [(key,), *((key, *rest) for rest in (_places(below, depth - 1) if depth else []))]
    return found


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    for key in place[:-1]:
        value = value[key]
    before, value[place[-1]] = value[place[-1]], new
    return before
