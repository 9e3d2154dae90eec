"""The published table of the binomial rule for percentiles (MLPerf's early stopping), number by number."""

from __future__ import annotations

import math

import pytest

from evalspec.stats.tails import at_most

TABLE = {
    # percentile: least n with t = 0, 1, 2, 5, 10, 20, 50 queries over the threshold, at 99 %
    (0.5, 0.99): (7, 11, 14, 22, 35, 59, 128),
    (0.9, 0.99): (44, 64, 81, 127, 197, 325, 681),
    (0.95, 0.99): (90, 130, 165, 259, 398, 656, 1372),
    (0.97, 0.99): (152, 219, 277, 433, 667, 1097, 2293),
    (0.99, 0.99): (459, 662, 838, 1307, 2010, 3304, 6898),
    (0.999, 0.99): (4603, 6636, 8403, 13105, 20140, 33097, 69058),
}
OVER = (0, 1, 2, 5, 10, 20, 50)
OTHERS = [
    (0.9, 0.95, 0, 29), (0.9, 0.95, 1, 46), (0.9, 0.95, 2, 61),
    (0.95, 0.95, 0, 59), (0.95, 0.95, 1, 93), (0.95, 0.95, 2, 124),
    (0.99, 0.95, 0, 299), (0.99, 0.95, 1, 473), (0.99, 0.95, 2, 628), (0.99, 0.95, 5, 1049),
    (0.99, 0.95, 10, 1693), (0.99, 0.95, 20, 2902),
    (0.999, 0.95, 0, 2995), (0.999, 0.95, 1, 4742),
    (0.99, 0.90, 0, 230), (0.99, 0.90, 1, 388), (0.99, 0.90, 2, 531),
]  # fmt: skip
ROWS = [(p, c, t, n) for (p, c), row in TABLE.items() for t, n in zip(OVER, row, strict=True)] + OTHERS


def passes(t: int, n: int, p: float, confidence: float) -> bool:
    """So many over of so many show the percentile."""
    return bool(at_most(t, n, 1.0 - p, 1.0) <= 1.0 - confidence + 1e-12)


@pytest.mark.parametrize(("p", "confidence", "over", "n"), ROWS)
def test_the_least_number_of_queries_for_so_many_over(p: float, confidence: float, over: int, n: int) -> None:
    assert passes(over, n, p, confidence)
    assert not passes(over, n - 1, p, confidence)


@pytest.mark.parametrize(("p", "confidence", "n"), [(p, c, n) for p, c, t, n in ROWS if t == 0])
def test_without_one_over_it_is_a_logarithm(p: float, confidence: float, n: int) -> None:
    assert math.ceil(math.log(1.0 - confidence) / math.log(p)) == n


@pytest.mark.parametrize(
    ("p", "n", "allowed", "reached"),
    [(0.99, 1000, 2, 0.998), (0.99, 5000, 33, 0.9934), (0.99, 10_000, 77, 0.9923), (0.99, 24_576, 209, 0.9915),
     (0.9, 1000, 78, 0.922), (0.9, 10_000, 930, 0.907)],
)  # fmt: skip
def test_what_small_numbers_cost(p: float, n: int, allowed: int, reached: float) -> None:
    assert passes(allowed, n, p, 0.99) and not passes(allowed + 1, n, p, 0.99)
    assert 1.0 - allowed / n == pytest.approx(reached, abs=6e-5)
