"""The end of a check, as the line of progress has it, beside the verdict on the same evidence."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from evalspec.evidence.reasons import NoEvidence
from evalspec.running.standing import check_end
from evalspec.verdict import decide
from tests.verdict.test_decide import FAILING, PASSING, UNDECIDED, a_check, a_record, a_test

EXACT = {"exact": True, "lower": None, "upper": None, "p_pass": None, "p_fail": None}
EVIDENCE: dict[str, dict[str, Any]] = {
    "it holds": PASSING,
    "it is violated": FAILING,
    "it is open": UNDECIDED,
    "a fact holds": PASSING | EXACT,
    "a fact is violated": FAILING | EXACT,
    "there is no value": UNDECIDED | {"value": None, "p_pass": None, "p_fail": None},
}
DOUBTS: dict[str, dict[str, Any]] = {
    "none": {},
    "invalid": {"invalid": "the machine was busy"},
    "withheld": {"withhold": "a planted shift was not detected"},
    "withheld for want of evidence": {"withhold": NoEvidence("nothing was compared")},
    "missing": {"missing": "it was not measured"},
}


@pytest.mark.parametrize(("evidence", "doubt"), [*itertools.product(EVIDENCE, DOUBTS)])
def test_one_requirement_is_met_where_the_verdict_says_pass(evidence: str, doubt: str) -> None:
    check = a_check(a_test(**(EVIDENCE[evidence] | DOUBTS[doubt])))
    plan: Any = SimpleNamespace(alpha=0.05, alpha_fail=0.01, checks=[check], spec=SimpleNamespace(waivers=()))
    end = check_end(check, plan, [])
    (decision,) = decide(a_record(check)).decisions
    assert end.met == (decision.status == "PASS")
    assert not end.violated or decision.status in ("FAIL", "NOT_RUN")
