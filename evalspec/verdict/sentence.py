"""One sentence for each requirement, for people."""

from __future__ import annotations

from evalspec.evidence.digits import decimals_for
from evalspec.evidence.test import PartTest, Test
from evalspec.evidence.units import format_quantity
from evalspec.evidence.verdict import Status
from evalspec.evidence.words import duration

TOO_CLOSE = 20
"""Beyond so many times the present n, more data is not the answer."""
TIMED = ("processes", "pairs")
"""Of these a check takes so many times as long as it has."""

OUTCOME: dict[Status, str] = {
    "PASS": "holds",
    "FAIL": "violated",
    "INCONCLUSIVE": "not decided",
    "NOT_RUN": "not run",
    "INVALID": "not judged",
    "ERROR": "crashed",
}


def describe(
    test: Test,
    status: Status,
    confidence: float,
    *,
    looks_violated: bool,
    reason: str | None,
    seconds: float | None = None,
) -> str:
    """``accuracy 0.962 (n 600), 95 % lower bound 0.946, needs 0.95: not decided; ...``.

    Args:
        test: The requirement and its evidence.
        status: What was decided.
        confidence: Of the bounds.
        looks_violated: Only the correction for the number of requirements withholds a FAIL.
        reason: Why it is not as its evidence says.
        seconds: That its check took; None: not known.
    """
    if status in ("NOT_RUN", "ERROR") or (test.value is None and test.p_pass is None):
        why = reason or test.no_bound
        return f"{test.sentence}: {OUTCOME[status]}" + (f": {why}" if why else "")
    bound = _bound(test, confidence, against=status == "FAIL" or looks_violated)
    text = ", ".join(part for part in (_value(test), bound, _needs(test)) if part)
    outcome = "looks violated" if looks_violated else OUTCOME[status]
    text = f"{text}: {outcome}"
    tail = _tail(test, status, looks_violated=looks_violated, reason=reason, seconds=seconds)
    return f"{text}; {tail}" if tail else text


def _subject(test: Test) -> str:
    return f"{test.quantity} against {test.against}" if test.against else test.quantity


def _value(test: Test) -> str:
    if test.value is None:
        return f"{_subject(test)} (n {test.n:,})"
    value = format_quantity(test.value, test.unit, decimals_for(test))
    if test.against and test.unit != "x" and test.value > 0:
        value = f"+{value}"
    beside = ""
    if test.candidate is not None and test.baseline is not None:
        unit = test.metric_unit
        beside = f" ({format_quantity(test.candidate, unit)} and {format_quantity(test.baseline, unit)})"
    text = f"{_subject(test)} {value}{beside} ({_whose(test)}n {test.n:,})"
    if test.exact:
        text += ", in this run" if test.in_this_run else ", counted"
    return text


def _bound(test: Test, confidence: float, *, against: bool) -> str:
    """The bound that the outcome rests on: towards the threshold for a PASS, away from it for a violation."""
    if test.exact:
        return ""
    upper = (test.op in ("<=", "<")) != against
    bound = test.upper if upper else test.lower
    side = "upper" if upper else "lower"
    if bound is None:
        why = test.no_bound or _parts_without(test, side)
        return f"no {confidence * 100:g} % {side} bound" + (f" ({why})" if why else "")
    whose = _divided(test, confidence) if against else _bound_of(test, bound, side)
    shown = format_quantity(bound, test.unit, decimals_for(test))
    return f"{confidence * 100:g} % {side} bound {shown}{whose}"


def _parts_without(test: Test, side: str) -> str:
    """The first part that has no bound on this side, which leaves all of them without one."""
    without = (part for part in test.parts if (part.upper if side == "upper" else part.lower) is None)
    first = next(without, None)
    return "" if first is None else f"{first.part} has none, n {first.n:,}"


def _divided(test: Test, confidence: float) -> str:
    """Note that a bound away from the threshold is one over all parts, each of which has its share of the level."""
    count = len(test.parts)
    if test.must_hold != count or count < 2 or test.part_unit is not None:
        return ""
    return f" (over {count} parts, each at {100.0 * (1.0 - (1.0 - confidence) / count):.4g} %)"


def _whose(test: Test) -> str:
    """Which part the value is that of, where all of several parts must hold."""
    if test.must_hold != len(test.parts) or len(test.parts) < 2:
        return ""
    of = next((part.part for part in test.parts if part.value is not None and part.value == test.value), None)
    return f"{of}, worst of {len(test.parts)}; " if of is not None else ""


def _bound_of(test: Test, bound: float, side: str) -> str:
    """Which part the bound is that of, where it differs from the value's."""
    if not _whose(test):
        return ""
    owner = next((part for part in test.parts if (part.upper if side == "upper" else part.lower) == bound), None)
    return f" ({owner.part})" if owner is not None and owner.value != test.value else ""


def _needs(test: Test) -> str:
    relation = {"<=": "at most ", ">=": "at least ", "<": "less than ", ">": "more than ", "==": "exactly "}[test.op]
    return f"needs {relation}{format_quantity(test.threshold, test.unit)}"


def _tail(test: Test, status: Status, *, looks_violated: bool, reason: str | None, seconds: float | None) -> str:
    parts: list[str] = []
    if reason:
        parts.append(reason)
    if looks_violated:
        parts.append("violated on its own; only the correction for the number of requirements prevents a FAIL")
    if test.must_hold is not None and test.parts and status != "PASS":
        parts.append(_worst_parts(test))
    if test.exact and test.first and status == "FAIL":
        parts.append(test.first)
    if status == "INCONCLUSIVE" and not test.exact and not test.withhold:
        parts.append(_more(test, seconds))
    return "; ".join(part for part in parts if part)


def _worst_parts(test: Test) -> str:
    upper = test.op in ("<=", "<")

    def badness(part: PartTest) -> float:
        return 0.0 if part.value is None else (part.value if upper else -part.value)

    bad = [part for part in test.parts if part.value is not None and (part.p_pass is None or part.p_pass > 0.5)]
    worst = sorted(bad, key=badness, reverse=True)[:3]
    named = ", ".join(
        f"{part.part} {format_quantity(part.value, test.part_unit or test.unit)} (n {part.n:,})"
        for part in worst
        if part.value is not None
    )
    of = f" of {len(test.parts)}" if test.part_unit else ""
    return f"worst{of}: {named}" if named else ""


def _more(test: Test, seconds: float | None) -> str:
    if test.n_to_decide is None or test.times_to_decide is None or test.value is None:
        return ""
    if test.times_to_decide > TOO_CLOSE:
        return f"close to the threshold: only {to_decide(test, seconds)} would decide it"
    value = format_quantity(test.value, test.unit, decimals_for(test))
    upper = test.op in ("<=", "<")
    verb = "pass" if (test.value < test.threshold) == upper else "fail"
    return f"if the true value is {value}, {to_decide(test, seconds)} would {verb} it in 4 of 5 cases"


def to_decide(test: Test, seconds: float | None) -> str:
    """How much would decide, with its unit and about the time it takes: ``38 processes (5 now; about 170 s)``.

    Args:
        test: One with ``n_to_decide``.
        seconds: That its check took; None: not known.
    """
    if not test.to_decide or test.to_decide_now is None:
        return f"n = {test.n_to_decide:,}"
    time = ""
    if seconds and test.to_decide in TIMED and test.times_to_decide is not None:
        time = f"; about {duration(seconds * test.times_to_decide)}"
    return f"{test.n_to_decide:,} {test.to_decide} ({test.to_decide_now:,} now{time})"
