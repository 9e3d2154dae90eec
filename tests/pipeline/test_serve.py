"""The pipeline around a model of somebody else's, and the files of its answers."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.answers.file import Answers, read_answers, write_answers
from evalspec.errors import InputError, RecordError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.language.parts import Access, Model
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served


class Foreign(Model):
    """A kind of another distribution: nothing beyond the protocol."""

    kind: Literal["foreign"] = "foreign"


class Sums:
    """Sums of the numbers of each row, and how often it was asked."""

    observed: Mapping[str, Cell] = {}
    input_names = ("x",)
    output_names = ("total",)
    fixed_batch = None

    def __init__(self) -> None:
        self.batches: list[int] = []

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.batches.append(len(inputs["x"]))
        return {"total": inputs["x"].sum(axis=1)}

    def close(self) -> None:
        """Nothing to give back."""


FACTS = DatasetFacts("test", label="label", key="key")


def served(access: Access, loaded: Any, **fields: Any) -> Served:
    return Served(Foreign(**({"inputs": {"x": "x"}, "outputs": {"value": "total"}} | fields)), loaded, access, FACTS)


def test_a_runtime_needs_no_more_than_the_protocol(access: Access, rows: pa.Table) -> None:
    loaded = Sums()
    one = served(access, loaded, preprocess=({"scale": 2.0},), batch=4)
    answers = one.predict_all(rows)
    want = 2 * np.array(rows.column("x").to_pylist(), dtype=np.float32).sum(axis=1)
    assert answers.values is not None and loaded.batches == [4, 4, 2]
    np.testing.assert_allclose(answers.values, want, rtol=1e-6)
    one.synchronize()


def test_stages_that_nobody_checked_are_checked_now(access: Access) -> None:
    with pytest.raises(InputError, match=r"preprocess\[0\] is not a stage: unknown preprocessing stage 'sclae'"):
        served(access, Sums(), preprocess=({"sclae": 2.0},))


def test_many_rows_are_answered_in_their_order(access: Access) -> None:
    n = 10_001
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * n)), 2)})
    answers = served(access, Sums(), batch=7).predict_all(table)
    np.testing.assert_array_equal(answers.values, 4.0 * np.arange(n) + 1)


class Raises(Sums):
    """Raises."""

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        raise RuntimeError("out of luck\nand more")


class Short(Sums):
    """Leaves rows out."""

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        return {"total": np.zeros(3)}


class LateNan(Sums):
    """NaN in the seventh row."""

    def predict(self, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        self.batches.append(len(inputs["x"]))
        found = np.zeros(len(inputs["x"]))
        if sum(self.batches) == 8:
            found[2] = np.nan
        return {"total": found}


@pytest.mark.parametrize(
    ("loaded", "sentence"),
    [
        (Raises(), r"the model raised RuntimeError: out of luck$"),
        (Short(), r"the model gave 3 rows as 'total' for a batch of 4 rows"),
        (LateNan(), r"the output 'value' is NaN or infinite in row 6 \(counted from 0\)"),
    ],
)
def test_models_that_do_not_do_it(access: Access, rows: pa.Table, loaded: Sums, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        served(access, loaded, batch=4).predict_all(rows)


def test_no_rows(access: Access, rows: pa.Table) -> None:
    with pytest.raises(InputError, match=r"the dataset 'test' has no rows to predict"):
        served(access, Sums()).predict_all(rows.slice(0, 0))
    with pytest.raises(InputError, match=r"the dataset 'test' has no rows to serve"):
        served(access, Sums()).rows(rows.slice(0, 0))


def test_what_is_timed_gives_the_answers_of_quality(access: Access, rows: pa.Table) -> None:
    one = served(access, Sums(), preprocess=({"scale": 2.0},))
    quality = one.predict_all(rows).values
    ready = one.rows(rows)
    assert ready.n == 10 and quality is not None
    picked = np.array([7, 2, 5])
    np.testing.assert_array_equal(ready.answers(ready.serve(ready.take(picked))), quality[picked])


ANSWERS = Answers(
    n=3,
    classes=("a", "b"),
    probabilities=np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]),
    predicted=np.array([1, 0, 0]),
    values=None,
    lower=None,
    upper=None,
    details={"batch": 32, "seconds": 0.5},
)
VALUES = Answers(
    n=2,
    classes=None,
    probabilities=None,
    predicted=None,
    values=np.array([1.5, 2.5]),
    lower=np.array([1.0, 2.0]),
    upper=np.array([2.0, 3.0]),
)


@pytest.mark.parametrize("answers", [ANSWERS, VALUES])
def test_answers_are_read_back_as_they_were(tmp_path: Path, answers: Answers) -> None:
    write_answers(answers, tmp_path / "deep" / "a.parquet")
    back = read_answers(tmp_path / "deep" / "a.parquet")
    assert (back.n, back.classes, dict(back.details)) == (answers.n, answers.classes, dict(answers.details))
    for name in ("probabilities", "predicted", "values", "lower", "upper"):
        one, other = getattr(answers, name), getattr(back, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["a.parquet"]


@pytest.mark.parametrize("content", [b"", b"PAR1 something", None])
def test_answers_that_can_not_be_read(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)
    with pytest.raises(RecordError, match=r"the predictions in .*a.parquet can't be read"):
        read_answers(tmp_path / "a.parquet")


@pytest.fixture
def small_files_only() -> Iterator[None]:
    """No file may grow over 4 kB, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_is_said(tmp_path: Path, small_files_only: None) -> None:
    values = np.random.default_rng(1).normal(size=10_000)
    answers = Answers(10_000, None, None, None, values, None, None)
    with pytest.raises(WorkerError, match=r"predictions can't be written to .*a.parquet"):
        write_answers(answers, tmp_path / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_real_model_is_timed_with_the_answers_of_quality(
    tmp_path: Path, access: Access, rows: pa.Table, linear_onnx: Path
) -> None:
    from evalspec.language.inputs import Schedule
    from evalspec.measure.samples import read_samples
    from evalspec.measure.servable import rows_of_queries
    from evalspec.measure.session import Session
    from evalspec.runtimes.onnx import Onnx

    model = Onnx(path="linear.onnx", inputs={"x": "x"}, outputs={"logits": "y"}, classes=("cat", "dog", "owl"), batch=4)
    one = Served(model, model.load(access, threads=1), access, FACTS)
    quality = one.predict_all(rows).predicted
    asked = Schedule(kind="single_stream", queries=25, batch=3, warmup_queries=4, warmup_s=0.0, seed=5)
    session = Session(one.rows(rows), asked, tmp_path / "samples")
    session.warm_up()
    session.block(0, 25, 0.0)
    session.finish()
    samples = read_samples(tmp_path / "samples", model="m", process=0)
    assert len(samples.ok) == 25 and samples.ok.all() and (samples.end_ns > samples.sent_ns).all()
    assert (np.diff(samples.sent_ns) > 0).all() and (samples.sent_ns[1:] >= samples.end_ns[:-1]).all()
    assert quality is not None
    np.testing.assert_array_equal(samples.answers, quality[rows_of_queries(samples.items, 3, 10, 5)])


def test_what_runs_only_under_trust_is_told_by_the_fields() -> None:
    from evalspec.runtimes.onnx import Onnx
    from evalspec.runtimes.python import Python
    from evalspec.runtimes.sklearn import Sklearn
    from evalspec.runtimes.torch import Torch

    assert (
        Onnx(path="m.onnx").runs_code() == Torch(path="m.pt2").runs_code() == Sklearn(path="m.skops").runs_code() == ()
    )
    assert Onnx(path="m.onnx", preprocess=({"python": "a.b:c"},)).runs_code() == ("the stage a.b:c",)
    assert Torch(path="s.pt", factory="a:b").runs_code() == ("the factory a:b",)
    assert Sklearn(path="m.joblib").runs_code() == ("the pickle m.joblib",)
    assert Python(function="a:b").runs_code() == ("the function a:b",)
