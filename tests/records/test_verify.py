"""A record whose evidence was changed by hand is noticed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec import __version__
from evalspec.evidence.record import Record
from evalspec.evidence.verdict import RULE_VERSION
from evalspec.records.verify import verify
from evalspec.running.files import Journal, sha256_of
from evalspec.verdict import decide
from tests.commands import evalspec
from tests.shared import ROOT, forge, predictions_run


@pytest.fixture
def base(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    """A suite and a run of it, side by side as in a repository."""
    return shutil.copytree(predictions_run(tmp_path_factory), tmp_path / "copy")


def edit(base: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = base / "run" / "record.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.proof
def test_an_untouched_run_is_the_same_also_when_moved(base: Path) -> None:
    done = evalspec("verify", base / "run")
    assert done.returncode == 0, done.stdout
    assert "same: quality/accuracy" in done.stdout
    assert "same: values of quality" in done.stdout
    assert "differs" not in done.stdout
    assert "not recomputed" not in done.stdout


def test_a_map_column_is_of_the_same_type_again(tmp_path: Path) -> None:
    maps = pa.array([[("a", number)] for number in range(9)], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"m": maps}), tmp_path / "rows.parquet")
    (tmp_path / "evalspec.yaml").write_text(
        "evalspec: 1\nname: maps\ndatasets:\n  rows: {kind: parquet, path: rows.parquet}\ndata:\n"
        "  - {check: integrity, dataset: rows, table_schema: {m: {type: text}}, require: [schema_violations <= 5]}\n"
    )
    made = evalspec("run", tmp_path / "evalspec.yaml", "--output", tmp_path / "run")
    assert made.returncode == 0, made.stdout + made.stderr
    done = evalspec("verify", tmp_path / "run")
    assert done.returncode == 0, done.stdout
    assert "differs" not in done.stdout


@pytest.mark.proof
def test_a_run_that_was_moved_away_from_its_spec_is_told_where_it_is(base: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "deep" / "run"
    shutil.copytree(base / "run", moved)
    done = evalspec("verify", moved)
    assert done.returncode == 3, done.stdout
    (line,) = [line for line in done.stdout.splitlines() if "--spec-folder" in line]
    assert line.startswith("not recomputed: the run's spec is not at ../suite/evalspec.yaml from its folder")
    done = evalspec("verify", moved, "--spec-folder", base / "suite")
    assert done.returncode == 0, done.stdout
    assert "same: quality/accuracy" in done.stdout
    done = evalspec("verify", moved, "--spec-folder", tmp_path / "nowhere")
    assert done.returncode == 2
    assert "--spec-folder" in done.stderr


@pytest.mark.proof
def test_a_changed_value(base: Path) -> None:
    def better(record: dict[str, Any]) -> None:
        record["checks"][0]["tests"][0]["value"] = 0.999

    edit(base, better)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: quality/accuracy" in done.stdout
    assert "differs: verdict" in done.stdout


@pytest.mark.proof
def test_a_changed_p_value_that_leaves_the_verdict(base: Path) -> None:
    def smaller(record: dict[str, Any]) -> None:
        record["checks"][0]["tests"][0]["p_pass"] /= 2

    edit(base, smaller)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: quality/accuracy" in done.stdout


@pytest.mark.proof
def test_a_changed_verdict(base: Path) -> None:
    edit(base, lambda record: record["verdict"].update(reason="All is well."))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: verdict" in done.stdout


@pytest.mark.parametrize(("key", "made"), [("evalspec", "0.0.9"), ("rule", "0")])
def test_another_version_does_not_blame_the_record_for_its_words(key: str, made: str, base: Path) -> None:
    """What a version words otherwise is said to be that; files and what the spec says are red whoever looks."""

    def older(record: dict[str, Any]) -> None:
        (record if key == "evalspec" else record["verdict"])[key] = made
        record["checks"][0]["tests"][0]["method"] = "as it was called then"

    forge(base / "run", older, decided=False)
    found = verify(base / "run")
    rule = made if key == "rule" else RULE_VERSION
    version = made if key == "evalspec" else __version__
    this = f"evalspec {__version__} with rule {RULE_VERSION}"
    assert found.versions is not None
    assert found.versions.startswith(
        f"the record was made by evalspec {version} with rule {rule}, and this is {this}: "
    )
    assert found.differs == ()
    assert any(line.startswith("quality/accuracy: the record says method as it was called") for line in found.otherwise)
    edit(base, lambda record: record.update(seed=record["seed"] + 1))
    assert any(line.startswith("seed: ") for line in verify(base / "run").differs)


def test_another_numpy_may_draw_otherwise_and_is_named(base: Path) -> None:
    """Numpy 2.5 draws some counts otherwise than 2.4, from the same seed; what then differs is not excused."""
    assert verify(base / "run").versions is None
    forge(base / "run", lambda record: record["environment"]["packages"].update(numpy="2.3.0"), decided=False)
    found = verify(base / "run")
    this = f"the record was made with numpy 2.3.0, and this is numpy {np.__version__}: bounds from resamples may differ"
    assert found.versions is not None and found.versions.startswith(this)


def higher(record: dict[str, Any]) -> None:
    record["evalspec"] = "0.0.9"
    test = record["checks"][0]["tests"][0]
    test["value"] = 0.999


def more_rows(record: dict[str, Any]) -> None:
    record["evalspec"] = "0.0.9"
    record["checks"][0]["tests"][0]["n"] = 1_000_000


def in_the_table(record: dict[str, Any]) -> None:
    record["evalspec"] = "0.0.9"
    record["checks"][0]["measured"]["accuracy"] = 0.999


@pytest.mark.proof
@pytest.mark.parametrize("change", [higher, more_rows, in_the_table])
def test_another_version_excuses_no_number(base: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """F3: even where the journal was made to agree; one that was not tells the version as well."""
    plain = shutil.copytree(base, base.parent / "plain")
    forge(base / "run", change)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1, done.stdout
    assert "another version: " in done.stdout
    edit(plain, change)
    edit(plain, decided_again)
    done = evalspec("verify", plain / "run")
    assert done.returncode == 1
    assert f"differs: evalspec: the record says 0.0.9, the journal says {__version__}" in done.stdout


@pytest.mark.proof
def test_a_void_check_that_was_made_valid(base: Path) -> None:
    """F3: the model ran in another precision than the spec asks; the record says that all is well."""
    run = base / "run"

    def void(record: dict[str, Any]) -> None:
        record["checks"][0] |= {"status": "invalid", "reason": "model candidate is to compute in int8"}

    forge(run, void)
    found = verify(run)
    # Nothing that is here shows that it was so, so the record stands.
    assert found.differs == ()

    def valid(record: dict[str, Any]) -> None:
        record["checks"][0] |= {"status": "measured", "reason": None}

    edit(base, valid)
    edit(base, decided_again)
    done = evalspec("verify", run)
    assert done.returncode == 1
    assert "differs: quality: the record says status measured, the journal says invalid" in done.stdout


def test_a_run_in_another_precision_is_void_whatever_the_journal_says_of_it(base: Path) -> None:
    """F3: the answers were seen to come in fp32, the spec asks for int8; record and journal agree on `measured`."""
    run = base / "run"
    spec = run / "spec.yaml"
    spec.write_text(spec.read_text().replace("kind: predictions", "kind: predictions\n    precision: int8"))

    def seen(event: dict[str, Any]) -> dict[str, Any]:
        return event | {"observed": {**event["observed"], "precision": "fp32"}} if "observed" in event else event

    rewrite_journal(run, seen)
    (line,) = [line for line in verify(run).differs if line.startswith("status of quality: ")]
    assert "model candidate should compute in int8 but computed in fp32" in line


def rewrite_journal(run: Path, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change lines of a journal, and chain them anew."""
    journal = Journal(run / "journal.jsonl")
    events = [change(dict(event)) for event in journal.read()]
    journal.path.unlink()
    for event in events:
        journal.write(event.pop("event"), **{name: value for name, value in event.items() if name != "previous"})


