"""Functions of one's own: what they are given, what they may return, what is made of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.cells import values_of
from evalspec.checks.model.python import measure
from evalspec.checks.model.python.measure import said_of_rows
from evalspec.checks.model.python.spec import OwnFunction
from evalspec.errors import InputError, NotRunError, SpecError
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check, SpecNames
from evalspec.language.registry import discover
from evalspec.loading import LoadOptions, load
from evalspec.stats.means.mean import mean
from evalspec.stats.shares.proportion import proportion
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident
from tests.fakes import FakeInputs, classifier

ROWS = 300
X = np.random.default_rng(0).uniform(size=ROWS)
TABLE = pa.table({"x": X, "text": ["word" if one > 0.02 else None for one in X], "day": [None] * ROWS})


def check_of(requirement: str, dimension: str = "data", name: str = "own") -> Check:
    values = {"check": "python", "dataset": "test", "function": f"own.py:{name}", "require": [requirement]}
    return OwnFunction.under(dimension).model_validate(values)


def run(folder: Path, code: str, requirement: str, dimension: str = "data", **inputs: Any) -> tuple[Any, str]:
    """The estimate of a function, and what becomes of a requirement."""
    (folder / "own.py").write_text(code)
    check = check_of(requirement, dimension)
    result = check.run(FakeInputs(evidence=folder, tables={"test": TABLE}, **inputs))
    return result.estimates["own"], outcome(result, the(check, requirement))


def test_true_or_false_is_a_share_with_its_bounds(tmp_path: Path) -> None:
    clusters = np.arange(ROWS) // 3
    found, word = run(
        tmp_path, "def own(rows):\n    return rows['x'] > 0.5\n", "own <= 70 %", cluster_of={"test": clusters}
    )
    ours = proportion(X > 0.5, clusters)
    assert word == "PASS"
    assert (found.value, found.bound(0.95, "upper")) == (ours.value, ours.bound(0.95, "upper"))
    assert len(pa.parquet.read_table(tmp_path / "values-python.parquet")) == ROWS


def test_numbers_are_a_mean_and_shares_have_limits(tmp_path: Path) -> None:
    code = "def own(table):\n    return table.column('x')\n"
    found, word = run(tmp_path, code, "own <= 0.7")
    assert word == "PASS" and found.bound(0.95, "upper") == mean(X).bound(0.95, "upper")
    found, _ = run(tmp_path, code, "own <= 70 %")
    assert found.bound(0.95, "upper") == mean(X, limits=(0.0, 1.0)).bound(0.95, "upper")
    with pytest.raises(InputError, match=r"returned \d\.\d+ for row \d+, and its requirement is a share"):
        run(tmp_path, "def own(rows):\n    return rows['x'] * 3\n", "own <= 70 %")


def test_none_does_not_count_and_missing_cells_are_none_or_nan(tmp_path: Path) -> None:
    code = (
        "def own(rows):\n    assert rows['day'][0] is None\n"
        "    return [None if text is None else False for text in rows['text']]\n"
    )
    found, word = run(tmp_path, code, "own <= 2 %")
    assert (found.n, found.value, word) == (int((X > 0.02).sum()), 0.0, "PASS")
    with pytest.raises(NotRunError, match="says of no row"):
        run(tmp_path, "def own(rows):\n    return [None for _ in rows['x']]\n", "own <= 2 %")


def test_times_that_python_has_no_object_for_are_texts(tmp_path: Path) -> None:
    code = "def own(rows):\n    return [str(one) == '10000-01-01 00:00:00' for one in rows['t']]"
    (tmp_path / "own.py").write_text(code)
    rows = pa.table({"t": pa.array([253_402_300_800, 0], pa.timestamp("s"))})
    found: Any = check_of("own <= 90 %").run(FakeInputs(evidence=tmp_path, tables={"test": rows})).estimates["own"]
    assert found.value == 0.5


@pytest.mark.parametrize("error", [OverflowError("date value out of range"), ValueError("Nanosecond resolution")])
def test_cells_that_pyarrow_has_no_value_for_are_texts(error: Exception) -> None:
    """As it says of nanoseconds where pandas is not installed."""

    class Cells:
        type = pa.duration("ns")
        chunks = (pa.array([1_001, 1_000, None], pa.duration("ns")),)

        def to_pylist(self) -> list[Any]:
            raise error

    pandas_or_not: Any = Cells()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "values_of", lambda cells: values_of(pa.chunked_array(cells.chunks)))
        found = measure._objects(pandas_or_not)
    assert found == ["0:00:00.000001001", timedelta(microseconds=1), None]


@pytest.mark.parametrize(
    ("cells", "why"),
    [
        (pa.array([1, 0], pa.time64("ns")), "Value 1 has non-zero nanoseconds"),
        (pa.array([2**30, 0], pa.date32()), "year 2941775 is out of range"),
    ],
)
def test_what_a_frame_can_not_hold_is_one_sentence(cells: pa.Array, why: str, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def own(frame):\n    return [True] * len(frame)\n")
    inputs = FakeInputs(evidence=tmp_path, tables={"test": pa.table({"c": cells})})
    with pytest.raises(InputError, match=f"pandas can't hold a column of the rows: .*{why}; take `table` or `rows`"):
        check_of("own <= 90 %").run(inputs)


def test_a_single_number_never_decides_and_an_estimate_is_taken(tmp_path: Path) -> None:
    found, word = run(tmp_path, "def own(frame):\n    return frame['x'].median()\n", "own <= 0.9")
    assert word == "INCONCLUSIVE" and "return a value for each row" in found.method
    code = "from evalspec.api import proportion\ndef own(rows):\n    return proportion(rows['x'] > 0.9)\n"
    found, word = run(tmp_path, code, "own <= 30 %")
    assert word == "PASS" and found.n == ROWS


def test_answers_are_in_the_words_of_a_spec(tmp_path: Path) -> None:
    truth = (X > 0.5).astype(np.int64)
    answers = classifier(confident(truth, X < 0.95, 2), truth, classes=("no", "yes"))
    code = (
        "def own(rows, answers):\n    assert set(answers) == {'label', 'probabilities', 'classes', 'truth'}\n"
        "    return (answers['truth'] == 'yes') & (answers['label'] == 'no')\n"
    )
    found, word = run(tmp_path, code, "own <= 15 %", "model", answers={("test", "candidate"): answers})
    assert (found.value, word) == (float(np.mean(X >= 0.95)), "PASS")


def test_modules_beside_the_file_are_found_and_gone_again(tmp_path: Path) -> None:
    import sys

    (tmp_path / "beside_own.py").write_text("LINE = 0.5\n")
    before = list(sys.path)
    code = "def own(rows):\n    from beside_own import LINE\n    return rows['x'] > LINE\n"
    assert run(tmp_path, code, "own <= 70 %")[1] == "PASS"
    assert sys.path == before
    sys.modules.pop("beside_own")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("def own(df):\n    return 1\n", r"takes 'df', which nobody gives it \(choices: rows, table, frame\)"),
        ("def own(rows, answers):\n    return 1\n", "takes answers, and under data: there is no model"),
        ("def own(rows):\n    return rows['x'][:5]\n", "returned 5 values for 300 rows"),
        ("def own(rows):\n    return 'yes'\n", "returned an object of type str; return True or False"),
        ("def own(rows):\n    return [float('nan')] * 300\n", "returned nan for row 0; return None"),
        ("def own(rows):\n    return ['a'] * 300\n", "returned 'a' for row 0"),
        ("def own(rows):\n    return float('inf')\n", "returned inf"),
        ("def own(rows):\n    return rows['z']\n", "own.py:own raised KeyError: 'z'"),
        ("def other(rows):\n    return 1\n", "own.py has no function 'own'"),
        ("import no_such_module\n", "importing own.py raised ModuleNotFoundError"),
    ],
)
def test_what_a_function_does_wrong_is_one_sentence(code: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        run(tmp_path, code, "own <= 1 %")


def test_numpy_s_own_numbers_are_numbers() -> None:
    said = said_of_rows([np.bool_(True), None, np.bool_(False)], 3, "own")
    assert said.yes_or_no and said.rows.tolist() == [0, 2]
    said = said_of_rows([np.float32(0.5), 1, np.int64(2)], 3, "own")
    assert not said.yes_or_no and said.values.tolist() == [0.5, 1.0, 2.0]


SPEC = """
evalspec: 1
name: own
models: {candidate: {kind: python, function: 'model:predict'}}
datasets: {test: {kind: parquet, path: test.parquet}}
KEY:
  - {check: python, dataset: test, function: 'own.py:blank', REST}
