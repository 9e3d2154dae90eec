"""Each defect changes what it is about, by as much as it says, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from evalspec.checks.system.recovery.defects import LongerAway, MoreLost
from evalspec.language.defects import Defect, share_of
from evalspec.selftest.answers import AllRight, ClassLost, SliceLost, TooSure, WrongAnswers
from evalspec.selftest.rows import (
    LabelTold,
    MissingCells,
    MovedColumns,
    OneValue,
    RepeatedRows,
    RowsOfAnother,
    WrongLabels,
)
from evalspec.selftest.timings import CachedPrompts, Failing, FewerTokens, MoreOf, OtherCounts, Slower
from tests.checks.deciding import outcome, the
from tests.checks.planting import confident, every
from tests.fakes import FakeInputs, classifier, regressor, samples

TRUTH = np.arange(1000) % 3
ANSWERS = classifier(confident(TRUTH, TRUTH >= 0, 3), TRUTH, classes=("a", "b", "c"))
ROWS = pa.table({
    "id": pa.array(range(1000)), "x": np.linspace(0.0, 1.0, 1000), "kind": ["u", "v"] * 500,
    "label": [str(one) for one in TRUTH],
})  # fmt: skip


def none(dataset: str) -> pa.Table:
    raise AssertionError(dataset)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_a_share_is_spread_evenly(share: float) -> None:
    found = share_of(1000, share)
    assert found.mean() == pytest.approx(share, abs=0.005)
    assert found[:100].mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_so_many_answers_are_wrong_and_their_probabilities_with_them(share: float, tmp_path: Path) -> None:
    made = WrongAnswers("wrong", "candidate", "test", share).answers(ANSWERS, FakeInputs(tmp_path))
    assert made.predicted is not None and made.probabilities is not None
    assert (made.predicted != TRUTH).mean() == pytest.approx(share, abs=0.005)
    assert (made.probabilities.argmax(axis=1) == made.predicted).all()
    np.testing.assert_allclose(made.probabilities.sum(axis=1), 1.0)


def test_answers_of_another_model_or_dataset_stay(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path)
    assert WrongAnswers("wrong", "baseline", "test", 1.0).answers(ANSWERS, inputs) is ANSWERS
    assert WrongAnswers("wrong", "candidate", "field", 1.0).answers(ANSWERS, inputs) is ANSWERS


def test_one_class_or_one_slice_is_lost_and_no_other_row(tmp_path: Path) -> None:
    inside = np.arange(1000) < 50
    inputs = FakeInputs(tmp_path, slices={("dark", "test"): inside})
    for defect, rows in (
        (ClassLost("lost", "candidate", "test", "b"), TRUTH == 1),
        (SliceLost("lost", "candidate", "test", "dark"), inside),
    ):
        made = defect.answers(ANSWERS, inputs)
        assert made.predicted is not None
        np.testing.assert_array_equal(made.predicted != TRUTH, rows)


def test_too_sure_changes_no_answer(tmp_path: Path) -> None:
    made = TooSure("sure", "candidate", "test", 0.999).answers(ANSWERS, FakeInputs(tmp_path))
    assert made.probabilities is not None
    np.testing.assert_array_equal(made.predicted, ANSWERS.predicted)
    np.testing.assert_allclose(made.probabilities.max(axis=1), 0.99 * 0.999 + 0.01 * 0.9)
    np.testing.assert_allclose(made.probabilities.sum(axis=1), 1.0)


def test_values_are_far_off_and_all_right_is_right(tmp_path: Path) -> None:
    inputs = FakeInputs(tmp_path)
    values = regressor(np.arange(100.0), np.arange(100.0))
    made = WrongAnswers("wrong", "candidate", "test", 1.0).answers(values, inputs)
    assert made.values is not None and (np.abs(made.values - np.arange(100.0)) > 100.0).all()
    half = WrongAnswers("wrong", "candidate", "test", 0.5).answers(ANSWERS, inputs)
    right = AllRight("right", "candidate", "test").answers(half, inputs)
    np.testing.assert_array_equal(right.predicted, TRUTH)


def test_timings_are_stretched_for_one_model() -> None:
    one = samples(np.full(100, 2.0))
    slow = Slower("slow", "candidate", 10.0).samples(one)
    np.testing.assert_array_equal(slow.end_ns - slow.sent_ns, np.full(100, 20_000_000))
    assert Slower("slow", "baseline", 10.0).samples(one) is one
    open_loop = samples(np.full(100, 2.0), details={"kind": "open_loop"})
    late = Slower("slow", "candidate", 10.0).samples(open_loop)
    np.testing.assert_array_equal(late.intended_ns, open_loop.intended_ns)
    np.testing.assert_array_equal(late.end_ns - late.sent_ns, np.full(100, 20_000_000))


def test_queries_fail_and_sizes_grow() -> None:
    made = Failing("fails", "candidate", 0.1).samples(samples(np.full(1000, 2.0)))
    assert made.ok.mean() == pytest.approx(0.9, abs=0.005)
    facts = {"bytes": 10, "share": 0.5, "served": True, "precision": "fp32"}
    assert MoreOf("more", "candidate", 10.0).facts("candidate", facts) == {
        "bytes": 100, "share": 5.0, "served": True, "precision": "fp32",
    }  # fmt: skip
    assert MoreOf("more", "candidate", 10.0).facts("baseline", facts) is facts


@pytest.mark.parametrize(
    ("defect", "columns"),
    [
        (MissingCells("missing", "test", 0.5, ("id",)), {"x", "kind", "label"}),
        (MovedColumns("moved", "test", 0.5, ("id", "label")), {"x", "kind"}),
        (WrongLabels("labels", "test", "label", 0.5), {"label"}),
        (OneValue("one", "test", "label", 0.9), {"label"}),
        (LabelTold("told", {"test": "label"}, ("id",)), {"x"}),
        (RepeatedRows("repeated", "test", 0.5, ("id",)), {"x", "kind", "label"}),
    ],
)
def test_rows_change_where_they_are_said_to(defect: Defect, columns: set[str]) -> None:
    made = defect.rows("test", ROWS, none)
    assert made.schema.equals(ROWS.schema, check_metadata=False)
    assert made.num_rows == ROWS.num_rows
    changed = {name for name in ROWS.column_names if made.column(name).to_pylist() != ROWS.column(name).to_pylist()}
    assert changed == columns
    assert defect.rows("train", ROWS, none) is ROWS


def test_rows_of_another_dataset_are_rows_of_it() -> None:
    other = ROWS.set_column(1, "x", pa.array(np.full(1000, 7.0)))
    made = RowsOfAnother("copied", "test", "train", 0.5).rows("test", ROWS, {"train": other}.__getitem__)
    x = made.column("x").to_numpy()
    assert (x == 7.0).mean() == pytest.approx(0.5, abs=0.005)
    np.testing.assert_array_equal(x[x != 7.0], ROWS.column("x").to_numpy()[x != 7.0])


WHOSE = "candidate"
TURNS_RED: dict[tuple[str, str], Defect] = {
    ("latency", "gap_p99"): Slower("s", WHOSE, 10.0),
    ("latency", "cached_share"): CachedPrompts("c", WHOSE),
    ("latency", "token_counts_differ"): OtherCounts("o", WHOSE, 3),
    ("latency", "tokens_per_piece"): FewerTokens("f", WHOSE, 0.01),
    ("load", "gap_p99"): Slower("s", WHOSE, 10.0),
    ("load", "cached_share"): CachedPrompts("c", WHOSE),
    ("load", "token_counts_differ"): OtherCounts("o", WHOSE, 3),
    ("load", "tokens_per_piece"): FewerTokens("f", WHOSE, 0.01),
    ("load", "output_rate"): FewerTokens("f", WHOSE, 0.5),
    ("throughput", "output_rate"): FewerTokens("f", WHOSE, 0.5),
    ("throughput", "prefill_rate"): Slower("s", WHOSE, 1.5),
    ("throughput", "decode_rate"): Slower("s", WHOSE, 1.5),
    ("energy", "energy_per_token"): FewerTokens("f", WHOSE, 0.5),
    ("cold_start", "first_token"): MoreOf("m", WHOSE, 10.0),
    ("recovery", "first_token"): LongerAway("l", WHOSE, 10.0),
    ("recovery", "time_to_healthy"): LongerAway("l", WHOSE, 10.0),
    ("recovery", "lost_requests"): MoreLost("n", WHOSE, 1.0),
}


@pytest.mark.parametrize(("kind", "metric"), TURNS_RED)
def test_every_metric_of_tokens_goes_red_for_a_defect_of_its_own(kind: str, metric: str, tmp_path: Path) -> None:
    """And stays green where nothing is planted: that is the clean twin of its planted defect."""
    (planted,) = (one for one in every() if (one.kind, one.metric) == (kind, metric))
    defect = TURNS_RED[kind, metric]
    inputs, check = planted.clean(tmp_path)
    assert isinstance(inputs, FakeInputs)
    timed, probes = inputs.samples, inputs.probes
    if callable(timed):
        inputs.samples = lambda model, schedule: [defect.samples(one) for one in timed(model, schedule)]
    inputs.probes = (
        (lambda name, model, options: [defect.probe(one) for one in probes(name, model, options)])
        if callable(probes)
        else {name: [defect.probe(one) for one in found] for name, found in probes.items()}
    )
    assert outcome(check.run(inputs), the(check, planted.sentence)) == "FAIL"


def test_defects_of_tokens_leave_other_models_and_plain_timings_alone() -> None:
    plain = samples([1.0, 2.0])
    for defect in (FewerTokens("f", WHOSE, 0.5), CachedPrompts("c", WHOSE), OtherCounts("o", WHOSE, 3)):
        assert defect.samples(plain) is plain
