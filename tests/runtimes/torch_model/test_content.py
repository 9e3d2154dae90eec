"""Files of torch are named for what they hold, with the lines that export them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.torch import Torch
from evalspec.runtimes.torch_model.content import TorchContent, torch_content

NET = "import torch\n\nclass Net(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(2, 2)\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, module = tmp_path_factory.mktemp("files"), torch.nn.Linear(2, 2).eval()
    rows = {0: torch.export.Dim("rows")}
    torch.export.save(torch.export.export(module, (torch.zeros(3, 2),), dynamic_shapes=(rows,)), folder / "a.pt2")
    torch.save(module.state_dict(), folder / "state.pt")
    torch.save(module.state_dict(), folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(module, folder / "whole.pt")
    torch.save(module, folder / "old_whole.pt", _use_new_zipfile_serialization=False)
    with pytest.warns(DeprecationWarning):
        torch.jit.save(torch.jit.trace(module, torch.zeros(3, 2)), folder / "script.pt")
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.pt2", TorchContent.EXPORTED), ("state.pt", TorchContent.STATE_DICT), ("old.pt", TorchContent.STATE_DICT),
        ("whole.pt", TorchContent.MODULE), ("old_whole.pt", TorchContent.MODULE),
        ("script.pt", TorchContent.TORCHSCRIPT),
    ],
)  # fmt: skip
def test_a_file_is_known_by_its_bytes(files: Path, name: str, content: TorchContent) -> None:
    assert torch_content(files / name) is content


def test_what_is_no_file_of_torch_is_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x04N.")
    assert torch_content(tmp_path / "x") is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "script.pt",
            r"holds TorchScript .* export the module .*torch.export.save\(torch.export.export\(model, \(x,\)",
        ),
        ("whole.pt", r"holds a pickle that needs code .*model = torch.load\('whole.pt', weights_only=False\)"),
        ("state.pt", r"holds a state dict: .*`factory: module:Class`, which runs under --trust; or export"),
    ],
)
def test_each_says_how_it_is_exported(files: Path, name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Torch(path=name).load(Access(files))


def test_weights_of_another_type_ask_for_a_cast(files: Path, tmp_path: Path) -> None:
    import pyarrow as pa

    (tmp_path / "net_of_two.py").write_text(NET)
    (tmp_path / "state.pt").write_bytes((files / "state.pt").read_bytes())
    access = Access(tmp_path, trust=True)
    model = Torch(path="state.pt", factory="net_of_two:Net", inputs={"input": ("a", "b")}, outputs={"value": "output"})
    served = Served(model, model.load(access), access, DatasetFacts())
    with pytest.raises(InputError, match=r"weights are float32 but its input 'input' is float64; add .*cast: float32"):
        served.predict_all(pa.table({"a": [1.0], "b": [2.0]}))


def test_a_factory_that_writes_over_its_weights_is_found_out(files: Path, tmp_path: Path) -> None:
    training = f"{NET}\ntorch.save(Net().state_dict(), {str(tmp_path / 'state.pt')!r})\n"
    (tmp_path / "that_trains.py").write_text(training)
    (tmp_path / "state.pt").write_bytes((files / "state.pt").read_bytes())
    with pytest.raises(InputError, match=r"'state.pt' was overwritten while that_trains:Net was imported"):
        Torch(path="state.pt", factory="that_trains:Net").load(Access(tmp_path, trust=True))
