from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr
from sklearn.metrics import roc_auc_score

from evalspec.checks.data.contamination.clean_score import CHANGE, CLEAN, CleanScore, OfArea, clean_score
from evalspec.checks.data.contamination.spec import FRACTIONS
from evalspec.errors import InputError
from evalspec.evidence.blocks import Intervals, Table
from evalspec.language.inputs import Predictions
from evalspec.language.predictions import Boxes
from evalspec.scoring.resampled import f1_of
from evalspec.scoring.scored_rows import scored
from evalspec.stats.exact import Exact
from evalspec.stats.means.clean_change import resampled_change
from evalspec.stats.resampling import bootstrap
from tests.checks.planting import confident
from tests.fakes import FakeInputs, boxed, classifier, painter, regressor, tagger, writer
from tests.stats.simulated import RESAMPLED, allowed, bounded, p_values, wrong_claims

SEEN = np.arange(1000) < 200


def inputs(folder: Path, answers: Predictions) -> FakeInputs:
    return FakeInputs(
        folder, tables={"test": pa.table({"x": np.arange(answers.n)})}, answers={("test", "candidate"): answers}
    )


def remembered(clusters: np.ndarray | None = None, classes: int = 2) -> Predictions:
    """All of the 200 seen rows right, 80 % of the 800 others."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, classes, 1000)
    return classifier(confident(truth, SEEN | (np.arange(1000) % 5 > 0), classes), truth, clusters=clusters)


def judged(folder: Path, answers: Predictions, dirty: np.ndarray = SEEN, metric: str = "accuracy") -> CleanScore:
    given = inputs(folder, answers)
    return clean_score(given, scored(given, "test", "candidate"), metric, dirty, {"equal": dirty})


def test_the_score_that_was_memory_is_taken_off(tmp_path: Path) -> None:
    found = judged(tmp_path, remembered())
    assert found.estimates[CLEAN].value == pytest.approx(0.8)
    assert found.estimates[CHANGE].value == pytest.approx(0.84 - 0.8)
    lower, upper = (found.estimates[CHANGE].bound(0.95, side) for side in ("lower", "upper"))
    assert lower is not None and upper is not None and 0.03 < lower < 0.04 < upper < 0.05
    assert found.conditions == {
        "test set": "test", "predictions of": "candidate", "metric": "accuracy", "accuracy of all rows": 0.84,
    }  # fmt: skip
    assert found.notes == (
        "accuracy is 0.8 on the 800 clean rows and 0.84 on all 1,000: +4 pp come from rows seen in training.",
    )
    forest = next(block for block in found.blocks if isinstance(block, Intervals))
    assert [(row.label, row.n, row.value) for row in forest.rows] == [
        ("all rows", 1000, 0.84), ("clean rows", 800, 0.8), ("rows seen in training", 200, 1.0),
    ]  # fmt: skip


def test_each_way_to_find_rows_has_a_line(tmp_path: Path) -> None:
    few = np.arange(1000) < 100
    given = inputs(tmp_path, remembered())
    ways = {"equal": few, "nearly equal": SEEN & ~few, "span": np.zeros(1000, bool)}
    found = clean_score(given, scored(given, "test", "candidate"), "accuracy", SEEN, ways)
    table = next(block for block in found.blocks if isinstance(block, Table))
    assert [row[:2] for row in table.rows] == [("equal", 100), ("nearly equal", 100)]
    assert table.rows[0][2] == pytest.approx(740 / 900)
    assert table.rows[0][3] == pytest.approx(100 * (0.84 - 740 / 900))


def test_without_such_rows_nothing_changes_and_that_is_a_fact(tmp_path: Path) -> None:
    found = judged(tmp_path, remembered(), np.zeros(1000, bool))
    change = found.estimates[CHANGE]
    assert isinstance(change, Exact)
    assert (change.value, change.p_value(0.01, "upper")) == (0.0, 0.0)
    assert found.estimates[CLEAN].value == pytest.approx(0.84)
    assert not found.notes


def test_where_every_row_was_seen_there_is_no_clean_score(tmp_path: Path) -> None:
    found = judged(tmp_path, remembered(), np.ones(1000, bool))
    assert not found.estimates
    assert "no clean row" in found.missing[CLEAN] and "no clean row" in found.missing[CHANGE]


def squares(rows: int, shift: np.ndarray | float, scores: bool) -> Boxes:
    left = np.arange(rows) % 7 + 10.0
    corners = np.stack([left, left, left + 20, left + 20], axis=1) + np.asarray(shift)[..., None]
    sure = np.full(rows, 0.9) if scores else None
    return Boxes(np.arange(rows), corners, np.zeros(rows, np.int64), sure)


def of_task(task: str) -> Predictions:
    """Right on the 60 rows that were seen, half right on the 180 others."""
    right = (np.arange(240) < 60) | (np.arange(240) % 2 > 0)
    truth = np.arange(240) % 3
    if task == "text":
        return writer(np.where(right, "yes it is", "no it isn't").tolist(), ["yes it is"] * 240)
    if task == "boxes":
        found = squares(240, np.where(right, 0.0, 40.0), scores=True)
        return boxed(found, squares(240, 0.0, scores=False), 240, classes=["cat"])
    said = np.where(right, truth, (truth + 1) % 3)
    if task == "labels":
        return tagger(np.eye(3, dtype=bool)[said], np.eye(3, dtype=bool)[truth])
    return painter(
        np.repeat(said, 4).reshape(240, 2, 2), np.repeat(truth, 4).reshape(240, 2, 2), classes=["a", "b", "c"]
    )


@pytest.mark.parametrize(
    ("task", "metric", "bound"),
    [("text", "exact_match", True), ("text", "token_f1", True), ("labels", "subset_accuracy", True),
     ("labels", "micro_f1", True), ("mask", "mean_iou", False), ("boxes", "map_50", False)],
)  # fmt: skip
def test_every_task_has_a_change(tmp_path: Path, task: str, metric: str, bound: bool) -> None:
    dirty = np.arange(240) < 60
    found = judged(tmp_path, of_task(task), dirty, metric)
    change, clean = found.estimates[CHANGE], found.estimates[CLEAN]
    full = found.conditions[f"{metric} of all rows"]
    assert isinstance(full, float) and clean.value is not None and full > clean.value
    assert change.value == pytest.approx(full - clean.value)
    assert (change.bound(0.95, "upper") is not None) == bound
    assert bound or "no interval" in change.method


@pytest.mark.parametrize("metric", ["macro_f1", "balanced_accuracy", "roc_auc", "average_precision", "f1", "recall"])
def test_every_kind_of_metric_changes_by_full_less_clean(tmp_path: Path, metric: str) -> None:
    assert metric in FRACTIONS
    answers = remembered()
    found = judged(tmp_path, answers, metric=metric)
    change, clean = found.estimates[CHANGE], found.estimates[CLEAN]
    assert clean.value is not None
    full = found.conditions[f"{metric} of all rows"]
    assert isinstance(full, float)
    assert change.value == pytest.approx(full - clean.value)
    lower, upper = change.bound(0.95, "lower"), change.bound(0.95, "upper")
    assert lower is not None and upper is not None and lower < full - clean.value < upper


def test_shares_of_some_rows_count_the_dirty_ones_among_them(tmp_path: Path) -> None:
    """Recall of a class of which only two rows in a hundred were seen can't change by more than 2 pp."""
    truth = np.repeat([0, 1], 500)
    dirty = np.isin(np.arange(1000), [*range(300), *range(500, 510)])
    found = judged(tmp_path, classifier(confident(truth, np.arange(1000) % 4 > 0, 2), truth), dirty, "recall")
    assert found.estimates[CHANGE].bound(0.999, "upper") is not None
    assert found.estimates[CHANGE].p_value(0.021, "upper") == 0.0
    none = judged(tmp_path, classifier(confident(truth, np.arange(1000) % 4 > 0, 2), truth), truth == 0, "recall")
    assert isinstance(none.estimates[CHANGE], Exact)


