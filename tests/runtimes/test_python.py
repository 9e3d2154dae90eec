"""Callables as models, and preprocessing that is code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.pipeline.digest import preprocess_digest
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.python import Python
from tests.small_models import array

FACTS = DatasetFacts("test", label="label", key="key", reserved=("x",))
CODE = """
import numpy as np

def total(arrays):
    return {"value": sum(arrays.values())}

def echo(arrays):
    return {"value": arrays["x"].sum(axis=1)}

def doubled(arrays):
    return {name: array * 2 for name, array in arrays.items()}

def renamed(arrays):
    return {"x": np.stack([arrays["a"], arrays["b"]], axis=1)}

def broken(arrays):
    raise ZeroDivisionError("no luck")

def wrong_type(arrays):
    return [1, 2]

def one_number(arrays):
    return {"value": np.float64(3)}

def too_few(arrays):
    return {"value": np.zeros(1)}

def not_a_number(arrays):
    value = np.zeros(len(arrays["x0"]))
    value[-1] = np.nan
    return {"value": value}

class Remembers:
    def __init__(self):
        self.calls = 0

    def __call__(self, arrays):
        self.calls += 1
        return {"value": np.full(len(arrays["x0"]), self.calls)}

NUMBER = 3
"""


@pytest.fixture
def code(tmp_path: Path) -> str:
    """A module in the spec's folder, under a name of its own."""
    name = "code_" + tmp_path.name.replace("-", "_")
    (tmp_path / f"{name}.py").write_text(CODE)
    return name


def served(access: Access, **fields: Any) -> Served:
    model = Python(**fields)
    return Served(model, model.load(access), access, FACTS)


def test_it_needs_trust(access: Access, code: str) -> None:
    with pytest.raises(InputError, match=rf"the model runs the code {code}:total; pass --trust"):
        served(access, function=f"{code}:total")


def test_it_gets_every_free_column(trusted: Access, code: str, rows: pa.Table) -> None:
    answers = served(trusted, function=f"{code}:total").predict_all(rows)
    assert answers.values is not None
    np.testing.assert_allclose(answers.values, array(rows).sum(axis=1), rtol=1e-5)


def test_it_gets_what_inputs_name(trusted: Access, code: str, rows: pa.Table) -> None:
    answers = served(trusted, function=f"{code}:echo", inputs={"x": ("x0", "x3")}).predict_all(rows)
    assert answers.values is not None
    np.testing.assert_allclose(answers.values, array(rows)[:, [0, 3]].sum(axis=1), rtol=1e-6)


def test_a_class_is_made_once(trusted: Access, code: str, rows: pa.Table) -> None:
    answers = served(trusted, function=f"{code}:Remembers").predict_all(rows, batch=4)
    assert answers.values is not None and answers.values.tolist() == [1] * 4 + [2] * 4 + [3] * 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("broken", r":broken raised ZeroDivisionError: no luck"),
        ("wrong_type", r":wrong_type returned list, not a dict of arrays by name"),
        ("one_number", r":one_number returned a single value as 'value', not one for each row"),
        ("too_few", r"the model gave 1 row as 'value' for a batch of 10 rows"),
        ("not_a_number", r"the output 'value' is NaN or infinite in row 9 \(counted from 0\)"),
        ("absent", r"has no 'absent', which the model names"),
        ("NUMBER", r":NUMBER is a int, which can't be called"),
    ],
)
def test_code_that_does_not_do_it(trusted: Access, code: str, rows: pa.Table, name: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        served(trusted, function=f"{code}:{name}").predict_all(rows)


def test_modules_that_are_not_there_or_do_not_import(tmp_path: Path, trusted: Access) -> None:
    with pytest.raises(InputError, match=r"there is no module 'no_such_module_anywhere'"):
        served(trusted, function="no_such_module_anywhere:f")
    (tmp_path / "half_a_module.py").write_text("def f(:\n")
    with pytest.raises(InputError, match=r"importing half_a_module raised SyntaxError"):
        served(trusted, function="half_a_module:f")
    with pytest.raises(InputError, match=r"'half_a_module.py' is a file, not a module; write 'half_a_module'"):
        served(trusted, function="half_a_module.py:f")


@pytest.mark.parametrize("reference", ["module", "module:", ":f", "a b:c", "../evil:f", "os;x:f"])
def test_references_are_checked_when_the_spec_is_read(reference: str) -> None:
    with pytest.raises(ValidationError, match="function"):
        Python(function=reference)


def test_the_source_and_the_weights_are_the_artifact(tmp_path: Path, access: Access, code: str) -> None:
    (tmp_path / "w.bin").write_bytes(b"1")
    files = Python(function=f"{code}:total", weights=("w.bin",)).files(access)
    assert [path.name for path in files] == [f"{code}.py", "w.bin"]
    with pytest.raises(InputError, match=r"no file or folder 'v.bin'"):
        Python(function=f"{code}:total", weights=("v.bin",)).files(access)


def test_a_stage_that_is_code(tmp_path: Path, access: Access, trusted: Access, code: str, rows: pa.Table) -> None:
    fields: dict[str, Any] = {"function": f"{code}:echo", "inputs": {"x": "x"}}
    plain = served(trusted, **fields).predict_all(rows)
    twice = served(trusted, **fields, preprocess=({"python": f"{code}:doubled"},)).predict_all(rows)
    assert plain.values is not None and twice.values is not None
    np.testing.assert_allclose(twice.values, 2 * plain.values)
    made = served(
        trusted, function=f"{code}:echo", inputs={"a": "x0", "b": "x1"}, preprocess=({"python": f"{code}:renamed"},)
    ).predict_all(rows)
    assert made.values is not None
    np.testing.assert_allclose(made.values, array(rows)[:, :2].sum(axis=1), rtol=1e-6)
    model = Python(**fields, preprocess=({"python": f"{code}:doubled"},))
    with pytest.raises(InputError, match=r"the preprocessing stage 'python' runs the code .*; pass --trust"):
        Served(model, model.load(trusted), access, FACTS)


def test_the_digest_of_a_stage_that_is_code_follows_its_source(tmp_path: Path, access: Access, code: str) -> None:
    stages = Python(function=f"{code}:echo", preprocess=({"python": f"{code}:doubled"},)).preprocess
    before = preprocess_digest(stages, access)
    assert preprocess_digest(stages, access) == before
    (tmp_path / f"{code}.py").write_text(CODE + "\n# changed\n")
    assert preprocess_digest(stages, access) != before
