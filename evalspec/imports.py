"""Imports that libraries make by themselves, and that a process of ours can do without."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Hiding:
    """Finds no package of these names."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Stops the search for a hidden package, as if it were not installed."""
        if fullname in self.names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """As if these packages were not installed, unless they are imported already.

    Args:
        names: Top-level packages.
    """
    finder = _Hiding(frozenset(names))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas by itself, which takes longer than most of what is done with it.

    It looks once, at its first conversion, and remembers that there is none; ``to_pandas`` works all the same.
    """
    with hidden("pandas"):
        import pyarrow as pa

        pa.array([0]).to_numpy()


class _LaterAttribute:
    """A function or object of a module that is imported once this is used."""

    def __init__(self, module: str, name: str) -> None:
        self._place = (module, name)

    def _itself(self) -> Any:
        module, name = self._place
        return getattr(importlib.import_module(module), name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._itself()(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._itself(), name)


class _LaterPackage(ModuleType):
    """Stands for a package while others import functions of it; modules inside it are imported as ever."""

    def __init__(self, name: str, path: Sequence[str]) -> None:
        super().__init__(name)
        self.__path__ = [*path]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _LaterAttribute(self.__name__, name)


@contextmanager
def later(*names: str) -> Iterator[None]:
    """Who imports these packages gets what he takes of them, and they are imported when that is used.

    Args:
        names: Of packages inside others; nothing happens to one that is imported already.
    """
    stand_ins = {}
    for name in names:
        found = None if name in sys.modules else importlib.util.find_spec(name)
        if found is not None:
            stand_ins[name] = _LaterPackage(name, found.submodule_search_locations or ())
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]


def numpy_without_tools() -> None:
    """Keep scipy from importing numpy's tools for tests and for Fortran: it takes all names of numpy, and uses few."""
    import numpy as np

    for name in ("f2py", "testing"):
        whole = f"numpy.{name}"
        found = None if whole in sys.modules else importlib.util.find_spec(whole)
        if found is not None and found.loader is not None:
            found.loader = importlib.util.LazyLoader(found.loader)
            module = importlib.util.module_from_spec(found)
            sys.modules[whole] = module
            found.loader.exec_module(module)
            setattr(np, name, module)


def sklearn_alone() -> None:
    """Keep scikit-learn from importing what its boosting does not need, which takes longer than all else of it.

    It imports pandas for a function that it uses nowhere, rich for bars of progress, and parts of scipy for scores and
    estimators of other kinds.
    """
    with hidden("pandas", "rich"):
        try:
            with later("scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate"):
                import sklearn.ensemble
        except (ImportError, TypeError):
            # One that needs more of them than to call what is in them.
            import sklearn.ensemble  # noqa: F401


def skops_without_torch() -> None:
    """Keep skops from importing torch: it walks through all of scikit-learn, which has wrappers for other arrays."""
    import sklearn.base  # noqa: F401  # scikit-learn itself looks for torch only where it is loaded

    with hidden("torch", "cupy", "dask", "jax"):
        import skops.io  # noqa: F401
