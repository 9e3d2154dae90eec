"""Kind of a model by its content, not by its name; nothing of it is unpickled or run."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evalspec.errors import InputError
from evalspec.runtimes.torch_model.content import TorchContent, refuse_content, torch_content
from evalspec.runtimes.transformers_model.folder import has_chat_template, need_language_model

PICKLED = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
COMPRESSED = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x5d\x00\x00")
"""Beginnings of what joblib writes with ``compress``."""
PICKLES = (".joblib", ".pkl", ".pickle")
OTHERS: tuple[tuple[bytes, str, str], ...] = (
    (b"\x89HDF", "an HDF5 file, as Keras writes", "export it to ONNX (tf2onnx), or serve it and give its URL"),
    (b"PAR1", "a parquet file", "give the model first, then its test set"),
    (b"ARROW1", "an Arrow file", "give the model first, then its test set"),
)
CHECKPOINT = "*.safetensors"
EXPORTABLE = (
    "evalspec reads ONNX, exported torch programs (.pt2), skops, joblib, GGUF, folders of transformers and URLs"
)


@dataclass(frozen=True, slots=True)
class ModelKind:
    """A model that was recognized.

    Args:
        kind: As a spec calls it.
        what: The same in words.
        fields: Of its entry in a spec, beside the path.
    """

    kind: str
    what: str
    fields: Mapping[str, str] = field(default_factory=dict)


def recognize(path: Path, shown: str, factory: str | None) -> ModelKind:
    """Kind of a model's file or folder.

    Args:
        path: Where it is.
        shown: As the user named it.
        factory: What makes the module of a state dict; None: nothing was named.

    Raises:
        InputError: It is no model that can be read; says what it is and how it becomes one.
    """
    if path.is_dir():
        return _folder(path, shown)
    if path.stat().st_size == 0:
        raise InputError(f"the model file {shown!r} is empty")
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(b"GGUF"):
        return _called(ModelKind("gguf", "a GGUF file of llama.cpp"), shown, (".gguf",))
    content = torch_content(path)
    if content is TorchContent.STATE_DICT:
        fields = {} if factory is None else {"factory": factory}
        return ModelKind("torch", "a state dict of torch", fields)
    if content is not None:
        refuse_content(path, shown, None)
        return ModelKind("torch", "an exported torch program")
    if zipfile.is_zipfile(path):
        return _archive(path, shown)
    if start.startswith((*PICKLED, *COMPRESSED)):
        return _called(ModelKind("sklearn", "a pickle, as joblib and pickle write"), shown, PICKLES)
    return _plain(path, shown, start)


def _folder(path: Path, shown: str) -> ModelKind:
    if (path / "config.json").is_file() and any(path.glob(CHECKPOINT)):
        need_language_model(path, shown)
        fields = {} if has_chat_template(path) else {"api": "completions"}
        return ModelKind("transformers", "a folder of transformers", fields)
    if (path / "saved_model.pb").is_file():
        raise InputError(
            f"{shown!r} is a SavedModel of TensorFlow",
            remedy="export it to ONNX (tf2onnx), or serve it and give its URL",
        )
    raise InputError(f"{shown!r} is a folder without a model", remedy=f"give the model's file; {EXPORTABLE}")


def _archive(path: Path, shown: str) -> ModelKind:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if "schema.json" in names:
        return _called(ModelKind("sklearn", "a skops file"), shown, (".skops",))
    if "config.json" in names and any(name.endswith(".h5") for name in names):
        raise InputError(f"{shown!r} is a model of Keras", remedy=OTHERS[0][2])
    inside = ", ".join(names[:3])
    raise InputError(
        f"{shown!r} is a zip archive, but not a model in a known format (it holds {inside})", remedy=EXPORTABLE
    )


def _plain(path: Path, shown: str, start: bytes) -> ModelKind:
    if path.suffix == ".py":
        raise InputError(
            f"{shown!r} is a program",
            remedy=f"write the entry by hand: `kind: python`, `function: {Path(shown).stem}:NAME`",
        )
    for magic, what, remedy in OTHERS:
        if start.startswith(magic):
            raise InputError(f"{shown!r} is {what}", remedy=remedy)
    if start[8:9] == b"{" and path.suffix == ".safetensors":
        remedy = "give the folder with its config.json and tokenizer"
        raise InputError(f"{shown!r} holds only weights", remedy=remedy)
    from evalspec.runtimes.onnx_model.graph import read_graph

    try:
        read_graph(path, shown)
    except InputError as error:
        if path.suffix == ".onnx":
            raise
        raise InputError(f"{shown!r} is not a model in a known format", remedy=EXPORTABLE) from error
    return _called(ModelKind("onnx", "an ONNX model"), shown, (".onnx",))


def _called(artifact: ModelKind, shown: str, suffixes: tuple[str, ...]) -> ModelKind:
    """The artifact, whose name ends as its kind reads it."""
    suffix = Path(shown).suffix.lower()
    if suffix in suffixes or (not suffix and suffixes != PICKLES):
        return artifact
    raise InputError(f"{shown!r} is {artifact.what}", remedy=f"rename it so that it ends in {' or '.join(suffixes)}")
