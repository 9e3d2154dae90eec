from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from evalspec.errors import RecordError
from evalspec.evidence.policy import Policy
from evalspec.evidence.record import Record
from evalspec.report import junit
from tests.report import hostile, records


def parse(record: Record) -> ElementTree.Element:
    return ElementTree.fromstring(junit(record))


def outcomes(root: ElementTree.Element) -> dict[str, tuple[str, str]]:
    """Of each case: what it carries, and of which type."""
    found = {}
    for case in root.iter("testcase"):
        inside = [child for child in case if child.tag != "system-out"]
        assert len(inside) <= 1
        found[case.attrib["name"]] = (inside[0].tag, inside[0].get("type", "")) if inside else ("", "")
    return found


def test_every_status() -> None:
    assert outcomes(parse(records.every_status())) == {
        "latency/latency_p95": ("failure", "INVALID"),
        "latency/latency_p99": ("", ""),
        "throughput/throughput": ("failure", "NOT_RUN"),
        "quality/accuracy": ("failure", "FAIL"),
        "quality/balanced_accuracy": ("failure", "INCONCLUSIVE"),
        "quality/recall(3)": ("failure", "INCONCLUSIVE"),
        "calibration/ece": ("error", "ERROR"),
        "slices/worst_accuracy": ("skipped", ""),
        "contamination/exact_duplicates": ("", ""),
        "shift/c2st_auc": ("skipped", ""),
    }


def test_counts() -> None:
    root = parse(records.every_status())
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "10",
        "failures": "5",
        "errors": "1",
        "skipped": "2",
    }
    assert sum(int(suite.attrib["failures"]) for suite in root) == 5


def test_inconclusive_is_skipped_where_the_policy_allows_it_but_not_what_looks_violated() -> None:
    allowed = records.every_status().model_copy(update={"policy": Policy(inconclusive="allow")})
    found = outcomes(parse(allowed))
    assert found["quality/recall(3)"] == ("skipped", "")
    assert found["quality/balanced_accuracy"] == ("failure", "INCONCLUSIVE")


def test_a_failure_says_why_and_who() -> None:
    failure = parse(records.not_ready()).find(".//testcase[@name='calibration/ece']/failure")
    assert failure is not None
    assert failure.get("message") == "ece 0.142 (n 840), 99.5 % lower bound 0.103, needs at most 0.05: violated."
    assert "The sorter trusts answers over 0.9" in str(failure.text)
    assert "vision@example.com" in str(failure.text)


def test_the_verdict_is_in_the_properties() -> None:
    root = parse(records.not_ready())
    found = {one.attrib["name"]: one.attrib["value"] for one in root.iter("property")}
    assert found["verdict"] == "NOT READY"
    assert found["subject"] == records.INT8


def test_a_check_that_crashed_without_requirements_is_an_error() -> None:
    crashed = records.check("throughput", (), status="error", reason="killed")
    root = parse(records.ready().model_copy(update={"checks": (crashed,)}))
    assert outcomes(root)["throughput"] == ("error", "ERROR")


def test_empty() -> None:
    root = parse(records.empty())
    assert root.get("tests") == "0"
    assert root.find(".//property[@name='verdict']") is not None


@pytest.mark.parametrize("attack", hostile.ATTACKS)
def test_hostile_text_is_valid_xml(attack: str) -> None:
    root = parse(hostile.worst(attack))
    assert len(list(root.iter("testcase"))) == 10
    assert {element.tag for element in root.iter()} == {
        *("testsuites", "testsuite", "testcase", "properties", "property"),
        *("failure", "error", "skipped", "system-out"),
    }


def test_no_verdict() -> None:
    with pytest.raises(RecordError, match="holds no verdict"):
        junit(records.ready().model_copy(update={"verdict": None}))


def test_the_seconds_of_a_check_are_shared_among_its_cases() -> None:
    record = records.every_status()
    checks = tuple(one.model_copy(update={"duration_s": 1.0 + index}) for index, one in enumerate(record.checks))
    root = parse(record.model_copy(update={"checks": checks}))
    for suite, check in zip(root.findall("testsuite"), checks, strict=True):
        assert float(suite.attrib["time"]) == check.duration_s
        cases = [float(case.attrib["time"]) for case in suite.iter("testcase")]
        assert min(cases) > 0 and sum(cases) == pytest.approx(check.duration_s, abs=0.005)
    assert float(root.attrib["time"]) == sum(check.duration_s for check in checks)
