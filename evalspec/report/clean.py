"""The score of clean rows, said where the score of all rows stands."""

from __future__ import annotations

from math import isclose

from evalspec.evidence.frozen import Cell, is_number
from evalspec.evidence.record import CheckRecord, Record
from evalspec.lineage.declared import number_that_shows
from evalspec.report.names import quantity


def clean_notes(record: Record, check: CheckRecord) -> tuple[str, ...]:
    """Notes on a model's score without the rows seen in training, for a check that scored all of the same rows.

    Said only where it is the same number: the same model, dataset and metric, and the same score of all rows.

    Args:
        record: The run.
        check: One of its checks.
    """
    if check.dimension != "model" or check.status != "measured":
        return ()
    said = (_sentence(other, check) for other in record.checks if other.dimension == "data")
    return tuple(sentence for sentence in said if sentence)


def _sentence(other: CheckRecord, check: CheckRecord) -> str:
    facts, metric = other.conditions, str(other.conditions.get("metric", ""))
    clean, change = number_that_shows(other, "clean score"), number_that_shows(other, "clean score change")
    full, theirs = _number(check.measured.get(metric)), _number(facts.get(f"{metric} of all rows"))
    if other.status != "measured" or clean is None or change is None or full is None or theirs is None:
        return ""
    test = facts.get("test set")
    same = test in check.datasets and facts.get("predictions of") in check.models
    if not same or not isclose(full, theirs, rel_tol=1e-9, abs_tol=1e-12):
        return ""
    unit = check.units.get(metric, "")
    if change == 0.0:
        return f"Without the rows of {test} seen in training (check {other.id}), {metric} is the same."
    less = f"{quantity(abs(change), 'pp')} {'less' if change > 0 else 'more'}"
    return (
        f"Without the rows of {test} seen in training (check {other.id}), {metric} is {quantity(clean, unit)} "
        f"instead of {quantity(full, unit)}: {less}."
    )


def _number(value: Cell) -> float | None:
    return float(value) if is_number(value) else None
