from __future__ import annotations

import gzip
import json
import pickle
import zipfile
from pathlib import Path

import pytest

from evalspec.errors import InputError
from evalspec.runtimes.transformers_model.folder import context_of
from evalspec.starting.artifact import recognize
from evalspec.starting.factories import factories
from tests.starting.files import write_onnx


def kind(path: Path) -> str:
    return recognize(path, path.name, None).kind


def test_a_model_is_known_by_its_content(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    assert kind(tmp_path / "model.onnx") == "onnx"
    (tmp_path / "m.pkl").write_bytes(pickle.dumps({"a": 1}))
    assert kind(tmp_path / "m.pkl") == "sklearn"
    (tmp_path / "m.joblib").write_bytes(gzip.compress(pickle.dumps({})))
    assert kind(tmp_path / "m.joblib") == "sklearn"
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(60))
    assert kind(tmp_path / "m.gguf") == "gguf"
    with zipfile.ZipFile(tmp_path / "m.skops", "w") as archive:
        archive.writestr("schema.json", "{}")
    assert kind(tmp_path / "m.skops") == "sklearn"
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "config.json").write_text("{}")
    (tmp_path / "llm" / "model.safetensors").write_bytes(b"")
    assert kind(tmp_path / "llm") == "transformers"


def test_a_name_that_its_kind_does_not_read_is_said(tmp_path: Path) -> None:
    write_onnx(tmp_path)
    (tmp_path / "model.onnx").rename(tmp_path / "model.bin")
    with pytest.raises(InputError, match=r"'model.bin' is an ONNX model; rename it so that it ends in .onnx"):
        kind(tmp_path / "model.bin")
    (tmp_path / "model.pt").write_bytes(pickle.dumps([1]))
    with pytest.raises(InputError, match=r"'model.pt' is a pickle.*rename it"):
        kind(tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\x89HDF\r\n", "is an HDF5 file, as Keras writes; export it to ONNX"),
        (b"PAR1", "is a parquet file; give the model first"),
        (b"a,b\n1,2\n", "is not a model in a known format; evalspec reads ONNX"),
    ],
)
def test_what_is_no_model_says_what_it_is(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(InputError, match=said):
        kind(tmp_path / "m")


def test_only_files_that_do_nothing_else_are_taken_for_a_factory(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("from torch import nn\nSIZE = 3\nclass Net(nn.Module):\n    pass\n")
    trains = "from torch.nn import Module\nclass Other(Module):\n    pass\nmodel = Other()\n"
    (tmp_path / "train.py").write_text(trains)
    guarded = (
        "from torch.nn import Module\nclass Third(Module):\n    pass\nif __name__ == '__main__':\n    print(Third())\n"
    )
    (tmp_path / "guarded.py").write_text(guarded)
    (tmp_path / "broken.py").write_text("class (")
    assert factories(tmp_path) == (["guarded:Third", "net:Net"], ["train:Other"])


def test_a_folder_of_transformers_that_does_not_write_says_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    told = {"architectures": ["GPT2ForSequenceClassification"]}
    (tmp_path / "config.json").write_text(json.dumps(told))
    with pytest.raises(InputError, match=r"holds a GPT2ForSequenceClassification, .*; call it from a Python function"):
        kind(tmp_path)


def test_a_language_model_without_a_chat_template_goes_on_with_plain_text(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"], "n_positions": 32}')
    assert recognize(tmp_path, "m", None).fields == {"api": "completions"}
    assert context_of(tmp_path) == 32
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": "{{ messages }}"}')
    assert recognize(tmp_path, "m", None).fields == {}


def test_a_program_names_the_entry_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "score.py").write_text("def predict(arrays): ...")
    with pytest.raises(InputError, match=r"is a program; write the entry by hand: `kind: python`.*score:NAME"):
        kind(tmp_path / "score.py")
