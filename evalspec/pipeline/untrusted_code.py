"""Code that the spec names: found and run only under ``--trust``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalspec.errors import InputError
from evalspec.language.parts import Access

if TYPE_CHECKING:
    from numpy.typing import NDArray


WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@contextmanager
def weights_only(*, on: bool) -> Iterator[None]:
    """Let torch refuse, meanwhile, to unpickle anything but weights; or let it unpickle."""
    before = os.environ.get(WEIGHTS_ONLY)
    os.environ[WEIGHTS_ONLY] = "1" if on else "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[WEIGHTS_ONLY]
        else:
            os.environ[WEIGHTS_ONLY] = before


def need_trust(access: Access, what: str) -> None:
    """Stop where code would run that the caller has not allowed.

    Raises:
        InputError: The caller did not pass ``--trust``.
    """
    if not access.trust:
        raise InputError(what, remedy="pass --trust if you know where it comes from")


def source_file(reference: str, access: Access) -> Path:
    """The file that ``package.module:name`` is defined in; nothing is imported to find one in the spec's folder.

    Raises:
        InputError: There is none.
    """
    module = reference.partition(":")[0]
    stem = access.folder.joinpath(*module.split("."))
    if module.endswith(".py") and (access.folder / module).is_file():
        raise InputError(
            f"{module!r} is a file, not a module", remedy=f"write {module.removesuffix('.py')!r} before the colon"
        )
    for path in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    # Parents of an installed module are imported by this look-up, so it is code that runs.
    need_trust(access, f"{module!r} is not in the spec's folder, so importing it runs code")
    try:
        module_spec = importlib.util.find_spec(module)
    except (ImportError, ValueError) as error:
        raise InputError(f"there is no module {module!r} in {access.folder} nor installed: {error}") from error
    if module_spec is None or module_spec.origin is None:
        raise InputError(f"there is no module {module!r} in {access.folder} nor installed")
    return Path(module_spec.origin)


def load_reference(reference: str, access: Access, what: str) -> Callable[..., Any]:
    """The callable named by ``package.module:name``, with the spec's folder searched first.

    Args:
        reference: ``package.module:name``.
        access: Where code may come from, and whether it may run.
        what: Who names it, for the sentence.

    Raises:
        InputError: It may not run, can't be imported, or is no callable.
    """
    need_trust(access, f"{what} runs the code {reference}")
    source_file(reference, access)
    folder = str(access.folder.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module_name, _, name = reference.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
        for part in name.split("."):
            target = getattr(target, part)
    except AttributeError as error:
        raise InputError(f"{module_name} has no {name!r}, which {what} names") from error
    except Exception as error:
        raise InputError(f"importing {module_name} raised {type(error).__name__}: {first_line(error)}") from error
    if isinstance(target, type):
        target = call(target, reference)
    if not callable(target):
        raise InputError(f"{reference} is a {type(target).__name__}, which can't be called")
    function: Callable[..., Any] = target
    return function


def first_line(error: BaseException) -> str:
    """First line of an error's message, at most 300 characters; the error's type where it has none."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def call(function: Callable[..., Any], reference: str, *args: Any) -> Any:
    """Run the user's code, and say whose it was when it raises.

    Raises:
        InputError: It raised; evalspec's own errors go through as they are.
    """
    try:
        return function(*args)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{reference} raised {type(error).__name__}: {first_line(error)}") from error


def checked_arrays(value: Any, reference: str) -> dict[str, NDArray[Any]]:
    """Arrays by name that the user's code returned.

    Raises:
        InputError: It is no dict of arrays.
    """
    if not isinstance(value, Mapping) or not value or not all(isinstance(name, str) for name in value):
        raise InputError(f"{reference} returned {type(value).__name__}, not a dict of arrays by name")
    arrays = {name: _array(array) for name, array in value.items()}
    for name, array in arrays.items():
        if array.ndim == 0:
            raise InputError(f"{reference} returned a single value as {name!r}, not one for each row")
    return arrays


def _array(value: Any) -> NDArray[Any]:
    """Value as an array; lists of another length in each row as objects."""
    import numpy as np

    try:
        return np.asarray(value)
    except ValueError:
        rows = list(value)
        objects = np.empty(len(rows), dtype=object)
        for index, row in enumerate(rows):
            objects[index] = row
        return objects
