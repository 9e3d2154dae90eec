"""Gains and losses of the candidate against each other model, on every objective that the spec names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from evalspec.evidence.record import CheckRecord, Record
from evalspec.evidence.test import Test
from evalspec.evidence.units import format_quantity
from evalspec.evidence.words import and_list
from evalspec.evidence.written import as_written
from evalspec.lineage.declared import declared

State = Literal["gain", "loss", "not shown", "not measured"]


@dataclass(frozen=True, slots=True)
class Objective:
    """One requirement that compares two models.

    Args:
        name: Of the requirement.
        metric: Of it, with its part.
        state: Whether a gain or a loss is shown at the policy's confidence.
        change: Difference or ratio, in words.
        status: Of the requirement.
    """

    name: str
    metric: str
    state: State
    change: str
    status: str


@dataclass(frozen=True, slots=True)
class Trade:
    """The candidate beside one other model.

    Args:
        model: The candidate.
        baseline: The other model.
        objectives: In the spec's order.
    """

    model: str
    baseline: str
    objectives: tuple[Objective, ...]

    def named(self, state: State) -> tuple[str, ...]:
        """Objectives in this state, with their change."""
        return tuple(f"{one.metric} ({one.change})" for one in self.objectives if one.state == state)

    @property
    def on_front(self) -> tuple[str, ...]:
        """Models that no other of the two is shown to beat without a loss: the Pareto set."""
        gains, losses = self.named("gain"), self.named("loss")
        if gains and not losses:
            return (self.model,)
        return (self.baseline,) if losses and not gains else (self.model, self.baseline)

    @property
    def sentence(self) -> str:
        """Gain and cost, in one sentence."""
        gains, losses = self.named("gain"), self.named("loss")
        open_ = self.named("not shown")
        if gains and losses:
            words = (
                f"A trade against {self.baseline}: better in {and_list(gains)}, worse in {and_list(losses)}. "
                "Neither model is better in everything; people must decide whether the gain is worth the loss"
            )
        elif gains:
            words = f"Better than {self.baseline} in {and_list(gains)}, and not shown to be worse in anything"
        elif losses:
            words = f"Worse than {self.baseline} in {and_list(losses)}, and not shown to be better in anything"
        else:
            words = f"No difference from {self.baseline} is shown"
        return f"{words}. Not shown either way: {and_list(open_)}." if open_ else f"{words}."


def trades(record: Record) -> tuple[Trade, ...]:
    """The subject beside each model that a requirement names, numbers that are not judged left out.

    Args:
        record: A record with its verdict.
    """
    status = {} if record.verdict is None else {one.name: one.status for one in record.verdict.decisions}
    found: dict[tuple[str, str], list[Objective]] = {}
    for check in record.checks:
        model = next((name for name in check.models if name not in check.baseline_models), None)
        for test in check.tests:
            other = _other(check, test)
            if model is not None and other is not None:
                objective = _objective(check, test, status.get(test.name, ""))
                found.setdefault((model, other), []).append(objective)
    return tuple(Trade(model, other, tuple(objectives)) for (model, other), objectives in found.items())


def _other(check: CheckRecord, test: Test) -> str | None:
    if test.against is not None:
        return test.against
    return check.baseline_models[0] if test.metric in declared(check).neutral and check.baseline_models else None


def _objective(check: CheckRecord, test: Test, status: str) -> Objective:
    metric = test.quantity
    trusted = check.status == "measured" and test.invalid is None and test.missing is None and test.value is not None
    if not trusted or status == "INVALID":
        return Objective(test.name, metric, "not measured", "", status)
    return Objective(test.name, metric, _state(check, test), _change(test), status)


def _state(check: CheckRecord, test: Test) -> State:
    neutral = declared(check).neutral.get(test.metric, 1.0 if test.unit == "x" else 0.0)
    lower, upper = (test.value, test.value) if test.exact else (test.lower, test.upper)
    above, below = lower is not None and lower > neutral, upper is not None and upper < neutral
    if not above and not below:
        return "not shown"
    return "gain" if above == (test.op in (">=", ">")) else "loss"


def _change(test: Test) -> str:
    test = as_written(test)
    assert test.value is not None
    sign = "+" if test.unit != "x" and test.value > 0 else ""
    return sign + format_quantity(test.value, test.unit)
