"""Each requirement of a suite is red for its own defect and for no other's, or named as what it is."""

from __future__ import annotations

from pathlib import Path

from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.options import default_limits
from evalspec.selftest.selftest import selftest

SUITES = Path(__file__).parents[2] / "suites"
IMPLIED: dict[str, dict[str, set[str]]] = {"predictions/evalspec.yaml": {}, "contamination/evalspec.yaml": {}}
"""Suite: those of its requirements that can't go red alone, each with those that imply it."""
TIMED = ("latency", "load", "throughput", "recovery", "cold_start", "memory", "stages", "cameras", "int8/speedup")
"""Checks whose evidence a busy machine may void: then they are not shown, which is said."""


class Silent:
    def step(self, text: str) -> None:
        pass

    def progress(self, done: float, total: float, what: str) -> None:
        pass


def holds(spec: str, run: Path, *overrides: str, file: Path | None = None) -> None:
    """Plant defects in the evidence of a run of a suite, and hold what comes of it against what is known of it.

    Args:
        spec: ``suite/file.yaml``.
        run: A run of it.
        overrides: As of ``--set``.
        file: The spec, where it is a copy.
    """
    planned = plan(load(file or SUITES / spec, overrides, LoadOptions(trust=True)))
    access = planned.spec.access(trust=True, allow_outside=False, hub=False, hosts=frozenset(), env=frozenset())
    outcomes = selftest(planned, run, access, default_limits(), Silent())
    assert len(outcomes) == sum(len(one.check.requirements) for one in planned.checks)
    assert [one for one in outcomes if one.answer == "green"] == []
    names = {one.name for one in outcomes}
    for one in outcomes:
        if one.answer == "red":
            assert one.defect and one.fell_with == one.implied_by == () and one.why == "", one
        elif one.answer == "implied":
            assert one.defect and one.fell_with and one.implied_by, one
            assert set(one.implied_by) | set(one.fell_with) <= names - {one.name}, one
            # The defect with the fewest is among those that were tried: one of those that imply it fell then too.
            assert set(one.implied_by) & set(one.fell_with), one
        else:
            assert one.why and one.name.startswith(TIMED), one
    if spec in IMPLIED:
        assert {one.name: set(one.implied_by) for one in outcomes if one.answer == "implied"} == IMPLIED[spec]
