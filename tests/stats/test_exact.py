"""Facts beside each other are decided by themselves."""

from __future__ import annotations

from evalspec.evidence.estimate import Estimate
from evalspec.stats.exact import Exact, ExactPair


def test_a_known_number_is_an_estimate_without_doubt() -> None:
    known = Exact(4.0, 1, "counted")
    assert isinstance(known, Estimate) and known.exact
    assert known.bound(0.95, "lower") == known.bound(0.999, "upper") == 4.0
    assert (known.p_value(5.0, "upper"), known.p_value(5.0, "lower")) == (0.0, 1.0)
    assert (known.p_value(3.0, "upper"), known.p_value(3.0, "lower")) == (1.0, 0.0)


def test_more_of_the_same_decides_nothing() -> None:
    assert Exact(4.0, 1, "counted").n_to_decide(5.0, 0.05) is None


def test_two_facts() -> None:
    pair = ExactPair(420.0, 1060.0, 1, "counted", in_this_run=True)
    assert pair.difference(0.5, 0.0).value == -110.0 and pair.difference(1.0, 0.0).in_this_run
    ratio = pair.ratio()
    assert ratio is not None and ratio.value == 420.0 / 1060.0
    assert ExactPair(1.0, 0.0, 1, "counted").ratio() is None
