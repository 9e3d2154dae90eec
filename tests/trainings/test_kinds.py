"""Logs as they are written by others, and what is said of those that can't be read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access, Training
from evalspec.language.registry import discover
from tests.trainings.logs import START_MS, curve, mllog_line, write_jsonl, write_mllog, write_mllogs


def training(kind: str, **fields: Any) -> Training:
    return discover(plugins=False).training(kind).model_validate({"kind": kind, **fields})


def rows(folder: Path, kind: str, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = training(kind, **fields).read(Access(folder)).to_pylist()
    return found


def refused(folder: Path, kind: str, **fields: Any) -> str:
    with pytest.raises(InputError) as raised:
        training(kind, **fields).read(Access(folder))
    text = str(raised.value)
    assert "\n" not in text
    return text


def test_an_mllog_is_read_as_it_is_written(tmp_path: Path) -> None:
    write_mllog(tmp_path / "result_0.txt", [(10.0, 0.5, 1_000), (20.0, 0.95, 2_000)], seed=31, before_min=3.3)
    first, second = rows(tmp_path, "mllog", path="result_0.txt", workers=8, cost="3.06 USD/h", limit="40 min")
    assert first == {
        "run": "result_0.txt", "seed": 31, "workers": 8, "step": None, "samples": 1_000.0, "time_s": 600.0,
        "before_s": pytest.approx(198.0), "end_s": 1_200.0, "energy_j": None, "status": "success",
        "metric": "eval_accuracy", "value": 0.5, "limit_s": 2_400.0, "usd_h": 3.06, "started": None,
        "batch": 16,
        "spoiled": None, "lag_s": None, "model": None,
        "part": "run", "kill": None, "pair": None, "saved": None,
    }  # fmt: skip
    assert (second["time_s"], second["value"]) == (1_200.0, 0.95)


def test_epochs_are_samples_where_the_log_says_how_many_an_epoch_has(tmp_path: Path) -> None:
    lines = [
        mllog_line(START_MS, "run_start", None, "INTERVAL_START"),
        mllog_line(START_MS, "train_samples", 1_170_301),
        mllog_line(START_MS + 60_000, "eval_accuracy", 0.33, epoch_num=4),
        mllog_line(START_MS + 60_100, "run_stop", None, "INTERVAL_END", status="aborted"),
    ]
    (tmp_path / "log.txt").write_text("\n".join(lines))
    (row,) = rows(tmp_path, "mllog", path="log.txt")
    assert row["samples"] == 4 * 1_170_301
    assert row["status"] == "aborted"
    assert row["before_s"] is None


def test_an_mllog_without_an_end_is_cut(tmp_path: Path) -> None:
    write_mllog(tmp_path / "a.txt", curve(20.0), status=None)
    assert {row["status"] for row in rows(tmp_path, "mllog", path="a.txt")} == {"cut"}
    text = (tmp_path / "a.txt").read_text()
    (tmp_path / "a.txt").write_text(text[:-30])
    assert {row["status"] for row in rows(tmp_path, "mllog", path="a.txt")} == {"cut"}


def test_what_is_wrong_with_an_mllog_is_one_sentence(tmp_path: Path) -> None:
    write_mllog(tmp_path / "a.txt", curve(20.0))
    good = (tmp_path / "a.txt").read_text()
    (tmp_path / "two.txt").write_text(good + good)
    assert "two.txt holds two runs: a second run_start is in line" in refused(tmp_path, "mllog", path="two.txt")
    lines = good.splitlines()
    (tmp_path / "torn.txt").write_text("\n".join([*lines[:8], lines[8][:60], *lines[9:]]))
    assert "line 9 of torn.txt is not an MLLOG event" in refused(tmp_path, "mllog", path="torn.txt")
    evaluated = [place for place, line in enumerate(lines) if "eval_accuracy" in line]
    lines[evaluated[0]], lines[evaluated[3]] = lines[evaluated[3]], lines[evaluated[0]]
    (tmp_path / "back.txt").write_text("\n".join(lines))
    assert "of back.txt the clock goes back by" in refused(tmp_path, "mllog", path="back.txt")
    (tmp_path / "none.txt").write_text("hello\n")
    assert "none.txt has no run_start" in refused(tmp_path, "mllog", path="none.txt")


def test_one_seed_in_two_runs_is_refused(tmp_path: Path) -> None:
    for place in range(2):
        write_mllog(tmp_path / f"result_{place}.txt", curve(20.0 + place), seed=5)
    said = refused(tmp_path, "mllog", path="result_*.txt")
    assert "result_0.txt and result_1.txt have the same seed, 5" in said


def test_a_copy_of_a_run_is_refused(tmp_path: Path) -> None:
    for place in range(2):
        write_mllog(tmp_path / f"result_{place}.txt", curve(20.0), seed=None)
    assert "one is a copy of the other" in refused(tmp_path, "mllog", path="result_*.txt")


def test_runs_that_were_started_and_have_no_log_are_missing(tmp_path: Path) -> None:
    write_mllogs(tmp_path, [20.0, 21.0, 22.0])
    missing = [
        row["run"] for row in rows(tmp_path, "mllog", path="result_*.txt", seeds=5) if row["status"] == "missing"
    ]
    assert missing == ["run 4", "run 5"]
    listed = rows(tmp_path, "mllog", path="result_*.txt", seeds=[1000, 1007, 1014, 99])
    assert [row["run"] for row in listed if row["status"] == "missing"] == ["seed 99"]
    assert "says that so many were started" in refused(tmp_path, "mllog", path="result_*.txt", seeds=2)
    assert "seed 1014 is among the logs" in refused(tmp_path, "mllog", path="result_*.txt", seeds=[1000, 1007])


def test_a_seed_is_listed_once() -> None:
    with pytest.raises(ValueError, match="seed 3 is listed twice"):
        training("mllog", path="x", seeds=[3, 4, 3])


@pytest.mark.parametrize("field", ["label", "key", "where", "origin", "cluster", "hub"])
def test_fields_of_rows_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"a training has no `{field}`"):
        training("jsonl", path="x", **{field: "x"})


def test_paths_tell_seeds_and_workers(tmp_path: Path) -> None:
    for workers in (1, 12):
        for seed in (3, 40):
            write_jsonl(tmp_path / f"w{workers}" / f"seed{seed}" / "log.jsonl", curve(20.0 + seed / workers))
    (tmp_path / "w1" / "seedless").mkdir()
    (tmp_path / "w1" / "seedless" / "log.jsonl").write_text("{}\n")
    found = rows(tmp_path, "jsonl", path="w{workers}/seed{seed}/log.jsonl", time="t", samples="samples")
    assert {(row["workers"], row["seed"]) for row in found} == {(1, 3), (1, 40), (12, 3), (12, 40)}
    assert {row["metric"] for row in found} == {"val_accuracy", "train_accuracy"}
    assert {row["before_s"] for row in found} == {0.0}


@pytest.mark.parametrize(
    ("path", "said"), [("a/*.txt", "there is no file"), ("b", "is a folder"), ("**/x", "has `\\*\\*`")]
)
def test_paths_that_name_no_log(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match=said):
        training("jsonl", path=path).files(Access(tmp_path))


def test_logs_outside_of_the_folder_need_leave(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "out" / "a.jsonl", curve(20.0))
    (tmp_path / "spec").mkdir()
    with pytest.raises(InputError, match="outside the spec's folder"):
        training("jsonl", path="../out/*.jsonl").files(Access(tmp_path / "spec"))
    assert training("jsonl", path="../out/*.jsonl").files(Access(tmp_path / "spec", allow_outside=True))


def test_one_file_may_hold_several_runs(tmp_path: Path) -> None:
    lines = [
        {"run": run, "seed": seed, "step": step, "t": 10.0 * step + seed, "acc": 90 + step}
        for run, seed in (("a", 1), ("b", 2))
        for step in (1, 2)
    ]
    (tmp_path / "all.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    found = rows(tmp_path, "jsonl", path="all.jsonl", run="run", time="t", batch=64, percent=True)
    assert [(row["run"], row["seed"], row["samples"], row["value"]) for row in found] == [
        ("all.jsonl: a", 1, 64.0, 0.91), ("all.jsonl: a", 1, 128.0, 0.92),
        ("all.jsonl: b", 2, 64.0, 0.91), ("all.jsonl: b", 2, 128.0, 0.92),
    ]  # fmt: skip
    said = refused(tmp_path, "jsonl", path="all.jsonl", time="t")
    assert "holds two runs: the seed changes from 1 to 2 in line 3" in said


def test_a_torn_last_line_is_a_run_that_was_cut(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", curve(20.0), torn=True)
    assert {row["status"] for row in rows(tmp_path, "jsonl", path="a.jsonl", time="t")} == {"cut"}
    (tmp_path / "empty.jsonl").write_text("")
    (row,) = rows(tmp_path, "jsonl", path="empty.jsonl", time="t")
    assert (row["status"], row["metric"]) == ("cut", None)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ('{"t": 1, "a": 1}\n{"t": \n{"t": 3, "a": 1}', "line 2 of a.jsonl is not JSON"),
        ("[1]\n", "line 1 of a.jsonl is not an object with names, but list"),
        ('{"t": 2, "a": 1}\n{"t": 1, "a": 2}', "in a.jsonl the clock goes back from 2 s to 1 s"),
        ('{"t": 1, "step": 9, "a": 1}\n{"t": 2, "step": 5, "a": 2}', "in a.jsonl the step goes back from 9 to 5"),
        ('{"t": 1, "step": 9, "a": 1}\n{"t": 2, "step": 9, "a": 2}', "a is logged twice at step 9"),
        ('{"t": "soon", "a": 1}', "line 1 of a.jsonl has 'soon' for 't': expected a time"),
        ('{"t": -1, "a": 1}', "expected a number, 0 or more"),
        ('{"t": 1, "step": 1.5, "a": 1}', "has 1.5 for 'step': expected a whole number"),
        ('{"time": 1, "a": 1}', "a.jsonl has no 't', which `time:` names; choose from a, time"),
    ],
)
def test_what_is_wrong_with_json_lines_is_one_sentence(tmp_path: Path, lines: str, said: str) -> None:
    (tmp_path / "a.jsonl").write_text(lines)
    found = refused(tmp_path, "jsonl", path="a.jsonl", time="t")
    assert said.partition(";")[0] in found


def test_times_of_day_count_from_the_first_line(tmp_path: Path) -> None:
    lines = ["2026-11-26T08:00:00Z,1,0.5", "2026-11-26T08:01:30Z,2,0.9", "2026-11-26T08:02:00+00:00,3,"]
    (tmp_path / "a.csv").write_text("\n".join(["when,step,val_accuracy", *lines]))
    found = rows(tmp_path, "csv", path="a.csv", time="when")
    assert [(row["time_s"], row["value"], row["before_s"]) for row in found] == [(0.0, 0.5, None), (90.0, 0.9, None)]
    assert found[0]["end_s"] == 120.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("t,a,a\n1,2,3\n", "has two columns 'a'"),
        ("t,a\n1,2,3\n2,3\n", "line 2 of a.csv has 3 cells, and its header 2"),
    ],
)
def test_what_is_wrong_with_a_table_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert said in refused(tmp_path, "csv", path="a.csv", time="t")


def test_a_table_that_was_cut(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,step,a\n1,1,0.5\n2,2")
    (row,) = rows(tmp_path, "csv", path="a.csv", time="t")
    assert (row["status"], row["value"]) == ("cut", 0.5)


def state(**more: Any) -> dict[str, Any]:
    history = [
        {"epoch": 1.0, "loss": 0.7, "learning_rate": 1e-4, "step": 100},
        {"epoch": 1.0, "eval_loss": 0.5, "eval_accuracy": 0.91, "eval_runtime": 2.5, "step": 100},
        {"epoch": 2.0, "eval_loss": math.nan, "eval_accuracy": 0.95, "step": 200},
    ]
    return {"log_history": history, "global_step": 200, "max_steps": 200, "best_metric": 0.95, **more}


def test_a_state_of_the_trainer(tmp_path: Path) -> None:
    (tmp_path / "seed7.json").write_text(json.dumps(state()))
    found = rows(tmp_path, "trainer_state", path="seed{seed}.json", batch=32)
    accuracy = [row for row in found if row["metric"] == "eval_accuracy"]
    assert [(row["step"], row["samples"], row["value"], row["time_s"]) for row in accuracy] == [
        (100, 3_200.0, 0.91, None), (200, 6_400.0, 0.95, None),
    ]  # fmt: skip
    assert (accuracy[0]["seed"], accuracy[0]["status"]) == (7, "ended")


def test_a_state_of_the_trainer_that_broke_off(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(state(max_steps=900)))
    assert rows(tmp_path, "trainer_state", path="a.json")[0]["status"] == "cut"
    stopped = {"TrainerControl": {"args": {"should_training_stop": True}}}
    (tmp_path / "a.json").write_text(json.dumps(state(max_steps=900, stateful_callbacks=stopped)))
    assert rows(tmp_path, "trainer_state", path="a.json")[0]["status"] == "ended"
    (tmp_path / "a.json").write_text(json.dumps(state())[:-40])
    assert "is not JSON, or was cut off" in refused(tmp_path, "trainer_state", path="a.json")
    (tmp_path / "a.json").write_text("{}")
    assert "has no `log_history`" in refused(tmp_path, "trainer_state", path="a.json")


def test_every_kind_tells_its_header(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", curve(20.0))
    header = training("jsonl", path="a.jsonl", time="t", samples="samples").header(Access(tmp_path))
    assert header.rows is None
    assert list(header.columns) == list(rows(tmp_path, "jsonl", path="a.jsonl", time="t")[0])


def write_mlflow(folder: Path, run: str, minutes: float, *, seed: int, status: int = 3, **meta: Any) -> None:
    """A run as MLflow's file store has it."""
    place = folder / run
    for name in ("metrics/val", "params", "tags"):
        (place / name).mkdir(parents=True)
    facts = {"run_id": run, "run_name": f"bright-{run}", "start_time": START_MS, "status": status,
             "end_time": START_MS + round(60_000 * minutes) + 500, "lifecycle_stage": "active", **meta}  # fmt: skip
    (place / "meta.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in facts.items()))
    (place / "params" / "seed").write_text(str(seed))
    lines = [(START_MS + round(60_000 * at), value, step) for step, (at, value, _) in enumerate(curve(minutes), 1)]
    (place / "metrics" / "val" / "accuracy").write_text("".join(f"{at} {value} {step}\n" for at, value, step in lines))
    (place / "metrics" / "seen").write_text("".join(f"{at} {64 * step} {step}\n" for at, _, step in lines))


def test_a_file_store_of_mlflow(tmp_path: Path) -> None:
    write_mlflow(tmp_path / "0", "aaaa", 20.0, seed=5)
    write_mlflow(tmp_path / "0", "bbbb", 21.0, seed=6, status=1, end_time=None)
    found = rows(tmp_path, "mlflow", path="0", samples="seen")
    last = found[5]
    assert (last["run"], last["seed"], last["metric"], last["value"]) == ("aaaa (bright-aaaa)", 5, "val/accuracy", 0.95)
    assert (last["time_s"], last["step"], last["samples"], last["end_s"]) == (1_200.0, 6, 384.0, 1_200.5)
    assert last["before_s"] is None
    assert [row["status"] for row in found[::6]] == ["ended", "cut"]


def test_what_is_wrong_with_a_file_store_is_one_sentence(tmp_path: Path) -> None:
    assert "holds no runs of MLflow" in refused(tmp_path, "mlflow", path=".")
    write_mlflow(tmp_path / "0", "aaaa", 20.0, seed=5)
    series = tmp_path / "0" / "aaaa" / "metrics" / "val" / "accuracy"
    good = series.read_text()
    series.write_text(good + good)
    assert "of metrics/val/accuracy of aaaa the clock goes back" in refused(tmp_path, "mlflow", path="0")
    series.write_text(good + "17")
    assert "is not a time, a value and a step" in refused(tmp_path, "mlflow", path="0")
    series.write_text(good)
    (tmp_path / "0" / "aaaa" / "params" / "seed").write_text("lucky")
    assert "is 'lucky': expected a whole number" in refused(tmp_path, "mlflow", path="0")