"""


@pytest.mark.parametrize(
    ("key", "rest", "why"),
    [
        ("data", "require: [blank <= 1 %]", ""),
        ("model", "require: [blank <= 1 %]", ""),
        ("data", "require: [blank <= 5 ms]", ""),
        ("data", "require: [rate <= 1 %]", "unknown metric 'rate' (choices: blank)"),
        ("data", "require: [blank <= 5 ms, blank <= 1 %]", "unit '%' does not fit blank"),
        ("data", "model: candidate, require: [blank <= 1 %]", "python checks data only"),
        ("data", "require: [blank <= candidate]", "checks data only, so it can't be compared with 'candidate'"),
        ("model", "require: [blank <= 1.1x baseline]", "unknown model 'baseline'"),
        ("system", "require: [blank <= 1 %]", "'python' is a model check"),
    ],
)
def test_sentences_are_about_the_function(key: str, rest: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "evalspec.yaml"
    path.write_text(SPEC.replace("KEY", key).replace("REST", rest))
    options = LoadOptions(files=False)
    if not why:
        spec = load(path, options=options)
        (check,) = spec.checks
        assert (check.dimension, check.uses_model) == (key, key == "model")
        assert [one.name for one in check.own_metrics] == ["blank"]
        return
    with pytest.raises(SpecError) as caught:
        load(path, options=options)
    assert why in str(caught.value)


def test_a_model_on_the_right_is_refused() -> None:
    names = SpecNames(models=("candidate", "baseline"), datasets=("test",), slices=(), origins={})
    against = check_of("own <= baseline", "model")
    assert against.check_names(names) == "'own <= baseline' names a model; write a number, with its unit"


def test_the_unit_is_that_of_the_sentence() -> None:
    def unit(*sentences: str) -> str:
        found: tuple[Metric, ...] = OwnFunction.metrics_of({"function": "a/b.py:own", "require": list(sentences)})
        return found[0].unit

    assert [unit("own <= 1 %"), unit("own <= 3"), unit("own <= 2 s"), unit(), unit("own")] == [
        "fraction", "score", "s", "score", "score",
    ]  # fmt: skip
    assert discover(plugins=False).check("python").metrics_of({})[0].name == "value"
