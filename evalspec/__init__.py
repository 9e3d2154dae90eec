"""evalspec: one spec, one command, one verdict."""

from __future__ import annotations

__version__ = "0.2.0"
