"""Two runs side by side."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import RecordError
from evalspec.evidence.policy import Policy
from evalspec.evidence.record import CheckRecord, DatasetRecord, Environment, ModelRecord, Record
from evalspec.lineage.spec_diff import words
from evalspec.records.compare import NO_SPEC, RequirementChange, RunComparison, Smallest, compare, compare_records
from evalspec.records.flips import Flips
from evalspec.stats.shares.proportion import Proportion
from evalspec.verdict import decide
from tests.commands import evalspec
from tests.verdict.test_decide import a_record, a_test

CPU = {"cpu": "A processor", "cores": 2}


def made(*checks: CheckRecord, digest: str = "d" * 64, facts: Any = None, **fields: Any) -> Record:
    given: dict[str, Any] = {
        "models": (ModelRecord(name="candidate", kind="onnx", digest="a" * 64, device="cpu", batch=1),),
        "datasets": (DatasetRecord(name="test", kind="parquet", digest=digest, rows=1000),),
        "environment": Environment(facts=facts or CPU),
    }
    record = a_record(*checks, **(given | fields))
    return record.model_copy(update={"verdict": decide(record)})


def written(folder: Path, *checks: CheckRecord, **fields: Any) -> Path:
    folder.mkdir()
    (folder / "record.json").write_text(made(*checks, **fields).model_dump_json())
    return folder


def quality(right: int, n: int = 1000, **fields: Any) -> CheckRecord:
    one = Proportion.of_counts(right, n)
    numbers = {"value": one.value, "lower": one.bound(0.95, "lower"), "upper": one.bound(0.95, "upper"), "n": n}
    numbers |= {"written_unit": "%"}
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


def both(tmp_path: Path, before: list[CheckRecord], after: list[CheckRecord], **fields: Any) -> RunComparison:
    return compare(written(tmp_path / "a", *before), written(tmp_path / "b", *after, **fields))


def row(found: RunComparison, name: str) -> RequirementChange:
    return next(one for one in found.rows if one.name == name)


def test_the_same_run_twice_has_no_regression(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960), latency(4.0)], [quality(960), latency(4.0)])
    assert [one.word for one in found.rows] == ["no change shown"] * 2
    assert not found.regressions and found.differs == () and found.alpha == pytest.approx(0.025)


def test_worse_is_a_regression_and_better_is_not(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960), latency(4.0)], [quality(900), latency(3.0)])
    assert row(found, "quality/accuracy").word == "regression"
    assert row(found, "quality/accuracy").change.startswith("−6 pp (−8")
    assert row(found, "latency/latency_p50").word == "improvement"
    assert row(found, "latency/latency_p50").change.startswith("−25 % (−2")
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
        (latency(4.0), {}, "the later run does not require it"),
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


@pytest.mark.parametrize(("threshold", "way"), [(0.9, "loosened"), (0.97, "tightened")])
def test_a_threshold_that_moved_is_noticed(tmp_path: Path, threshold: float, way: str) -> None:
    sentence = f"accuracy >= {100 * threshold:g} %"
    found = both(tmp_path, [quality(960)], [quality(960, threshold=threshold, sentence=sentence)], spec_digest="1" * 64)
    assert found.rows[0].notes == (f"required `accuracy >= 95 %`, then `{sentence}`: {way}",)
    assert [(one.of, one.direction) for one in found.asked] == [("quality/accuracy", way)]


ASKED = """evalspec: 1
name: example
datasets: {{test: {{kind: csv, path: test.csv, label: {label}}}}}
slices: [{{name: dark, where: lux < {lux}}}]
model:
  - {{check: quality, dataset: test, positive: {positive}, show_examples: {show}, require: [accuracy >= 95 %]}}
  - {{check: slices, dataset: test, by: {by}, require: [accuracy(dark) >= 85 %, worst_accuracy >= 80 %]}}
