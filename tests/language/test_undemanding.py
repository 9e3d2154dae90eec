"""F16: requirements that nothing realistic misses are doubted, and never block; those of the suites are not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.compression.spec import Compression
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.slices.spec import Slices
from evalspec.checks.system.latency.spec import Latency
from evalspec.checks.system.throughput.spec import Throughput
from evalspec.evidence.estimate import ComparisonParts, Fact
from evalspec.language.parts import Check, CheckResult
from evalspec.language.undemanding import measured_undemanding, undemanding
from evalspec.loading import load
from evalspec.loading.summary import doubts
from evalspec.running.requirements import SignificanceLevels, write_tests
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.timing.processes import over_processes, paired_log_ratio

ROOT = Path(__file__).parents[2]
TEST = {"dataset": "test"}
MAJORITY = {"accuracy": (0.9, "always the most frequent answer")}

COMPRESSED = {
    **TEST, "baseline": "baseline", "method": "pruning", "by": ["dark"], "also": "worst_slice_drop <= 2 pp",
}  # fmt: skip
DOUBTED: tuple[tuple[type[Check], str, Mapping[str, object]], ...] = (
    (Quality, "accuracy >= 0.0000001 %", TEST),
    (Quality, "accuracy >= 1 %", TEST),
    (Quality, "accuracy >= baseline - 99.99 pp", TEST),
    (Quality, "log_loss <= 36", TEST),
    (Quality, "brier <= 1.9999", TEST),
    (Quality, "recall(x) >= 0.1 %", TEST),
    (Calibration, "ece <= 0.99", TEST),
    (Latency, "latency_p99 <= 1 h", TEST),
    (Latency, "latency_p99 <= 1000x baseline", TEST),
    (Shift, "drifted_columns <= 99 %", {"reference": "test", "current": "traffic"}),
    (Compression, "speedup >= 0.0001x", COMPRESSED),
    (Contamination, "near_duplicates <= 99 %", {"train": ["train"], "test": "test"}),
    (Throughput, "throughput >= 0.001 samples/s", TEST),
)


def made(kind: type[Check], sentence: str, fields: Mapping[str, object]) -> Check:
    also = [fields["also"]] if "also" in fields else []
    plain = {name: value for name, value in fields.items() if name != "also"}
    return kind.model_validate({**plain, "require": [sentence, *also]})


@pytest.mark.parametrize(("kind", "sentence", "fields"), DOUBTED, ids=[one[1] for one in DOUBTED])
def test_f16_a_threshold_that_nothing_misses_is_doubted_before_anything_is_measured(
    kind: type[Check], sentence: str, fields: Mapping[str, object]
) -> None:
    (line,) = undemanding(made(kind, sentence, fields))
    assert line.startswith(f"`{sentence}` requires almost nothing: ")


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [(Quality, "accuracy >= 2 %"), (Quality, "brier <= 1.9"), (Quality, "accuracy >= baseline - 20 pp"),
     (Calibration, "ece <= 0.5"), (Latency, "latency_p99 <= 10 min"), (Latency, "latency_p99 <= 20x baseline"),
     (Throughput, "throughput >= 1 samples/s")],
)  # fmt: skip
def test_what_something_might_miss_is_not(kind: type[Check], sentence: str) -> None:
    assert list(undemanding(made(kind, sentence, TEST))) == []


def test_no_suite_is_doubted() -> None:
    """As far as the specs tell; what their runs found would not make them so either (see the records)."""
    for path in sorted(ROOT.glob("suites/*/evalspec.yaml")):
        if path.parent.name != "served-digits":
            assert list(doubts(load(path))) == [], path


def found(check: Check, result: CheckResult) -> list[str]:
    return list(measured_undemanding(check, result, write_tests(check, result, SignificanceLevels(0.95, 0.01))))


@pytest.mark.parametrize(("held", "told"), [("85 %", True), ("95 %", False)])
def test_f16_what_the_most_frequent_class_would_pass_too_is_doubted(held: str, told: bool) -> None:
    check = made(Quality, f"accuracy >= {held}", TEST)
    lines = found(check, CheckResult({"accuracy": Proportion.of_counts(990, 1000)}, blind=MAJORITY))
    assert bool(lines) == told
    if told:
        assert lines == [
            "`accuracy >= 85 %` requires almost nothing: a model that ignores its input would pass it too (always the "
            "most frequent answer: accuracy 0.9)"
        ]


def test_f16_a_margin_that_reaches_down_to_it_is_doubted() -> None:
    import numpy as np

    from evalspec.stats.shares.paired import paired_proportion

    right = np.arange(1000) % 50 != 0
    pair = paired_proportion(right, right, rng=np.random.default_rng(0), alpha=0.01)
    result = CheckResult(
        {"accuracy": Proportion.of_counts(980, 1000)}, {("accuracy", "baseline"): pair}, blind=MAJORITY
    )
    assert len(found(made(Quality, "accuracy >= baseline - 10 pp", TEST), result)) == 1
    assert found(made(Quality, "accuracy >= baseline - 2 pp", TEST), result) == []


def test_f16_all_slices_are_held_against_it() -> None:
    check = made(Slices, "accuracy >= 50 %", {**TEST, "by": ["dark", "light"]})
    estimates = {"accuracy": Proportion.of_counts(990, 1000)}
    words = "always the same answer"
    both = {"accuracy(dark)": (0.6, words), "accuracy(light)": (0.7, words)}
    assert len(found(check, CheckResult(estimates, blind=both))) == 1
    assert found(check, CheckResult(estimates, blind={**both, "accuracy(dark)": (0.4, words)})) == []


def test_f16_a_limit_far_beyond_what_was_measured_is_doubted() -> None:
    rates = over_processes([5000.0, 5100, 5050, 5020, 5080])
    for at_least, doubted in ((1, True), (50, False)):
        check = made(Throughput, f"throughput >= {at_least} samples/s", TEST)
        assert bool(found(check, CheckResult({"throughput": rates}))) == doubted
    pair = ComparisonParts({}, paired_log_ratio([50.0] * 4 + [51], [1.0] * 4 + [1.01]))
    check = made(Throughput, "throughput >= 0.04x baseline", TEST)
    assert "1,300 times what was measured" in found(check, CheckResult({}, {("throughput", "baseline"): pair}))[0]


def test_f16_as_many_duplicates_as_there_are_rows_is_doubted() -> None:
    fields = {"train": ["train"], "test": "test"}
    counted = CheckResult({"exact_duplicates": Fact(0.0, 1000)})
    assert len(found(made(Contamination, "exact_duplicates <= 1000 rows", fields), counted)) == 1
    assert found(made(Contamination, "exact_duplicates <= 20 rows", fields), counted) == []
