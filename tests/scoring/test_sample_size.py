"""What can't be shown by so few rows is told beforehand, and is true: the estimators' own bounds say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from evalspec.checks.model.calibration.spec import Calibration
from evalspec.checks.model.compression.spec import Compression
from evalspec.checks.model.generalization.spec import Generalization
from evalspec.checks.model.quality.spec import Quality
from evalspec.checks.model.robustness.spec import Robustness
from evalspec.checks.model.slices.spec import Slices
from evalspec.scoring.catalogue.metrics import LARGEST_LOG_LOSS, METRICS
from evalspec.scoring.sample_size import ALONE, fewest, fewest_in_groups, fewest_pairs
from evalspec.stats.means.mean import mean, paired_mean
from evalspec.stats.resampling.bootstrap import bca
from evalspec.stats.shares.over_groups import OverGroups, share_bounds
from evalspec.stats.shares.paired import paired_proportion
from evalspec.stats.shares.proportion import proportion

KINDS: dict[type[Any], dict[str, Any]] = {
    Quality: {"dataset": "test"},
    Calibration: {"dataset": "test", "threshold": 0.8, "baseline": "baseline"},
    Robustness: {"dataset": "test", "corruptions": ["blur"], "rows": 500},
    Slices: {"dataset": "test", "by": ["night"], "groups": "user"},
    Compression: {"dataset": "test", "method": "distillation", "by": ["night"]},
    Generalization: {"inside": "test", "outside": ["field"], "metric": "mae"},
}


def why(kind: type[Any], sentence: str, n: int, **fields: Any) -> str | None:
    """What is said of a sentence, with so many rows in each dataset."""
    mandatory = ["ece_increase <= 0.1", "accuracy_drop <= 99 pp"] if kind is Compression else []
    check = kind.model_validate(KINDS[kind] | fields | {"require": [sentence, *mandatory]})
    asked = next(one for one in check.requirements if one.sentence == sentence)
    found: str | None = check.check_requirement(asked, dict.fromkeys(("test", "field"), n))
    return found


def test_every_metric_of_quality_says_what_its_bounds_are_made_of() -> None:
    assert set(ALONE) == {metric.name for metric in METRICS}


@pytest.mark.parametrize(
    ("kind", "sentence", "needed", "fields"),
    [
        (Quality, "brier <= 0.1", 29, {}),
        (Quality, "rmse <= 0.1", 200, {}),
        (Calibration, "brier <= 0.1", 29, {}),
        (Calibration, "pinball <= 0.1", 200, {}),
        (Calibration, "ece_after_temperature <= 0.05", 118, {}),
        (Robustness, "mean_corruption_accuracy >= 90 %", 29, {}),
        (Robustness, "robustness_drop <= 5 pp", 59, {}),
        (Robustness, "robustness_drop <= 5 pp", 62, {"severities": [3]}),
        (Robustness, "mae_increase <= 5", 200, {}),
        (Robustness, "corruption_accuracy(blur 1) >= 99 %", 299, {}),
        (Compression, "output_divergence <= 0.1", 200, {}),
        (Compression, "logit_distance <= 0.1", 200, {}),
        (Compression, "flip_rate <= 1 %", 299, {}),
        (Compression, "accuracy_drop <= 5 pp", 62, {"method": "quantization"}),
        (Compression, "worst_slice_drop <= 5 pp", 62, {"method": "quantization"}),
        (Slices, "worst_accuracy >= 99 %", 299, {}),
        (Slices, "accuracy(night) >= 90 %", 29, {}),
        (Slices, "worst_mae <= 2", 200, {}),
        (Slices, "macro_f1_gap <= 5 pp", 50, {}),
        (Slices, "mae(night) <= baseline", 200, {}),
        (Slices, "accuracy_p10 >= 80 %", 36 * 8, {}),
        (Slices, "mae_p90 <= 2", 36 * 200, {}),
        (Slices, "brier_p90 <= 0.2", 36 * 8, {}),
        (Slices, "worst_log_loss <= 1", 107, {}),
        (Generalization, "ood_gap_mae <= 2", 200, {}),
        (Generalization, "ood_gap <= 5 pp", 50, {"metric": "macro_f1"}),
    ],
)
def test_told_by_every_check(kind: type[Any], sentence: str, needed: int, fields: dict[str, Any]) -> None:
    assert why(kind, sentence, needed, **fields) is None
    told = why(kind, sentence, needed - 1, **fields)
    assert told is not None and f"can't show {sentence} at 95 % confidence" in told and "needed; " in told, told
    assert "of test" in told and f"{needed - 1:,} rows" in told


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Quality, "accuracy >= baseline - 1 pp"),
        (Quality, "roc_auc >= 0.9"),
        (Slices, "accuracy_gap <= 5 pp"),
        (Slices, "worst_accuracy >= baseline - 1 pp"),
        (Compression, "accuracy_drop <= 1 pp"),
        (Calibration, "brier <= baseline - 0.01"),
        (Quality, "log_loss <= baseline + 0.01"),
        (Robustness, "worst_corruption_accuracy >= baseline - 2 pp"),
        (Robustness, "mean_corruption_accuracy >= baseline - 2 pp"),
    ],
)
def test_what_few_rows_could_show_is_not_refused(kind: type[Any], sentence: str) -> None:
    """A student may be right wherever its teacher is wrong, and then five rows show it."""
    assert why(kind, sentence, 5) is None


def test_rows_that_a_check_leaves_out_do_not_help() -> None:
    told = why(Robustness, "robustness_drop <= 5 pp", 5000, rows=50)
    assert told is not None and "50 rows of test" in told and "59 are needed; raise `rows:` of the check" in told


@pytest.mark.parametrize("margin", [0.005, 0.02, 0.1])
def test_pairs_without_a_difference(margin: float) -> None:
    needed = fewest_pairs(margin, 0.95)

    def shown(n: int) -> bool:
        right = np.arange(n) % 10 > 0
        p = paired_proportion(right, right).difference(1.0, margin).p_value(margin, "upper")
        return p is not None and p <= 0.05

    assert shown(needed) and not shown(needed - 1)


def test_bounds_begin_where_it_is_said() -> None:
    rng = np.random.default_rng(2)
    for n, there in ((fewest("mean") - 1, False), (fewest("mean"), True)):
        losses = rng.random(n)
        assert (mean(losses).bound(0.95, "upper") is not None) == there
        assert (paired_mean(losses, rng.random(n)).difference().bound(0.95, "upper") is not None) == there
    for n, there in ((fewest("resampled") - 1, False), (fewest("resampled"), True)):
        found = bca(lambda arrays, weights: weights @ arrays[0] / len(arrays[0]), (rng.random(n),), rng=rng, alpha=0.05)
        assert (found.bound(0.95, "upper") is not None) == there


@pytest.mark.parametrize(
    ("limits", "threshold", "needed"), [((0.0, 1.0), 0.1, 29), ((0.0, LARGEST_LOG_LOSS), 1.0, 107)]
)
def test_a_mean_of_losses_with_a_largest_value(limits: tuple[float, float], threshold: float, needed: int) -> None:
    """S5: as many rows as are told beforehand show it, were every loss 0, and one fewer does not."""
    for n, shown in ((needed, True), (needed - 1, False)):
        p = mean(np.zeros(n), limits=limits).p_value(threshold, "upper")
        assert p is not None and (p <= 0.05) == shown


def test_shares_and_groups_by_their_own_bounds() -> None:
    for n, shown in ((298, False), (299, True)):
        p = proportion(np.ones(n, dtype=np.bool_)).p_value(0.99, "lower")
        assert p is not None and (p <= 0.05) == shown
    asked = Slices.model_validate(KINDS[Slices] | {"require": ["accuracy_p10 >= 80 %"]}).requirements[0]
    groups, rows = fewest_in_groups(asked, "share", 0.95)
    for many, each, shown in ((groups, rows, True), (groups - 1, rows, False), (groups, rows - 1, False)):
        counts = np.full(many, float(each))
        lower, upper = share_bounds(counts, counts)
        p = OverGroups(np.ones(many), lower, upper).p_value(0.8, "lower")
        assert p is not None and (p <= 0.05) == shown
