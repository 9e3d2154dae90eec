"""Gains and losses of a candidate beside its baselines."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.record import CheckRecord, Record
from evalspec.verdict import decide
from evalspec.verdict.trade import Trade, trades
from tests.verdict.test_decide import a_record, a_test


def against(metric: str, value: float, lower: float | None, upper: float | None, **fields: Any) -> Any:
    given = {"op": ">=", "threshold": -0.01, "unit": "pp", "against": "baseline"} | fields
    name = f"quality/{metric} vs baseline" if given["against"] else f"quality/{metric}"
    return a_test("quality", metric, name=name, value=value, lower=lower, upper=upper, **given)


def of(*tests: Any, **fields: Any) -> Record:
    given = {"models": ("candidate", "baseline"), "baseline_models": ("baseline",), "status": "measured"} | fields
    check = CheckRecord.model_validate(
        {"id": "quality", "check": "quality", "dimension": "model", "tests": tests} | given
    )
    record = a_record(check)
    return record.model_copy(update={"verdict": decide(record)})


def one(*tests: Any, **fields: Any) -> Trade:
    (trade,) = trades(of(*tests, **fields))
    return trade


FASTER = against("latency_p50", 0.5, 0.45, 0.55, op="<=", threshold=1.2, unit="x")
WORSE = against("accuracy", -0.8, -1.0, -0.2)
UNCLEAR = against("f1", 0.1, -0.4, 0.6)
SMALLER = against("size_ratio", 3.9, None, None, op=">=", threshold=2.0, unit="x", against=None, exact=True)


def test_a_gain_that_comes_with_a_loss_is_called_a_trade() -> None:
    trade = one(FASTER, WORSE, UNCLEAR)
    assert trade.named("gain") == ("latency_p50 (0.5x)",)
    assert trade.named("loss") == ("accuracy (−0.8 pp)",)
    assert trade.on_front == ("candidate", "baseline")
    assert trade.sentence.startswith(
        "A trade against baseline: better in latency_p50 (0.5x), worse in accuracy (−0.8 pp)."
    )
    assert trade.sentence.endswith("Not shown either way: f1 (+0.1 pp).")


def test_the_better_model_alone_is_on_the_front() -> None:
    assert one(FASTER, UNCLEAR).on_front == ("candidate",)
    assert one(WORSE, UNCLEAR).on_front == ("baseline",)
    assert one(UNCLEAR).on_front == ("candidate", "baseline")
    assert one(UNCLEAR).sentence.startswith("No difference from baseline is shown")


def test_metrics_that_compare_by_themselves_and_facts() -> None:
    lost = against("accuracy_drop", 1.5, 0.6, 2.4, op="<=", threshold=2.0, against=None)
    trade = one(SMALLER, lost)
    assert (trade.named("gain"), trade.named("loss")) == (("size_ratio (3.9x)",), ("accuracy_drop (+1.5 pp)",))


def test_what_is_not_to_be_trusted_is_no_gain() -> None:
    void = FASTER.model_copy(update={"invalid": "the machine was busy"})
    missing = SMALLER.model_copy(update={"missing": "no files", "value": None})
    trade = one(void, missing)
    assert [objective.state for objective in trade.objectives] == ["not measured", "not measured"]
    assert one(FASTER, status="error", reason="it crashed").objectives[0].state == "not measured"


def test_without_another_model_there_is_no_trade() -> None:
    assert trades(of(a_test())) == ()


BLEU = against("bleu", 0.5, 0.2, 0.8, threshold=0.0, unit="score", n=2000)
SLOWER = against("latency_p50", 4.0, 3.8, 4.2, op="<=", threshold=1.2, unit="x", p_pass=1.0, p_fail=1e-9)
SURER = against("ece", 0.058, 0.05, 0.066, op="<=", threshold=0.02, unit="fraction", p_pass=1.0, p_fail=1e-9)
RIGHT = against("accuracy", 2.1, 1.5, 2.7)
HUNGRY = against("energy_per_inference", 1.4, 1.35, 1.45, op="<=", threshold=1.1, unit="x", p_pass=1.0, p_fail=1e-9)
OUTSIDE = against("ood_gap", 25.0, 20.0, 30.0, op="<=", threshold=5.0, p_pass=1.0, p_fail=1e-9)
MORE = against("throughput", 1.2, 1.15, 1.25, threshold=1.0, unit="x")
A_WATT = against("throughput_per_watt", 0.514, 0.5, 0.53, threshold=0.9, unit="x", p_pass=1.0, p_fail=1e-9)


@pytest.mark.parametrize(
    ("tests", "gained", "lost"),
    [
        ((BLEU, SLOWER), ("bleu (+0.5)",), ("latency_p50 (4x)",)),
        ((FASTER, SURER), ("latency_p50 (0.5x)",), ("ece (+0.058)",)),
        ((RIGHT, HUNGRY, OUTSIDE), ("accuracy (+2.1 pp)",), ("energy_per_inference (1.4x)", "ood_gap (+25 pp)")),
        ((MORE, A_WATT), ("throughput (1.2x)",), ("throughput_per_watt (0.514x)",)),
    ],
)
def test_gains_that_come_with_regressions_are_named(
    tests: tuple[Any, ...], gained: tuple[str, ...], lost: tuple[str, ...]
) -> None:
    """A better translation at four times the time; a faster copy that is too sure; a better score that eats more power
    and fails elsewhere; more queries at half as many a watt."""
    trade = one(*tests)
    assert (trade.named("gain"), trade.named("loss")) == (gained, lost)
    assert trade.sentence.startswith("A trade against baseline: better in ")
    assert trade.on_front == ("candidate", "baseline")
    # The gain does not pay for what is required and lost.
    verdict = of(*tests).verdict
    assert verdict is not None and verdict.word == "NOT READY"