"""
GIVEN = {"label": "y", "lux": 100, "positive": "dog", "show": "true", "by": "[dark]"}


def sliced() -> CheckRecord:
    tests = (a_test("slices", name="slices/accuracy(dark)"), a_test("slices", "worst_accuracy"))
    return quality(960).model_copy(update={"id": "slices", "check": "slices", "tests": tests})


@pytest.mark.parametrize(
    ("moved", "unlike"),
    [
        ({}, {}),
        ({"show": "false"}, {}),
        ({"positive": "cat"}, {"quality/accuracy": "quality.positive: dog, then cat"}),
        (
            {"lux": 200},
            {
                name: "slice dark: lux < 100, then lux < 200"
                for name in ("slices/accuracy(dark)", "slices/worst_accuracy")
            },
        ),
        ({"by": "[dark, site]"}, {"slices/worst_accuracy": 'slices.by: ["dark"], then ["dark", "site"]'}),
        (
            {"label": "z"},
            {
                name: "label: y of test, then z of test"
                for name in ("quality/accuracy", "slices/accuracy(dark)", "slices/worst_accuracy")
            },
        ),
    ],
)
def test_numbers_that_were_measured_with_other_settings_are_refused(
    tmp_path: Path, moved: dict[str, Any], unlike: dict[str, str]
) -> None:
    """A slice that was defined anew is another slice, whatever it is called; how much is shown changes no number."""
    for name, fields in (("a", {}), ("b", moved)):
        asked = GIVEN | fields
        data = DatasetRecord(name="test", kind="parquet", digest="d" * 64, rows=1000, label=asked["label"])
        folder = written(tmp_path / name, quality(960), sliced(), datasets=(data,))
        (folder / "spec.yaml").write_text(ASKED.format(**asked))
    found = compare(tmp_path / "a", tmp_path / "b")
    assert {one.name: one.change for one in found.rows if one.word == "not comparable"} == unlike
    # The file of a record stands for its folder, with all that lies in it.
    assert compare(tmp_path / "a" / "record.json", tmp_path / "b" / "record.json") == found


def test_what_is_held_against_another_baseline_is_another_number(tmp_path: Path) -> None:
    relative = quality(960, against="baseline", name="quality/accuracy vs baseline")
    relative = relative.model_copy(update={"models": ("candidate", "baseline"), "baseline_models": ("baseline",)})
    models = [
        ModelRecord(name=name, kind="onnx", digest=digit * 64)
        for name, digit in (("candidate", "a"), ("baseline", "b"))
    ]
    other = models[1].model_copy(update={"digest": "c" * 64})
    before = made(relative, quality(960), models=tuple(models))
    after = made(relative, quality(960), models=(models[0], other))
    found = compare_records(before, after)
    told = row(found, "quality/accuracy vs baseline")
    assert (told.word, told.change) == ("not comparable", f"model baseline: {'b' * 12}, then {'c' * 12}")
    assert compare_records(before, before).rows[0].word == "no change shown"
    unknown = before.model_copy(update={"models": (models[0], models[1].model_copy(update={"digest": None}))})
    told = row(compare_records(unknown, unknown), "quality/accuracy vs baseline")
    assert told.change == "model baseline: not shown, then not shown"
    assert row(found, "quality/accuracy").word == "no change shown"


def test_rows_that_do_not_give_the_number_are_not_paired() -> None:
    """As where a threshold decides and not the most probable class: the two samples are compared instead."""
    paired = (Flips("test", "candidate", 1000, 60, (), tuple(range(60))),)
    agree, differ = (compare_records(made(quality(960)), made(quality(n)), None, paired) for n in (900, 960))
    assert agree.rows[0].word == "regression" and differ.rows[0].word == "no change shown"


def test_what_the_two_runs_are_is_said(tmp_path: Path) -> None:
    before = made(quality(960), started="2026-11-20T11:00:00Z", draft=True)
    after = made(quality(960), started="2026-11-20T10:00:00Z", spec="other", only=("quality",))
    assert compare_records(before, after).notes == (
        "they are runs of two specs: example, then other",
        "the runs are in the wrong order: the first was made at 2026-11-20T10:00:00Z, the second at "
        "2026-11-20T11:00:00Z",
        "the earlier run is a draft, and a draft decides nothing",
        "only a part of the later run was run: quality",
    )


def test_a_verdict_that_the_tests_do_not_give_is_refused(tmp_path: Path) -> None:
    runs = [written(tmp_path / name, quality(960)) for name in ("a", "b")]
    text = (runs[1] / "record.json").read_text()
    assert '"word":"READY"' in text
    (runs[1] / "record.json").write_text(text.replace('"word":"READY"', '"word":"NOT READY"'))
    with pytest.raises(RecordError, match="its tests do not give its verdict"):
        compare(*runs)


def fact(value: float, **fields: Any) -> CheckRecord:
    given = {"exact": True, "op": "<=", "threshold": 100.0, "unit": "rows", "value": value}
    test = a_test("facts", "number", **(given | fields))
    return CheckRecord(
        id="facts", check="facts", dimension="data", status="measured", tests=(test,), datasets=("test",)
    )


@pytest.mark.parametrize(
    ("before", "after", "fields", "word"),
    [
        (0, 0, {}, "same"),
        (0, 2, {"op": "=="}, "changed"),
        (1, 2, {}, "regression"),
        (2, 1, {}, "improvement"),
        (100.0, 101.0, {"unit": "MiB"}, "changed"),
        (100.0, 103.0, {"unit": "MiB"}, "regression"),
        (10.0, 10.4, {"unit": "%"}, "changed"),
        (10.0, 10.6, {"unit": "%"}, "regression"),
        (100.0, 200.0, {"unit": "MiB", "in_this_run": True}, "changed"),
    ],
)
def test_a_fact_counts_where_it_is_known_and_moved_far_enough(
    tmp_path: Path, before: float, after: float, fields: dict[str, Any], word: str
) -> None:
    """A number that was seen once in each run has no interval: that it moved is said, and is no regression."""
    (found,) = both(tmp_path, [fact(before, **fields)], [fact(after, **fields)]).rows
    assert found.word == word
    assert ("seen once in each run" in found.change) == ("in_this_run" in fields)


def test_decided_runs_before_it_are_named(tmp_path: Path) -> None:
    found = both(tmp_path, [quality(960)], [quality(960)], earlier_runs=3)
    assert ("earlier decided runs on the test set", "0", "3") in found.differs


def test_preprocessing_that_changed_is_named(tmp_path: Path) -> None:
    model = ModelRecord(name="candidate", kind="onnx", digest="a" * 64, preprocess=("scale",))
    before, after = ((model.model_copy(update={"preprocess_digest": letter * 64}),) for letter in ("b", "c"))
    first = written(tmp_path / "first", latency(4.0), models=before)
    found = compare(first, written(tmp_path / "second", latency(4.0), models=after))
    assert found.differs == (("model candidate preprocess", "scale (bbbbbbbb)", "scale (cccccccc)"),)


def test_what_is_asked_otherwise_beside_the_thresholds_is_said(tmp_path: Path) -> None:
    policy = Policy(confidence=0.9)
    # Neither run has a spec beside it.
    found = both(tmp_path, [quality(960), latency(4.0)], [quality(960)], policy=policy, spec_digest="1" * 64)
    assert [words(one) for one in found.asked] == [
        "loosened: latency is no longer there, was 1 requirement in run a",
        "loosened: policy.confidence is 0.9, was 0.95 in run a",
    ]
    assert found.notes == (NO_SPEC,)


REPEATS = 400
ROWS, RIGHT = 20_000, 0.95
"""Rows of the simulated test set, and the share that is answered right."""
SPREAD = 0.01
"""Of the processes of one run, as a share of their mean."""


DRIFT = 0.01
"""Of the runs of one subject on one machine, likewise, on top of that."""


def falsely_at_most(rate: float) -> int:
    """What a true rate exceeds once in 1,000 simulations."""
    return int(binom.ppf(0.999, REPEATS, rate))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("paired", [False, True], ids=["independent rows", "the same rows"])
@pytest.mark.parametrize(
    ("smallest", "drift"),
    [(Smallest(), 0.0), (Smallest(0.0, 0.0), 0.0), (Smallest(), DRIFT)],
    ids=["effect and interval", "interval alone", "runs that drift"],
)
def test_runs_of_one_subject_have_a_regression_in_at_most_5_of_100_pairs(
    paired: bool, smallest: Smallest, drift: float
) -> None:
    """A share, a timing and two numbers that were seen once each.

    With no smallest effect the interval holds alone; where runs differ more than their processes, the effect does.
    """
    rng = np.random.default_rng(2)
    falsely = sum(bool(pair(rng, smallest=smallest, paired=paired, drift=drift).regressions) for _ in range(REPEATS))
    assert falsely <= falsely_at_most(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seen", [0.004, 0.0], ids=["0.4 points", "nothing"])
def test_an_effect_that_is_shown_and_small_is_no_regression(seen: float) -> None:
    """A loss of less than half a point on 2,000,000 rows is shown every time, and counts in none."""
    rng = np.random.default_rng(4)
    found = [pair(rng, dropped=seen, rows=2_000_000) for _ in range(40)]
    assert sum("quality/accuracy" in names(one) for one in found) <= 1
    sharp = [pair(rng, dropped=seen, rows=2_000_000, smallest=Smallest(0.0, 0.0)) for _ in range(40)]
    assert (sum("quality/accuracy" in names(one) for one in sharp) >= 38) == (seen > 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, DRIFT])
@pytest.mark.parametrize(
    ("slower", "dropped", "name"), [(1.05, 0.0, "latency/latency_p50"), (1.0, 0.02, "quality/accuracy")]
)
def test_a_planted_regression_is_found_where_it_can_be(slower: float, dropped: float, name: str, drift: float) -> None:
    """5 % slower and 2 points down are found in 4 of 5 pairs where the run is as large as the bound asks for.

    A change is shown where the lower bound of its size is above none: its own reach must be below it by 0.84 of its
    standard deviation, which 5 processes that differ by 1 % and 20,000 rows allow; 300 rows do not, and there it is
    found in few.
    """
    rng = np.random.default_rng(3)
    seen = [pair(rng, slower=slower, dropped=dropped, drift=drift) for _ in range(100)]
    assert sum(name in names(found) for found in seen) >= 80
    if dropped:
        deviation = np.sqrt(2 * RIGHT * (1 - RIGHT) / ROWS)
        assert dropped > (norm.ppf(1 - seen[0].alpha) + norm.ppf(0.8)) * deviation
        few = [pair(rng, dropped=dropped, rows=300) for _ in range(100)]
        assert sum(name in names(found) for found in few) < 50


def names(found: RunComparison) -> list[str]:
    return [one.name for one in found.regressions]


def pair(
    rng: np.random.Generator,
    *,
    slower: float = 1.0,
    dropped: float = 0.0,
    rows: int = ROWS,
    smallest: Smallest | None = None,
    paired: bool = False,
    drift: float = 0.0,
) -> RunComparison:
    """Two runs of five processes each, of so many rows each, and of a peak of memory and a temperature."""

    def timed(ms: float) -> CheckRecord:
        each = ms * np.exp(rng.normal(0.0, drift) + rng.normal(0.0, SPREAD, 5))
        mean, half = each.mean(), 2.132 * each.std(ddof=1) / np.sqrt(5)
        return latency(float(mean), float(half / mean))

    def seen_once() -> list[CheckRecord]:
        peak, warm = rng.normal(200.0, 5.0), rng.normal(60.0, 3.0)
        return [
            fact(float(value), unit=unit, in_this_run=True, name=f"facts/{unit}").model_copy(update={"id": unit})
            for value, unit in ((peak, "MiB"), (warm, "C"))
        ]

    right = [int(rng.binomial(rows, share)) for share in (RIGHT, RIGHT - dropped)]
    flips = ()
    if paired:
        # Rows that one run answers otherwise than the other, as often right as wrong.
        changed = rng.choice(rows, int(0.02 * rows), replace=False)
        fixed, broken = np.split(changed, [int(rng.binomial(len(changed), 0.5))])
        right[1] = right[0] + len(fixed) - len(broken)
        flips = (Flips("test", "candidate", rows, len(changed), tuple(fixed.tolist()), tuple(broken.tolist())),)
    before, after = (
        made(quality(count, rows), timed(ms), *seen_once())
        for count, ms in zip(right, (4.0, 4.0 * slower), strict=True)
    )
    return compare_records(before, after, smallest, flips)


@pytest.mark.proof
def test_the_command(tmp_path: Path) -> None:
    runs = [str(written(tmp_path / "a", quality(960))), str(written(tmp_path / "b", quality(900)))]
    done = evalspec("compare", *runs)
    assert done.returncode == 1, done.stderr
    assert "regression       quality/accuracy [PASS]: 96 % (n 1,000), then 90 % (n 1,000); −6 pp" in done.stdout
    plain = evalspec("compare", *runs, "--json")
    assert json.loads(plain.stdout)["requirements"][0]["word"] == "regression"
    gone = evalspec("compare", runs[0], tmp_path / "c")
    assert gone.returncode == 2


def test_each_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []
    read_text = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, **how: reads.append(path) or read_text(path, **how))
    runs = [written(tmp_path / name, quality(960)) for name in ("a", "b")]
    done = CliRunner().invoke(app, ["compare", *map(str, runs)])
    assert done.exit_code == 0, done.output
    assert [path for path in reads if path.name == "record.json"] == [folder / "record.json" for folder in runs]


def test_a_record_is_a_record(tmp_path: Path) -> None:
    assert Record.model_validate_json((written(tmp_path / "a", quality(960)) / "record.json").read_text()).verdict


def test_rows_are_paired_where_both_runs_answered_the_same_rows(tmp_path: Path) -> None:
    """20 rows broken and 2 fixed of 1,000: 1.8 points, which two samples of 1,000 would not show."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from evalspec.answers.file import Answers, write_answers
    from evalspec.language.parts import Access
    from evalspec.running.children.jobs import SpecParts
    from evalspec.running.children.reader import dataset_record
    from evalspec.sources.parquet import Parquet

    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 1000)
    pq.write_table(pa.table({"id": np.arange(1000), "y": np.array(["a", "b"])[truth]}), tmp_path / "test.parquet")
    spec = "evalspec: 1\nname: flips\nmodels:\n  candidate: {kind: onnx, path: m.onnx}\ndatasets:\n"
    spec += "  test: {kind: parquet, path: test.parquet, label: y}\n"
    spec += "model:\n  - {check: quality, dataset: test, require: [accuracy >= 95 %]}\n"
    dataset = Parquet.model_validate({"kind": "parquet", "path": "test.parquet", "label": "y"})
    digest = dataset_record("test", SpecParts({}, {"test": dataset}, {}, Access(tmp_path), None)).digest
    wrong = np.zeros(1000, bool)
    wrong[:100] = True
    runs = []
    for name, off in (("a", wrong), ("b", wrong ^ np.isin(np.arange(1000), [0, 1, *range(100, 120)]))):
        said = np.where(off, 1 - truth, truth)
        # Labels are matched by value: the later run lists its classes the other way round.
        classes, predicted = (("a", "b"), said) if name == "a" else (("b", "a"), 1 - said)
        folder = written(tmp_path / name, quality(int((~off).sum())), digest=digest, spec_file="../evalspec.yaml")
        (folder / "spec.yaml").write_text(spec)
        answers = Answers(1000, classes, None, predicted, None, None, None)
        write_answers(answers, folder / "evidence" / "predictions-candidate-test.parquet")
        runs.append(folder)
    found = compare(*runs, allow_outside=False)
    (one,) = found.flips
    assert (one.rows, one.changed, one.fixed, one.broken) == (1000, 22, (0, 1), tuple(range(100, 120)))
    assert found.rows[0].word == "regression" and found.rows[0].change.startswith("−1.8 pp (−2.")
    blind = compare(*runs)
    assert blind.flips[0].fixed is None and blind.flips[0].why == "the datasets were not read again"
    assert blind.rows[0].word == "no change shown"


def test_a_comment_and_a_page_of_two_runs(tmp_path: Path) -> None:
    runs = [str(written(tmp_path / "a", quality(960))), str(written(tmp_path / "b", quality(900)))]
    (tmp_path / "a" / "report.html").write_text("")
    page = tmp_path / "pages" / "c.html"
    page.parent.mkdir()
    done = CliRunner().invoke(app, ["compare", *runs, "--markdown", "--output", str(page)])
    assert done.exit_code == 1
    assert done.stdout.startswith("### READY, as before\n") and "96 % (n 1,000) | 90 % (n 1,000) | −6 pp" in done.stdout
    assert re.findall(r'href="(?!#)([^"]*)"', page.read_text()) == ["../a/report.html"]
    refused = CliRunner().invoke(app, ["compare", *runs, "--output", str(tmp_path / "c.txt")])
    assert refused.exit_code == 2 and "name a file that ends in .html" in refused.stderr
