from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from evalspec.errors import SpecError
from evalspec.language.requirement import Requirement, parse_requirement, sentence_schema, split_sentence
from tests.language.metrics import METRICS

MODELS = ("candidate", "baseline")


def read(text: str, label_unit: str | None = None, blocking: bool = True) -> Requirement:
    return parse_requirement(text, METRICS, label_unit=label_unit, models=MODELS, blocking=blocking)


@pytest.mark.parametrize(
    ("text", "threshold", "unit"),
    [
        ("accuracy >= 95 %", 0.95, "fraction"),
        ("accuracy >= 0.95", 0.95, "fraction"),
        ("ece <= 0.05", 0.05, "fraction"),
        ("near_duplicates <= 0.5 %", 0.5, "%"),
        ("near_duplicates <= 0", 0, "%"),
        ("exact_duplicates == 0", 0, "rows"),
        ("exact_duplicates <= 0", 0, "rows"),
        ("exact_duplicates == 3 rows", 3, "rows"),
        ("latency_p99 <= 5 ms", 5, "ms"),
        ("latency_p99 <= 5000 us", 5, "ms"),
        ("model_size <= 1 GiB", 1024, "MiB"),
        ("r2 >= -0.5", -0.5, "score"),
        ("speedup >= 2x", 2, "x"),
        ("speedup >= 2 x", 2, "x"),
        ("accuracy_drop <= 1 pp", 1, "pp"),
        ("accuracy_drop <= -1 pp", -1, "pp"),
        ("temperature <= 1.5", 1.5, "score"),
        ("temperature >= 0.5", 0.5, "score"),
        ("parameters == 12", 12, "count"),
        ("mae <= 3", 3, "label"),
    ],
)
def test_a_threshold_is_in_the_metric_s_unit(text: str, threshold: float, unit: str) -> None:
    found = read(text)
    assert (found.threshold, found.unit, found.model, found.sentence) == (threshold, unit, None, text)


@pytest.mark.parametrize(
    ("text", "threshold", "unit", "factor", "is_ratio"),
    [
        ("accuracy >= baseline", 0, "pp", 1, False),
        ("accuracy >= baseline - 2 pp", -2, "pp", 1, False),
        ("accuracy >= baseline - 0", 0, "pp", 1, False),
        ("accuracy >= 0.99x baseline", 0, "x", 0.99, True),
        ("latency_p50 <= 1.2x baseline", 0, "x", 1.2, True),
        ("latency_p50 <= 1.2x baseline + 1 ms", 1, "ms", 1.2, False),
        ("latency_p50 <= baseline + 500 us", 0.5, "ms", 1, False),
        ("r2 >= baseline - 0.02", -0.02, "score", 1, False),
        ("accuracy_drop <= baseline + 1 pp", 1, "pp", 1, False),
    ],
)
def test_a_model_may_stand_on_the_right(text: str, threshold: float, unit: str, factor: float, is_ratio: bool) -> None:
    found = read(text)
    assert (found.model, found.threshold, found.unit, found.factor) == ("baseline", threshold, unit, factor)
    assert found.is_ratio is is_ratio


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("accuracy(dark) >= 88 %", "dark"),
        ("accuracy (dark) >= 88 %", "dark"),
        ("latency_p99(500 qps) <= 5 ms", "500 qps"),
        ("throughput(batch 8) >= 100 samples/s", "batch 8"),
        ("accuracy(fraud (card)) >= 88 %", "fraud (card)"),
        ("accuracy(a >= b) >= 88 %", "a >= b"),
        ("accuracy >= 88 %", None),
    ],
)
def test_parts_stand_in_round_brackets(text: str, part: str | None) -> None:
    assert read(text).part == part


def test_the_label_s_unit_is_the_dataset_s() -> None:
    assert read("mae <= 3 min", "min") == Requirement("mae <= 3 min", "mae", None, "<=", 3, "min")
    assert read("mae <= 180 s", "min").threshold == 3
    assert read("mae <= 10 EUR", "EUR").unit == "EUR"
    assert read("mae <= baseline + 1 min", "min").threshold == 1


