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
TOOLS = """
import sys
from evalspec.imports import numpy_without_tools
numpy_without_tools()
import scipy.special
assert scipy.special.ndtr(0.0) == 0.5
assert not {"numpy.f2py.crackfortran", "numpy.testing._private"} & set(sys.modules)
import numpy as np
np.testing.assert_array_equal([1.0], [1.0])
assert np.f2py.get_include()
"""
SKLEARN = """
import sys
from evalspec.imports import sklearn_alone
sklearn_alone()
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
rows = np.random.default_rng(0).normal(size=(200, 3))
model = HistGradientBoostingClassifier().fit(rows, rows[:, 0] > 0)
assert model.predict_proba(rows)[:, 1].round().sum() == (rows[:, 0] > 0).sum()
assert not {"pandas", "rich"} & set(sys.modules)
assert not {"scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate"} & set(sys.modules)
from sklearn.covariance import EllipticEnvelope
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.preprocessing import SplineTransformer
assert label_ranking_average_precision_score([[1, 0]], [[0.5, 0.2]]) == 1.0
assert EllipticEnvelope().fit(rows).support_.sum() > 100
assert LogisticRegression().fit(rows, rows[:, 0] > 0).score(rows, rows[:, 0] > 0) > 0.9
assert SplineTransformer().fit_transform(rows).shape == (200, 21)
import scipy.optimize, scipy.stats
assert scipy.stats.norm.cdf(0.0) == 0.5
assert scipy.optimize.brentq(lambda x: x - 0.5, 0.0, 1.0) == 0.5
assert scipy.optimize.line_search is not None
"""
LATER = """
import sys
from evalspec.imports import later
with later("xml.dom"):
    from xml.dom import getDOMImplementation
    assert "xml.dom.domreg" not in sys.modules
assert "xml.dom" not in sys.modules
assert getDOMImplementation().hasFeature("core", None)
assert "xml.dom.domreg" in sys.modules
with later("xml.dom"):
    import xml.dom
    assert xml.dom.Node.ELEMENT_NODE == 1
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


@pytest.mark.parametrize(
    "code", [ARROW, SKOPS, TOOLS, SKLEARN, LATER, HIDDEN], ids=["arrow", "skops", "tools", "sklearn", "later", "hidden"]
)
def test_it_is_done_without_and_works_when_asked_for(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
