"""A run as a baseline: set on purpose, held against row by row, never for timings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError, NotRunError, RecordError, SpecError
from evalspec.language.parts import Access
from evalspec.loading import LoadOptions, load
from evalspec.records.bless import bless
from evalspec.running.folders import read_record
from evalspec.runtimes import record as kept_record
from evalspec.runtimes.record import BlessedRun
from tests.commands import evalspec
from tests.shared import predictions_run


@pytest.fixture
def there(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The suite and a run of it, in a folder of this test's own."""
    return shutil.copytree(predictions_run(tmp_path_factory), tmp_path / "there")


def baseline(**fields: str) -> BlessedRun:
    return BlessedRun.model_validate({"kind": "record", "path": "baselines/v1"} | fields)


def digest(folder: Path) -> str:
    return read_record(folder / "run").datasets[0].digest


@pytest.mark.proof
def test_a_blessed_run_is_a_model_that_is_paired_row_by_row(there: Path) -> None:
    suite = there / "suite"
    target, record = bless(there / "run", "v1")
    assert target == suite / "baselines" / "v1" and record.verdict is not None
    assert json.loads((target / "blessed.json").read_text())["verdict"] == "READY"
    text = (suite / "evalspec.yaml").read_text()
    text = text.replace("\ndatasets:", "  baseline: {kind: record, path: baselines/v1}\n\ndatasets:")
    text = text.replace("      - accuracy >= 90 %", "      - accuracy >= 90 %\n      - accuracy >= baseline - 2 pp")
    (suite / "evalspec.yaml").write_text(text)
    done = evalspec("run", "suite/evalspec.yaml", "--output", "again", "--json", folder=there)
    decisions = read_record(there / "again").verdict
    assert decisions is not None, done.stderr
    found = {one.name: one for one in decisions.decisions}["quality/accuracy vs baseline"]
    assert found.status == "PASS" and "accuracy against baseline 0 pp" in found.sentence
    models = {one.name: one for one in read_record(there / "again").models}
    assert models["baseline"].digest == models["candidate"].digest
    again = evalspec("verify", "again", folder=there)
    assert again.returncode == 0, again.stdout


@pytest.mark.proof
def test_other_rows_are_not_paired_and_the_difference_is_named(there: Path) -> None:
    bless(there / "run", "v1")
    access, one = Access(there / "suite"), baseline()
    assert one.kept_answers(access, "test", digest(there)).is_file()
    with pytest.raises(NotRunError, match=r"dataset test has different rows .* \(digest eeeeeeeeeeee now, .* then\)"):
        one.kept_answers(access, "test", "sha256:" + "e" * 64)
    with pytest.raises(NotRunError, match="did not use dataset field; its datasets: test"):
        one.kept_answers(access, "field", digest(there))
    with pytest.raises(InputError, match=r"has no model 'other' \(choices: candidate\)"):
        baseline(of="other").kept_digest(access)


def test_a_record_is_read_once_whatever_is_asked_of_it_and_anew_when_it_is_another(
    there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, record = bless(there / "run", "v1")
    reads: list[Path] = []
    read = kept_record.read_bounded
    monkeypatch.setattr(kept_record, "read_bounded", lambda path, *how: reads.append(path) or read(path, *how))
    access, one = Access(there / "suite"), baseline()
    for _ in range(3):
        one.kept_answers(access, "test", digest(there))
        assert one.kept_digest(access) == record.models[0].digest
    assert [path for path in reads if path == target / "record.json"] == [target / "record.json"]
    other = record.model_copy(update={"models": (record.models[0].model_copy(update={"digest": "9" * 64}),)})
    (target / "record.json").write_text(other.model_dump_json())
    assert one.kept_digest(access) == "9" * 64


def test_answers_that_were_changed_are_refused(there: Path) -> None:
    target, _ = bless(there / "run", "v1")
    (file,) = (target / "evidence").iterdir()
    pq.write_table(pq.read_table(file).slice(1), file)
    with pytest.raises(InputError, match="is not what the run wrote; bless the run again"):
        baseline().kept_answers(Access(there / "suite"), "test", digest(there))
    (target / "record.json").write_text("{}")
    with pytest.raises(InputError, match="can't be read"):
        baseline().kept_digest(Access(there / "suite"))
    shutil.rmtree(target)
    with pytest.raises(InputError, match="there is no file or folder 'baselines/v1'"):
        baseline().kept_digest(Access(there / "suite"))


def test_a_baseline_is_set_once_and_anew_only_on_purpose(there: Path) -> None:
    target, _ = bless(there / "run", "v1")
    with pytest.raises(RecordError, match="there is a baseline v1 already"):
        bless(there / "run", "v1")
    (target / "blessed.json").unlink()
    bless(there / "run", "v1", replace=True)
    assert (target / "blessed.json").is_file()
    assert [path.name for path in target.parent.iterdir()] == ["v1"]


@pytest.mark.parametrize("name", ["", "..", "a/b", "V1", "-x"])
def test_a_name_stays_in_its_folder(there: Path, name: str) -> None:
    with pytest.raises(RecordError, match="is not a name for a baseline"):
        bless(there / "run", name)


def test_what_is_no_whole_run_is_no_baseline(there: Path) -> None:
    record = read_record(there / "run")
    text = (there / "run" / "record.json").read_text()
    (there / "run" / "record.json").write_text(record.model_copy(update={"draft": True}).model_dump_json())
    with pytest.raises(RecordError, match="is a draft"):
        bless(there / "run", "v1")
    part = record.model_copy(update={"only": ("quality",)}).model_dump_json()
    (there / "run" / "record.json").write_text(part)
    with pytest.raises(RecordError, match="is a part of its spec"):
        bless(there / "run", "v1")
    (there / "run" / "record.json").write_text(text.replace('"word": "READY"', '"word": "NOT READY"'))
    with pytest.raises(RecordError, match="its tests do not give its verdict"):
        bless(there / "run", "v1")
    (there / "run" / "record.json").write_text(text)
    answers = there / "run" / record.predictions[0].path
    answers.rename(answers.with_name("kept"))
    with pytest.raises(RecordError, match="is gone, so no answer could be paired"):
        bless(there / "run", "v1")
    answers.with_name("kept").rename(answers)
    (there / "elsewhere" / "deep").mkdir(parents=True)
    shutil.move(there / "run", there / "elsewhere" / "deep" / "run")
    with pytest.raises(RecordError, match="one of them was moved"):
        bless(there / "elsewhere" / "deep" / "run", "v1")


SPEC = """
evalspec: 1
name: timed
models:
  candidate: {kind: onnx, path: a.onnx}
  baseline: {kind: record, path: baselines/v1}
datasets:
  test: {kind: parquet, path: t.parquet, label: y}
system:
  - check: latency
    dataset: test
    require: [latency_p50 <= 1.2x baseline]
"""


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("", ""), "baseline is the record of a run, but latency_p50 is measured "),
        (("    dataset: test\n    require: [latency_p50 <= 1.2x baseline]",
          "    model: baseline\n    dataset: test\n    require: [latency_p50 <= 5 ms]"),
         "baseline is the record of a run, which can't be timed"),
    ],
)  # fmt: skip
def test_nothing_is_timed_against_a_record(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC.replace(*change))
    with pytest.raises(SpecError, match=sentence):
        load(tmp_path / "spec.yaml", options=LoadOptions(files=False))
