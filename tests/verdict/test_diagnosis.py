"""The nine cells of data, algorithm and machine against compute, memory and I/O."""

from __future__ import annotations

from typing import Any

import pytest

from evalspec.evidence.record import CheckRecord, Environment
from evalspec.verdict.diagnosis import AXES, RESOURCES, Symptom, diagnose
from tests.verdict.test_decide import a_record, a_test


def measured(kind: str, numbers: dict[str, float], **conditions: Any) -> CheckRecord:
    return CheckRecord(
        id=f"the_{kind}", check=kind, dimension="system", status="measured", measured=dict(numbers),
        conditions=conditions,
    )  # fmt: skip


def shares(**percent: float) -> CheckRecord:
    return measured("stages", {f"stage_share({stage})": share for stage, share in percent.items()})


def cells(*checks: CheckRecord, **fields: Any) -> dict[tuple[str, str], Symptom]:
    return {(one.axis, one.resource): one for one in diagnose(a_record(*checks, **fields))}


def test_nothing_measured_is_said_and_never_a_clean_bill() -> None:
    found = cells()
    assert list(found) == [(axis, resource) for axis in AXES for resource in RESOURCES]
    assert {one.state for one in found.values()} == {"not measured"}
    assert found["machine", "compute"].finding == "`roofline` would show it"
    assert not any(one.remedy for one in found.values())


@pytest.mark.parametrize(
    ("stages", "cell"),
    [
        ({"resize": 30.0, "normalize": 15.0, "inference": 50.0, "parse": 5.0}, ("data", "compute")),
        ({"server": 55.0, "parse": 45.0}, ("data", "I/O")),
        ({"copy_to_device": 35.0, "inference": 60.0, "copy_to_host": 5.0}, ("machine", "I/O")),
    ],
)
def test_the_stage_that_takes_the_time_is_named(stages: dict[str, float], cell: tuple[str, str]) -> None:
    found = cells(shares(**stages))
    timed = [("data", "compute"), ("data", "I/O"), ("machine", "I/O")]
    assert [place for place in timed if found[place].state == "found"] == [cell]
    assert found[cell].checks == ("the_stages",)
    assert found[cell].remedy


def test_what_a_server_tells_is_no_preprocessing_and_its_text_is_text() -> None:
    percent = {"cast": 1.0, "serialize": 20.0, "queue": 40.0, "server_parse": 15.0, "inference": 20.0, "transfer": 4.0}
    told = shares(**percent).model_copy(
        update={"conditions": {"server_stages": "queue, server_parse, inference, transfer"}}
    )
    found = cells(told)
    assert found["data", "compute"].finding == "1 % of a query: cast"
    assert found["data", "I/O"].state == "found"
    assert found["data", "I/O"].finding == "35 % of a query, most of it serialize, and more than inference"


def test_code_of_ones_own_may_parse_and_only_it_tells() -> None:
    """A `python` stage is preprocessing by what it is; that nothing is parsed can't be said where it is large."""
    found = cells(shares(python=50.0, python_2=41.0, inference=9.0))
    assert found["data", "compute"].state == "found"
    text = found["data", "I/O"]
    assert text.state == "not measured" and text.checks == ("the_stages",)
    assert text.finding == (
        "91 % of a query is custom code (python and python_2), 9 % inference; only that code shows whether it parses"
    )
    small = cells(shares(python=5.0, inference=94.0, postprocess=1.0))["data", "I/O"]
    assert (small.state, small.finding) == ("not found", "1 % of a query: postprocess")
    named = cells(shares(resize=91.0, inference=9.0))["data", "I/O"]
    assert (named.state, named.finding) == ("not found", "nothing is parsed")


def test_the_way_to_a_server_is_found_where_the_server_tells_its_own_time() -> None:
    told = shares(serialize=1.0, inference=5.0, transfer=93.0, parse=1.0)
    told = told.model_copy(update={"conditions": {"server_stages": "inference, transfer"}})
    found = cells(told)["machine", "I/O"]
    assert (found.state, found.finding) == ("found", "93 % of a query: transfer")
    silent = cells(shares(serialize=1.0, server=98.0, parse=1.0))["machine", "I/O"]
    assert silent.state == "not measured" and "the server does not report" in silent.finding


def test_a_fast_pipeline_is_not_to_blame() -> None:
    found = cells(shares(cast=2.0, inference=97.0, postprocess=1.0))
    assert found["data", "compute"].state == "not found"
    assert found["data", "compute"].finding == "2 % of a query: cast"
    assert found["machine", "I/O"].finding == "nothing is copied between host and device"


@pytest.mark.parametrize(
    ("bound", "fraction", "expected"),
    [
        ("compute", 72.0, [("algorithm", "compute"), ("machine", "compute")]),
        ("compute", 35.0, [("algorithm", "compute")]),
        ("memory", 80.0, [("algorithm", "memory"), ("machine", "memory")]),
        ("overhead", 4.0, [("algorithm", "I/O")]),
    ],
)
def test_the_roof_tells_algorithm_from_machine(bound: str, fraction: float, expected: list[tuple[str, str]]) -> None:
    found = cells(measured("roofline", {"roof_fraction": fraction}, bound=bound))
    assert [place for place, one in found.items() if one.state == "found"] == expected


def test_a_memory_that_is_nearly_full() -> None:
    here = Environment(facts={"memory_MiB": 1000})
    full = cells(measured("memory", {"peak_host_memory": 850.0}), environment=here)
    empty = cells(measured("memory", {"peak_host_memory": 150.0}), environment=here)
    assert (full["data", "memory"].state, empty["data", "memory"].state) == ("found", "not found")
    assert full["data", "memory"].finding == "850 MiB of 1,000 MiB, rows included"
    unknown = cells(measured("memory", {"peak_host_memory": 850.0}))
    assert unknown["data", "memory"].state == "not measured"


def test_void_numbers_diagnose_nothing() -> None:
    void = a_test("the_stages", "stage_share", invalid="other processes used 40 % of the processors")
    one = shares(resize=80.0, inference=20.0).model_copy(update={"tests": (void,)})
    assert cells(one)["data", "compute"].state == "not measured"
    failed = shares(resize=80.0, inference=20.0).model_copy(update={"status": "invalid", "reason": "busy"})
    assert cells(failed)["data", "compute"].state == "not measured"


def test_the_check_that_finds_it_fills_the_cell_whichever_comes_first() -> None:
    fine = shares(cast=1.0, inference=98.0)
    copied = shares(copy_to_device=60.0, inference=35.0).model_copy(update={"id": "on_the_gpu"})
    for checks in ((fine, copied), (copied, fine)):
        cell = cells(*checks)["machine", "I/O"]
        assert (cell.state, cell.checks) == ("found", ("on_the_gpu",))
    assert cells(fine, copied)["data", "compute"].checks == ("the_stages",)


def test_a_roof_that_is_exceeded_is_none() -> None:
    found = cells(measured("roofline", {"roof_fraction": 165.0}, bound="compute"))
    assert {found[axis, "compute"].state for axis in ("algorithm", "machine")} == {"not measured"}
    assert found["machine", "compute"].finding == "the_roofline found no roof to compare the model with"
