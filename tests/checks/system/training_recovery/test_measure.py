"""`training_recovery`: what counts as recovered, what is lost, and what can't be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from evalspec.checks.system.training_recovery.spec import TrainingRecovery
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.estimate import Fact, Measured
from evalspec.language.parts import CheckResult, SpecNames, TrialRuns
from evalspec.trainings.reading.run import COLUMNS, supervised_table
from tests.checks.system.training_recovery.killed import case, killed_table, whole
from tests.trainings.runs import RECIPE, recipe, recipe_table


def measured(folder: Path, **how: Any) -> CheckResult:
    inputs, check = case(folder, killed_table(**how), "recovered >= 75 %")
    return check.run(inputs)


def fact(result: CheckResult, metric: str) -> Fact:
    found = result.estimates[metric]
    assert isinstance(found, Fact)
    return found


def test_fourteen_of_fourteen_show_81_percent(tmp_path: Path) -> None:
    result = measured(tmp_path)
    recovered = result.estimates["recovered"]
    assert not isinstance(recovered, Fact | Measured)
    assert recovered.bound(0.95, "lower") == pytest.approx(0.807, abs=0.0005)  # type: ignore[union-attr]
    assert fact(result, "steps_lost").value == 100.0
    assert fact(result, "state_lost").value == 0.0
    assert not result.notes and not result.weakens
    assert result.conditions == {"kills": 14, "in_a_checkpoint": 7}


def test_the_file_and_the_step_are_named(tmp_path: Path) -> None:
    torn = measured(tmp_path, torn=2)
    assert torn.notes[0] == (
        "2 of 14 kills ended the training: kill0-seed0, started again it failed (the file of checkpoints that changed "
        "last: step400.npz)."
    )
    twice = measured(tmp_path, twice=True)
    assert "its log has loss of step 500 twice" in twice.notes[0]
    other = measured(tmp_path, more=0.001)
    assert fact(other, "state_lost").value == 14.0
    assert fact(other, "state_lost").first.startswith("kill0-seed0: loss 0.003 at step 500, and 0.002 without")


def test_numbers_that_no_seed_repeats_tell_nothing_of_a_kill(tmp_path: Path) -> None:
    assert fact(measured(tmp_path), "state_lost").value == 0.0, "the rate differs in each run of a seed"
    assert "no run repeats a seed" in measured(tmp_path, twins=False).missing["state_lost"]


def test_other_work_voids_times_and_no_fault(tmp_path: Path) -> None:
    result = measured(tmp_path, spoiled="other work", torn=14)
    assert not isinstance(result.estimates["recovered"], Measured) or result.estimates["recovered"].invalid is None
    waits = measured(tmp_path, spoiled="other work").estimates["time_to_resume"]
    assert isinstance(waits, Measured) and waits.invalid == "in kill0-seed0 other work"


def test_logs_can_t_be_killed(tmp_path: Path) -> None:
    inputs, check = case(tmp_path, recipe_table(recipe()), "recovered >= 75 %")
    with pytest.raises(InputError, match="read from logs, so that it can't be killed"):
        check.inspect_rows({"recipe": inputs.table("recipe")}, {})
    with pytest.raises(NotRunError, match="nothing of recipe was killed: no run of it came to its end"):
        check.run(inputs)


def test_why_no_run_came_to_its_end_is_said(tmp_path: Path) -> None:
    busy = "other processes used 1.9 of this machine's 2 processors meanwhile"
    runs = [replace(whole(seed), status="limit", spoiled=busy if seed else None) for seed in (0, 1)]
    for first, why in ((0, ": run-seed0 came to its limit$"), (1, f": run-seed1 came to its limit; {busy}$")):
        table = supervised_table(runs[first:], RECIPE, tuple(COLUMNS), 2)
        inputs, check = case(tmp_path, table, "recovered >= 75 %")
        with pytest.raises(NotRunError, match=f"nothing of recipe was killed: no run of it came to its end{why}"):
            check.run(inputs)


def test_too_few_kills_can_never_show_a_share(tmp_path: Path) -> None:
    def why(kills: int) -> str | None:
        _, check = case(tmp_path, killed_table(2), "recovered >= 80 %", kills=kills)
        return check.check_requirement(check.requirements[0], {})

    assert why(14) is None
    assert why(13) == "13 kills show 79.4 % at most, and 14 are needed"


def test_a_run_more_is_made_only_for_what_is_asked() -> None:
    def trials(*sentences: str) -> TrialRuns:
        return TrainingRecovery.model_validate(
            {"check": "training_recovery", "training": "recipe", "kills": 3, "require": list(sentences)}
        ).trials_of("recipe")

    assert trials("steps_lost <= 5 steps") == TrialRuns(kills=3)
    assert trials("state_lost == 0", "checkpoint_overhead <= 10 %") == TrialRuns(kills=3, twins=1, plain=5)
    other = TrainingRecovery.model_validate(
        {"check": "training_recovery", "training": "recipe", "require": ["state_lost == 0"]}
    )
    assert other.trials_of("another") == TrialRuns()


def test_the_interval_that_loses_the_least_is_told(tmp_path: Path) -> None:
    every = {"checkpoint_every": "10 min", "failure_every": "12 h"}
    inputs, check = case(tmp_path, killed_table(plain_s=99.8), "checkpoint_overhead <= 20 %", **every)
    (note,) = check.run(inputs).notes
    # 10 % of 10 min: 60 s; 60/600 + 600/86400; sqrt(2 x 60 x 43200) = 2277 s, and twice 60/2277.
    assert note.startswith("A checkpoint costs 60 s of each 10 min. With a failure every 720 min 10.7 % of the time")
    assert "with one every 38 min it would be 5.3 %" in note
    inputs, check = case(tmp_path, killed_table(plain_s=120.0), "checkpoint_overhead <= 20 %", **every)
    assert "Checkpoints cost no time that can be seen" in check.run(inputs).notes[0]


@pytest.mark.parametrize(
    ("fields", "sentence", "said"),
    [
        ({"checkpoint_every": "10 min"}, "checkpoint_overhead <= 20 %", "write `failure_every:` too"),
        ({"checkpoint_every": "10 min", "failure_every": "1 h"}, "recovered >= 75 %", "require checkpoint_overhead"),
        ({}, "recovered >= 75 %", None),
    ],
)
def test_half_of_what_an_interval_follows_from_is_refused(
    tmp_path: Path, fields: dict[str, str], sentence: str, said: str | None
) -> None:
    _, check = case(tmp_path, killed_table(2), sentence, **fields)
    fault = check.check_names(SpecNames((), (), ()))
    assert fault is None if said is None else fault is not None and said in fault


def saved_again(lost: int = 0, unknown: str | None = None, what: str = "value", **names: str) -> dict[str, Any]:
    """A round trip as a record has it."""
    first = [{"name": "optimizer.v", "what": what, "then": "", "now": "", **names}] if lost else []
    return {"file": "step400.npz", "names": 9, "lost": lost, "first": first, "unknown": unknown}


def test_a_round_trip_tells_of_a_training_that_no_seed_repeats(tmp_path: Path) -> None:
    kept = fact(measured(tmp_path, twins=False, resaved=saved_again()), "state_lost")
    assert (kept.value, kept.n) == (0.0, 7) and "read and saved again" in kept.method
    lost = measured(tmp_path, twins=False, resaved=saved_again(3, what="type", then="float32", now="float16"))
    assert fact(lost, "state_lost").value == 7.0
    assert fact(lost, "state_lost").first == (
        "kill0-seed0: saved again at once, optimizer.v is float16 and was float32, and 2 more"
    )
    assert "7 of 14 kills changed the state: kill0-seed0" in lost.notes[0]


def test_names_that_changed_alike_are_told_together(tmp_path: Path) -> None:
    changes = [
        {"name": "a", "what": "value", "then": "", "now": ""}, {"name": "c", "what": "gone", "then": "", "now": ""},
        {"name": "b", "what": "value", "then": "", "now": ""},
        {"name": "d", "what": "size", "then": "(2,)", "now": "(3,)"}, {"name": "scaler", "what": "blank"},
        {"name": "ema.*", "what": "unsaved"},
    ]  # fmt: skip
    lost = measured(tmp_path, twins=False, resaved=saved_again(6) | {"first": changes})
    assert fact(lost, "state_lost").first == (
        "kill0-seed0: saved again at once, a and b have other values; c is not saved again; d has the shape (3,) and "
        "had (2,); scaler holds nothing; ema.* was in no checkpoint before"
    )


def test_a_round_trip_that_tells_nothing_passes_nothing(tmp_path: Path) -> None:
    result = measured(tmp_path, twins=False, resaved=saved_again(unknown="it wrote no checkpoint"))
    assert (
        "state_lost" not in result.estimates and result.missing["state_lost"] == "kill0-seed0: it wrote no checkpoint"
    )
    assert "7 of 7 round trips of checkpoints tell nothing: kill0-seed0, it wrote no checkpoint" in result.weakens
    both = measured(tmp_path, resaved=saved_again(unknown="it wrote no checkpoint"))
    assert both.missing["state_lost"] == "kill0-seed0: it wrote no checkpoint", "numbers do not show what `holds` names"
    early = measured(tmp_path, resaved=saved_again(unknown="it had not written a checkpoint") | {"early": True})
    assert early.missing["state_lost"] == (
        "no round trip tells anything: kill0-seed0, it had not written a checkpoint"
    ), "numbers do not show what `holds` names"


def test_a_kill_after_which_nothing_is_logged_where_it_was_shows_no_state(tmp_path: Path) -> None:
    result = measured(tmp_path, aside=50)
    assert result.missing["state_lost"].startswith("after no kill loss was logged at a step at which the run without")
    kept = fact(measured(tmp_path, aside=50, resaved=saved_again()), "state_lost")
    assert (kept.value, kept.n) == (0.0, 7), "a round trip tells"


def test_a_number_that_is_the_same_with_each_seed_shows_no_state(tmp_path: Path) -> None:
    result = measured(tmp_path, alike=True)
    assert "only loss is the same, and that is the same with each seed" in result.missing["state_lost"]
    other = measured(tmp_path, alike=True, more=0.001)
    assert fact(other, "state_lost").value == 14.0


def test_a_seed_that_stops_earlier_makes_no_number_another(tmp_path: Path) -> None:
    table = killed_table(alike=True)
    early = pc.and_(pc.equal(table["run"], "run-seed4"), pc.greater(table["step"], 800))
    inputs, check = case(tmp_path, table.filter(pc.invert(early)), "recovered >= 75 %")
    said = check.run(inputs).missing["state_lost"]
    assert "only loss is the same, and that is the same with each seed" in said


def test_a_number_in_which_seeds_differ_before_the_kill_alone_shows_no_state(tmp_path: Path) -> None:
    table = killed_table(alike=True)
    first = pc.and_(pc.equal(table["run"], "run-seed4"), pc.equal(table["step"], 100))
    value = pc.if_else(first, pc.add(table["value"], 0.5), table["value"])
    inputs, check = case(tmp_path, table.set_column(table.column_names.index("value"), "value", value))
    said = check.run(inputs).missing["state_lost"]
    assert said.startswith("after no kill loss was logged at a step at which the run without a kill logs it and seeds")


def test_a_number_that_differs_with_the_workers_alone_shows_no_state(tmp_path: Path) -> None:
    table = killed_table(alike=True)
    more = table.filter(pc.equal(table["part"], "run"))
    for name, column in (("workers", pa.array([8] * more.num_rows)), ("value", pc.multiply(more["value"], 8.0)),
                         ("run", pc.binary_join_element_wise(more["run"], "w8", "-"))):  # fmt: skip
        more = more.set_column(more.column_names.index(name), name, column)
    inputs, check = case(tmp_path, pa.concat_tables([table, more]), "recovered >= 75 %")
    said = check.run(inputs).missing["state_lost"]
    assert "only loss is the same, and that is the same with each seed" in said


@pytest.mark.parametrize("seeds", [1, 5])
@pytest.mark.parametrize(("form", "shows"), [("constant", False), ("tokens", False), ("correct", True)])
def test_what_stays_as_it_is_or_counts_up_shows_no_state(tmp_path: Path, seeds: int, form: str, shows: bool) -> None:
    table = killed_table(more=0.001)
    step, seed = table["step"], table["seed"]
    up = pc.add(pc.multiply(step, 3), seed)
    value = {"constant": pc.add(seed, 0.5), "tokens": up, "correct": pc.add(pc.bit_wise_and(up, 127), 1000)}[form]
    rate = pc.equal(table["metric"], "rate")
    table = table.set_column(table.column_names.index("value"), "value", pc.cast(value, pa.float64()))
    inputs, check = case(tmp_path, table.filter(pc.and_(rate, pc.less(seed, seeds))), "recovered >= 75 %")
    result = check.run(inputs)
    if shows:
        assert fact(result, "state_lost").value == 0.0
        assert fact(result, "state_lost").method == "rate after the kill against the run let run"
    else:
        said = "nothing is the same but rate, and a kill can't be seen in what stays as it is in a run, or counts"
        assert said in result.missing["state_lost"]


def test_lines_without_a_step_move_no_step(tmp_path: Path) -> None:
    table = killed_table(2, lost=300)
    place = table.column_names.index("step")
    rate = pc.equal(table["metric"], "rate")
    table = table.set_column(place, "step", pc.if_else(rate, pa.scalar(None, pa.int64()), table["step"]))
    inputs, check = case(tmp_path, table, "steps_lost <= 400 steps")
    assert fact(check.run(inputs), "steps_lost").value == 300.0


@pytest.mark.parametrize(("begins", "lost"), [(500, 100), (100, 500)])
def test_a_log_that_begins_anew_tells_where_the_run_went_on(tmp_path: Path, begins: int, lost: int) -> None:
    table = killed_table(2)
    kills = pc.fill_null(pc.equal(table["part"], "kill"), False)
    kill = pc.replace_substring(table["kill"], '"kept": 8', '"kept": 0')
    table = table.set_column(table.column_names.index("kill"), "kill", kill)
    before = pc.and_(kills, pc.less(table["step"], begins))
    inputs, check = case(tmp_path, table.filter(pc.invert(before)), "steps_lost <= 400 steps")
    assert fact(check.run(inputs), "steps_lost").value == lost


def test_a_run_that_never_goes_on_has_no_time(tmp_path: Path) -> None:
    table = killed_table(4, torn=1)
    dead = pc.fill_null(pc.equal(table["status"], "failed"), False)
    kill = pc.if_else(dead, pc.replace_substring_regex(table["kill"], '"resume_s": [0-9.]+', '"resume_s": null'),
                      table["kill"])  # fmt: skip
    table = table.set_column(table.column_names.index("kill"), "kill", kill)
    inputs, check = case(tmp_path, table, "time_to_resume <= 60 s")
    assert check.run(inputs).weakens == [
        "1 of 4 runs never went on after the kill: time_to_resume is that of the others"
    ]


def test_with_one_seed_all_numbers_must_be_repeated(tmp_path: Path) -> None:
    def one_seed(noisy: bool) -> CheckResult:
        table = killed_table(2)
        mask = pc.equal(table["seed"], 0)
        if not noisy:
            mask = pc.and_(mask, pc.equal(table["metric"], "loss"))
        inputs, check = case(tmp_path, table.filter(mask), "recovered >= 75 %")
        return check.run(inputs)

    assert "one seed does not show whether a kill can be seen in it: train two" in one_seed(True).missing["state_lost"]
    assert fact(one_seed(False), "state_lost").value == 0.0


def test_pairs_that_other_work_spoiled_void_their_overhead_alone(tmp_path: Path) -> None:
    result = measured(tmp_path, pair_spoiled="other work")
    cost = result.estimates["checkpoint_overhead"]
    assert isinstance(cost, Measured) and cost.invalid == "in paired-seed0 other work"
    waits = result.estimates["time_to_resume"]
    assert not isinstance(waits, Measured) or waits.invalid is None
    kills = measured(tmp_path, spoiled="other work").estimates["checkpoint_overhead"]
    assert not isinstance(kills, Measured) or kills.invalid is None
