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
SERIES = """
from evalspec.imports import arrow_without_pandas
arrow_without_pandas()
import importlib.util
assert importlib.util.find_spec("pandas") is not None
import pandas as pd, pyarrow as pa, pyarrow.compute as pc
numbers = pd.Series([1.0, float("nan"), 3.0])
assert pa.array(numbers).is_null().to_pylist() == [False, True, False]
assert pa.table({"a": numbers})["a"].null_count == 1
assert pa.chunked_array([numbers]).null_count == 1
assert pc.is_in(pa.array([1.0, float("nan")]), value_set=pa.array(numbers)).to_pylist() == [True, False]
assert pa.array(pd.Series(["x", None])).null_count == 1
assert pa.array(pd.Series(pd.to_datetime(["2020-01-01", None]))).null_count == 1
assert pa.types.is_dictionary(pa.array(pd.Categorical(["u", "v"])).type)
assert type(pd.__loader__).__name__ == "SourceFileLoader" and "exec_module" not in vars(pd.__loader__)
"""
THREADS = """
import sys, threading
from evalspec.imports import numpy_without_tools
numpy_without_tools()
import numpy as np
import scipy.special
errors, together = [], threading.Barrier(12)
sys.setswitchinterval(1e-6)
def use():
    together.wait()
    try:
        from numpy.testing import assert_allclose
        assert_allclose(1.0, 1.0)
        assert np.testing.assert_allclose is assert_allclose
        assert np.f2py.get_include()
    except BaseException as error:
        errors.append(repr(error))
threads = [threading.Thread(target=use) for _ in range(12)]
for one in threads: one.start()
for one in threads: one.join()
assert not errors, errors
"""
GIVEN = """
import copy, pickle, sys
from evalspec.imports import sklearn_alone
sklearn_alone()
import sklearn.preprocessing._polynomial as taker
import sklearn.preprocessing._data as module_taker
early = taker.BSpline
assert type(early).__name__ == "_LaterAttribute"
copies = copy.copy(early), copy.deepcopy(early), pickle.loads(pickle.dumps(early))
import scipy.interpolate, scipy.optimize, scipy.stats
assert all(one is scipy.interpolate.BSpline for one in copies)
assert taker.BSpline is scipy.interpolate.BSpline
assert module_taker.stats is scipy.stats
import types
below = {one for one in sys.modules if one.rpartition(".")[0] in ("scipy.optimize", "scipy.stats")}
assert "scipy.optimize._linesearch" in below
assert all(hasattr(sys.modules[one.rpartition(".")[0]], one.rpartition(".")[2]) for one in below)
left = [
    (name, key) for name, module in [*sys.modules.items()] if not name.startswith("evalspec")
    for key, value in [*vars(module).items()] if type(value).__name__ in ("_LaterAttribute", "_LaterPackage")
]
import scipy.integrate
assert all("integrate" in repr(vars(sys.modules[name])[key]) for name, key in left), left
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
ROUGE = """
import sys
from evalspec.imports import import_whole, rouge_alone
if sys.argv[1:] == ["whole"]:
    import_whole()
rouge_alone()
from rouge_score import rouge_scorer, tokenizers
scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=tokenizers.DefaultTokenizer(False))
assert scorer.score("a cat sat", "a cat sat down")["rougeL"].precision == 0.75
libraries = {"sklearn", "scipy.stats", "pandas"}
assert libraries & set(sys.modules) == (libraries if sys.argv[1:] else set())
from sklearn.preprocessing import LabelEncoder
from nltk.stem import PorterStemmer
assert PorterStemmer().stem("cats") == "cat"
import nltk.classify.scikitlearn as wrapper
assert (getattr(wrapper, "LabelEncoder", None) is LabelEncoder) is bool(sys.argv[1:])
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
WHOLE = """
import sys
if sys.argv[1] == "ahead":
    from evalspec.running.children import sharing
    modules = ("evalspec.checks.data.shift.measure",)
    sharing.start(None)({"do": "begin", "imports": modules, "foreign": True}, None)
elif sys.argv[1] == "checked":
    from pathlib import Path
    from evalspec.checks.data.shift.measure import load_ahead
    from evalspec.language.parts import Access
    from evalspec.running.children.jobs import SpecParts
    SpecParts({}, {}, {}, Access(Path()), foreign_code=True).spare_pandas()
    load_ahead()
else:
    import sklearn.ensemble
assert "sklearn.ensemble" in sys.modules
stand_ins = [
    f"{name}.{key}" for name, module in [*sys.modules.items()] if name.startswith("sklearn")
    for key, value in [*vars(module).items()] if type(value).__name__ in ("_LaterAttribute", "_LaterPackage")
]
others = {"pandas", "rich", "scipy.stats", "scipy.optimize", "scipy.interpolate", "scipy.integrate"}
print(stand_ins, sorted(others & set(sys.modules)))
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
    "code",
    [ARROW, SERIES, ROUGE, TOOLS, THREADS, SKLEARN, GIVEN, LATER, HIDDEN, pytest.param(SKOPS, marks=pytest.mark.proof)],
    ids=["arrow", "series", "rouge", "tools", "threads", "sklearn", "given", "later", "hidden", "skops"],
)
def test_it_is_done_without_and_works_when_asked_for(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.proof
def test_where_other_code_may_run_scikit_learn_is_whole() -> None:
    said = {
        how: subprocess.run([sys.executable, "-c", WHOLE, how], check=True, capture_output=True, text=True).stdout
        for how in ("plain", "ahead", "checked")
    }
    assert said["plain"] == said["ahead"] == said["checked"]
    assert said["plain"].startswith("[] [") and "'scipy.stats'" in said["plain"]


def test_where_other_code_may_run_nltk_is_whole() -> None:
    subprocess.run([sys.executable, "-c", ROUGE, "whole"], check=True)
