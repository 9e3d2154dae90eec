"""The history of a spec: what the records say, whatever an index beside them says."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import RecordError, SpecError
from evalspec.evidence.record import DatasetRecord, Environment, ModelRecord
from evalspec.lineage.history import History, PastRun
from evalspec.records import history_index as index
from evalspec.records.history import find_runs, history, only, to_json
from evalspec.report.trend_lines import run_notes, trend_lines
from evalspec.report.trends import render_trends
from evalspec.verdict import decide
from tests.records.test_compare import latency, quality
from tests.verdict.test_decide import a_check, a_record, a_test


def written(runs: Path, minute: int, *checks: Any, rows: str = "d", cpu: str = "A", **fields: Any) -> Path:
    given: dict[str, Any] = {
        "started": f"2026-11-20T10:{minute:02d}:00Z",
        "models": (ModelRecord(name="candidate", kind="onnx", digest="a" * 64, device="cpu", batch=1),),
        "datasets": (DatasetRecord(name="test", kind="parquet", digest=rows * 64, rows=1000),),
        "environment": Environment(facts={"cpu": cpu, "cores": 2}),
    }
    record = a_record(*(checks or (quality(960 + minute), latency(4.0 + 0.1 * minute))), **(given | fields))
    record = record.model_copy(update={"verdict": decide(record)})
    folder = runs / f"20261120T10{minute:02d}00Z-abababab"
    folder.mkdir(parents=True)
    (folder / "record.json").write_text(record.model_dump_json())
    return folder


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    folder = tmp_path / "reports" / "example"
    for minute in range(3):
        written(folder, minute)
    written(folder, 3, quality(940, threshold=0.9, sentence="accuracy >= 90 %"), latency(4.0), rows="e", cpu="B")
    return folder


def told(found: History) -> tuple[str, str, str]:
    return "\n".join(trend_lines(found)), json.dumps(to_json(found)), render_trends(found)


def notes(run: PastRun) -> list[str]:
    return list(run_notes(run, History(run.spec, (run,), ())))


def values(found: History, name: str) -> list[float | None]:
    trend = next(one for one in found.trends if one.name == name)
    return [None if place.point is None else place.point.value for place in trend.places]


def test_values_thresholds_and_breaks_run_after_run(runs: Path) -> None:
    found = history(runs)
    assert found.spec == "example" and [run.started[14:16] for run in found.runs] == ["00", "01", "02", "03"]
    quality_, latency_ = found.trends
    assert values(found, "quality/accuracy") == [0.96, 0.961, 0.962, 0.94]
    assert [place.point.threshold for place in quality_.places if place.point] == [0.95, 0.95, 0.95, 0.9]
    moved = "dataset: test dddddddddddd, then test eeeeeeeeeeee"
    assert [place.breaks for place in quality_.places] == ["", "", "", moved]
    assert quality_.places[3].notes == ("loosened: `accuracy >= 90 %`, was `accuracy >= 95 %`",)
    assert latency_.places[3].breaks.startswith("hardware: A, 2 cores, then B, 2 cores; dataset: ")


def test_a_value_is_held_against_the_last_one_that_may_be_trusted(tmp_path: Path) -> None:
    """What is void or not run is a gap: it neither breaks nor joins."""
    runs = tmp_path / "runs"
    written(runs, 0, quality(960))
    written(runs, 1, quality(700, invalid="the machine was busy"), rows="e")
    written(runs, 2, a_check(a_test(), status="not_run", reason="no model"))
    written(runs, 3, a_check(a_test("labels"), id="labels"))
    written(runs, 4, quality(961))
    (trend, _) = history(runs).trends
    points = [place.point for place in trend.places]
    assert [None if one is None else one.sound for one in points] == [True, False, False, None, True]
    assert [place.breaks for place in trend.places] == [""] * 5
    lines = "\n".join(trend_lines(history(runs)))
    assert "the machine was busy" in lines and "0.7" not in lines and "not asked" in lines


def test_another_unit_or_operator_is_not_comparable(tmp_path: Path) -> None:
    for minute, fields in enumerate(({}, {"op": "<=", "threshold": 0.99, "sentence": "accuracy <= 99 %"})):
        written(tmp_path, minute, quality(960, **fields))
    assert history(tmp_path).trends[0].places[1].breaks == "unit or operator: accuracy >= 95 %, then accuracy <= 99 %"


def test_a_check_that_was_set_otherwise_breaks_the_line(tmp_path: Path) -> None:
    """Also where another run without it lies between; a default that is written down is none."""
    asked = (
        "evalspec: 1\nname: example\nmodel:\n  - {{check: quality, dataset: test, {0}require: [accuracy >= 95 %]}}\n"
    )
    sets = ("", "positive: null, ", "positive: dog, ", None, "positive: cat, ", "positive: cat, ")
    for minute, one in enumerate(sets):
        folder = written(tmp_path, minute, *((latency(4.0),) if one is None else (quality(960),)))
        (folder / "spec.yaml").write_text(asked.format(one or ""))
    trend = next(one for one in history(tmp_path).trends if one.name == "quality/accuracy")
    moved = ("quality.positive: not set, then dog", "quality.positive: dog, then cat")
    assert [place.breaks for place in trend.places] == ["", "", moved[0], "", moved[1], ""]
    # The spec is part of what the index was made of.
    (folder / "spec.yaml").write_text(asked.format("positive: cow, "))
    assert history(tmp_path).trends[0].places[-1].breaks == "quality.positive: cat, then cow"
    (folder / "spec.yaml").unlink()
    assert history(tmp_path).trends[0].places[-1].breaks == ""
    blind = [one.run for one in history(tmp_path).runs if any("no readable spec" in note for note in notes(one))]
    # That of the check which stands in no spec here, and this one.
    assert [run[9:13] for run in blind] == ["1003", "1005"]


def test_parts_of_a_spec_leave_no_gap_where_they_did_not_look(tmp_path: Path) -> None:
    written(tmp_path, 0)
    aside = latency(4.0).model_copy(update={"status": "not_run", "reason": "left out by --only quality"})
    written(tmp_path, 1, quality(960), aside, only=("quality",))
    found = history(tmp_path)
    assert values(found, "latency/latency_p50") == [4.0, None]
    assert "only a part was run: quality" in "\n".join(trend_lines(found))


@pytest.mark.parametrize("harm", ["gone", "no database", "empty", "cut", "another form", "not ours", "a folder"])
def test_the_index_can_be_lost_at_any_time(runs: Path, harm: str) -> None:
    """Rebuilt, stale or done without: the table, the JSON and the page are the same byte for byte."""
    path = runs / index.NAME
    first = told(history(runs))
    assert path.is_file() and told(history(runs)) == first
    whole = path.read_bytes()
    if harm in ("gone", "a folder"):
        path.unlink()
    if harm == "a folder":
        path.mkdir()
    elif harm in ("no database", "empty", "cut"):
        path.write_bytes({"no database": b"no database" * 999, "empty": b"", "cut": whole[: len(whole) // 2]}[harm])
    elif harm in ("another form", "not ours"):
        with sqlite3.connect(path) as database:
            change = "stamp = '0 ' || stamp" if harm == "another form" else "text = 7"
            database.execute(f"UPDATE runs SET {change}")
    assert told(history(runs)) == first
    assert harm == "a folder" or index.load(runs).keys() == {one.name for one in runs.iterdir() if one.is_dir()}
    assert [one.name for one in runs.iterdir() if one.name.startswith(".")] == [index.NAME]


def test_an_index_that_says_otherwise_than_the_records_is_not_believed(runs: Path) -> None:
    first = told(history(runs))
    with sqlite3.connect(runs / index.NAME) as database:
        changed = database.execute("UPDATE runs SET text = replace(text, '0.96', '0.99')").rowcount
    assert changed == 4
    assert told(history(runs)) == first


def test_a_record_that_has_changed_is_read_again(runs: Path) -> None:
    history(runs)
    path = sorted(runs.glob("2*/record.json"))[0]
    before = path.stat()
    other = written(runs.parent / "other", 0, quality(950), latency(4.0))
    text = (other / "record.json").read_text()
    path.write_text(text.ljust(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert values(history(runs), "quality/accuracy")[0] == 0.95
    shutil.rmtree(path.parent)
    assert values(history(runs), "quality/accuracy") == [0.961, 0.962, 0.94]
    assert len(index.load(runs)) == 3


def test_it_works_where_nothing_can_be_written(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    first = told(history(runs))
    (runs / index.NAME).unlink()
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    assert told(history(runs)) == first
    assert not (runs / index.NAME).exists()


def read(runs: Path) -> int:
    (runs / index.NAME).unlink(missing_ok=True)
    return len(history(runs).runs)


def test_several_at_once_see_all_of_it(runs: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(read, [runs] * 24)) == {4}
    assert [one.name for one in runs.iterdir() if one.name.startswith(".")] == [index.NAME]


def test_what_is_not_shown_is_said(runs: Path) -> None:
    written(runs, 4, draft=True)
    (written(runs, 5) / "record.json").write_text("{")
    folder = written(runs, 6)
    lied = (folder / "record.json").read_text().replace('"word":"READY"', '"word":"UNDECIDED"')
    (folder / "record.json").write_text(lied)
    (runs / "latest").symlink_to("20261120T100300Z-abababab")
    found = history(runs, last=2)
    assert (len(found.runs), found.earlier, found.drafts) == (2, 2, 1)
    (unread, changed) = found.unread
    assert unread[0].startswith("20261120T1005") and "not a record that this version can read" in unread[1]
    assert changed[0].startswith("20261120T1006") and "its tests do not give its verdict" in changed[1]
    lines = "\n".join(trend_lines(found))
    assert "2 earlier runs not shown" in lines and "1 draft left out" in lines and "do not give its verdict" in lines


def test_where_the_runs_are(tmp_path: Path, runs: Path) -> None:
    spec = tmp_path / "evalspec.yaml"
    spec.write_text("evalspec: 1\nname: example\nnonsense: true\n")
    run = sorted(runs.glob("2*"))[0]
    (runs / "latest").symlink_to(run.name)
    for where in (spec, run, run / "record.json", runs / "latest", runs, runs.parent, tmp_path):
        assert find_runs(where, tmp_path) == runs, where
    written(tmp_path / "reports" / "another", 0, spec="another")
    with pytest.raises(RecordError, match="several specs: another, example; name one"):
        find_runs(tmp_path, tmp_path)
    spec.write_text("evalspec: 1\nname: absent\n")
    with pytest.raises(RecordError, match=r"no run of .*evalspec.yaml in .*absent; `evalspec run"):
        find_runs(spec, tmp_path)
    spec.write_text("evalspec: 1\n")
    with pytest.raises(SpecError, match="has no `name:`"):
        find_runs(spec, tmp_path)
    with pytest.raises(RecordError, match=r"there is no .*gone"):
        find_runs(tmp_path / "gone", tmp_path)
    with pytest.raises(RecordError, match=r"there is no folder .*gone"):
        history(tmp_path / "gone")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="there is no run in"):
        find_runs(tmp_path / "empty", tmp_path)


def test_runs_of_several_specs_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    written(tmp_path, 0)
    written(tmp_path, 1, spec="another")
    with pytest.raises(RecordError, match="several specs: another, example; name one"):
        history(tmp_path)
    assert [run.spec for run in history(tmp_path, "another").runs] == ["another"]
    with pytest.raises(RecordError, match="no run of absent; it has runs of another and example"):
        history(tmp_path, "absent")


def test_one_requirement(runs: Path) -> None:
    found = history(runs)
    assert [trend.name for trend in only(found, ["quality/accuracy"]).trends] == ["quality/accuracy"]
    assert only(found, []) == found
    with pytest.raises(RecordError, match="did you mean 'quality/accuracy'"):
        only(found, ["quality/acuracy"])


def test_the_command(tmp_path: Path, runs: Path) -> None:
    page = tmp_path / "trends.html"
    done = CliRunner().invoke(app, ["history", str(runs), "--last", "2", "--output", str(page)])
    assert done.exit_code == 0, done.output
    assert "quality/accuracy: accuracy >= 90 %" in done.output and "2 earlier runs not shown" in done.output
    assert page.read_text() == render_trends(history(runs, last=2))
    plain = CliRunner().invoke(app, ["history", str(runs), "--json", "--requirement", "latency/latency_p50"])
    (one,) = json.loads(plain.stdout)["requirements"]
    assert [point["value"] for point in one["points"]] == [4.0, 4.1, 4.2, 4.0]
    assert one["points"][3]["not_comparable"].startswith("hardware: A")
    wrong = CliRunner().invoke(app, ["history", str(runs), "--output", str(tmp_path / "trends.txt")])
    assert wrong.exit_code == 2 and "ends in .html" in wrong.output


def test_the_page_links_to_the_reports_that_are_there(runs: Path, tmp_path: Path) -> None:
    newest = history(runs).runs[-1].run
    (runs / newest / "report.html").write_text("")
    page = runs / "trends.html"
    done = CliRunner().invoke(app, ["history", str(runs), "--output", str(page)])
    assert done.exit_code == 0, done.output
    assert re.findall(r'href="([^"#]+)"', page.read_text()) == [f"{newest}/report.html"]
    assert page.read_text().count("2026-11-20 10:0") > len(history(runs).runs)
