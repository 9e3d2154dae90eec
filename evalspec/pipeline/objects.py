"""Objects of the calling program on their way into the processes that measure: written to a file, and read back.

A process that measures starts afresh: a copy of the caller's by `fork` would have its threads' locks and none of its
threads. So an object is pickled, torch modules by torch, and whatever can't be is refused before anything is measured.
"""

from __future__ import annotations

import pickle
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import IO, Any

from evalspec.errors import InputError
from evalspec.pipeline.untrusted_code import first_line, weights_only

TRACKED = re.compile("[0-9a-f]{32}")
"""A number drawn at random, under which cloudpickle remembers a class that it has pickled."""
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
                    remedy="define it at the top level of a module, or pip install 'evalspec-gate[memory]'",
                )
        return NotImplemented


def is_module(value: object) -> bool:
    """True of a torch module; torch is not imported to find out."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def is_estimator(value: object) -> bool:
    """True of what answers as an estimator of scikit-learn does."""
    return any(callable(getattr(value, method, None)) for method in ("predict", "transform"))


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
    if not (callable(value) or is_estimator(value)):
        raise InputError(
            f"an object of type {type(value).__name__} is not a model: it can't be called, and has no predict",
            remedy="pass an estimator, a torch module or a function",
        )
    file = f"{name}{TORCH}" if is_module(value) else f"{name}.pkl"
    pickler = _pickler()
    try:
        with (folder / file).open("wb") as stream:
            if is_module(value):
                sys.modules["torch"].save(
                    value, stream, pickle_module=SimpleNamespace(Pickler=pickler, __name__="pickle")
                )
            else:
                pickler(stream, 5).dump(value)
    except InputError:
        raise
    except Exception as error:
        # Anything may be raised by the object's own way of being pickled.
        raise InputError(
            f"an object of type {type(value).__name__} can't be sent to a separate process: {first_line(error)}",
            remedy="save it to a file, and put its kind and path into the spec",
        ) from error
    return file


def _pickler() -> Any:
    """The class that pickles: of cloudpickle, which holds lambdas and classes of notebooks, where it is installed."""
    try:
        import cloudpickle
    except ImportError:
        return _Plain

    class Repeatable(cloudpickle.Pickler):  # type: ignore[misc]  # it has no stubs
        """Gives the same bytes for the same class in every process."""

        def reducer_override(self, obj: Any) -> Any:
            """As of cloudpickle, without a number that differs from process to process."""
            reduced = super().reducer_override(obj)
            if not isinstance(reduced, tuple) or not getattr(reduced[0], "__name__", "").startswith("_make_skeleton"):
                return reduced
            made = tuple(None if isinstance(one, str) and TRACKED.fullmatch(one) else one for one in reduced[1])
            return (reduced[0], made, *reduced[2:])

    return Repeatable


def searched() -> tuple[str, ...]:
    """Folders in which this program finds modules."""
    return tuple(str(Path(one).resolve()) for one in sys.path if one != "" and Path(one).exists())


def read_object(path: Path, searched: Sequence[str]) -> object:
    """The object in a file that `write_object` wrote.

    Args:
        path: Of the file.
        searched: Folders in which the program that wrote it finds modules.

    Raises:
        InputError: It can't be made again in this process.
    """
    # After what this process searches by itself: none of the caller's modules stands in for one of ours.
    sys.path += [one for one in searched if one not in sys.path]
    try:
        # Torch may unpickle: the object is the caller's own.
        with path.open("rb") as stream, weights_only(on=False):
            return _torch_load(stream) if path.suffix == TORCH else pickle.load(stream)
    except Exception as error:
        raise InputError(
            f"the object passed in memory can't be recreated in the process that measures: "
            f"{type(error).__name__}: {first_line(error)}",
            remedy="define its class or function in an importable module",
        ) from error


def _torch_load(stream: IO[bytes]) -> object:
    import torch

    value: object = torch.load(stream, map_location="cpu", weights_only=False)
    return value
