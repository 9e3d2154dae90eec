"""Claims: what they leave out, the costs that they hide, and that nothing is ever decided from them."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.policy import Claim
from evalspec.evidence.record import CheckRecord, ModelRecord, Record
from evalspec.verdict import decide
from evalspec.verdict.claims import Examined, examine, only_claimed
from tests.verdict.test_decide import FAILING, PASSING, UNDECIDED, a_check, a_record, a_test

WHOLE = {
    "model": "candidate", "device": "npu", "precision": "int8", "batch": 1, "boundary": "end_to_end",
    "duration": "10 min", "workload": "street pictures", "quality": "accuracy 0.97", "power_limit": "15 W",
}  # fmt: skip
"""Everything that a claim must state, as this run has it."""
MODEL = ModelRecord(name="candidate", kind="onnx", digest="ab" * 32, precision="int8", device="npu")


def timed(id: str = "throughput", **fields: Any) -> CheckRecord:
    given: dict[str, Any] = {
        "id": id, "check": id, "dimension": "system", "status": "measured", "models": ("candidate",),
        "conditions": {"batch": 1}, "measured": {"throughput": 500.0}, "units": {"throughput": "samples/s"},
    }  # fmt: skip
    return CheckRecord.model_validate(given | fields)


SUSTAINED = timed("sustained", measured={"sustained_ratio": 0.444}, units={"sustained_ratio": "x"})
SHARES = {"stage_share(resize)": 30.0, "stage_share(copy_to_device)": 25.0, "stage_share(inference)": 40.0}
STAGES = timed("stages", measured=SHARES)
PRECISION = timed("precision", measured={"operator_coverage": 91.0})
COLD = timed("cold_start", measured={"load_time": 1.2}, units={"load_time": "s"})


def a_claim(value: str = "1,000 images/s", metric: str = "throughput", **fields: Any) -> Claim:
    return Claim.model_validate({"metric": metric, "value": value, "by": "vendor", "conditions": WHOLE} | fields)


def of(*claims: Claim, checks: tuple[CheckRecord, ...] = (timed(),), **fields: Any) -> Record:
    return a_record(*checks, **({"models": (MODEL,), "claims": claims} | fields))


def one(claim: Claim, *checks: CheckRecord, doubts: dict[str, set[str]] | None = None) -> Examined:
    (found,) = examine(of(claim, checks=checks or (timed(),)), doubts or {})
    return found


def test_a_claim_that_states_everything_stands_beside_the_same_quantity() -> None:
    found = one(a_claim())
    assert (found.check, found.measured, found.times, found.alike) == ("throughput", "500 samples/s", 2.0, True)
    assert (found.leaves_out, found.differs, found.findings) == ((), (), ())


def test_what_a_claim_does_not_state_is_listed() -> None:
    bare = one(a_claim(conditions={}))
    assert not bare.alike and bare.times == 2.0
    assert bare.leaves_out == (
        "model", "device", "precision", "batch", "boundary", "duration", "workload", "quality", "power limit",
    )  # fmt: skip
    assert one(a_claim(conditions={"dataset": "x", "tdp": "5 W", "scope": "all", "hardware": "a"})).leaves_out == (
        "model", "precision", "batch", "duration", "quality",
    )  # fmt: skip
    # How large a file is does not hang on the batch; a latency needs no duration.
    assert one(a_claim("4 MB", "model_size", conditions={})).leaves_out == ("model", "precision")
    assert "duration" not in one(a_claim("5 ms", "latency_p50", conditions={})).leaves_out


PEAK, ALONE = "not a sustained rate.", "The accelerator alone, without input and output."
KEPT = "Kept up here: 0.444x of the start (sustained)."


def said(**conditions: Any) -> Claim:
    return a_claim(conditions=WHOLE | conditions)


@pytest.mark.parametrize(
    ("claim", "check", "what", "shown"),
    [
        (a_claim("up to 1,000 images/s"), SUSTAINED, f"A peak, {PEAK}", KEPT),
        (said(duration="2 s"), SUSTAINED, f"A burst (2 s), {PEAK}", KEPT),
        (said(duration="burst"), SUSTAINED, f"A burst (burst), {PEAK}", KEPT),
        (
            said(boundary="accelerator only"), STAGES, ALONE,
            "Here that is 55 % of a query: resize and copy_to_device (stages).",
        ),
        (a_claim(excludes=("transfer",)), STAGES, "Without transfer.", "Here that is 25 % of a query: copy_to_device"),
        (a_claim(excludes=("load", "host_power")), COLD, "Without load and host power.", "load_time here: 1.2 s"),
        (said(batch="max"), timed("other"), "At the batch size that looks best;", "here it is 1."),
        (said(batch=64), timed("other"), "At batch 64, where a row waits for the others;", "here it is 1."),
        (said(precision="int4"), timed("other"), "int4 gives different answers from int8,", "which is what ran here"),
        (
            said(boundary="per operation"), PRECISION, "Of one operation, while a network has many.",
            "91 % of this network's operators ran on the device (precision).",
        ),
    ],
)  # fmt: skip
def test_costs_that_a_claim_hides_are_named(claim: Claim, check: CheckRecord, what: str, shown: str) -> None:
    found = one(claim, timed(), check)
    (hidden,) = found.findings
    assert hidden.startswith(what) and shown in hidden
    assert not found.alike and found.times == 2.0
    (alone,) = one(claim).findings
    # Without the check that shows it, it says which one would.
    assert alone.startswith(what) and (f"A check `{check.id}` would" in alone or shown in alone or check is COLD)
    # The clean twin hides nothing.
    assert one(a_claim(), timed(), check).findings == ()


@pytest.mark.parametrize(
    ("value", "conditions", "found"),
    [
        ("8 TOPS", {"precision": "int8"}, ()),
        ("15 TOPS", {"precision": "int4"}, ("int4 gives different answers from int8",)),
        (
            "up to 10,000 images/s",
            {"batch": "max", "precision": "int8"},
            ("A peak", "At the batch size that looks best"),
        ),
        ("sub-millisecond", {"boundary": "accelerator only"}, ("A peak", "The accelerator alone")),
        ("5x efficient", {"boundary": "per operation"}, ("Of one operation",)),
    ],
)
def test_data_sheets_are_not_commensurable(value: str, conditions: dict[str, Any], found: tuple[str, ...]) -> None:
    """Whatever was measured: each says what it leaves out."""
    for checks in ((timed(),), (timed("quality", measured={}),)):
        seen = one(a_claim(value, "vendor_score", conditions=conditions), *checks)
        assert (seen.check, seen.times, seen.alike) == ("", None, False)
        assert len(seen.findings) == len(found)
        assert all(line.startswith(start) for line, start in zip(seen.findings, found, strict=True))
        assert {"model", "device", "workload", "quality"} <= set(seen.leaves_out)


def test_what_is_in_doubt_shows_nothing() -> None:
    void = a_test("stages", "stage_share", invalid="the machine was busy")
    hidden = a_claim(conditions=WHOLE | {"boundary": "npu"})
    (finding,) = one(hidden, timed(), STAGES.model_copy(update={"tests": (void,)})).findings
    assert "would show" in finding
    found = one(a_claim(), doubts={"throughput": {"throughput"}})
    assert not found.trusted and not found.alike


def test_the_nearest_measurement_stands_beside_it() -> None:
    many = timed(
        "many", measured={"throughput": 900.0, "throughput(batch 64)": 800.0, "best_batch": 128},
        units={"throughput": "samples/s", "throughput(batch 64)": "samples/s"}, conditions={},
    )  # fmt: skip
    found = one(a_claim(conditions=WHOLE | {"batch": 64}), timed(), many)
    assert (found.check, found.measured, found.differs) == ("many", "800 samples/s", ())
    of_another = one(
        a_claim(conditions=WHOLE | {"device": "gpu", "threads": 8}), timed(conditions={"threads": 1, "batch": 1})
    )
    assert of_another.differs == ("device npu, not gpu", "threads 1, not 8")
    baseline = one(a_claim(conditions=WHOLE | {"model": "baseline"}))
    assert baseline.check == "throughput" and baseline.differs == ("model candidate, not baseline",)


def test_of_a_model_of_the_spec_only_its_own_numbers_count() -> None:
    other = ModelRecord(name="baseline", kind="onnx", digest="cd" * 32)
    record = of(a_claim(conditions=WHOLE | {"model": "baseline"}), models=(MODEL, other))
    assert examine(record, {})[0].check == ""


@pytest.mark.parametrize(
    ("value", "times"), [("0.5 samples/ms", None), ("1000 qps", None), ("fast", None), ("1e3 FPS", 2.0), ("250", None)]
)
def test_numbers_of_other_units_are_not_divided(value: str, times: float | None) -> None:
    assert one(a_claim(value)).times == times


def test_what_is_not_shown_here_is_not_the_same() -> None:
    unknown = MODEL.model_copy(update={"precision": None})
    (found,) = examine(of(a_claim(conditions=WHOLE | {"cooling": "fan"}), models=(unknown,)), {})
    assert found.differs == (
        "a precision that is not shown, while int8 is claimed", "a cooling that is not shown, while fan is claimed",
    )  # fmt: skip
    assert not found.alike


@pytest.mark.parametrize("value", ["fast", "250"])
def test_a_claim_without_a_number_in_the_unit_says_so(value: str) -> None:
    found = one(a_claim(value))
    assert found.findings == (f"No number in samples/s can be read from '{value}'.",) and not found.alike
    quality = timed("quality", dimension="model", measured={"accuracy": 0.709}, units={"accuracy": "fraction"})
    assert "No number can be read from 'fast'." in one(a_claim("fast", "accuracy"), quality).findings


def test_the_measured_number_stands_with_its_interval() -> None:
    test = a_test("throughput", unit="samples/s", value=500.0, lower=480.0, upper=None, n=5)
    assert one(a_claim(), timed(tests=(test,))).measured == "500 samples/s"
    named = test.model_copy(update={"name": "throughput/throughput"})
    assert one(a_claim(), timed(tests=(named,))).measured == "500 samples/s (n 5, at least 480 samples/s)"


def test_shares_may_stand_bare_or_in_percent() -> None:
    quality = timed("quality", dimension="model", measured={"accuracy": 0.709}, units={"accuracy": "fraction"})
    for value in ("0.709", "70.9 %"):
        assert one(a_claim(value, "accuracy"), quality).times == pytest.approx(1.0)


def both(metric: str, before: str, after: str, **conditions: Any) -> tuple[Claim, Claim]:
    return (
        a_claim(before, metric, conditions={"model": "baseline", "precision": "fp32", "batch": 1} | conditions),
        a_claim(after, metric, conditions={"model": "candidate", "precision": "int8", "batch": 1} | conditions),
    )


@pytest.mark.parametrize(
    ("metric", "before", "after", "ratio", "rate"),
    [
        ("latency_p50", "120 ms", "35 ms", "3.429x", ("8.333", "28.57")),
        ("model_size", "14 MB", "3.5 MB", "4x", None),
        ("energy_per_inference", "3353 uJ", "621 uJ", "5.399x", None),
        ("energy_of_memory", "2243 uJ", "561 uJ", "3.998x", None),
        ("energy_of_arithmetic", "1110 uJ", "60 uJ", "18.5x", None),
        ("latency_p50", "0.015 s", "2 ms", "7.5x", ("66.67", "500")),
        ("energy_per_inference", "1.8 mJ", "1 mJ", "1.8x", None),
        ("active_power", "500 mW", "120 mW", "4.167x", None),
    ],
)
def test_what_follows_from_claims_is_worked_out(
    metric: str, before: str, after: str, ratio: str, rate: tuple[str, str] | None
) -> None:
    claims = both(metric, before, after)
    first, second = examine(of(*claims, checks=(a_check(),)), {})
    assert f"Of model baseline the same maker claims {before}: {ratio} this." in second.follows
    rates = [f"One at a time that is {each} samples/s." for each in rate or ()]
    assert [line for found in (first, second) for line in found.follows if "One at a time" in line] == rates
    sentence = only_claimed(of(*claims), "candidate", "baseline")
    assert sentence == f"Claimed, but not shown here: {metric} {after} against {before} ({ratio})."
    assert only_claimed(of(claims[0]), "candidate", "baseline") == ""


@pytest.mark.parametrize(
    ("part", "whole", "conditions", "share"),
    [
        ("2243 uJ", "3353 uJ", {}, "66.9 %"),
        ("561 uJ", "0.621 mJ", {}, "90.34 %"),
        ("561 uJ", "621 uJ", {"batch": 8}, None),
        ("561 uJ", "35 ms", {}, None),
        ("621 uJ", "561 uJ", {}, None),
    ],
)
def test_a_part_of_what_is_claimed_is_told_as_a_share(
    part: str, whole: str, conditions: dict[str, Any], share: str | None
) -> None:
    said = {"model": "candidate", "precision": "int8", "batch": 1}
    claims = (
        a_claim(part, "energy_of_memory", conditions=said),
        a_claim(whole, "energy_per_inference", conditions=said | conditions),
    )
    found = [line for line in examine(of(*claims), {})[0].follows if "for energy_per_inference" in line]
    expected = f"That is {share} of the {whole} that the same maker claims for energy_per_inference."
    assert found == ([] if share is None else [expected])


def test_claims_of_different_things_are_not_divided() -> None:
    before, after = both("latency_p50", "120 ms", "35 ms")
    for other in ({"by": "somebody"}, {"metric": "latency_p99"}, {"conditions": before.conditions | {"batch": 8}}):
        changed = before.model_copy(update=other)
        assert not any("the same maker" in line for found in examine(of(changed, after), {}) for line in found.follows)
    unsaid = before.model_copy(update={"conditions": {"batch": 1}})
    assert not any("the same maker" in line for found in examine(of(unsaid, after), {}) for line in found.follows)


@pytest.mark.parametrize(
    ("latency", "power", "energy", "sentence"),
    [
        ("15 ms", "120 mW", "1.8 mJ", "With 120 mW that is 1.8 mJ, as is claimed."),
        ("2 ms", "500 mW", None, "With 500 mW that is 1 mJ."),
        ("2 ms", "500 mW", "0.4 mJ", "With 500 mW that is 1 mJ, and 0.4 mJ is claimed."),
    ],
)
def test_power_for_a_while_is_energy(latency: str, power: str, energy: str | None, sentence: str) -> None:
    claims = [a_claim(latency, "latency_p50"), a_claim(power, "active_power")]
    claims += [a_claim(energy, "energy_per_inference")] if energy else []
    assert sentence in examine(of(*claims), {})[0].follows


@pytest.mark.parametrize("status", ["not_run", "error", "invalid"])
def test_a_claimed_number_never_stands_in_for_a_measured_one(status: Any) -> None:
    missing = a_test(value=None, lower=None, upper=None, p_pass=None, p_fail=None, n=0)
    for checks in (
        (a_check(missing, status=status, reason="there is nothing to time"),),
        (a_check(a_test(**UNDECIDED)),),
        (a_check(a_test(**FAILING)), a_check(a_test("other", **PASSING), id="other")),
    ):
        bare = a_record(*checks)
        claimed = bare.model_copy(update={"claims": (a_claim("99 %", "accuracy"), a_claim("0.99", "quality/accuracy"))})
        assert decide(claimed) == decide(bare)
        assert decide(claimed).word != "READY"
