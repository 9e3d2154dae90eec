"""What libraries import by themselves, and what a process of ours does without."""

from __future__ import annotations

import subprocess
import sys

import pytest

ARROW = """
import sys
from evalspec.imports import arrow_without_pandas
arrow_without_pandas()
import numpy as np, pyarrow as pa
table = pa.table({"a": np.arange(3.0)}).filter(pa.array([True, False, True]))
assert table.column("a").to_numpy().tolist() == [0.0, 2.0]
assert "pandas" not in sys.modules
assert table.to_pandas()["a"].tolist() == [0.0, 2.0]
"""
SKOPS = """
import sys
from evalspec.imports import skops_without_torch
skops_without_torch()
import skops.io
assert "torch" not in sys.modules
import torch
assert torch.ones(2).sum() == 2
"""
HIDDEN = """
from evalspec.imports import hidden
with hidden("colorsys"):
    try:
        import colorsys
    except ModuleNotFoundError as error:
        assert error.name == "colorsys"
    else:
        raise AssertionError
import colorsys
"""


@pytest.mark.parametrize("code", [ARROW, SKOPS, HIDDEN], ids=["arrow", "skops", "hidden"])
def test_it_is_done_without_and_works_when_asked_for(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