@pytest.mark.proof
def test_a_day_on_which_a_waiver_still_held(base: Path) -> None:
    """F3: an expired waiver holds again where the record says that the run began before."""
    edit(base, lambda record: record.update(started="2020-01-01T10:00:00Z"))
    edit(base, decided_again)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: started: the record says 2020-01-01T10:00:00Z, the journal says " in done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("name", ["report.html", "junit.xml", "summary.md"])
def test_a_page_that_says_another_word(base: Path, name: str) -> None:
    """F8: whoever opens a page sees what the record gives."""
    page = base / "run" / name
    page.write_text(page.read_text().replace("accuracy", "acuracy"))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert f"differs: {name}: its content differs from what was written" in done.stdout
    rewrite_journal(base / "run", lambda event: event | _digests(base / "run", event))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert f"differs: {name}: it does not match the record" in done.stdout


def _digests(run: Path, event: dict[str, Any]) -> dict[str, Any]:
    """With the digests of the pages as they are now."""
    return {"digests": {name: sha256_of(run / name) for name in event["digests"]}} if event["event"] == "pages" else {}


def test_a_page_that_is_gone(base: Path) -> None:
    (base / "run" / "summary.md").unlink()
    assert verify(base / "run").differs == ("summary.md: it is not there, and journal.jsonl says that it was written",)
    rewrite_journal(base / "run", lambda event: event | ({"digests": {}} if event["event"] == "pages" else {}))
    found = verify(base / "run")
    assert found.differs == () and found.skipped == ("summary.md: it is not there",)