def test_clusters_make_bounds_wider(tmp_path: Path) -> None:
    """Rows in twos that are right or wrong together."""
    twos = np.arange(1000) // 2
    truth = np.arange(1000) % 2
    right = SEEN | (twos % 5 > 0)
    free, tied = (
        judged(tmp_path, classifier(confident(truth, right, 2), truth, clusters=clusters)).estimates[CHANGE]
        for clusters in (None, twos)
    )
    assert free.value == pytest.approx(tied.value)
    first, second = free.bound(0.95, "lower"), tied.bound(0.95, "lower")
    assert first is not None and second is not None and second < first - 0.002


def test_a_metric_that_is_no_fraction_is_shown_and_has_no_points(tmp_path: Path) -> None:
    truth = np.linspace(0, 1, 1000)
    found = judged(tmp_path, regressor(np.where(SEEN, truth, truth + 0.5), truth), metric="mae")
    assert not found.estimates
    assert "not a fraction" in found.missing[CHANGE]
    assert "0.5 on the 800 clean rows" in found.notes[0]
    assert [row.value for row in found.blocks[0].rows] == pytest.approx([0.4, 0.5, 0.0])  # type: ignore[union-attr]


def test_a_metric_of_another_task_is_missing_with_the_reason(tmp_path: Path) -> None:
    found = judged(tmp_path, regressor(np.zeros(1000), np.zeros(1000)))
    assert "values" in found.missing[CLEAN] and not found.estimates


