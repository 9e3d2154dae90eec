"""A share by a rough mark and an audited sample: its bounds hold whatever the errors of the mark are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

import numpy as np
import pytest
from scipy import stats as scipy_stats

from evalspec.stats.shares.audited import AuditedShare, audited_share, p_drawn_evenly
from evalspec.stats.shares.proportion import Proportion, proportion
from tests.stats.simulated import SIDES, allowed, until_settled

FEW = 2000


def drawn(
    rng: np.random.Generator, rows: int, looked_at: int, share: float, found: float, alarms: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Marks, audited rows, and the truth, shape (rows,) each."""
    counts = rng.random(rows) < share
    marked = rng.random(rows) < np.where(counts, found, alarms)
    audited = np.zeros(rows, dtype=bool)
    audited[rng.permutation(rows)[:looked_at]] = True
    return marked, audited, counts


def samples(rows: int, looked_at: int, share: float, found: float, alarms: float) -> Iterator[AuditedShare]:
    rng = np.random.default_rng([rows, looked_at, int(1000 * share), int(1000 * found), int(1000 * alarms)])
    while True:
        yield audited_share(*drawn(rng, rows, looked_at, share, found, alarms))


def misses(repeats: int, *case: float) -> np.ndarray:
    """Shares of samples in which a bound misses, in the order of `tests.stats.simulated.ALLOWED`."""
    rows, looked_at, share, found, alarms = case

    def wrong(one: AuditedShare) -> list[bool]:
        bounds = [one.bound(level, side) for level in (0.95, 0.998) for side in SIDES]
        return [(limit is not None) and (limit > share, limit < share)[at % 2] for at, limit in enumerate(bounds)]

    claimed = map(wrong, samples(int(rows), int(looked_at), share, found, alarms))
    return np.mean(until_settled(claimed, lambda one: one, allowed(repeats), repeats), axis=0)


HARD = (
    (500, 100, 0.005, 0.5, 0.1),
    (2000, 100, 0.01, 0.0, 0.02),
    (2000, 200, 0.03, 0.95, 0.01),
    (2000, 200, 0.3, 0.5, 0.02),
    (500, 100, 0.97, 0.9, 0.5),
)


@pytest.mark.parametrize("case", HARD)
def test_bounds_hold_whatever_the_mark_misses(case: tuple[float, ...]) -> None:
    assert (misses(FEW, *case) <= allowed(FEW)).all()


@pytest.mark.proof
@pytest.mark.parametrize("share", [0.005, 0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 0.97, 0.995])
def test_bounds_hold_for_marks_of_every_kind(share: float) -> None:
    """Six of 72 kinds for each share; all 648 held with 2,000 samples each on 2026-11-23."""
    cases = list(product((500, 2000), (50, 200, 400), (0.0, 0.5, 0.95, 1.0), (0.0, 0.02, 0.1)))
    for index in np.random.default_rng(int(1000 * share)).permutation(len(cases))[:6]:
        wrong = misses(1000, *cases[index][:2], share, *cases[index][2:])
        assert (wrong <= allowed(1000)).all(), (cases[index], share, wrong)


def test_the_mark_alone_would_be_sure_of_what_is_wrong() -> None:
    """A pattern that finds half of 6 % refusals claims at most 3.9 % of 2,000 rows; people's word says otherwise."""
    rng = np.random.default_rng(4)
    found = [drawn(rng, 2000, 200, 0.06, 0.5, 0.0) for _ in range(100)]
    by_mark = [proportion(marked).bound(0.95, "upper") or 0.0 for marked, _, _ in found]
    with_people = [audited_share(*one).bound(0.95, "upper") or 0.0 for one in found]
    assert np.mean(np.array(by_mark) < 0.06) > 0.95
    assert np.mean(np.array(with_people) < 0.06) < 0.1


def test_marks_bring_the_bound_closer() -> None:
    """What 2,000 marks add to 200 audited rows, at 2 % with a pattern that errs in 1 %: a quarter and more."""
    reach = [
        ((one.bound(0.95, "upper") or 1.0) - 0.02, (one.alone.bound(0.95, "upper") or 1.0) - 0.02)
        for one in islice(samples(2000, 200, 0.02, 0.95, 0.01), 200)
    ]
    ours, alone = np.median(reach, axis=0)
    assert ours < 0.8 * alone


def test_the_value_is_post_stratified() -> None:
    marked = np.array([True] * 20 + [False] * 80)
    audited = np.array([True] * 10 + [False] * 10 + [True] * 40 + [False] * 40)
    counts = np.zeros(100, dtype=bool)
    counts[:5] = counts[20] = True
    found = audited_share(marked, audited, counts)
    assert found.value == pytest.approx(0.2 * 0.5 + 0.8 * 1 / 40)
    assert found.n == 50


def test_of_clusters_and_of_one_kind_of_rows_the_sample_counts_alone() -> None:
    rng = np.random.default_rng(2)
    marked, audited, counts = drawn(rng, 400, 100, 0.1, 0.9, 0.02)
    for found in (
        audited_share(marked, audited, counts, np.arange(400) // 4),
        audited_share(np.zeros(400, dtype=bool), audited, counts),
    ):
        assert found.weighed is found.alone and isinstance(found.alone, Proportion)
        assert found.value == counts[audited].mean()
        assert found.bound(0.95, "upper") == found.alone.bound(0.95, "upper")


def test_without_a_sample_there_is_nothing() -> None:
    nobody = np.zeros(9, dtype=bool)
    found = audited_share(nobody, nobody, nobody)
    assert found.value is None and found.bound(0.95, "upper") is None and found.p_value(0.1, "upper") is None


def test_bounds_and_p_values_agree_and_hold_the_value_between_them() -> None:
    for one in islice(samples(500, 60, 0.05, 0.7, 0.05), 20):
        low, high = one.bound(0.95, "lower"), one.bound(0.95, "upper")
        assert low is not None and high is not None and one.value is not None
        assert 0.0 <= low <= one.value <= high <= 1.0
        for limit, side, outwards in ((low, "lower", -1.0), (high, "upper", 1.0)):
            further, nearer = (one.p_value(limit + times * 1e-4, side) for times in (outwards, -outwards))  # type: ignore[arg-type]
            assert further is not None and nearer is not None and further <= 0.0501
            assert nearer >= 0.0499 or limit == one.value


def test_a_draw_that_is_even_is_told_from_one_that_is_not() -> None:
    rng = np.random.default_rng(6)
    ps = []
    for _ in range(400):
        marked, audited, _ = drawn(rng, 600, 100, 0.1, 1.0, 0.0)
        ps.append(p_drawn_evenly(marked, audited))
    assert np.mean(np.array(ps) <= 0.05) <= 0.07
    assert p_drawn_evenly(np.arange(600) < 60, np.arange(600) < 100) < 1e-12
    assert p_drawn_evenly(np.arange(600) < 60, np.arange(600) >= 500) < 1e-3


def test_the_draw_is_hypergeometric() -> None:
    marked, audited = np.arange(50) < 12, (np.arange(50) % 3) == 0
    both = int((marked & audited).sum())
    law = scipy_stats.hypergeom(50, 12, int(audited.sum()))
    expected = min(1.0, 2.0 * min(law.cdf(both), law.sf(both - 1)))
    assert p_drawn_evenly(marked, audited) == pytest.approx(expected)
