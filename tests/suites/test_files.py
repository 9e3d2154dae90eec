"""The suites' committed files are what their scripts make, small, and free of what they must not hold."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow.parquet as pq
import pytest

SUITES = Path(__file__).resolve().parents[2] / "suites"
DIGITS = SUITES / "digits"
FLAWED = SUITES / "digits-flawed"
CANCER = SUITES / "breast_cancer"
MIB = 2**20


@pytest.fixture
def make_digits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DIGITS))
    return importlib.import_module("make_digits")


@pytest.fixture
def make_breast_cancer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CANCER))
    return importlib.import_module("make_breast_cancer")


def pixels(path: Path) -> np.ndarray:
    column = pq.read_table(path)["pixels"].combine_chunks()
    return np.asarray(column.flatten()).reshape(-1, 64).astype(np.float64)


@pytest.mark.parametrize("arguments", [["--check"], ["--flawed", "--check"]])
def test_digits_files_have_their_digests(make_digits: ModuleType, arguments: list[str]) -> None:
    assert make_digits.main(arguments) == 0


def test_breast_cancer_files_have_their_digests(make_breast_cancer: ModuleType) -> None:
    assert make_breast_cancer.main(["--check"]) == 0


def test_a_changed_file_is_noticed(make_digits: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(DIGITS, tmp_path / "digits")
    with (tmp_path / "digits" / "int8.onnx").open("ab") as file:
        file.write(b"\0")
    assert make_digits.main(["--check", "--output", str(tmp_path / "digits")]) == 1
    assert "int8.onnx" in capsys.readouterr().out


@pytest.mark.parametrize("folder", [DIGITS, FLAWED])
def test_data_are_what_the_script_makes(make_digits: ModuleType, tmp_path: Path, folder: Path) -> None:
    make_digits.make_data(tmp_path, flawed=folder == FLAWED)
    for name in ("train.parquet", "test.parquet", "field.parquet"):
        # Contents, not bytes: another version of pyarrow may write the same rows otherwise.
        assert pq.read_table(tmp_path / name).equals(pq.read_table(folder / name)), name


@pytest.mark.proof
@pytest.mark.slow
def test_models_are_what_the_script_makes(tmp_path: Path) -> None:
    code = (
        "import sys, digit_models, make_digits; digit_models.AGAIN = 3;"
        "sys.exit(make_digits.main(['--output', sys.argv[1]]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True, timeout=240, cwd=DIGITS, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    for name in ("fp32.onnx", "int8.onnx", "fp16.onnx"):
        made, kept = right_answers(tmp_path / name), right_answers(DIGITS / name)
        # Other processors round otherwise; what is learned must be as good.
        assert made == pytest.approx(kept, abs=0.01)
    for name in ("pruned.onnx", "distilled.onnx"):
        # They have seen every picture 3 times and not 60, and are right in 77 % and 49 %.
        assert min(right_answers(tmp_path / name)) > 0.3


def right_answers(model: Path) -> list[float]:
    ort = pytest.importorskip("onnxruntime")
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    shares = []
    for name in ("test.parquet", "field.parquet"):
        rows = pixels(DIGITS / name).astype(np.float32) / 16
        truth = np.asarray(pq.read_table(DIGITS / name)["digit"])
        shares.append(float((session.run(None, {"image": rows})[0].argmax(axis=1) == truth).mean()))
    return shares


def test_sets_are_large_enough_and_files_small_enough() -> None:
    for folder in (DIGITS, FLAWED):
        assert pq.read_metadata(folder / "test.parquet").num_rows >= 840
        assert pq.read_metadata(folder / "field.parquet").num_rows >= 840
    for folder in (DIGITS, FLAWED, CANCER):
        names = json.loads((folder / "digests.json").read_text())
        assert sum((folder / name).stat().st_size for name in names) < 2 * MIB


def test_no_test_picture_has_a_twin_in_training() -> None:
    train, test = pixels(DIGITS / "train.parquet"), pixels(DIGITS / "test.parquet")
    distance = np.sqrt(((test[:, None, :] - train[None, :, :]) ** 2).sum(axis=2))
    cosine = (test @ train.T) / np.outer(np.linalg.norm(test, axis=1), np.linalg.norm(train, axis=1))
    assert distance.min() >= 10.0
    assert cosine.max() <= 0.985


def test_field_rows_come_in_pairs_from_test_pictures_only() -> None:
    source = np.asarray(pq.read_table(DIGITS / "field.parquet")["source"])
    test = np.asarray(pq.read_table(DIGITS / "test.parquet")["source"])
    train = np.asarray(pq.read_table(DIGITS / "train.parquet")["source"])
    assert sorted(np.unique(source)) == sorted(test)
    assert (np.unique(source, return_counts=True)[1] == 2).all()
    assert not set(source) & set(train)


def test_flaws_are_planted_in_the_files_and_nowhere_else() -> None:
    for name in ("test.parquet", "field.parquet"):
        assert pq.read_table(FLAWED / name).equals(pq.read_table(DIGITS / name))
    good, bad = pq.read_table(DIGITS / "train.parquet"), pq.read_table(FLAWED / "train.parquet")
    assert bad.slice(0, good.num_rows).equals(good)
    leaked = set(bad["id"].to_pylist()) & set(pq.read_table(FLAWED / "test.parquet")["id"].to_pylist())
    assert len(leaked) == bad.num_rows - good.num_rows == 4
    assert not set(good["id"].to_pylist()) & set(pq.read_table(DIGITS / "test.parquet")["id"].to_pylist())


@pytest.mark.parametrize("folder", [DIGITS, FLAWED])
def test_int8_is_int8(folder: Path) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.load(folder / "int8.onnx")
    weights = [tensor for tensor in model.graph.initializer if len(tensor.dims) >= 2]
    assert {tensor.data_type for tensor in weights} == {onnx.TensorProto.INT8}
    assert sum(node.op_type == "QuantizeLinear" for node in model.graph.node) >= 4


@pytest.mark.proof
@pytest.mark.parametrize("folder", [DIGITS, FLAWED])
def test_program_loads_without_unpickling_and_takes_any_batch(folder: Path) -> None:
    pytest.importorskip("torch")
    code = (
        "import sys, torch; m = torch.export.load(sys.argv[1]).module();"
        "assert [tuple(m(torch.zeros(n, 64)).shape) for n in (1, 3, 850)] == [(1, 10), (3, 10), (850, 10)]"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(folder / "fp32.pt2")],
        check=True, timeout=120,
        env=os.environ | {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


def test_classifier_needs_no_trust() -> None:
    skops_io = pytest.importorskip("skops.io")
    assert skops_io.get_untrusted_types(file=CANCER / "classifier.skops") == []


@pytest.mark.parametrize("folder", [DIGITS, FLAWED, CANCER])
def test_no_file_remembers_the_machine_it_was_made_on(folder: Path) -> None:
    for name in json.loads((folder / "digests.json").read_text()):
        content = (folder / name).read_bytes()
        for word in (b"/home/", b"/root/", b"/Users/", b"site-packages", str(SUITES.parent).encode()):
            assert word not in content, name
