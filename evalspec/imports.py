"""Imports that libraries make by themselves, and that a process of ours can do without."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
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
        names: Of packages.
    """
    finder = _Hiding(frozenset(names))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports make many objects that stay: nobody looks through them for garbage, a fifth of scikit-learn's import."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


class _Around:
    """Once a module is imported, its code runs inside a context.

    Args:
        name: The module's; one that begins with a dot is that of all modules whose names end so.
        context: Makes it.
    """

    def __init__(self, name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
        self.name, self.context = name, context
        self._search = threading.local()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Result of the other finders."""
        if not (fullname.endswith(self.name) if self.name.startswith(".") else fullname == self.name):
            return None
        if getattr(self._search, "begun", False):
            # A finder that asks all the others.
            return None
        self._search.begun = True
        try:
            finders = [getattr(one, "find_spec", None) for one in sys.meta_path if one is not self]
            specs = (find(fullname, path, target) for find in finders if find is not None)
            found = next((one for one in specs if one is not None), None)
        finally:
            self._search.begun = False
        if found is not None and hasattr(found.loader, "exec_module") and "exec_module" not in vars(found.loader):
            self._wrap(found.loader)
        return found

    def _wrap(self, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with self.context():
                execute(module)
            del loader.exec_module
            if module.__name__ == self.name and self in sys.meta_path:
                sys.meta_path.remove(self)

        loader.exec_module = exec_module


def _around(name: str, context: Callable[[], AbstractContextManager[None]]) -> None:
    """Run the code of a module, whoever imports it, inside a context; nothing happens if it is imported already."""
    if name not in sys.modules and not any(isinstance(one, _Around) and one.name == name for one in sys.meta_path):
        sys.meta_path.insert(0, _Around(name, context))


def arrow_without_pandas() -> None:
    """Keep pyarrow from importing pandas by itself, which takes longer than most of what is done with it.

    It looks once, at its first conversion, and remembers that there is none: it would take a series of pandas for a
    list, with NaN instead of nulls. So it looks again as soon as anybody imports pandas.
    """
    with hidden("pandas"):
        import pyarrow as pa

        pa.array([0]).to_numpy()
    _around("pandas", _arrow_looks_again)


def arrow_without_pandas_once_imported() -> None:
    """The same as soon as anybody imports pyarrow, and nothing before."""
    _around("pyarrow", _without_pandas)


@contextmanager
def _without_pandas() -> Iterator[None]:
    yield
    arrow_without_pandas()


@contextmanager
def _arrow_looks_again() -> Iterator[None]:
    import pyarrow as pa

    yield
    pa.array([0]).to_pandas()


class _LaterAttribute:
    """A function or object of a module that is imported once this is used."""

    def __init__(self, module: str, name: str) -> None:
        self._place = (module, name)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return _imported(*self._place)(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(_imported(*self._place), name)

    def __reduce__(self) -> tuple[Callable[[str, str], Any], tuple[str, str]]:
        return _imported, self._place


def _imported(module: str, name: str) -> Any:
    found = importlib.import_module(module)
    if isinstance(found, _LaterPackage):
        raise TypeError(f"{module}.{name} is used while others are imported")
    return getattr(found, name)


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

    Modules that have taken something hold the thing itself once its package is imported.

    Args:
        names: Of packages inside others; nothing happens to one that is imported already.
    """
    stand_ins = {}
    for name in names:
        found = None if name in sys.modules else importlib.util.find_spec(name)
        if found is not None:
            stand_ins[name] = _LaterPackage(name, found.submodule_search_locations or ())
    before = {*sys.modules}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name in stand_ins:
            del sys.modules[name]
        takers = [module for one, module in [*sys.modules.items()] if one not in before]
        for name in stand_ins:
            _around(name, partial(_given, name, takers))


@contextmanager
def _given(name: str, takers: Sequence[ModuleType]) -> Iterator[None]:
    """While a package is imported: those that took something of its stand-in are given what they took.

    Args:
        name: The package's.
        takers: Modules that may have.
    """
    yield
    package = sys.modules[name]
    for one, module in [*sys.modules.items()]:
        # Imported below the stand-in.
        parent, _, last = one.rpartition(".")
        if parent == name and not hasattr(package, last):
            setattr(package, last, module)
    for taker in takers:
        for key, value in [*vars(taker).items()]:
            if isinstance(value, _LaterPackage) and value.__name__ == name:
                setattr(taker, key, package)
            elif type(value) is _LaterAttribute and value._place[0] == name:
                setattr(taker, key, getattr(package, value._place[1]))


TOOLS = ("f2py", "testing")
"""Of numpy."""
TAKER = ".array_api_compat.numpy"
"""What takes all names of numpy, and with them its tools; scipy and scikit-learn bring one each."""


def numpy_without_tools() -> None:
    """Keep others from importing numpy's tools for tests and for Fortran: they take all names of numpy, and use few."""
    _around(TAKER, _tools_stand_in)


@contextmanager
def _tools_stand_in() -> Iterator[None]:
    import numpy as np

    stand_ins = {name: _LaterPackage(f"numpy.{name}", ()) for name in TOOLS if name not in vars(np)}
    vars(np).update(stand_ins)
    try:
        yield
    finally:
        for name, one in stand_ins.items():
            if vars(np).get(name) is one:
                delattr(np, name)


_WHOLE = threading.Event()


def import_whole() -> None:
    """Let scikit-learn import all that it asks for, from now on: code may run here that is not this package's."""
    _WHOLE.set()
    sys.meta_path[:] = [one for one in sys.meta_path if not (isinstance(one, _Around) and one.name == TAKER)]


def sklearn_alone() -> None:
    """Keep scikit-learn from importing what its boosting does not need, which takes longer than all else of it.

    It imports pandas for a function that it uses nowhere, rich for bars of progress, and parts of scipy for scores and
    estimators of other kinds. It does without pandas and rich for good, so not after `import_whole`.
    """
    if _WHOLE.is_set():
        import sklearn.ensemble

        return
    with hidden("pandas", "rich"):
        try:
            with later("scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate"):
                import sklearn.ensemble
        except (ImportError, TypeError):
            # One that needs more of them than to call what is in them.
            import sklearn.ensemble  # noqa: F401


def rouge_alone() -> None:
    """Keep rouge-score from importing scikit-learn, scipy.stats and pandas, which takes five times as long as itself.

    It has NLTK for a stemmer, and NLTK has wrappers for them, which it does without for good: not after `import_whole`.
    """
    if _WHOLE.is_set():
        import rouge_score.rouge_scorer

        return
    with hidden("sklearn", "scipy.stats", "pandas"):
        import rouge_score.rouge_scorer  # noqa: F401


def skops_without_torch() -> None:
    """Keep skops from importing torch: it walks through all of scikit-learn, which has wrappers for other arrays."""
    import sklearn.base  # noqa: F401  # scikit-learn itself looks for torch only where it is loaded

    with hidden("torch", "cupy", "dask", "jax"):
        import skops.io  # noqa: F401
