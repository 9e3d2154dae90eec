"""Two runs side by side."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.evidence.record import CheckRecord, DatasetRecord, Environment, ModelRecord, Record
from evalspec.records.compare import Compared, Row, compare
from evalspec.stats.proportion import Proportion
from evalspec.verdict import decide
from tests.verdict.test_decide import a_record, a_test

CPU = {"cpu": "A processor", "cores": 2}


def written(folder: Path, *checks: CheckRecord, digest: str = "d" * 64, facts: Any = None, **fields: Any) -> Path:
    given: dict[str, Any] = {
        "models": (ModelRecord(name="candidate", kind="onnx", digest="a" * 64, device="cpu", batch=1),),
        "datasets": (DatasetRecord(name="test", kind="parquet", digest=digest, rows=1000),),
        "environment": Environment(facts=facts or CPU),
    }
    record = a_record(*checks, **(given | fields))
    record = record.model_copy(update={"verdict": decide(record)})
    folder.mkdir()
    (folder / "record.json").write_text(record.model_dump_json())
    return folder


def quality(right: int, n: int = 1000, **fields: Any) -> CheckRecord:
    one = Proportion.of_counts(right, n)
    numbers = {"value": one.value, "lower": one.bound(0.95, "lower"), "upper": one.bound(0.95, "upper"), "n": n}
    test = a_test(**(numbers | fields))
    return CheckRecord(
        id="quality", check="quality", dimension="model", status="measured", tests=(test,), models=("candidate",),
        datasets=("test",),
    )  # fmt: skip


def latency(ms: float, half: float = 0.02, **conditions: Any) -> CheckRecord:
    test = a_test(
        "latency", "latency_p50", op="<=", threshold=50.0, unit="ms", value=ms, lower=ms * (1 - half),
        upper=ms * (1 + half), n=5000,
    )  # fmt: skip
    given = {"processes": 5, "batch": 1, "scenario": "single_stream"} | conditions
    return CheckRecord(
        id="latency", check="latency", dimension="system", status="measured", tests=(test,), models=("candidate",),
        datasets=("test",), conditions=given,
    )  # fmt: skip


def both(tmp_path: Path, before: list[CheckRecord], after: list[CheckRecord], **fields: Any) -> Compared:
    return compare(written(tmp_path / "a", *before), written(tmp_path / "b", *after, **fields))


def row(found: Compared, name: str) -> Row:
    return next(one for one in found.rows if one.name == name)


def test_the_same_run_twice_has_no_regression(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960), latency(4.0)], [quality(960), latency(4.0)])
    assert [one.word for one in found.rows] == ["no change shown"] * 2
    assert not found.regressions and found.differs == () and found.alpha == pytest.approx(0.025)


def test_worse_is_a_regression_and_better_is_not(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960), latency(4.0)], [quality(900), latency(3.0)])
    assert row(found, "quality/accuracy").word == "regression"
    assert row(found, "quality/accuracy").change.startswith("-6 pp (-8")
    assert row(found, "latency/latency_p50").word == "improvement"
    assert row(found, "latency/latency_p50").change.startswith("-25 % (-2")
    assert found.rows[0].name == "quality/accuracy"


def test_a_change_that_is_shown_and_tiny_does_not_count(tmp_path: Path) -> None:
    found = both(tmp_path, [latency(4.0, half=1e-4)], [latency(4.04, half=1e-4)])
    assert found.rows[0].word == "no change shown"


@pytest.mark.parametrize(
    ("after", "fields", "why"),
    [
        (quality(960), {"digest": "e" * 64}, "dataset: test dddddddddddd, then test eeeeeeeeeeee"),
        (quality(960, op="<=", unit="%"), {}, "unit or operator"),
        (quality(960, invalid="the machine was busy"), {}, "quality: the machine was busy"),
        (quality(960, missing="no label", value=None), {}, "quality: no label"),
        (latency(4.0), {}, "the later run does not ask for it"),
    ],
)
def test_what_is_not_comparable_says_in_what(tmp_path: Path, after: CheckRecord, fields: Any, why: str) -> None:
    found = row(both(tmp_path, [quality(960)], [after], **fields), "quality/accuracy")
    assert found.word == "not comparable" and why in found.change


@pytest.mark.parametrize(
    ("after", "facts", "why"),
    [
        (latency(4.0), {"cpu": "Another", "cores": 2}, "hardware: A processor, 2 cores, then Another, 2 cores"),
        (latency(4.0, batch=32), CPU, "batch: 1, then 32"),
        (latency(4.0, scenario="offline"), CPU, "scenario: single_stream, then offline"),
    ],
)
def test_timings_of_unlike_things_are_refused(tmp_path: Path, after: CheckRecord, facts: Any, why: str) -> None:
    found = both(tmp_path, [latency(4.0)], [after], facts=facts)
    assert (found.rows[0].word, found.rows[0].change) == ("not comparable", why)
    assert not found.comparable


def test_a_threshold_that_moved_is_noticed(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960)], [quality(960, threshold=0.9)])
    assert found.rows[0].notes == ("threshold 0.95, then 0.9",)


def test_facts_are_compared_as_they_are(tmp_path: Path) -> None:
    def copies(count: float) -> CheckRecord:
        test = a_test("contamination", "exact_duplicates", exact=True, op="==", threshold=0.0, unit="rows", value=count)
        return CheckRecord(id="contamination", check="contamination", dimension="data", status="measured",
                           tests=(test,), datasets=("test",))  # fmt: skip

    assert both(tmp_path, [copies(0)], [copies(2)]).rows[0].word == "changed"


@pytest.mark.slow
def test_runs_of_one_subject_have_a_regression_in_at_most_5_of_100_pairs(tmp_path: Path) -> None:
    """Two shares and two timings each; the limit is what a true 5 % exceeds once in 1,000 of 200 pairs."""
    rng = np.random.default_rng(2)
    falsely = sum(bool(pair(tmp_path / str(index), rng, 1.0, 0.0).regressions) for index in range(200))
    assert falsely <= 21


@pytest.mark.slow
@pytest.mark.parametrize(
    ("slower", "dropped", "name"), [(1.05, 0.0, "latency/latency_p50"), (1.0, 0.02, "quality/accuracy")]
)
def test_a_planted_regression_is_found(tmp_path: Path, slower: float, dropped: float, name: str) -> None:
    """5 % slower where processes differ by 1 %; 2 points down with 20,000 rows."""
    rng = np.random.default_rng(3)
    seen = [pair(tmp_path / str(index), rng, slower, dropped) for index in range(50)]
    assert sum(name in [one.name for one in found.regressions] for found in seen) >= 40


def pair(folder: Path, rng: np.random.Generator, slower: float, dropped: float) -> Compared:
    """Two runs of five processes each, and of 20,000 rows each."""

    def timed(ms: float) -> CheckRecord:
        each = ms * np.exp(rng.normal(0.0, 0.01, 5))
        mean, half = each.mean(), 2.132 * each.std(ddof=1) / np.sqrt(5)
        return latency(float(mean), float(half / mean))

    folder.mkdir()
    before = [quality(int(rng.binomial(20_000, 0.95)), 20_000), timed(4.0)]
    after = [quality(int(rng.binomial(20_000, 0.95 - dropped)), 20_000), timed(4.0 * slower)]
    return both(folder, before, after)


def test_the_command(tmp_path: Path) -> None:
    runs = [str(written(tmp_path / "a", quality(960))), str(written(tmp_path / "b", quality(900)))]
    command = [sys.executable, "-m", "evalspec", "compare", *runs]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "regression       quality/accuracy [PASS]: 0.96, then 0.9; -6 pp" in done.stdout
    plain = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert json.loads(plain.stdout)["requirements"][0]["word"] == "regression"
    gone = subprocess.run([*command[:-1], str(tmp_path / "c")], capture_output=True, text=True, check=False)
    assert gone.returncode == 2 and "Traceback" not in gone.stderr


def test_a_record_is_a_record(tmp_path: Path) -> None:
    assert Record.model_validate_json((written(tmp_path / "a", quality(960)) / "record.json").read_text()).verdict


def test_rows_are_paired_where_both_runs_answered_the_same_rows(tmp_path: Path) -> None:
    """20 rows broken and 2 fixed of 1,000: 1.8 points, which two samples of 1,000 would not show."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evalspec.language.parts import Access
    from evalspec.run.jobs import Parts
    from evalspec.run.reader import dataset_record
    from evalspec.runtimes._answers import Answers, write_answers
    from evalspec.sources.parquet import Parquet

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 1000)
    pq.write_table(pa.table({"id": np.arange(1000), "y": np.array(["a", "b"])[truth]}), tmp_path / "test.parquet")
    spec = "evalspec: 1\nname: flips\nmodels:\n  candidate: {kind: onnx, path: m.onnx}\ndatasets:\n"
    spec += "  test: {kind: parquet, path: test.parquet, label: y}\n"
    spec += "model:\n  - {check: quality, dataset: test, require: [accuracy >= 95 %]}\n"
    dataset = Parquet.model_validate({"kind": "parquet", "path": "test.parquet", "label": "y"})
    access = Access(tmp_path)
    digest = dataset_record("test", Parts({}, {"test": dataset}, {}, access, None)).digest
    wrong = np.zeros(1000, bool)
    wrong[:100] = True
    runs = []
    for name, off in (("a", wrong), ("b", wrong ^ np.isin(np.arange(1000), [0, 1, *range(100, 120)]))):
        said = np.where(off, 1 - truth, truth)
        # Labels are matched by value: the later run lists its classes the other way round.
        classes, predicted = (("a", "b"), said) if name == "a" else (("b", "a"), 1 - said)
        folder = written(tmp_path / name, quality(int((~off).sum())), digest=digest)
        (folder / "spec.yaml").write_text(spec)
        answers = Answers(1000, classes, None, predicted, None, None, None)
        write_answers(answers, folder / "evidence" / "predictions-candidate-test.parquet")
        runs.append(folder)
    found = compare(*runs, access=access)
    (one,) = found.flips
    assert (one.rows, one.changed, one.fixed, one.broken) == (1000, 22, (0, 1), tuple(range(100, 120)))
    assert found.rows[0].word == "regression" and found.rows[0].change.startswith("-1.8 pp (-2.")
    blind = compare(*runs)
    assert blind.flips[0].fixed is None and blind.flips[0].why == "the datasets were not read again"
    assert blind.rows[0].word == "no change shown"
