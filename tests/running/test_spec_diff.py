"""What a run finds of the runs before it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from evalspec.evidence.record import DatasetRecord, Record
from evalspec.running.folders import earlier_runs, last_blessed
from evalspec.running.spec_diff import otherwise, since_before
from evalspec.verdict import decide
from tests.verdict.test_decide import a_check, a_record, a_test

SPEC = "evalspec: 1\nname: example\ndata:\n  - {{check: shift, tolerance: {tolerance}}}\n"


def written(reports: Path, name: str, *, minute: int, tolerance: float = 0.1, **fields: Any) -> tuple[Path, Record]:
    threshold = fields.pop("threshold", 0.95)
    given = {
        "started": f"2026-11-20T10:{minute:02d}:00Z",
        "spec_digest": f"{threshold}-{tolerance}",
        "datasets": (DatasetRecord(name="test", kind="csv", digest="d", rows=9),),
    }
    record = a_record(a_check(a_test(threshold=threshold)), **(given | fields))
    record = record.model_copy(update={"verdict": decide(record)})
    folder = reports / "reports" / record.spec / name
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(record.model_dump_json())
    (folder / "spec.yaml").write_text(SPEC.format(tolerance=tolerance))
    return folder, record


def test_the_last_decided_run_of_the_spec_is_what_is_asked_against(tmp_path: Path) -> None:
    """Neither a draft nor a part, an interrupted run or another spec's can stand between two decisions."""
    written(tmp_path, "2-a", minute=1, threshold=0.99)
    first, before = written(tmp_path, "2-b", minute=2, threshold=0.97)
    for minute, aside in enumerate(({"draft": True}, {"only": ("quality",)}, {"interrupted": True}), 3):
        written(tmp_path, f"2-c{minute}", minute=minute, threshold=0.9, **aside)
    written(tmp_path, "2-d", minute=7, threshold=0.9, spec="another")
    folder, record = written(tmp_path, "2-e", minute=8, threshold=0.95, subject="ef" * 32)
    later, _ = written(tmp_path, "2-f", minute=9, threshold=0.5)
    found = earlier_runs(folder, tmp_path, record)
    assert (found.runs, found.of_subject) == (3, 0)
    assert found.last == (first, before)
    (one,) = otherwise(*found.last, folder, record)
    assert (one.run, one.of, one.direction) == ("2-b", "quality/accuracy", "loosened")
    assert later.is_dir()


def test_runs_of_the_subject_are_counted_apart(tmp_path: Path) -> None:
    written(tmp_path, "2-a", minute=1, subject="ef" * 32)
    written(tmp_path, "2-b", minute=2)
    folder, record = written(tmp_path, "2-c", minute=3)
    found = earlier_runs(folder, tmp_path, record)
    assert (found.runs, found.of_subject) == (2, 1)
    unknown = record.model_copy(update={"subject": None})
    assert earlier_runs(folder, tmp_path, unknown).of_subject == 0


def test_a_blessed_run_is_what_is_asked_against_where_no_run_was_kept(tmp_path: Path) -> None:
    """As in a pipeline that starts from a fresh checkout."""
    for name, minute, fields in (
        ("v1", 1, {"threshold": 0.99}),
        ("v2", 2, {"threshold": 0.97}),
        ("v3", 3, {"threshold": 0.9, "spec": "another"}),
    ):
        kept, _ = written(tmp_path / "elsewhere", name, minute=minute, **fields)
        shutil.copytree(kept, tmp_path / "baselines" / name)
    folder, record = written(tmp_path, "2-a", minute=4)
    found = last_blessed(tmp_path, record)
    assert found is not None
    (one,) = otherwise(*found, folder, record)
    assert (one.run, one.before) == ("baselines/v2", "`accuracy >= 95 %`")
    assert last_blessed(tmp_path / "reports", record) is None


def test_a_first_run_has_none_before_it(tmp_path: Path) -> None:
    folder, record = written(tmp_path, "2-a", minute=1)
    found = earlier_runs(folder, tmp_path, record)
    assert (found.runs, found.of_subject, found.last) == (0, 0, None)


def test_what_was_loosened_since_the_blessed_run_is_told_until_another_one_is_blessed(tmp_path: Path) -> None:
    """The same run made twice would else be rid of it."""
    strict = written(tmp_path, "2-a", minute=1, threshold=0.97)
    baselines = tmp_path / "baselines"
    shutil.copytree(strict[0], baselines / "v1")
    blessed = (baselines / "v1", strict[1])
    first = written(tmp_path, "2-b", minute=2, threshold=0.9, tolerance=0.2)
    again = written(tmp_path, "2-c", minute=3, threshold=0.9, tolerance=0.2)

    def told(last: Any, blessed: Any, now: Any) -> list[tuple[str, str]]:
        return [(one.run, one.of) for one in since_before(last, blessed, *now)]

    loosened = ["quality/accuracy", "shift.tolerance"]
    assert told(strict, blessed, first) == [("2-a", of) for of in loosened]
    assert told(first, None, again) == []
    assert told(first, blessed, again) == [("baselines/v1", of) for of in loosened]
    assert told(None, blessed, again) == [("baselines/v1", of) for of in loosened]
    # Stricter than the blessed one is no news beside the last run.
    stricter = written(tmp_path, "2-d", minute=4, threshold=0.99)
    assert told(stricter, blessed, written(tmp_path, "2-e", minute=5, threshold=0.99)) == []


@pytest.mark.parametrize("spec", [None, "\tno: yaml", "[]"])
def test_settings_are_read_where_the_spec_beside_the_record_can_be(tmp_path: Path, spec: str | None) -> None:
    first, before = written(tmp_path, "2-a", minute=1, tolerance=0.1)
    second, after = written(tmp_path, "2-b", minute=2, tolerance=0.2)
    assert [one.of for one in otherwise(first, before, second, after)] == ["shift.tolerance"]
    if spec is None:
        (first / "spec.yaml").unlink()
    else:
        (first / "spec.yaml").write_text(spec)
    assert otherwise(first, before, second, after) == ()


def test_a_spec_that_is_the_same_asks_the_same(tmp_path: Path) -> None:
    first, before = written(tmp_path, "2-a", minute=1)
    second, after = written(tmp_path, "2-b", minute=2)
    assert otherwise(first, before, second, after) == ()
