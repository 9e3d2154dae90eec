"""torch models: exported programs and state dicts."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.torch import LoadedTorch, Torch, device_of
from tests.small_models import BIAS, WEIGHT, array, expected_probabilities, save_linear_pt2

FACTS = DatasetFacts("test", label="label", key="key")
FIELDS: dict[str, Any] = {
    "path": "linear.pt2",
    "inputs": {"input": "x"},
    "outputs": {"logits": "output"},
    "classes": ("cat", "dog", "owl"),
}


def served(access: Access, **fields: Any) -> Served:
    model = Torch(**(FIELDS | fields))
    return Served(model, model.load(access, threads=1), access, FACTS)


def test_an_exported_program_needs_no_trust(access: Access, rows: pa.Table, linear_pt2: Path) -> None:
    one = served(access)
    answers = one.predict_all(rows, batch=4)
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    assert one.loaded.input_names == ("input",) and one.loaded.output_names == ("output",)
    assert one.loaded.fixed_batch is None
    assert one.loaded.observed["precision"] == "fp32" and one.loaded.observed["parameters"] == 15


def test_loading_leaves_the_environment_as_it_was(
    access: Access, linear_pt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", raising=False)
    Torch(**FIELDS).load(access, threads=1)
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


def test_a_fixed_batch_is_padded(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    save_linear_pt2(tmp_path / "linear.pt2", fixed=True)
    one = served(access)
    answers = one.predict_all(rows)
    assert one.loaded.fixed_batch == 4 and answers.details["padded_rows"] == 2
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)


def test_several_outputs_and_keyword_inputs(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    import torch

    class Two(torch.nn.Module):
        def forward(self, left: Any, *, right: Any) -> dict[str, Any]:
            return {"value": (left + 2 * right).sum(dim=1), "unused": (left, right)}

    n = torch.export.Dim("n")
    example = torch.zeros(3, 2)
    program = torch.export.export(
        Two().eval(), (example,), {"right": example}, dynamic_shapes={"left": {0: n}, "right": {0: n}}
    )
    torch.export.save(program, tmp_path / "two.pt2")
    model = Torch(path="two.pt2", inputs={"left": ("x0", "x1"), "right": ("x2", "x3")}, outputs={"value": "value"})
    loaded = model.load(access, threads=1)
    assert loaded.input_names == ("left", "right") and loaded.output_names == ("value", "unused")
    with pytest.raises(InputError, match=r"the output 'unused' is a tuple, not a tensor"):
        Served(model, loaded, access, FACTS).predict_all(rows)


def write_factory(folder: Path) -> None:
    (folder / "made_module.py").write_text(
        "import torch\ndef linear():\n    return torch.nn.Linear(4, 3)\ndef nothing():\n    return 3\n"
    )


def write_state(path: Path) -> None:
    import torch

    torch.save({"weight": torch.from_numpy(WEIGHT.T.copy()), "bias": torch.from_numpy(BIAS)}, path)


def test_a_state_dict_needs_trust_for_its_factory(
    tmp_path: Path, access: Access, trusted: Access, rows: pa.Table
) -> None:
    write_factory(tmp_path)
    write_state(tmp_path / "state.pt")
    fields = {"path": "state.pt", "factory": "made_module:linear"}
    with pytest.raises(InputError, match=r"the model's factory runs the code made_module:linear; pass --trust"):
        served(access, **fields)
    answers = served(trusted, **fields).predict_all(rows)
    assert answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-6)
    assert [path.name for path in Torch(**FIELDS | fields).files(access)] == ["state.pt", "made_module.py"]


def test_a_factory_may_be_converted(tmp_path: Path, trusted: Access, rows: pa.Table) -> None:
    write_factory(tmp_path)
    write_state(tmp_path / "state.pt")
    one = served(trusted, path="state.pt", factory="made_module:linear", dtype="bf16")
    answers = one.predict_all(rows)
    assert one.loaded.observed["precision"] == "bf16" and answers.probabilities is not None
    difference = np.abs(answers.probabilities - expected_probabilities(array(rows))).max()
    assert 1e-6 < difference < 0.02


def test_weights_that_do_not_fit(tmp_path: Path, trusted: Access) -> None:
    import torch

    write_factory(tmp_path)
    torch.save({"weight": torch.zeros(2, 2)}, tmp_path / "state.pt")
    with pytest.raises(InputError, match=r"'state.pt' is not a state dict for .*(Missing|size mismatch)"):
        served(trusted, path="state.pt", factory="made_module:linear")
    with pytest.raises(InputError, match=r"made_module:nothing made a int, not a torch.nn.Module"):
        served(trusted, path="state.pt", factory="made_module:nothing")


def test_a_state_dict_that_is_a_pickle_of_code_is_refused_even_then(tmp_path: Path, trusted: Access) -> None:
    import torch

    write_factory(tmp_path)
    torch.save({"weight": Touch(str(tmp_path / "ran"))}, tmp_path / "state.pt")
    with pytest.raises(InputError, match=r"is not a state dict for made_module:linear"):
        served(trusted, path="state.pt", factory="made_module:linear")
    assert not (tmp_path / "ran").exists()


class Touch:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.path,))


@pytest.mark.parametrize("content", [b"", b"no zip at all", b"PK\x03\x04 truncated"])
def test_files_that_hold_no_model(tmp_path: Path, access: Access, content: bytes) -> None:
    (tmp_path / "linear.pt2").write_bytes(content)
    with pytest.raises(InputError, match=r"is empty|is not a .pt2 archive, or a truncated one"):
        Torch(**FIELDS).load(access)


def test_a_truncated_archive(access: Access, linear_pt2: Path) -> None:
    linear_pt2.write_bytes(linear_pt2.read_bytes()[:-300])
    with pytest.raises(InputError, match=r"is not a .pt2 archive, or a truncated one"):
        Torch(**FIELDS).load(access)


def test_a_file_of_another_kind(tmp_path: Path, access: Access) -> None:
    write_state(tmp_path / "state.pt")
    with pytest.raises(InputError, match=r"holds a state dict: .* name the class .*`factory: module:Class`"):
        Torch(**FIELDS | {"path": "state.pt"}).load(access)
    (tmp_path / "state.pt").rename(tmp_path / "linear.pt2")
    with pytest.raises(InputError, match=r"'linear.pt2' holds a state dict: "):
        Torch(**FIELDS).load(access)


def test_fields_that_contradict_each_other() -> None:
    with pytest.raises(ValidationError, match=r"`dtype` needs `factory`"):
        Torch(path="m.pt2", dtype="fp16")
    with pytest.raises(ValidationError, match=r"`factory` needs a state dict"):
        Torch(path="m.pt2", factory="a:b")


def test_another_input_shape_names_both(access: Access, rows: pa.Table, linear_pt2: Path) -> None:
    with pytest.raises(InputError, match=r"input 'input' takes shape \[rows, 4\] but got \[rows, 2\]"):
        served(access, inputs={"input": ("x0", "x1")}).predict_all(rows)


def test_no_gpu_here_is_said(access: Access, linear_pt2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        InputError, match=r"the spec sets device 'cuda:0', but this torch .*; install torch's CUDA build"
    ):
        Torch(**FIELDS, device="cuda:0").load(access)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device_of("cuda:1").index == 1
    with pytest.raises(
        InputError, match=r"the spec sets device 'cuda:2', but there are 2 GPUs \(choices: cuda:0, cuda:1\)"
    ):
        device_of("cuda:2")


def test_a_gpu_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)

    def loaded(kind: str) -> LoadedTorch:
        place = SimpleNamespace(type=kind)
        return LoadedTorch(observed={}, input_names=(), output_names=(), run=dict, place=place, dtype=None)

    loaded("cpu").synchronize()
    assert waited == []
    loaded("cuda").synchronize()
    assert [place.type for place in waited] == ["cuda"]


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::UserWarning")  # Of torch, on TF32 and on buffers that it only reads.
@pytest.mark.parametrize("compiled", [False, True])
def test_on_a_gpu(access: Access, rows: pa.Table, linear_pt2: Path, compiled: bool) -> None:
    one = served(access, device="cuda:0", compile=compiled)
    answers = one.predict_all(rows)
    one.synchronize()
    assert answers.probabilities is not None and one.loaded.observed["device"] == "cuda:0"
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-3)


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_by_torch(access: Access, rows: pa.Table, linear_pt2: Path) -> None:
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    one = served(access, compile=True)
    answers = one.predict_all(rows)
    assert one.loaded.observed["compiled"] is True and answers.probabilities is not None
    np.testing.assert_allclose(answers.probabilities, expected_probabilities(array(rows)), atol=1e-5)
