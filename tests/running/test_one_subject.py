"""F1: what is recorded of a model is what was loaded; what is stated of another file is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from evalspec.errors import InputError, SpecError
from evalspec.language.parts import Access, Model
from evalspec.loading import load
from evalspec.pipeline import artifact as pipeline_artifact
from evalspec.report.attestation import attestation
from evalspec.running.children.reader import model_record
from evalspec.running.files import sha256_of
from evalspec.runtimes.onnx import Onnx
from evalspec.runtimes.predictions import PredictionFiles
from evalspec.runtimes.python import Python
from tests.running.small import answers, go, write

DIGITS = Path(__file__).parents[2] / "suites" / "digits"
GOOD = """
import numpy as np

def good(inputs):
    x = np.asarray(next(iter(inputs.values()))).reshape(-1)
    p = np.where(x > 0, 0.97, 0.03)
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("fp32.onnx", "int8.onnx"):
        shutil.copyfile(DIGITS / name, tmp_path / name)
    (tmp_path / "card.md").write_text("A model.\n")
    return tmp_path


def onnx(artifact: str | None) -> Model:
    return Onnx(path="fp32.onnx", artifact=artifact)


@pytest.mark.parametrize("artifact", ["int8.onnx", "card.md", ".", f"sha256:{'0' * 64}"])
def test_f1_the_artifact_of_a_model_that_is_read_here_is_what_is_read(folder: Path, artifact: str) -> None:
    with pytest.raises(InputError, match=r"is not what answers: that is fp32.onnx .*remove `artifact:`"):
        model_record("candidate", onnx(artifact), Access(folder))


def test_f1_validate_says_so_where_the_artifact_stands(folder: Path) -> None:
    text = (DIGITS / "evalspec.yaml").read_text()
    for name in ("test.parquet", "train.parquet", "field.parquet", "classes.txt", "fp32.pt2"):
        shutil.copyfile(DIGITS / name, folder / name)
    (folder / "spec.yaml").write_text(text.replace("path: int8.onnx", "path: int8.onnx\n    artifact: fp32.onnx", 1))
    with pytest.raises(SpecError) as found:
        load(folder / "spec.yaml")
    (problem,) = found.value.problems
    assert problem.path is not None and problem.path.endswith(".artifact") and problem.line is not None
    assert "artifact 'fp32.onnx'" in problem.message and "that is int8.onnx" in problem.message


def test_f1_the_same_bytes_under_another_name_are_the_same(folder: Path) -> None:
    shutil.copyfile(folder / "fp32.onnx", folder / "copy.onnx")
    os.link(folder / "fp32.onnx", folder / "hard.onnx")
    (folder / "link.onnx").symlink_to("fp32.onnx")
    (folder / "alone").mkdir()
    shutil.copyfile(folder / "fp32.onnx", folder / "alone" / "model.onnx")
    digest = sha256_of(folder / "fp32.onnx")
    for artifact in ("fp32.onnx", "copy.onnx", "hard.onnx", "link.onnx", "alone", f"sha256:{digest}", None):
        record = model_record("candidate", onnx(artifact), Access(folder))
        assert (record.digest, record.digest_stated) == (digest, False), artifact


def test_f1_a_model_of_several_files_is_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(GOOD)
    (tmp_path / "weights.bin").write_bytes(b"1")
    model = Python(function="own:good", weights=("weights.bin",), artifact="weights.bin")
    with pytest.raises(InputError, match=r"is not what answers: that is own\.py, weights\.bin"):
        model_record("candidate", model, Access(tmp_path))
    record = model_record("candidate", model.model_copy(update={"artifact": None}), Access(tmp_path))
    assert record.files == 2
    assert [(one.path, one.what) for one in record.contents] == [
        ("own.py", "function own:good"), ("weights.bin", "weights"),
    ]  # fmt: skip


def test_f1_what_takes_long_to_digest_is_held_when_it_is_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = (folder / "fp32.onnx").stat().st_size
    (folder / "other.onnx").write_bytes(bytes(size))
    monkeypatch.setattr(pipeline_artifact, "CHEAP_BYTES", 0)
    pipeline_artifact.check_artifact_cheaply(onnx("other.onnx"), Access(folder))
    with pytest.raises(InputError, match="is not what answers"):
        model_record("candidate", onnx("other.onnx"), Access(folder))


@pytest.mark.proof
def test_f1_the_record_and_the_attestation_are_about_what_was_loaded(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(GOOD)
    spec = write(tmp_path, "  candidate: {kind: python, function: 'own:good', inputs: {x: x}, classes: [a, b]}\n")
    record, _ = go(spec, tmp_path / "out")
    digest = sha256_of(tmp_path / "own.py")
    assert record.verdict is not None and record.verdict.word == "READY"
    assert record.subject == record.models[0].digest == digest and not record.models[0].digest_stated
    assert digest in attestation(record, record.verdict)


def test_f2_the_record_says_which_file_of_predictions_was_judged(tmp_path: Path) -> None:
    answers(tmp_path / "said.parquet", right=True)
    model = PredictionFiles(files={"test": "said.parquet"}, artifact=f"sha256:{'1' * 64}")
    record = model_record("candidate", model, Access(tmp_path))
    assert (record.digest, record.digest_stated) == ("1" * 64, True)
    (one,) = record.contents
    assert (one.path, one.what, one.digest) == (
        "said.parquet", "answers on test", sha256_of(tmp_path / "said.parquet"),
    )  # fmt: skip
