from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.test import Test
from evalspec.starting.drafts import Ask
from evalspec.starting.thresholds import measured, unmeasured


def test_of(op: Any, value: float | None, bound: float | None, unit: str = "fraction", **more: Any) -> Test:
    side = {"lower": bound} if op == ">=" else {"upper": bound}
    return Test(
        name="quality/x", check="quality", sentence="s", metric="x", op=op, threshold=0.0, unit=unit, value=value,
        n=228, **side, **more,
    )  # fmt: skip


test_of.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("start", "test", "threshold"),
    [
        ("x >=", test_of(">=", 0.982, 0.9499), "94 %"),
        ("x >=", test_of(">=", 0.9999, 0.9951), "99.5 %"),
        ("x <=", test_of("<=", 0.025, 0.0547), "6 %"),
        ("x <=", test_of("<=", 0.0, 0.004), "0.4 %"),
        ("x >= baseline -", test_of(">=", 0.0, -1.3, "pp"), "2 pp"),
        ("x >= baseline -", test_of(">=", 3.0, 2.0, "pp"), "1 pp"),
        ("x <=", test_of("<=", 0.0883, 0.0962, "label"), "0.097"),
        ("x <=", test_of("<=", 1234.0, 1291.0, "label"), "1300"),
        ("x >=", test_of(">=", 0.43, -0.334, "score"), "-0.34"),
    ],
)
def test_the_bound_is_rounded_to_the_side_that_leaves_room(start: str, test: Test, threshold: str) -> None:
    ask = measured(Ask(start, blocking=True, otherwise="1"), test)
    assert ask.threshold == threshold
    assert ask.comment.endswith("yours to decide")


def test_what_says_nothing_is_left_out_with_its_reason() -> None:
    ask = Ask("x >=", blocking=True, otherwise="90 %")
    assert (
        measured(ask, test_of(">=", 0.2, 0.004)).left_out
        == "with 228 rows the lower bound is 0.4 %, which is uninformative"
    )
    assert measured(ask, test_of(">=", None, None, missing="no rows of it")).left_out == "no rows of it"
    assert measured(ask, test_of(">=", 0.9, None)).left_out == "there is no bound for 228 rows"
    told = measured(ask, test_of(">=", 0.99, 0.6)).comment
    assert told == "measured 99.0 % on 228 rows, lower bound 60.0 % (few rows: the bound is wide): yours to decide"


def test_the_comment_never_contradicts_the_threshold() -> None:
    assert "lower bound 94.9 %" in measured(Ask("x >=", True, "1 %"), test_of(">=", 0.982, 0.9499)).comment


def test_times_are_rounded_up_to_1_2_or_5() -> None:
    ask = Ask("x <=", blocking=False, otherwise="100 ms", times=3, timed=True)
    assert unmeasured(ask, 0.0021).threshold == "10 ms"
    assert unmeasured(ask, 0.0001).threshold == "0.5 ms"
    assert unmeasured(ask).threshold == "100 ms"
    assert unmeasured(ask).comment == "not measured: yours to decide"
