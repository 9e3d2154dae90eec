from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.evidence.estimate import Needed
from evalspec.stats.means.bounded import BoundedMean
from evalspec.stats.means.prediction_powered import Correction, RectifiedMean, rectified_mean
from evalspec.stats.shares.proportion import Proportion
from tests.stats.simulated import ALLOWED, Pair, allowed, enough, p_values, wrong_claims

# Chance that the judge passes what people pass, and what they do not; of an easy row, and of a hard one.
JUDGES = {
    "biased": ((0.9, 0.3), (0.9, 0.3)),
    "lenient": ((0.99, 0.6), (0.99, 0.6)),
    "harsh": ((0.85, 0.05), (0.85, 0.05)),
    "worse on hard rows": ((0.98, 0.05), (0.7, 0.5)),
    "guessing": ((0.7, 0.7), (0.7, 0.7)),
}
SHARES = (0.7, 0.9, 0.97)


def verdicts(rng: np.random.Generator, n: int, share: float, judge: str) -> tuple[np.ndarray, np.ndarray]:
    """What people would say of each row, and the judge; hard rows fail more often."""
    human = rng.random(n) < share
    hard = rng.random(n) < np.where(human, 0.2, 0.8)
    (easy_good, easy_bad), (hard_good, hard_bad) = JUDGES[judge]
    passes = np.where(hard, np.where(human, hard_good, hard_bad), np.where(human, easy_good, easy_bad))
    return human.astype(float), (rng.random(n) < passes).astype(float)


def corrected(
    rng: np.random.Generator, n: int, m: int, share: float, judge: str, clusters: np.ndarray | None = None
) -> Correction:
    human, judged = verdicts(rng, n, share, judge)
    labelled = rng.permutation(n)[:m]
    return rectified_mean(judged, labelled, human[labelled], clusters=clusters)


def test_value_is_that_of_the_papers_formula() -> None:
    """PPI++ keeps labelled and other rows apart: its weight is (N - m) / N of ours, and the value is the same."""
    rng = np.random.default_rng(1)
    human, judged = verdicts(rng, 1500, 0.8, "biased")
    labelled = rng.permutation(1500)[:300]
    found = rectified_mean(judged, labelled, human[labelled])
    rest = np.delete(judged, labelled)
    weight = found.weight * len(rest) / 1500
    paper = weight * rest.mean() + (human[labelled] - weight * judged[labelled]).mean()
    assert found.value == pytest.approx(paper, abs=1e-12)
    assert found.estimate.value == pytest.approx(paper, abs=1e-12)
    best = np.cov(human[labelled], judged[labelled])[0, 1] / judged[labelled].var(ddof=1)
    assert found.weight == pytest.approx(best)
    assert found.rectifier == pytest.approx((human - judged)[labelled].mean())


def test_of_yes_and_no_it_is_the_share_weighted_by_what_the_judge_says() -> None:
    """Among rows that the judge passes people pass a share, among others another: their mean over all rows."""
    rng = np.random.default_rng(2)
    human, judged = verdicts(rng, 2000, 0.8, "worse on hard rows")
    labelled = rng.permutation(2000)[:400]
    passed = judged[labelled] == 1.0
    strata = judged.mean() * human[labelled][passed].mean() + (1 - judged.mean()) * human[labelled][~passed].mean()
    assert rectified_mean(judged, labelled, human[labelled]).value == pytest.approx(strata, abs=1e-12)


def test_standard_error_is_that_of_the_paper() -> None:
    rng = np.random.default_rng(3)
    human, judged = verdicts(rng, 4000, 0.8, "biased")
    labelled = rng.permutation(4000)[:800]
    found = rectified_mean(judged, labelled, human[labelled])
    rest = np.delete(judged, labelled)
    weight = found.weight * len(rest) / 4000
    error = np.sqrt(weight**2 * rest.var() / len(rest) + (human[labelled] - weight * judged[labelled]).var() / 800)
    assert isinstance(found.estimate, RectifiedMean)
    assert found.estimate.standard_error == pytest.approx(error, rel=0.01)


