"""Record -> Verdict: arithmetic on what the record holds, without numpy, so that it can be made again anywhere."""

from __future__ import annotations

from evalspec.verdict.decide import decide

__all__ = ["decide"]