@pytest.mark.proof
def test_pages_that_are_made_again_are_the_same(base: Path) -> None:
    """Also when the journal was attested before: nothing is added to it."""
    before = (base / "run" / "journal.jsonl").read_bytes()
    (base / "run" / "report.html").unlink()
    assert evalspec("report", base / "run").returncode == 0
    assert (base / "run" / "journal.jsonl").read_bytes() == before
    done = evalspec("verify", base / "run")
    assert done.returncode == 0, done.stdout


@pytest.mark.proof
@pytest.mark.parametrize("line", [0, 1, 2, -2])
def test_a_journal_of_which_a_line_was_changed_or_taken_out(base: Path, line: int) -> None:
    path = base / "run" / "journal.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = [*lines]
    changed[line] = changed[line].replace('{"event"', '{ "event"')
    taken = [*lines]
    taken.pop(line)
    for these in (changed, taken):
        path.write_text("".join(these))
        done = evalspec("verify", base / "run")
        assert done.returncode == 1
        assert "differs: journal.jsonl: line " in done.stdout


def test_a_journal_without_its_end(base: Path) -> None:
    path = base / "run" / "journal.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True)[:-2]))
    assert "journal.jsonl: it does not say how the run ended" in verify(base / "run").differs


@pytest.mark.proof
def test_a_run_without_a_journal(base: Path) -> None:
    (base / "run" / "journal.jsonl").unlink()
    done = evalspec("verify", base / "run")
    assert done.returncode == 3
    assert "not recomputed: what only the journal of a run says, such as its times: journal.jsonl" in done.stdout


@pytest.mark.parametrize("name", ["record.json", "spec.yaml"])
def test_bytes_that_say_the_same(base: Path, name: str) -> None:
    """A comment in the spec, a space in the record: the journal has the digests of both."""
    path = base / "run" / name
    path.write_text(path.read_text() + "\n")
    assert verify(base / "run").differs == (f"{name}: its content differs from what the run wrote",)


def test_no_report_is_made_of_a_verdict_that_was_changed(base: Path) -> None:
    edit(base, lambda record: record["checks"][0]["tests"][0].update(p_pass=0.5))
    done = evalspec("report", base / "run")
    assert done.returncode == 2
    assert "its tests do not give its verdict (quality/accuracy, the verdict)" in done.stderr


