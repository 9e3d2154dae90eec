"""Test of one requirement as a run wrote it: everything a verdict needs, decided by arithmetic alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalspec.evidence.frozen import Frozen
from evalspec.evidence.methods import IntervalFamily, family_of, why_no_bound
from evalspec.evidence.metric import Op
from evalspec.evidence.names import asked_of, part_of, quantity_of

Severity = Literal["require", "warn"]


def holds(op: Op, value: float, threshold: float) -> bool:
    """True where a value that is known exactly is where an operator wants it."""
    return {
        "<=": value <= threshold,
        ">=": value >= threshold,
        "<": value < threshold,
        ">": value > threshold,
        "==": value == threshold,
    }[op]


def side_to_pass(op: Op) -> Literal["upper", "lower"]:
    """The bound that has to meet a threshold before a requirement with one passes."""
    return "upper" if op in ("<=", "<") else "lower"


class PartTest(Frozen):
    """One part of a requirement that holds over several (a slice, a column, a class)."""

    part: str
    value: float | None
    n: int
    lower: float | None = Field(None, description="One-sided lower bound at the policy's confidence, metric's unit.")
    upper: float | None = None
    p_pass: float | None = Field(None, description="Evidence that the requirement holds for this part.")
    p_fail: float | None = Field(None, description="Evidence that it is violated for this part.")
    baseline: float | None = None


class Test(Frozen):
    """One requirement and its evidence. Values, bounds and thresholds are in ``unit``.

    For a comparison ``value`` and the bounds are those of the difference (``unit`` pp or the metric's own) or of the
    ratio (``unit`` x), and ``threshold`` is the offset or the factor it is held against; ``candidate`` and
    ``baseline`` are the two values.
    """

    __test__ = False

    name: str = Field(description="<check id>/<metric>[(part)][ vs <model>]: stays when the threshold moves.")
    check: str
    sentence: str
    metric: str
    severity: Severity = "require"
    slo: bool = False
    op: Op
    threshold: float
    unit: str
    metric_unit: str = Field("", description="Unit of `candidate` and `baseline`: the metric's own.")
    written_unit: str = Field("", description="Unit that the requirement is written in, if different.")
    against: str | None = None
    value: float | None = None
    candidate: float | None = None
    baseline: float | None = None
    lower: float | None = None
    upper: float | None = None
    p_pass: float | None = None
    p_fail: float | None = None
    n: int = 0
    n_to_decide: int | None = None
    to_decide: str = Field("", description="Of what so many are needed, such as processes; empty: of what `n` counts.")
    to_decide_now: int | None = Field(None, description="How many of these there were; None: `n`.")
    exact: bool = False
    in_this_run: bool = False
    first: str = Field("", description="Of a fact: what was counted, the first one or two of it by name.")
    method: str = ""
    parts: tuple[PartTest, ...] = ()
    part_unit: str | None = Field(None, description="Unit of the parts where it is not that of the requirement.")
    must_hold: int | None = Field(None, description="At least so many of the parts must hold; None: no parts.")
    invalid: str | None = Field(None, description="Why this measurement is inadmissible.")
    by_surroundings: bool = Field(
        False, description="It is inadmissible since the machine was busy: it may be measured again."
    )
    withhold: str | None = Field(None, description="What the system did that keeps this from PASS, never from FAIL.")
    missing: str | None = Field(None, description="Why there is no value.")
    cause: str = Field("", description="What is behind `invalid`, else `missing`, else `withhold`; empty: not known.")
    notes: tuple[str, ...] = ()
    why: str | None = None
    owner: str | None = None
    sla: str | None = None
    headroom: float | None = Field(None, description="Of an SLO with an SLA beside it: how much looser the SLA is.")

    @property
    def asked(self) -> str:
        """Name of what it asks of its check: ``<metric>[(part)][ vs <model>]``."""
        return asked_of(self.name) or self.metric

    @property
    def quantity(self) -> str:
        """The quantity that it is about, ``<metric>[(part)]``, as it is called in `CheckRecord.measured`."""
        return quantity_of(self.name, self.against) or self.metric

    @property
    def part(self) -> str:
        """The part that it names; empty: none."""
        return part_of(self.quantity)

    @property
    def bound_to_pass(self) -> float | None:
        """The bound that has to meet the threshold before it passes; None: there is none."""
        return self.upper if side_to_pass(self.op) == "upper" else self.lower

    @property
    def family(self) -> IntervalFamily:
        """Kind of its interval."""
        return family_of(self.method)

    @property
    def no_bound(self) -> str:
        """Why there is no bound; empty: there is one."""
        return why_no_bound(self.method)

    @property
    def times_to_decide(self) -> float | None:
        """Multiple of what was measured that would decide it; None: not known."""
        if self.n_to_decide is None:
            return None
        return self.n_to_decide / max(self.n if self.to_decide_now is None else self.to_decide_now, 1)
