"""Reference convergence points as mlperf-logging has them, and what is said of other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.trainings.mlperf import REFERENCE, reference_samples, write_rcps
from tests.trainings.test_kinds import refused, rows, training


def test_points_are_runs_that_know_samples_alone(tmp_path: Path) -> None:
    write_rcps(tmp_path / "rcps_llama31_8b.json")
    found = rows(tmp_path, "rcp", path="rcps_llama31_8b.json", epoch=1)
    assert len(found) == 20 * len(REFERENCE)
    assert [row["samples"] for row in found if row["batch"] == 96] == reference_samples(96)
    (first, *_) = found
    assert (first["run"], first["status"], first["metric"]) == ("llama31_8b_ref_16 1", "point", "")
    assert {row["time_s"] for row in found} == {row["seed"] for row in found} == {None}


def record(**fields: Any) -> dict[str, Any]:
    return {"a_ref_8": {"Benchmark": "a", "BS": 8, "samples to converge": [3072, 2688], **fields}}


def test_samples_need_no_epoch(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(record()))
    assert [row["samples"] for row in rows(tmp_path, "rcp", path="a.json")] == [3072.0, 2688.0]
    records = record()
    records["a_ref_8"]["Epochs to converge"] = records["a_ref_8"].pop("samples to converge")
    (tmp_path / "a.json").write_text(json.dumps(records))
    assert [row["samples"] for row in rows(tmp_path, "rcp", path="a.json", epoch=100)] == [307_200.0, 268_800.0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "a.json is not JSON"),
        ("[]", "a.json holds no reference points"),
        ("{}", "a.json holds no reference points"),
        (json.dumps(record(BS="8")), "a_ref_8 of a.json has '8' as its batch size ('BS')"),
        (json.dumps(record(BS=0)), "has 0 as its batch size"),
        (json.dumps(record(**{"samples to converge": []})), "a_ref_8 of a.json has no list of numbers above 0"),
        (json.dumps(record(**{"samples to converge": [1, -2]})), "has no list of numbers above 0"),
        (json.dumps(record(**{"samples to converge": [1, 10**400]})), "has no list of numbers above 0"),
        (json.dumps(record(**{"samples to converge": [1, float("inf")]})), "has no list of numbers above 0"),
        (json.dumps({"a": {"BS": 8, "Epochs to converge": [4, 4]}}), "does not say how many samples an epoch has"),
        (json.dumps(record() | {"b": record()["a_ref_8"]}), "two records of the batch size 8: a_ref_8 and b"),
    ],
)
def test_what_is_wrong_with_points_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert said in refused(tmp_path, "rcp", path="a.json")


def test_an_epoch_has_samples() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        training("rcp", path="a.json", epoch=0)
