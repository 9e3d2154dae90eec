"""Sentences that no value, or every value, would meet are refused, beside those that only look so."""

from __future__ import annotations

import pytest

from evalspec.checks.data.shift.spec import Shift
from evalspec.checks.model.compression.spec import Compression
from evalspec.errors import SpecError
from evalspec.evidence.metric import Metric
from evalspec.language.parts import Check
from evalspec.language.reach import check_rows
from evalspec.language.requirement import parse_requirement

METRICS = (
    Metric("accuracy", "fraction", "higher", ""),
    Metric("error_rate", "%", "lower", ""),
    Metric("missingness_shift", "pp", "lower", ""),
    Metric("drifted", "%", "lower", "", edge_shown=True),
    Metric("headroom", "pp", "higher", ""),
    Metric("class_association", "score", "lower", "", exact=True, most=1.0),
    Metric("kappa", "score", "higher", "", least=-1.0),
    Metric("log_loss", "score", "lower", "", least=0.0),
    Metric("relative_difference", "%", "lower", "", exact=True, most=float("inf")),
    Metric("power", "W", "lower", ""),
    Metric("copies", "rows", "lower", "", exact=True),
    Metric("smallest", "rows", "higher", "", exact=True),
)
LESS = "require less, or remove the sentence"
MORE = "require more, or remove the sentence"


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("accuracy >= 0", f"can never fail: accuracy is never below 0; {MORE}"),
        ("error_rate < 100 %", f"can never fail: error_rate is never above 100 %; {LESS}"),
        ("error_rate <= 100 %", f"can never fail: error_rate is never above 100 %; {LESS}"),
        ("missingness_shift <= 100 pp", f"can never fail: missingness_shift is never above 100 pp; {LESS}"),
        ("headroom >= -100 pp", f"can never fail: headroom is never below −100 pp; {MORE}"),
        ("headroom >= 100 pp", "can never pass: no sample can show it; leave room"),
        ("class_association <= 1", f"can never fail: class_association is never above 1; {LESS}"),
        ("class_association <= 1.5", "1.5 is above 1, which class_association never reaches; correct the number"),
        ("kappa >= -1", f"can never fail: kappa is never below −1; {MORE}"),
        ("log_loss <= 0", "can never pass: no sample can show it; leave room"),
        ("copies == 2.5 rows", "'copies == 2.5 rows' can never pass: copies is a whole number"),
        ("power <= 0 W", "can never pass: no sample can show it; leave room"),
        ("smallest >= 0 rows", f"can never fail: smallest is never below 0; {MORE}"),
        ("accuracy >= baseline - 100 pp", f"can never fail: accuracy is between 0 and 1; {MORE}"),
        ("accuracy >= 0.5x baseline - 50 pp", f"can never fail: accuracy is between 0 and 1; {MORE}"),
        ("accuracy >= baseline + 100 pp", "can never pass: accuracy is between 0 and 1; correct the number"),
        ("error_rate <= baseline + 100 pp", f"can never fail: error_rate is between 0 and 1; {LESS}"),
        ("error_rate <= baseline - 100 pp", "can never pass: error_rate is between 0 and 1; correct the number"),
    ],
)
def test_what_can_only_end_in_one_way_is_refused(sentence: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_requirement(sentence, METRICS, models=("baseline",))
    assert str(caught.value).endswith(said)


@pytest.mark.parametrize(
    "sentence",
    [
        "accuracy >= 0.1 %", "accuracy >= baseline - 99 pp", "accuracy >= 0.5x baseline - 49 pp", "error_rate <= 99 %",
        "accuracy >= baseline", "missingness_shift <= 99 pp", "headroom >= 0 pp", "class_association <= 0.99",
        "class_association <= 0", "kappa >= 0", "class_association < 1", "drifted <= 0 %",
        "copies == 0", "copies <= 0", "smallest >= 1 rows", "log_loss <= 0.1",
        "relative_difference <= 100 %", "relative_difference <= 250 %",
    ],
)  # fmt: skip
def test_what_can_end_in_both_ways_is_not(sentence: str) -> None:
    assert parse_requirement(sentence, METRICS, models=("baseline",)).sentence == sentence


@pytest.mark.parametrize(
    ("sentence", "never"),
    [
        ("copies <= 600 rows", "fail"), ("copies <= 5000 rows", "fail"), ("copies < 601 rows", "fail"),
        ("copies <= 599 rows", None), ("copies < 600 rows", None), ("copies == 0", None), ("copies == 600 rows", None),
        ("copies == 601 rows", "pass"), ("smallest >= 601 rows", "pass"), ("smallest > 600 rows", "pass"),
        ("smallest >= 600 rows", None),
    ],
)  # fmt: skip
def test_a_count_of_rows_is_held_against_the_rows_that_there_are(sentence: str, never: str | None) -> None:
    requirement = parse_requirement(sentence, METRICS)
    assert check_rows(requirement, "test", None) is None
    if never == "fail":
        with pytest.raises(SpecError) as caught:
            check_rows(requirement, "test", 600)
        assert str(caught.value) == f"{sentence!r} can never fail: test has 600 rows in all; {LESS}"
    else:
        assert check_rows(requirement, "test", 600) == ("test has 600 rows in all" if never else None)


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        # No column moved further than the tolerance: shown where each was shown to be within it.
        (Shift, "drifted_columns <= 0 %"),
        # A difference, which is below 0 where the candidate is the better one.
        (Compression, "ece_increase <= 0"), (Compression, "accuracy_drop <= 0 pp"),
    ],
)  # fmt: skip
def test_that_nothing_got_worse_may_be_required(check: type[Check], sentence: str) -> None:
    assert parse_requirement(sentence, check.metrics).threshold == 0
