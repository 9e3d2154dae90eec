"""Sizes of campaigns that are tests: those of `make proof`, and longer ones by hand."""

from __future__ import annotations

import os

VARIABLE = "EVALSPEC_TEST_EXAMPLES"


def examples(number: int) -> int:
    """Examples of a test; by hand as many as the variable says."""
    return int(os.environ.get(VARIABLE, number))
