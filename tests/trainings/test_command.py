"""`kind: command`: what is refused when a spec is read, what a plan says, and what the command becomes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from evalspec.errors import SpecError
from evalspec.language.parts import Access
from evalspec.loading import load
from evalspec.trainings.command import CommandTraining

GIVEN: dict[str, Any] = {
    "kind": "command",
    "run": ["python", "train.py", "{seed}", "{out}"],
    "seeds": 14,
    "limit": "40 min",
    "log": {"kind": "jsonl", "path": "{out}/log.jsonl", "time": "t"},
}


def training(**fields: Any) -> CommandTraining:
    return CommandTraining.model_validate(GIVEN | fields)


def again(**fields: Any) -> dict[str, Any]:
    return {"checkpoint": "{out}/kept", "round_trip": {"add": ["--again"], "holds": ["model.*"]} | fields}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"run": ["python", "train.py", "{out}"]}, "`run` has no {seed}: all runs would be one"),
        ({"run": ["python", "train.py", "{seed}"]}, "`run` has no {out}: runs would overwrite each other"),
        ({"also_workers": [2]}, "`run` has no {workers}: all runs would have the same number of workers"),
        ({"log": {"kind": "jsonl", "path": "log.jsonl"}}, "the log 'log.jsonl' does not lie in {out}"),
        ({"log": {"kind": "jsonl", "path": "{out}/l", "seeds": 3}}, "`seeds` belongs to the training, not to its log"),
        ({"log": {"kind": "mlflow", "path": "{out}/l"}}, "a run can't be followed by a log of kind 'mlflow'"),
        ({"log": "log.jsonl"}, "'log.jsonl' is not a log"),
        ({"seeds": 0}, "0 seeds are not a number of runs"),
        ({"seeds": []}, "there are no seeds"),
        ({"seeds": [3, 4, 3]}, "seed 3 is listed twice"),
        ({"saves": "{out}/model.onnx"}, "`saves` needs a model"),
        ({"checkpoint": "checkpoints"}, "the folder of checkpoints 'checkpoints' does not lie in {out}"),
        ({"checkpoint": "{out}"}, "the folder of checkpoints '{out}' does not lie in {out}"),
        ({"checkpoint": "{out}/../kept"}, "the folder of checkpoints '{out}/../kept' does not lie in {out}"),
        ({"saves": "{out}/../../model.onnx", "makes": "m"}, "the saved model '{out}/../../model.onnx' does not lie in"),
        (again(holds=["*"]), "`holds` names '*': any checkpoint has such a name, so that nothing is missed"),
        (again(holds=["a", " "]), "`holds` has a name without letters"),
        (again(may_change=[""]), "`may_change` has a name without letters"),
        (again(may_change=["*"]), "`may_change` sets '*' aside, and with it 'model.*', which `holds` says is state"),
        (again(holds=["rng"], may_change=["clock", "r?g"]), "`may_change` sets 'r?g' aside, and with it 'rng'"),
        ({"run": ["t", "{seed}{out}{workers}"], "workers": 2, "also_workers": [2]}, "2 workers are named twice"),
    ],
)
def test_what_can_t_be_run_is_refused_in_a_sentence(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as refused:
        training(**fields)
    assert words in str(refused.value)


def test_a_plan_says_hours_cost_and_what_so_many_show() -> None:
    assert training(cost="3.06 USD/h").outlook(0.95) == (
        "14 runs one after the other, each of 40 min at most: 560 min in all, 28.56 USD",
        "p50 is shown by 14 seeds where 3 of them may be later",
        "p80 is shown by 14 seeds where none of them may be later",
        "p90 can't be shown by 14 seeds: it needs 29",
    )
    several = training(run=["t", "{seed}", "{workers}", "{out}"], also_workers=[2, 4], seeds=5)
    assert several.outlook(0.95)[0].startswith("15 runs one after the other")
    assert several.longest_s == 15 * 2400


def test_the_command_has_its_places_filled() -> None:
    one = training(run=["python", "-s{seed}", "--out={out}/x", "{workers}{unknown}"], without_checkpoints=["--none"])
    assert one.command(7, 4, Path("/o")) == ("python", "-s7", "--out=/o/x", "4{unknown}")
    assert one.command(7, None, Path("/o"), one.without_checkpoints)[-2:] == ("1{unknown}", "--none")
    assert pickle.loads(pickle.dumps(one)) == one


def test_runs_that_are_not_made_are_rows_without_values(tmp_path: Path) -> None:
    rows = training(seeds=3).read(Access(tmp_path)).to_pylist()
    assert [(row["run"], row["status"], row["metric"], row["started"]) for row in rows] == [
        (f"run {number} of 3", "planned", None, 3) for number in (1, 2, 3)
    ]


SPEC = """
evalspec: 1
name: made
models: {{candidate: {{kind: onnx, path: "{path}"}}}}
trainings:
  recipe: {{kind: command, run: [t, "{{seed}}{{out}}"], seeds: 5, limit: 9 s, {makes}
    log: {{kind: csv, path: "{{out}}/log.csv"}}}}
system:
  - {{check: time_to_accuracy, training: recipe, target: v >= 0.9, require: [time_to_accuracy_p{q} <= {limit}]}}
"""


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"makes": ""}, "the path of candidate lies in {out}, and no training makes candidate"),
        ({"makes": "makes: other,"}, "unknown model 'other'"),
        ({"path": "m.onnx"}, "it is not known where a run saves the model that recipe makes"),
        ({"q": "80"}, "5 runs of recipe can't show 'time_to_accuracy_p80 <= 5 s'"),
        ({"limit": "20 s"}, "asks for more than the limit of recipe"),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path: Path, fields: dict[str, str], words: str) -> None:
    given = {"path": "{out}/m.onnx", "makes": "makes: candidate,", "q": "50", "limit": "5 s"} | fields
    (tmp_path / "gate.yaml").write_text(SPEC.format(**given))
    with pytest.raises(SpecError) as refused:
        load(tmp_path / "gate.yaml")
    assert words in str(refused.value)


def test_what_goes_together_is_read(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(
        SPEC.format(path="{out}/m.onnx", makes="makes: candidate,", q="50", limit="5 s")
    )
    spec = load(tmp_path / "gate.yaml")
    assert "the model candidate: a training makes it" in spec.unverified
    assert "the runs of recipe: `run` makes them" in spec.unverified