def test_changed_predictions(base: Path) -> None:
    path = base / "run" / "evidence" / "predictions-candidate-test.parquet"
    table = pq.read_table(path)
    answers = table.column("predicted").to_pylist()
    answers[0] = (answers[0] + 1) % 3
    column = pa.array(answers, table.schema.field("predicted").type)
    changed = table.set_column(table.schema.get_field_index("predicted"), "predicted", column)
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), path)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "its content differs from what was written" in done.stdout


@pytest.mark.proof
def test_a_changed_dataset(base: Path) -> None:
    path = base / "suite" / "test.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "dataset test: its rows are not those that were measured" in done.stdout


@pytest.mark.proof
def test_a_loosened_threshold(base: Path) -> None:
    path = base / "run" / "spec.yaml"
    path.write_text(path.read_text().replace("accuracy >= 90 %", "accuracy >= 50 %"))
    done = evalspec("verify", base / "run")
    assert done.returncode == 1
    assert "differs: digest of spec.yaml" in done.stdout


def test_a_dataset_that_is_gone_is_said(base: Path) -> None:
    shutil.rmtree(base / "suite")
    done = evalspec("verify", base / "run")
    assert "not recomputed: quality: dataset test can't be read here" in done.stdout
    assert done.returncode == 3


def decided_again(record: dict[str, Any]) -> None:
    """The verdict that follows from a record as it was edited."""
    again = Record.model_validate(record)
    record["verdict"] = decide(again).model_dump(mode="json")


def without_a_check(record: dict[str, Any]) -> None:
    record["checks"] = []


def without_a_requirement(record: dict[str, Any]) -> None:
    del record["checks"][0]["tests"][1]


def with_a_waiver(record: dict[str, Any]) -> None:
    waiver = {"of": "quality/accuracy", "why": "No time.", "owner": "nobody@example.com", "expires": "2999-01-01"}
    record["waivers"] = [waiver]


def of_another_subject(record: dict[str, Any]) -> None:
    record["subject"] = "0" * 64


@pytest.mark.proof
@pytest.mark.parametrize(
    ("change", "found"),
    [
        (without_a_check, "differs: checks: "),
        (without_a_requirement, "differs: quality/recall(class_1): "),
        (with_a_waiver, "differs: waivers: "),
        (of_another_subject, "differs: subject: "),
    ],
)
def test_a_record_that_agrees_with_itself_and_not_with_its_spec(
    base: Path, change: Callable[[dict[str, Any]], None], found: str
) -> None:
    edit(base, change)
    edit(base, decided_again)
    done = evalspec("verify", base / "run")
    assert done.returncode == 1, done.stdout + done.stderr
    assert found in done.stdout
    assert "differs: verdict" not in done.stdout


