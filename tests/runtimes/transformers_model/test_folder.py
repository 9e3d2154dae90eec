"""Folders of language models: what belongs to the subject, and what may not be read without trust."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.likelihoods import Windows
from evalspec.language.parts import Access
from evalspec.pipeline.digest import artifact_digest
from evalspec.runtimes.transformers import Transformers
from tests.causal_models import hardly_trained

CODE = """
import pathlib
pathlib.Path({marker!r}).write_text("ran")
from transformers import LlamaConfig, LlamaForCausalLM


class OwnConfig(LlamaConfig):
    model_type = "own"


class OwnModel(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(hardly_trained(tmp_path_factory) / "fp32", tmp_path / "m"))


def digest(folder: Path) -> str:
    return artifact_digest(Transformers(path=folder.name).files(Access(folder.parent)))


def changed(path: Path, **values: object) -> None:
    path.write_text(json.dumps((json.loads(path.read_text()) if path.exists() else {}) | values))


PARTS: tuple[Callable[[Path], object], ...] = (
    lambda folder: (folder / "chat_template.jinja").write_text("{{ messages }}"),
    lambda folder: changed(folder / "tokenizer_config.json", chat_template="{{ messages }}"),
    lambda folder: changed(folder / "generation_config.json", temperature=0.7),
    lambda folder: changed(folder / "config.json", rms_norm_eps=1e-5),
    lambda folder: changed(folder / "tokenizer.json", truncation=None, padding=None, version="1.1"),
    lambda folder: (folder / "model.safetensors").write_bytes(b"other"),
)


@pytest.mark.parametrize("change", PARTS, ids=range(len(PARTS)))
def test_each_part_belongs_to_the_subject(folder: Path, change: Callable[[Path], object]) -> None:
    before = digest(folder)
    change(folder)
    assert digest(folder) != before


def test_a_page_about_the_model_does_not(folder: Path) -> None:
    before = digest(folder)
    (folder / "README.md").write_text("# A model")
    assert digest(folder) == before
    told = Transformers(path="m").answers_from(Access(folder.parent))
    assert set(told) == {"weights", "configuration", "tokenizer", "chat template"}


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_that_lacks_a_part_is_refused_by_its_name(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=name.replace("model.", r"\*\.")):
        Transformers(path="m").files(Access(folder.parent))


def test_a_file_is_no_folder(folder: Path) -> None:
    with pytest.raises(InputError, match="give its folder"):
        Transformers(path="m/config.json").files(Access(folder.parent))


def test_a_damaged_file_is_a_reason_and_no_crash(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(InputError, match="transformers can't load 'm'"):
        Transformers(path="m").load(Access(folder.parent), threads=1)
    (folder / "config.json").write_text("[]")
    with pytest.raises(InputError, match="holds no object"):
        Transformers(path="m").may_hide_code(Access(folder.parent))


def test_pickled_weights_need_trust(folder: Path) -> None:
    import torch
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    # Beside safetensors nobody reads them, and they are no part of the subject.
    assert Transformers(path="m").may_hide_code(Access(folder.parent)) is None
    (folder / "model.safetensors").unlink()
    assert "a pickle" in str(Transformers(path="m").may_hide_code(Access(folder.parent)))
    with pytest.raises(InputError, match="--trust"):
        Transformers(path="m").load(Access(folder.parent), threads=1)
    model = Transformers(path="m").load(Access(folder.parent, trust=True), threads=1)
    assert model.likelihoods(["abc"], Windows(8, 8), None, lambda *_: None).tokens[0] == 3


@pytest.mark.parametrize("where", ["config.json", "tokenizer_config.json"])
def test_code_in_the_folder_needs_trust_and_belongs_to_the_subject(folder: Path, where: str) -> None:
    before, marker = digest(folder), folder.parent / "ran"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    assert digest(folder) != before
    maps = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    changed(folder / where, auto_map=maps, **({"model_type": "own"} if where == "config.json" else {}))
    with pytest.raises(InputError, match=r"auto_map in .*--trust"):
        Transformers(path="m").load(Access(folder.parent), threads=1)
    assert not marker.exists()


def test_code_in_the_folder_runs_under_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_MODULES_CACHE", str(folder.parent / "modules"))
    marker = folder.parent / "ran"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    maps = {"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"}
    changed(folder / "config.json", auto_map=maps, model_type="own")
    model = Transformers(path="m").load(Access(folder.parent, trust=True), threads=1)
    assert marker.exists() and model.observed["architecture"] == "OwnModel"


def test_nothing_is_looked_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was asked for")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    model = Transformers(path="m").load(Access(folder.parent), threads=1)
    assert model.likelihoods(["abc"], Windows(8, 8), None, lambda *_: None).tokens[0] == 3
    with pytest.raises(InputError, match="no file or folder"):
        Transformers(path="gpt2").load(Access(folder.parent), threads=1)


def test_it_answers_no_rows(folder: Path) -> None:
    with pytest.raises(NotRunError, match="not answers to rows"):
        Transformers(path="m").load(Access(folder.parent), threads=1).predict({})


def test_tokens_of_plain_text_tell_tokenizers_apart_and_what_is_put_around_it_does_not(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    models = hardly_trained(tmp_path_factory)
    one, same, twice, other = (
        Transformers(path=name).vocabulary(Access(models)) for name in ("fp32", "int4", "begins_twice", "other_tokens")
    )
    assert one == same == twice != other
