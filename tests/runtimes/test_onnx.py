"""ONNX models: what is loaded, what is got, what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.onnx import Onnx, providers
from tests.small_models import array, expected_probabilities, save_linear_onnx

FACTS = DatasetFacts("test", label="label", key="key")
FIELDS: dict[str, Any] = {
    "path": "linear.onnx",
    "inputs": {"x": "x"},
    "outputs": {"logits": "y"},
    "classes": ("cat", "dog", "owl"),
}


def served(access: Access, **fields: Any) -> Served:
    model = Onnx(**(FIELDS | fields))
    return Served(model, model.load(access, threads=1), access, FACTS)


def test_logits_become_probabilities(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    answers = served(access).predict_all(rows, batch=4)
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    np.testing.assert_allclose(answers.probabilities.sum(axis=1), 1.0, rtol=1e-12)


def test_columns_are_stacked_in_the_order_named(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    answers = served(access, inputs={"x": ("x0", "x1", "x2", "x3")}).predict_all(rows)
    turned = served(access, inputs={"x": ("x3", "x2", "x1", "x0")}).predict_all(rows)
    assert answers.probabilities is not None and turned.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    np.testing.assert_allclose(turned.probabilities, expected_probabilities(array(rows)[:, ::-1]), atol=1e-6)


def test_a_fixed_batch_is_padded_and_the_padding_dropped(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    save_linear_onnx(tmp_path / "linear.onnx", batch=4)
    one = served(access)
    answers = one.predict_all(rows, batch=7)
    assert one.loaded.fixed_batch == 4
    assert answers.n == 10 and answers.details["batch"] == 4 and answers.details["padded_rows"] == 2
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    ready = one.rows(rows)
    np.testing.assert_array_equal(
        ready.answers(ready.serve(ready.take(np.arange(9)))),
        answers.predicted[:9],  # type: ignore[index]
    )


def test_weights_beside_the_file_belong_to_the_artifact(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    save_linear_onnx(tmp_path / "linear.onnx", external=True)
    assert [path.name for path in Onnx(**FIELDS).files(access)] == ["linear.onnx", "linear.onnx.data"]
    answers = served(access).predict_all(rows)
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    (tmp_path / "linear.onnx.data").unlink()
    with pytest.raises(InputError, match=r"keeps weights in 'linear.onnx.data', which does not exist"):
        Onnx(**FIELDS).files(access)


def test_weights_outside_the_models_folder_are_refused(tmp_path: Path) -> None:
    import onnx

    folder = tmp_path / "inner"
    folder.mkdir()
    save_linear_onnx(folder / "linear.onnx", external=True)
    model = onnx.load(str(folder / "linear.onnx"), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "../secret"
    (tmp_path / "secret").write_bytes(b"0" * 100)
    (folder / "linear.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(InputError, match=r"'../secret', outside its own folder"):
        Onnx(**FIELDS).load(Access(folder=folder))


def test_what_was_observed(tmp_path: Path, access: Access, linear_onnx: Path) -> None:
    observed = Onnx(**FIELDS).load(access, threads=1).observed
    assert observed["precision"] == "fp32" and observed["provider"] == "CPUExecutionProvider"
    assert observed["device"] == "cpu" and observed["threads"] == 1 and observed["parameters"] == 15
    assert observed["size_bytes"] == linear_onnx.stat().st_size
    save_linear_onnx(tmp_path / "half.onnx", half=True)
    assert Onnx(**FIELDS | {"path": "half.onnx"}).load(access).observed["precision"] == "fp16"


def test_int8_weights_are_seen(tmp_path: Path, access: Access) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    save_linear_onnx(tmp_path / "fp32.onnx")
    quantize_dynamic(tmp_path / "fp32.onnx", tmp_path / "int8.onnx", weight_type=QuantType.QInt8)
    assert Onnx(**FIELDS | {"path": "int8.onnx"}).load(access).observed["precision"] == "int8"


def test_threads_do_not_spin(access: Access, linear_onnx: Path) -> None:
    options = Onnx(**FIELDS).load(access, threads=2).session.get_session_options()  # type: ignore[attr-defined]
    assert options.intra_op_num_threads == 2 and options.inter_op_num_threads == 1
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"


def test_cuda_asked_and_cpu_got_is_an_error(access: Access, linear_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    asked: list[Any] = []

    def session(path: str, *, sess_options: Any, providers: Any) -> Any:
        asked.append(providers)
        return SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    with pytest.raises(
        InputError,
        match=r"the spec sets device 'cuda:1', but onnxruntime got CPUExecutionProvider; install onnxruntime-gpu",
    ):
        Onnx(**FIELDS, device="cuda:1").load(access)
    assert asked[0][0][0] == "CUDAExecutionProvider" and asked[0][0][1]["device_id"] == 1


def test_cuda_got_is_what_is_recorded(access: Access, linear_onnx: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    real = onnxruntime.InferenceSession(str(linear_onnx), providers=["CPUExecutionProvider"])
    got = SimpleNamespace(
        get_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
        get_inputs=real.get_inputs,
        get_outputs=real.get_outputs,
    )
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: got)
    monkeypatch.setattr(onnxruntime, "preload_dlls", lambda: None)
    observed = Onnx(**FIELDS, device="cuda:0").load(access).observed
    assert (observed["device"], observed["provider"], observed["precision"]) == (
        "cuda:0", "CUDAExecutionProvider", "fp32",
    )  # fmt: skip
    assert Onnx(**FIELDS, device="cuda:0", precision="tf32").load(access).observed["precision"] == "tf32"


@pytest.mark.parametrize(("precision", "tf32"), [("fp32", "0"), (None, "0"), ("tf32", "1")])
def test_tf32_is_used_only_when_it_is_said(precision: str | None, tf32: str) -> None:
    assert providers("cuda:0", precision)[0][1]["use_tf32"] == tf32
    assert providers("cpu", precision) == ["CPUExecutionProvider"]


@pytest.mark.gpu
def test_on_a_gpu(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    answers = served(access, device="cuda:0").predict_all(rows)
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-3)


@pytest.mark.parametrize("content", [b"", b"{}", b"hello, this is not a model", b"PK\x03\x04 something else"])
def test_files_that_hold_no_model(tmp_path: Path, access: Access, content: bytes) -> None:
    (tmp_path / "linear.onnx").write_bytes(content)
    with pytest.raises(InputError, match=r"is empty|is not an ONNX model"):
        Onnx(**FIELDS).load(access)


@pytest.mark.parametrize("kept", [20, 60, 150])
def test_truncated_files(access: Access, linear_onnx: Path, kept: int) -> None:
    linear_onnx.write_bytes(linear_onnx.read_bytes()[:kept])
    with pytest.raises(InputError, match=r"not an ONNX model|can't load"):
        Onnx(**FIELDS).load(access)


def test_another_input_shape_names_both(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    with pytest.raises(InputError, match=r"input 'x' takes shape \[rows, 4\] but got \[rows, 3\]"):
        served(access, inputs={"x": ("x0", "x1", "x2")}).predict_all(rows)


def test_another_input_type_says_what_to_add(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    table = rows.drop_columns(["x"]).append_column("x", pa.array([[1, 2, 3, 4]] * 10))
    with pytest.raises(InputError, match=r"takes float32 and got int64; add \{cast: float32\} to `preprocess`"):
        served(access).predict_all(table)
    assert served(access, preprocess=({"cast": "float32"},)).predict_all(table).n == 10


def test_names_that_the_model_has_not(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    with pytest.raises(InputError, match=r"no input 'X' \(choices: x\)"):
        served(access, inputs={"X": "x"}).predict_all(rows)
    with pytest.raises(InputError, match=r"no output 'logit' \(choices: y\)"):
        served(access, outputs={"logits": "logit"}).predict_all(rows)
    with pytest.raises(InputError, match=r"has no column 'xx' \(choices: x0"):
        served(access, inputs={"x": "xx"}).predict_all(rows)


def test_outputs_may_be_numbered(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    assert served(access, outputs={"logits": 0}).predict_all(rows).n == 10
    with pytest.raises(InputError, match=r"has 1 outputs, so there is no output number 1"):
        served(access, outputs={"logits": 1}).predict_all(rows)


def test_inputs_may_be_left_out_where_there_is_one_choice(access: Access, rows: pa.Table, linear_onnx: Path) -> None:
    assert served(access, inputs={}).predict_all(rows.select(["key", "x", "label"])).n == 10
    renamed = rows.select(["key", "x", "label"]).rename_columns(["key", "features", "label"])
    assert served(access, inputs={}).predict_all(renamed).n == 10
    with pytest.raises(InputError, match=r"takes x and the dataset has 2 columns .*x0, x1; name them: inputs: \{x: "):
        served(access, inputs={}).predict_all(rows.select(["x0", "x1", "label"]))