@pytest.mark.parametrize("content", [None, "", "{}", '{"version": 99}', "\x00"])
def test_a_broken_record_is_one_sentence(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "record.json").write_text(content)
    done = evalspec("verify", tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


@pytest.mark.proof
def test_an_attestation_names_the_very_files(base: Path) -> None:
    """F8: a record, journal or page that is changed later is not the one that was signed for."""
    run = base / "run"
    said = json.loads(evalspec("report", run, "--attestation").stdout)
    names = ("record.json", "journal.jsonl", "report.html", "junit.xml", "summary.md")
    assert said["predicate"]["files"] == [
        {"name": name, "digest": {"sha256": hashlib.sha256((run / name).read_bytes()).hexdigest()}} for name in names
    ]
    forge(run, lambda record: record["checks"][0].update(duration_s=1.0))
    assert verify(run).differs == ()
    assert (
        json.loads(evalspec("report", run, "--attestation").stdout)["predicate"]["files"] != said["predicate"]["files"]
    )


OLD = Path(__file__).parent / "fixtures" / "run-0.1.0"
"""A run of the suite of predictions, whose journal holds neither the record's end nor any digest."""


def test_a_run_from_before_journals_held_records_is_verified_as_it_was(tmp_path: Path) -> None:
    run = shutil.copytree(OLD, tmp_path / "run")
    found = verify(run, spec_folder=ROOT / "suites" / "predictions")
    assert found.differs == ()
    assert any("the journal of this run has no digest of record.json and of its pages" in one for one in found.skipped)
    assert {"values of quality", "seed", "waivers"} <= set(found.same)
    # Such records don't have the unit that a requirement is written in.
    assert "quality/accuracy: " in "".join(found.otherwise) and "written_unit" in "".join(found.otherwise)
    assert "verdict" in {one.partition(":")[0] for one in found.otherwise}, "its rules were of another version"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record: record.update(started="2020-01-01T10:00:00Z"), "started: the record says 2020-01-01T10:00:00Z"),
        (lambda record: record["checks"][0].update(status="invalid", reason="x"), None),
        (lambda record: record["checks"][0].update(duration_s=9.5), "quality: the record says duration_s 9.5"),
        (lambda record: record["checks"][0]["counts"].update(used=9), "counts of quality: the record says used 9"),
        (lambda record: record["datasets"][0].update(rows_read=1000), "dataset test: the record says rows_read 1000"),
    ],
)
def test_what_is_changed_in_such_a_run(
    change: Callable[[dict[str, Any]], None], said: str | None, tmp_path: Path
) -> None:
    """What an older journal says is held against the record; that a check was voided at the end it does not say."""
    run = shutil.copytree(OLD, tmp_path / "run")
    edit(tmp_path, change)
    edit(tmp_path, decided_again)
    found = verify(run, spec_folder=ROOT / "suites" / "predictions")
    if said is None:
        assert found.differs == () and found.skipped
    else:
        assert any(line.startswith(said) for line in found.differs), found.differs


@pytest.mark.proof
@pytest.mark.parametrize(
    "line",
    ['{"event": "check"}', '{"event": "end", "record": {"checks": 3}, "checks": [[1]], "digests": 4}', "[]", "{",
     '{"event": ["end"]}', '{"event": "pages", "digests": [1]}', '{"event": "predictions", "observed": 3}',
     '{"event": "check", "id": "quality", "record": [], "observed": {"candidate": 2}}'],
)  # fmt: skip
@pytest.mark.parametrize("first", [True, False])
def test_a_journal_of_any_shape_is_read(base: Path, line: str, first: bool) -> None:
    path = base / "run" / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([line, *lines] if first else [*lines, line]) + "\n")
    found = verify(base / "run")
    assert found.differs or line in ("[]", "{", '{"event": ["end"]}')


BEFORE_ROOMS = Path(__file__).parent / "fixtures" / "run-0.2.0"
"""Runs of the version before the package was moved into rooms: their records are read as they were written."""


@pytest.mark.parametrize("suite", ["predictions", "labels"])
def test_a_run_of_0_2_0_is_verified_number_by_number(suite: str, tmp_path: Path) -> None:
    run = shutil.copytree(BEFORE_ROOMS / suite, tmp_path / "run")
    found = verify(run, spec_folder=ROOT / "suites" / suite)
    assert (found.differs, found.skipped) == ((), ())
    assert {"seed", "waivers"} <= set(found.same)
    forge(run, lambda record: record["checks"][0]["tests"][0].update(value=0.123))
    assert verify(run, spec_folder=ROOT / "suites" / suite).differs != ()


@pytest.mark.proof
@pytest.mark.parametrize("suite", ["predictions", "labels"])
def test_a_run_of_0_2_0_is_compared_and_shown_as_it_was(suite: str, tmp_path: Path) -> None:
    run = shutil.copytree(BEFORE_ROOMS / suite, tmp_path / "run")
    compared = evalspec("compare", run, run, "--json")
    assert compared.returncode == 0, compared.stderr
    before = json.loads((run / "record.json").read_text())["verdict"]
    made = evalspec("report", run)
    assert made.returncode == 0, made.stderr
    assert before["headline"].partition(" ")[0] in (run / "report.html").read_text()
