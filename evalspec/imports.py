"""Imports that libraries make by themselves, and that a process of ours can do without."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType


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


def sklearn_without_pandas() -> None:
    """Keep scikit-learn from importing pandas by itself: it does so for a function that it uses nowhere."""
    with hidden("pandas"):
        import sklearn.ensemble  # noqa: F401


def skops_without_torch() -> None:
    """Keep skops from importing torch: it walks through all of scikit-learn, which has wrappers for other arrays."""
    import sklearn.base  # noqa: F401  # scikit-learn itself looks for torch only where it is loaded

    with hidden("torch", "cupy", "dask", "jax"):
        import skops.io  # noqa: F401
