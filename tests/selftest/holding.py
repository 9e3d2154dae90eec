"""Each requirement of a suite is red for its own defect and for no other's, or named as what it is."""

from __future__ import annotations

from pathlib import Path

from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.options import default_limits
from evalspec.selftest.selftest import selftest

SUITES = Path(__file__).parents[2] / "suites"
IMPLIED: dict[str, dict[str, set[str]]] = {}
"""Suite: requirements that can't go red alone, each with those that imply it."""
NOT_SHOWN: dict[str, set[str]] = {}
"""Suite: requirements that the evidence of a run can't show, whatever the machine does meanwhile."""
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
    assert {one.name for one in outcomes if one.answer == "green"} == set(), outcomes
    assert len(outcomes) == sum(len(one.check.requirements) for one in planned.checks)
    for one in outcomes:
        timed = one.name.startswith(TIMED)
        if one.answer == "red":
            assert one.fell_with == () and one.defect, one
        elif one.answer == "implied":
            assert set(one.implied_by) <= set(one.fell_with) | {other.name for other in outcomes}, one
            assert timed or set(one.implied_by) == IMPLIED.get(spec, {}).get(one.name), one
        else:
            assert one.why and (timed or one.name in NOT_SHOWN.get(spec, set())), one
