"""Scores for a model's page on its hub, read by the hub's own package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import RecordError
from evalspec.evidence.model_card import Benchmark
from evalspec.evidence.policy import Waiver
from evalspec.evidence.record import CheckRecord, DatasetRecord, ModelRecord, Record
from evalspec.report import model_card
from evalspec.running.children.reader import benchmark_of
from evalspec.sources.huggingface import Huggingface
from evalspec.sources.parquet import Parquet
from evalspec.verdict import decide
from tests.verdict.test_decide import FAILING, UNDECIDED, a_check, a_record, a_test

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "model_card.v1.json").read_text())
HUB = Benchmark(id="owner/animals", task="default", metric="accuracy", revision="5503434d")
MODELS = (
    ModelRecord(name="candidate", kind="onnx", digest="ab" * 32),
    ModelRecord(name="baseline", kind="onnx", digest="cd" * 32),
)


def data(**fields: Any) -> DatasetRecord:
    given = {"name": "test", "kind": "parquet", "path": "t.parquet", "digest": "sha256:" + "ef" * 32, "rows": 1000}
    return DatasetRecord.model_validate(given | {"hub": HUB} | fields)


def check(*tests: Any, **fields: Any) -> CheckRecord:
    return a_check(*tests).model_copy(update={"models": ("candidate",)} | fields)


def a_run(*checks: CheckRecord, **fields: Any) -> Record:
    return a_record(*checks, **({"models": MODELS, "datasets": (data(),)} | fields))


def text_of(record: Record) -> str:
    return model_card(record, decide(record))


def made(record: Record) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = yaml.safe_load(text_of(record))
    Draft202012Validator(SCHEMA).validate(said)
    return said


def test_the_hub_s_own_package_reads_it() -> None:
    hub = pytest.importorskip("huggingface_hub")
    said = made(a_run(check(a_test(method="Clopper-Pearson"))))
    (entry,) = hub.parse_eval_result_entries(said)
    assert (entry.dataset_id, entry.task_id, entry.dataset_revision) == ("owner/animals", "default", "5503434d")
    assert (entry.value, entry.date, entry.verify_token) == (0.97, "2026-11-20T10:00:00Z", None)
    assert entry.notes == (
        "accuracy 0.97, n 1,000, at least 0.96, at most 0.98 (each at 95 %; Clopper-Pearson). Asked: accuracy >= 95 %: "
        "PASS. Model abababababab, rows efefefefefef, declared to be those of owner/animals. evalspec 0: READY."
    )
    assert hub.eval_result_entries_to_yaml([entry]) == said


def test_a_share_in_percent_and_rows_read_from_the_hub() -> None:
    here = data(kind="huggingface", path=None, hub=HUB.model_copy(update={"unit": "%", "revision": None}))
    (entry,) = made(a_run(check(a_test(value=0.709, lower=None, upper=None)), datasets=(here,)))
    assert (entry["value"], entry["dataset"]) == (70.9, {"id": "owner/animals", "task_id": "default"})
    assert "no interval" in entry["notes"] and "stated" not in entry["notes"]
    (back,) = made(a_run(check(a_test(value=70.9, unit="%"))))
    assert back["value"] == 0.709


@pytest.mark.parametrize(("ended", "status"), [(FAILING, "FAIL"), (UNDECIDED, "INCONCLUSIVE")])
def test_what_was_measured_is_told_however_it_ended(ended: dict[str, Any], status: str) -> None:
    (entry,) = made(a_run(check(a_test(**ended))))
    assert entry["value"] == ended["value"] and f">= 95 %: {status}." in entry["notes"]


@pytest.mark.parametrize(("stated", "kept"), [(None, "abc"), ("def", "def")])
def test_the_commit_is_that_which_the_rows_are_read_at(stated: str | None, kept: str) -> None:
    hub = HUB.model_copy(update={"revision": stated})
    # A file of one's own is read at no commit.
    for dataset, revision in (
        (Huggingface.model_construct(name=HUB.id, revision="abc", hub=hub), kept),
        (Parquet(path="t.parquet", hub=hub), stated),
    ):
        found = benchmark_of(dataset)
        assert found is not None and found.revision == revision
    assert benchmark_of(Parquet(path="t.parquet")) is None


LEAK = a_test("contamination", "exact_duplicates", exact=True, op="==", threshold=0.0, unit="rows", value=3.0)


@pytest.mark.parametrize(
    ("checks", "name", "why"),
    [
        ((check(a_test(invalid="the machine\nwas busy")),), "quality/accuracy", "the machine was busy"),
        ((check(a_test(), status="error", reason="it crashed"),), "quality/accuracy", "does not count: it crashed"),
        ((check(a_test(missing="no labels", value=None)),), "quality/accuracy", "does not count: no labels"),
        ((check(a_test(metric="f1")),), "quality/f1", "the score of owner/animals is accuracy"),
        ((check(a_test(against="baseline")),), "quality/accuracy", "compares with baseline"),
        ((check(a_test(), models=("baseline",)),), "quality/accuracy", "the model baseline, which is not the subject"),
        ((check(a_test(), datasets=("mine",)),), "quality/accuracy", "`hub: {id: owner/name, task: TASK, metric: acc"),
        ((check(a_test(), datasets=("dark",)),), "quality/accuracy", "only rows of dark with lux < 9 were used"),
        ((check(a_test(), datasets=("test", "mine")),), "quality/accuracy", "on several datasets"),
        ((check(a_test(), dimension="system"),), "quality/accuracy", "it is about the system"),
        (
            (check(a_test()), check(LEAK, id="contamination", dimension="data")),
            "quality/accuracy",
            "does not hold on the same data",
        ),
    ],
)
def test_what_is_no_score_of_a_benchmark_is_left_out_and_named(
    checks: tuple[CheckRecord, ...], name: str, why: str
) -> None:
    others = (data(name="mine", hub=None), data(name="dark", where="lux < 9"))
    good = check(a_test("whole", "accuracy"), id="whole", datasets=("whole",))
    whole = data(name="whole", digest="sha256:" + "12" * 32, hub=HUB.model_copy(update={"task": "whole"}))
    text = text_of(a_run(good, *checks, datasets=(data(), *others, whole)))
    lines = [line for line in text.splitlines() if line.startswith(f"# Left out: {name}: ")]
    assert len(lines) == 1 and why in lines[0]
    assert [one["dataset"]["task_id"] for one in yaml.safe_load(text)] == ["whole"]


def test_a_verdict_with_a_waiver_is_told_whole() -> None:
    waiver = Waiver(of="quality/accuracy", why="known", owner="me", expires="2099-01-01")
    (one,) = made(a_run(check(a_test(**FAILING), a_test("quality", "f1")), waivers=(waiver,)))
    assert one["notes"].endswith("evalspec 0: READY (1 waived).") and ": FAIL." in one["notes"]


def test_a_benchmark_has_one_score() -> None:
    twice = (check(a_test()), check(a_test("again", "accuracy", value=0.5), id="again"))
    text = text_of(a_run(*twice))
    assert [one["value"] for one in yaml.safe_load(text)] == [0.97]
    assert "again/accuracy: owner/animals has one score, and that is quality/accuracy." in text


def test_what_is_no_share_is_not_in_percent() -> None:
    mae = a_test(metric="mae", unit="min", op="<=", threshold=3.0, value=2.0)
    hub = HUB.model_copy(update={"metric": "mae", "unit": "%"})
    with pytest.raises(RecordError, match="mae is not a share"):
        text_of(a_run(check(mae), datasets=(data(hub=hub),)))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"draft": True}, "the run is a draft, so its scores don't belong on a model card"),
        ({"only": ("quality",)}, "only quality was run"),
        ({"interrupted": True}, "the run was interrupted"),
        ({"subject": None}, "the subject is not shown, .* `artifact:`"),
        ({"datasets": (data(hub=None),)}, "no dataset of this run names the hub benchmark"),
        ({"checks": ()}, "nothing was required"),
    ],
)
def test_what_says_nothing_of_a_whole_model_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RecordError, match=sentence):
        text_of(a_run(check(a_test())).model_copy(update=fields))


def test_the_command_line_says_so_in_a_sentence(tmp_path: Path) -> None:
    record = a_run(check(a_test()))
    for name, draft in (("whole", False), ("draft", True)):
        one = record.model_copy(update={"draft": draft})
        (tmp_path / name).mkdir()
        (tmp_path / name / "record.json").write_text(
            one.model_copy(update={"verdict": decide(one)}).model_dump_json(), encoding="utf-8"
        )
    good = CliRunner().invoke(app, ["report", str(tmp_path / "whole"), "--model-card"])
    assert (good.exit_code, yaml.safe_load(good.stdout)[0]["value"]) == (0, 0.97)
    assert sorted(path.name for path in (tmp_path / "whole").iterdir()) == ["record.json"]
    bad = CliRunner().invoke(app, ["report", str(tmp_path / "draft"), "--model-card"])
    assert bad.exit_code == 2 and "error: the run is a draft" in bad.stderr