def test_answers_to_other_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1,000 rows of test, which has 999"):
        judged(tmp_path, remembered(), SEEN[1:])


def test_the_area_of_weighted_rows_is_that_of_scikit_learn(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    truth = rng.integers(0, 3, 300)
    shares = np.round(rng.dirichlet(np.ones(3), 300), 1)
    rows = scored(inputs(tmp_path, classifier(shares, truth)), "test", "candidate")
    weights = rng.integers(0, 4, (5, 300)).astype(float)
    statistic = OfArea((0, 2))
    ours = statistic(statistic.arrays(rows), weights)
    theirs = [
        np.mean([roc_auc_score(truth == one, shares[:, one], sample_weight=weight) for one in (0, 2)])
        for weight in weights
    ]
    np.testing.assert_allclose(ours, theirs)
    assert np.isnan(statistic(statistic.arrays(rows), np.where(truth == 2, 0.0, 1.0)[None]))


def f1_of_confusion(shares: np.ndarray) -> float:
    """Macro F1 of a population, from the shares of (true, said), shape (K, K)."""
    return float(np.mean(2 * np.diag(shares) / (shares.sum(axis=0) + shares.sum(axis=1))))


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(("right", "share"), [((0.98, 0.8), 0.2), ((0.96, 0.9), 0.2), ((0.95, 0.8), 0.5)])
def test_a_change_of_macro_f1_errs_no_more_often(
    right: tuple[float, float], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were wrong dirty rows that a sample lacks no matter, the second would err in 1.2 % at 99.8 %."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    rng, n, repeats, found = np.random.default_rng(31), 250, 200, []
    of_side = [(np.eye(3) * (1.5 * one - 0.5) + (1 - one) / 2) / 3 for one in right]
    truth = f1_of_confusion(share * of_side[0] + (1 - share) * of_side[1]) - f1_of_confusion(of_side[1])
    dirty = np.arange(n) < share * n
    for _ in range(repeats):
        true = rng.integers(0, 3, n)
        said = np.where(rng.random(n) < np.where(dirty, *right), true, (true + rng.integers(1, 3, n)) % 3)
        smallest = int(np.bincount(true[~dirty]).min())
        one = resampled_change(f1_of((0, 1, 2)), (true, said), dirty, rng=rng, alpha=0.05, smallest_class=smallest)
        found.append(p_values(one, truth))
    assert (wrong_claims(found) <= allowed(repeats, RESAMPLED)).all(), wrong_claims(found)


@pytest.mark.proof
@pytest.mark.slow
def test_a_change_of_an_area_errs_no_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normal scores, further apart where they were seen; 500 samples err in 5.4 %."""
    monkeypatch.setattr(bootstrap, "FEWEST_RESAMPLES", 999)
    rng, n, repeats, found = np.random.default_rng(4), 150, 100, []
    dirty = np.arange(n) < 60
    share, apart = 0.4, np.where(dirty, 1.5, 0.75)
    areas = [ndtr(2 * far / np.sqrt(2)) for far in (1.5, 0.75)]
    both = ndtr((1.5 + 0.75) / np.sqrt(2))
    truth = share**2 * areas[0] + (1 - share) ** 2 * areas[1] + 2 * share * (1 - share) * both - areas[1]
    for _ in range(repeats):
        positive = rng.random(n) < 0.5
        scores = rng.standard_normal(n) + np.where(positive, apart, -apart)
        smallest = int(min(positive[~dirty].sum(), (~positive[~dirty]).sum()))
        one = resampled_change(
            OfArea((1,)), (scores[:, None], positive[:, None]), dirty, rng=rng, alpha=0.05, smallest_class=smallest
        )
        found.append(p_values(one, truth))
    assert bounded(found) > 0.7
    assert (wrong_claims(found) <= allowed(repeats, RESAMPLED)).all(), wrong_claims(found)


def test_dirty_rows_of_which_none_is_wrong_carry_no_bound_where_one_would_change_much() -> None:
    """20 of 200 clean rows are wrong, and one of the 50 dirty ones would weigh as much as four of them."""
    true = np.arange(250) % 3
    dirty = np.arange(250) < 50
    said = np.where(~dirty & (np.arange(250) % 10 == 7), (true + 1) % 3, true)
    few = resampled_change(f1_of((0, 1, 2)), (true, said), dirty, rng=np.random.default_rng(0), alpha=0.05)
    assert few.value is not None and few.value > 0
    assert few.bound(0.95, "lower") is None and "one more wrong row" in few.method
    again = np.repeat(np.arange(250), 4)
    many = resampled_change(f1_of((0, 1, 2)), (true[again], said[again]), dirty[again],
                            rng=np.random.default_rng(0), alpha=0.05)  # fmt: skip
    assert many.bound(0.95, "lower") is not None
