"""Sources of a sampler, each behind the same narrow door."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Absent(Exception):
    """A source isn't there, and why. Caught where sources are opened; nobody else sees it."""


class Source(Protocol):
    """Something that can be read again and again.

    It must be cheap, and it never raises while reading: what can't be read is NaN.
    """

    @property
    def sources(self) -> Mapping[str, str]:
        """Name of each series, with its unit: where it comes from."""
        ...

    def read(self) -> Mapping[str, float]:
        """One reading of every series."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...
