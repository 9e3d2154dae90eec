"""Content of a file that torch wrote, told by its bytes: nothing of it is unpickled or run."""

from __future__ import annotations

import io
import pickletools
import zipfile
from enum import Enum
from pathlib import Path

from evalspec.errors import InputError

LARGEST_PICKLE = 2**24
"""Bytes of a pickle that are looked at; a longer one holds more than names and shapes."""
OLD_MAGIC = bytes.fromhex("8a0a6cfc9c46f920")
"""In the first bytes of what ``torch.save`` wrote before it wrote zip archives."""
OF_STATE_DICTS = ("collections", "torch", "torch._utils", "torch.storage", "torch._tensor", "numpy", "_codecs")
"""Modules that a state dict's pickle names: containers, types and the makers of tensors."""
NO_DATA = frozenset(("torch.nn", "torch.fx", "torch.jit"))
ROWS = 'dynamic_shapes=({0: torch.export.Dim("rows")},)'
EXPORT = f'torch.export.save(torch.export.export(model, (x,), {ROWS}), "model.pt2")'
"""The call that makes an exported program; ``x`` is a batch of two rows or more."""


class TorchContent(Enum):
    """Contents of a file that torch wrote."""

    EXPORTED = "an exported program"
    TORCHSCRIPT = "TorchScript (torch.jit.save)"
    STATE_DICT = "a state dict: weights without the code that uses them"
    MODULE = "a pickle that needs code to load, as torch.save(model) writes"


def torch_content(path: Path) -> TorchContent | None:
    """Content of a file; None: it is none of torch's, or can't be told."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return _of_archive(archive)
        with path.open("rb") as file:
            start = file.read(LARGEST_PICKLE)
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError):
        return None
    return _of_old_pickles(start) if OLD_MAGIC in start[:32] else None


def _of_archive(archive: zipfile.ZipFile) -> TorchContent | None:
    if min((one.header_offset for one in archive.infolist()), default=1):
        # An archive inside one that is cut off.
        return None
    inside = {name.partition("/")[2]: name for name in archive.namelist()}
    if "archive_format" in inside or "serialized_exported_program.json" in archive.namelist():
        return TorchContent.EXPORTED
    if "constants.pkl" in inside:
        return TorchContent.TORCHSCRIPT
    if "data.pkl" not in inside:
        return None
    with archive.open(inside["data.pkl"]) as file:
        return _of_pickle(file.read(LARGEST_PICKLE))


def _of_pickle(data: bytes) -> TorchContent:
    return TorchContent.MODULE if any(map(_is_code, _modules(data))) else TorchContent.STATE_DICT


def _of_old_pickles(data: bytes) -> TorchContent:
    """Of a file of several pickles, one after the other: magic number, version, system, then what was saved."""
    stream = io.BytesIO(data)
    try:
        for _ in range(3):
            for _ in pickletools.genops(stream):
                pass
    except (ValueError, EOFError):
        return TorchContent.MODULE
    return _of_pickle(stream.read())


def _modules(data: bytes) -> set[str]:
    """Modules of the classes and functions that a pickle names."""
    found: set[str] = set()
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "GLOBAL":
                found.add(str(argument).partition(" ")[0])
            elif opcode.name == "STACK_GLOBAL" and len(texts) > 1:
                found.add(texts[-2])
            if isinstance(argument, str):
                texts.append(argument)
    except (ValueError, EOFError):
        # What is cut off, or no pickle from there on, is judged by what was read.
        return found
    return found


def _is_code(module: str) -> bool:
    own = module in OF_STATE_DICTS or module.partition(".")[0] in ("numpy", "builtins", "__builtin__")
    return not own or any(module == one or module.startswith(f"{one}.") for one in NO_DATA)


def refuse_content(path: Path, shown: str, factory: str | None) -> None:
    """Stop where a file holds something else of torch's than what is read from it; says how it is exported.

    Args:
        path: The file.
        shown: As the spec names it.
        factory: What makes the module, so that a state dict is wanted; None: an exported program is.

    Raises:
        InputError: It does.
    """
    content = torch_content(path)
    if content in (None, TorchContent.STATE_DICT if factory is not None else TorchContent.EXPORTED):
        if content is TorchContent.EXPORTED and path.suffix != ".pt2":
            raise InputError(f"{shown!r} is an exported program", remedy="rename it so that it ends in .pt2")
        return
    message = f"{shown!r} holds {content.value}, but kind 'torch' reads exported programs (.pt2)"
    if factory is not None:
        message = f"{shown!r} is not a state dict for {factory}: it holds {content.value}"
    raise InputError(message, remedy=_remedy(content, shown, factory))


def _remedy(content: TorchContent, shown: str, factory: str | None) -> str:
    if content is TorchContent.EXPORTED:
        return "leave `factory:` out"
    if content is TorchContent.STATE_DICT:
        return (
            "name the class that the weights belong to, `factory: module:Class`, which runs under --trust; or export "
            f"the model where it is made: model.eval(); {EXPORT}"
        )
    if content is TorchContent.MODULE:
        loaded = f"model = torch.load({shown!r}, weights_only=False).eval()"
        state = "; or save its state dict: torch.save(model.state_dict(), ...)" if factory is not None else ""
        return f"export it where its class can be imported: {loaded}; x = a batch of rows; {EXPORT}{state}"
    return f"export the module that it was made from: model.eval(); x = a batch of rows; {EXPORT}"
