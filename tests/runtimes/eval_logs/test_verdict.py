"""A log as the only evidence: its rows are scored again, and the verdict says what it cannot prove."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import evalspec
from evalspec.errors import SpecError

SPEC = """
evalspec: 1
name: logged
models:
  candidate:
    kind: predictions
    format: lm_eval
    files: {test: samples.jsonl}
    key_from: doc.id
    filter: strict
    outputs: {text: text}
    artifact: sha256:%s
datasets:
  test: {kind: jsonl, path: test.jsonl, label: answer, key: id}
model:
  - check: quality
    dataset: test
    require: [exact_match >= 60 %%]
"""


def write(folder: Path, right: int, of: int = 200) -> Path:
    """A spec whose model is a log in which so many answers are right, though its own scores say that all are."""
    questions = [{"id": f"q{row}", "question": f"{row} and 1?", "answer": str(row + 1)} for row in range(of)]
    samples = [
        {
            "doc_id": row, "doc": one, "target": one["answer"], "filter": name, "metrics": ["exact_match"],
            "arguments": {"gen_args_0": {"arg_0": one["question"], "arg_1": {"until": ["\n"]}}},
            "resps": [["..."]], "filtered_resps": [one["answer"] if row < right else "[invalid]"], "exact_match": 1.0,
        }
        for name in ("strict", "loose") for row, one in enumerate(questions)
    ]  # fmt: skip
    for file, rows in (("test.jsonl", questions), ("samples.jsonl", samples)):
        (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "evalspec.yaml").write_text(SPEC % ("1" * 64))
    return folder / "evalspec.yaml"


@pytest.mark.proof
@pytest.mark.parametrize(("right", "word"), [(160, "READY"), (90, "NOT READY")])
def test_rows_are_scored_and_scores_are_not_read(tmp_path: Path, right: int, word: str) -> None:
    record = evalspec.run(write(tmp_path, right), output=tmp_path / "run").record
    assert record.verdict is not None
    assert record.verdict.word == word, record.verdict.headline
    assert [test.value for check in record.checks for test in check.tests] == [right / 200]
    said = "answers of candidate on test come from a log (lm-eval, filter strict; it names no model), which "
    assert any(line.startswith(said) for line in record.verdict.weakened), record.verdict.weakened


@pytest.mark.proof
def test_a_filter_that_was_not_declared_is_no_verdict(tmp_path: Path) -> None:
    spec = write(tmp_path, 160)
    spec.write_text(spec.read_text().replace("    filter: strict\n", ""))
    record = evalspec.run(spec, output=tmp_path / "run").record
    assert record.verdict is not None and record.verdict.word != "READY"
    assert any("choices: strict, loose" in one.reason for one in record.verdict.decisions)


def test_a_field_of_another_format_stops_the_spec(tmp_path: Path) -> None:
    spec = write(tmp_path, 160)
    spec.write_text(spec.read_text().replace("format: lm_eval", "format: inspect"))
    with pytest.raises(SpecError, match="`filter` is about `format: lm_eval`"):
        evalspec.run(spec, output=tmp_path / "run")