def test_a_good_judge_makes_the_bounds_narrower_and_a_bad_one_does_not_make_them_wider() -> None:
    def width(found: Correction) -> tuple[float, float]:
        both = []
        for one in (found.estimate, found.humans):
            lower, upper = one.bound(0.95, "lower"), one.bound(0.95, "upper")
            assert lower is not None and upper is not None
            both.append(upper - lower)
        return both[0], both[1]

    ours, theirs = width(corrected(np.random.default_rng(4), 10_000, 400, 0.7, "harsh"))
    assert ours < 0.8 * theirs
    ours, theirs = width(corrected(np.random.default_rng(4), 10_000, 400, 0.7, "guessing"))
    assert ours < 1.02 * theirs


def test_it_says_how_many_labels_would_decide() -> None:
    """So many rows and labels have 80 % power."""
    rng, wanted = np.random.default_rng(13), 0.86
    estimate = corrected(rng, 2000, 400, 0.88, "biased").estimate
    assert isinstance(estimate, RectifiedMean)
    needed = estimate.n_to_decide(wanted, 0.05)
    assert isinstance(needed, Needed)
    assert (needed.unit, needed.now) == ("human labels", 400)
    times = (0.88 - wanted) ** -2 * (estimate.value - wanted) ** 2 * needed / 400
    n, m = round(2000 * times), round(400 * times)
    shown = [corrected(rng, n, m, 0.88, "biased").estimate.p_value(wanted, "lower") for _ in range(100)]
    assert 0.6 < np.mean(np.array(shown, dtype=float) <= 0.05) < 0.95
    assert estimate.n_to_decide(0.2, 0.05) == 200


@pytest.mark.parametrize(
    ("n", "m", "judge", "why"),
    [
        (2000, 199, "biased", "with at least 200 human labels, and there are 199"),
        (2000, 0, "biased", "there are no human labels"),
        (300, 300, "biased", "every row has a human label"),
    ],
)
def test_people_decide_alone_where_the_judge_can_not_help(n: int, m: int, judge: str, why: str) -> None:
    found = corrected(np.random.default_rng(5), n, m, 0.8, judge)
    assert why in found.alone
    assert found.estimate is found.humans
    assert isinstance(found.estimate, Proportion) and found.estimate.n == m


def test_a_judge_who_agrees_with_people_says_nothing_of_how_often_it_errs() -> None:
    human = np.r_[np.ones(1900), np.zeros(100)]
    judged = np.where(np.arange(2000) % 20 == 3, 1.0 - human, human)
    labelled = np.random.default_rng(6).permutation(2000)[:200]
    found = rectified_mean(judged, labelled, human[labelled])
    assert 0 < found.disagreements < 20
    assert f"20 disagreements with people, and there are {found.disagreements}" in found.alone


def test_ties_have_bounds_too() -> None:
    rng = np.random.default_rng(7)
    judged, human = rng.choice([0.0, 0.5, 1.0], (2, 1000))
    few = rectified_mean(judged, np.arange(100), human[:100])
    assert isinstance(few.estimate, BoundedMean)
    assert isinstance(rectified_mean(judged, np.arange(400), human[:400]).estimate, RectifiedMean)


def test_a_cluster_counts_once() -> None:
    rng = np.random.default_rng(8)
    human, judged = verdicts(rng, 500, 0.7, "biased")
    labelled = rng.permutation(500)[:250]
    alone = rectified_mean(judged, labelled, human[labelled])
    copies = np.tile(np.arange(500), 4)
    both = rectified_mean(
        judged[copies], np.concatenate([labelled + 500 * copy for copy in range(4)]), human[np.tile(labelled, 4)],
        clusters=copies,
    )  # fmt: skip
    assert both.value == pytest.approx(alone.value)
    assert both.disagreements == alone.disagreements
    for side in ("lower", "upper"):
        assert both.estimate.bound(0.95, side) == pytest.approx(alone.estimate.bound(0.95, side), abs=1e-3)  # type: ignore[arg-type]
    assert "over 500 clusters" in both.estimate.method


