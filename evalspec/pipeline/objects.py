"""Objects of the calling program on their way into the processes that measure: written to a file, and read back.

A process that measures starts afresh: a copy of the caller's by `fork` would have its threads' locks and none of its
threads. So an object is pickled, torch modules by torch, and whatever can't be is refused before anything is measured.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from types import FunctionType, ModuleType, SimpleNamespace
from typing import IO, Any

from evalspec.errors import InputError
from evalspec.pipeline.untrusted_code import first_line, weights_only

SEARCHED = "searched.json"
"""Beside the objects: folders in which the calling program finds modules."""
TORCH = ".pt"


class _Plain(pickle.Pickler):
    """Refuses what another process could not import, which a pickle names and does not hold."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type):
            name = getattr(obj, "__qualname__", "")
            if obj.__module__ == "__main__" or "<" in name:
                what = "a lambda" if name.endswith("<lambda>") else repr(name)
                where = "this program itself" if obj.__module__ == "__main__" else "a function"
                raise InputError(
                    f"{what} is defined in {where}, where the process that measures can't import it",
                    remedy="define it in a module, at the top, or pip install cloudpickle",
                )
        return NotImplemented


def is_module(value: object) -> bool:
    """True of a torch module; torch is not imported to find out."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def write_object(value: object, folder: Path, name: str) -> str:
    """Write an object to a file.

    Args:
        value: A torch module, an estimator, or what can be called.
        folder: Takes the file.
        name: Of the model.

    Returns:
        The name of the file.

    Raises:
        InputError: It can't be handed to another process.
    """
    file = f"{name}{TORCH}" if is_module(value) else f"{name}.pkl"
    pickler = _pickler()
    try:
        with (folder / file).open("wb") as stream:
            if is_module(value):
                sys.modules["torch"].save(value, stream, pickle_module=SimpleNamespace(Pickler=pickler))
            else:
                pickler(stream, 5).dump(value)
    except InputError:
        raise
    except Exception as error:
        # Anything may be raised by the object's own way of being pickled.
        raise InputError(
            f"a {type(value).__name__} can't be handed to the process that measures: {first_line(error)}",
            remedy="save it to a file, and name its kind and path in the spec",
        ) from error
    (folder / SEARCHED).write_text(json.dumps([str(Path(one).resolve()) for one in sys.path if one != ""]))
    return file


def _pickler() -> Any:
    """The class that pickles: that of cloudpickle, by itself or as it comes with joblib, where there is one."""
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        try:
            module: ModuleType = __import__(name, fromlist=["Pickler"])
        except ImportError:
            continue
        return module.Pickler
    return _Plain


def read_object(path: Path) -> object:
    """The object in a file that `write_object` wrote.

    Raises:
        InputError: It can't be made again in this process.
    """
    searched = path.with_name(SEARCHED)
    folders = json.loads(searched.read_text()) if searched.is_file() else []
    # After what this process searches by itself: none of the caller's modules stands in for one of ours.
    sys.path += [one for one in folders if one not in sys.path]
    try:
        # Torch may unpickle: the object is the caller's own.
        with path.open("rb") as stream, weights_only(on=False):
            return _torch_load(stream) if path.suffix == TORCH else pickle.load(stream)
    except Exception as error:
        raise InputError(
            f"what was handed over in memory can't be made again in the process that measures: "
            f"{type(error).__name__}: {first_line(error)}",
            remedy="define its class or function in a module that can be imported from anywhere",
        ) from error


def _torch_load(stream: IO[bytes]) -> object:
    import torch

    value: object = torch.load(stream, map_location="cpu", weights_only=False)
    return value