def test_a_name_does_not_hold_the_threshold() -> None:
    names = [read(text).name("quality") for text in ("accuracy(dark) >= 88 %", "accuracy >= baseline - 2 pp")]
    assert names == ["quality/accuracy(dark)", "quality/accuracy vs baseline"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("accuracy >= 95", "95 is outside 0..1, the range of accuracy; write 95 %"),
        ("accuracy >= 120 %", "120 % is above 100 %, which accuracy never reaches; correct the number"),
        ("latency_p99 <= -1 ms", "-1 ms is below 0, which latency_p99 never reaches; correct the number"),
        (
            "accuracy >= 100 %",
            "'accuracy >= 100 %' can never pass: no sample can show it; leave room, such as 99.9 %",
        ),
        ("accuracy > 1", "'accuracy > 1' can never pass: no value can; leave room, such as 99.9 %"),
        ("ece <= 0", "'ece <= 0' can never pass: no sample can show it; leave room, such as 0.1 %"),
        ("accuracy >= 0 %", "'accuracy >= 0 %' can never fail: accuracy is never below 0; require more, or remove the "
                            "sentence"),
        ("ece <= 1", "'ece <= 1' can never fail: ece is never above 100 %; require less, or remove the sentence"),
        ("near_duplicates <= 100 %", "'near_duplicates <= 100 %' can never fail: near_duplicates is never above 100 %; "
         "require less, or remove the sentence"),
        ("accuracy>=80%", "'accuracy>=80%' has no spaces around '>='; write accuracy >= 80 %"),
        ("accuracy>=baseline-2pp", "'accuracy>=baseline-2pp' has no spaces around '>='; write accuracy >= baseline - 2 "
         "pp"),
        ("latency_p99<=1.2x baseline", "'latency_p99<=1.2x baseline' has no spaces around '<='; write latency_p99 <= "
         "1.2x baseline"),
        ("accuracy <= 80%", "'<=' points the wrong way: higher accuracy is better; write accuracy >= 80 %"),
        ("exact_duplicates < 0", "'exact_duplicates < 0' can never pass: no value can; leave room"),
        ("accuracy >= baseline - 0.02", "0.02 has no unit: differences of fractions are in pp; write accuracy >= "
         "baseline - 2 pp"),
        ("accuracy >= baseline - 1 %", "'- 1 %' could be points or a share; write accuracy >= baseline - 1 pp, or "
         "accuracy >= 0.99x baseline"),
        ("accuracy >= baseline - 1 ms", "unit 'ms' does not fit a difference of accuracy (choices: pp)"),
        ("accuracy >= baseline-2pp", "'baseline-2pp' is not understood: put spaces around the sign; write accuracy >= "
         "baseline - 2 pp"),
        ("accuracy >= baseline - -2 pp", "- -2 pp has two signs; write one"),
        ("accuracy <= 0.9", "'<=' points the wrong way: higher accuracy is better; write accuracy >= 0.9"),
        ("latency_p99 >= 5 ms", "'>=' points the wrong way: lower latency_p99 is better; write latency_p99 <= 5 ms"),
        ("ece == 0", "ece is estimated from a sample, and '==' is for exact counts; write ece <= and a number above 0"),
        ("ece == 0.05", "ece is estimated from a sample, and '==' is for exact counts; write ece <= 0.05"),
        ("ece<=0.05", "'ece<=0.05' has no spaces around '<='; write ece <= 0.05"),
        ("ece =< 0.05", "'=<' is not an operator of a requirement (choices: <=, >=, ==, <, >); write ece <= 0.05"),
        ("ece ≤ 0.05", "'≤' is not an operator of a requirement (choices: <=, >=, ==, <, >); write ece <= 0.05"),
        ("ece <= 5 pp", "ece is a fraction, and pp is for differences; write 5 %"),
        ("accuracy[dark] >= 88 %", "'accuracy[dark] >= 88 %' has square brackets, which end a list in YAML; write "
         "accuracy(dark) >= 88 %"),
        ("accuracy() >= 88 %", "'accuracy() >= 88 %' has empty brackets; name a part, or leave the brackets out"),
        ("ece(dark) <= 0.05", "ece has no parts, so (dark) names nothing; leave the brackets out"),
        ("near_duplicates <= 0.5", "0.5 has no unit (choices: %); 0.5 % or 50 %?"),
        ("near_duplicates <= 5", "5 has no unit (choices: %); write 5 %"),
        ("latency_p99 <= 5", "5 has no unit (choices: ns, us, ms, s, min, h); write 5 ms"),
        ("latency_p99 <= 5 MiB", "unit 'MiB' does not fit latency_p99 (choices: ns, us, ms, s, min, h)"),
        ("latency_p99 <= 1.2 x baseline", "'1.2 x baseline' is not understood; write latency_p99 <= 1.2x baseline"),
        ("latency_p99 <= 0x baseline", "the factor 0x must be above 0; write such as 1.2x"),
        ("accuracy_drop <= 1 %", "accuracy_drop is a difference of fractions: % does not fit; write 1 pp"),
        ("exact_duplicates == 3", "3 has no unit (choices: rows); write 3 rows"),
        ("r2 >= 0.5 ms", "r2 has no unit, so 'ms' does not fit; write 0.5"),
        ("r2 >= 80 %", "r2 has no unit, so '%' does not fit; write 0.8"),
        ("mae <= 3 min", "mae has the unit of the label, and the dataset names none; add `label_unit: min` to the "
         "dataset, or leave 'min' out"),
        ("latency_mean <= 5 ms", "a mean hides slow queries, so latency_mean can't block (choices: latency_p99); "
                                 "require a percentile, or move the sentence to `warn`"),
        ("accuracy >= basline", "unknown model 'basline' (choices: candidate, baseline); did you mean 'baseline'?"),
        ("acuracy >= 0.9", "unknown metric 'acuracy' (choices: accuracy, ece, latency_p50, latency_p99, latency_mean, "
         "near_duplicates, exact_duplicates, mae, r2, speedup, accuracy_drop, throughput, temperature, parameters, "
         "model_size); did you mean 'accuracy'?"),
        ("ece <= HIGH", "'HIGH' is neither a number with a unit nor a model; write ece <= followed by a number with "
         "its unit or by the name of a model"),
        ("ece", "'ece' is not a requirement; write METRIC[(PART)] OP VALUE [UNIT] or METRIC[(PART)] OP [Kx] MODEL "
         "[+|- VALUE [UNIT]]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_the_remedy(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        read(text)
    assert str(caught.value) == sentence


def test_a_label_with_a_unit_is_never_bare() -> None:
    with pytest.raises(SpecError, match="3 has no unit"):
        read("mae <= 3", "min")
    with pytest.raises(SpecError, match="unknown unit 'hous'"):
        read("mae <= 3 hous", "min")


def test_a_mean_may_warn() -> None:
    assert read("latency_mean <= 5 ms", blocking=False).threshold == 5


PIECES = st.sampled_from(
    [metric.name for metric in METRICS]
    + ["(", ")", "dark", " ", "<=", ">=", "==", "<", "=<", "baseline", "x", "1.2x", "0", "95", "-3", "1e9", "%", "pp"]
    + ["ms", "qps", "+", "-", "nan", "inf", "[", "é", "\n", "\u0661"]
)


@given(st.lists(PIECES, max_size=9).map(" ".join) | st.lists(PIECES, max_size=9).map("".join) | st.text(max_size=40))
def test_no_sentence_breaks_the_parser(text: str) -> None:
    for label_unit in (None, "min", "EUR"):
        try:
            found = read(text, label_unit)
        except SpecError as error:
            assert len(error.problems) == 1
        else:
            assert found.threshold == found.threshold
            assert abs(found.threshold) < float("inf")
            assert split_sentence(found.sentence).metric == found.metric


def test_an_editor_completes_beginnings_and_accepts_whole_sentences() -> None:
    validator = Draft202012Validator(sentence_schema(METRICS))
    for text in ("accuracy >= ", "accuracy(", "exact_duplicates == ", "accuracy(dark) >= 88 %", "ece <= baseline"):
        assert validator.is_valid(text), text
    for text in ("acuracy >= 0.9", "accuracy", "ece == ", 3):
        assert not validator.is_valid(text), text