def test_what_does_not_fit_is_refused() -> None:
    judged = np.ones(10)
    with pytest.raises(InputError, match="3 labelled rows and 2 labels"):
        rectified_mean(judged, np.arange(3), np.ones(2))
    with pytest.raises(InputError, match="labelled twice"):
        rectified_mean(judged, np.array([1, 1]), np.ones(2))
    with pytest.raises(InputError, match=r"not in 0\.\.1"):
        rectified_mean(judged, np.array([1, 2]), np.array([1.0, np.nan]))


def found_in(repeats: int, n: int, m: int, share: float, judge: str, seed: int) -> Iterator[Pair]:
    rng = np.random.default_rng(seed)
    for _ in range(repeats):
        yield p_values(corrected(rng, n, m, share, judge).estimate, share)


@pytest.mark.parametrize("judge", JUDGES)
def test_bounds_err_as_seldom_as_they_say(judge: str) -> None:
    assert np.all(wrong_claims(found_in(300, 1000, 250, 0.85, judge, 9)) <= allowed(300))


@pytest.mark.proof
@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("m", [50, 100, 200, 400])
def test_bounds_err_as_seldom_as_they_say_in_many_samples(judge: str, share: float, m: int) -> None:
    """All held with 4,000 samples each on 2026-11-23."""
    most = allowed(1000, ALLOWED)
    assert np.all(wrong_claims(enough(found_in(1000, 2000, m, share, judge, 10), most, 1000)) <= most)


@pytest.mark.proof
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("m", [300, 600])
def test_bounds_over_clusters_err_as_seldom_as_they_say(share: float, m: int) -> None:
    """400 conversations of 5 answers or so, some of which go wrong as a whole, and a judge who is worse on some."""
    rng, repeats = np.random.default_rng(11), 1000

    def found() -> Iterator[Pair]:
        for _ in range(repeats):
            sizes = np.maximum(1, np.round(5 * rng.lognormal(-0.125, 0.5, 400))).astype(int)
            codes = np.repeat(np.arange(400), sizes)
            human = rng.random(len(codes)) < rng.beta(4 * share, 4 * (1 - share), 400)[codes]
            easy = (rng.random(400) < 0.5)[codes]
            passes = np.where(human, np.where(easy, 0.98, 0.8), np.where(easy, 0.05, 0.5))
            judged = (rng.random(len(codes)) < passes).astype(float)
            labelled = rng.permutation(len(codes))[:m]
            yield p_values(
                rectified_mean(judged, labelled, human[labelled].astype(float), clusters=codes).estimate, share
            )

    assert np.all(wrong_claims(enough(found(), allowed(repeats), repeats)) <= allowed(repeats))


@pytest.mark.proof
@pytest.mark.parametrize("m", [100, 200, 400])
def test_bounds_of_wins_with_ties_err_as_seldom_as_they_say(m: int) -> None:
    """A judge who prefers the first seat, so that many of its verdicts are ties."""
    rng, repeats, truth = np.random.default_rng(12), 1000, 0.6 + 0.5 * 0.1

    def found() -> Iterator[Pair]:
        for _ in range(repeats):
            human = rng.choice([1.0, 0.5, 0.0], 2000, p=[0.6, 0.1, 0.3])
            turned = rng.random(2000) < 0.3
            judged = np.where(turned, 0.5, np.where(rng.random(2000) < 0.1, 1.0, human))
            labelled = rng.permutation(2000)[:m]
            yield p_values(rectified_mean(judged, labelled, human[labelled]).estimate, truth)

    assert np.all(wrong_claims(enough(found(), allowed(repeats), repeats)) <= allowed(repeats))
