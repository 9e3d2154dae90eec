"""Measurement of `training_recovery`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

from evalspec.checks.system.training_recovery import show
from evalspec.checks.system.training_recovery.killed import KilledTraining, Row
from evalspec.checks.system.training_recovery.spec import COLUMNS, OVERHEAD, RECOVERED, RESUME, STATE, STEPS
from evalspec.errors import NotRunError
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.reasons import BySurroundings, Cause, OnlyWorse
from evalspec.evidence.record import Counts
from evalspec.evidence.words import and_list, duration, in_percent, plural
from evalspec.language.parts import CheckResult
from evalspec.stats.shares.proportion import Proportion
from evalspec.stats.training.checkpoints import checkpoint_interval, lost_share
from evalspec.stats.training.overhead import overhead, t_mean

if TYPE_CHECKING:
    from evalspec.checks.system.training_recovery.spec import TrainingRecovery
    from evalspec.language.inputs import Inputs

Place = tuple[int | None, str, int]
"""Of a number in logs: workers, measure, step."""
NAMED = 6
"""Measures that are named; the others are counted."""
SEEN_S = 0.02
"""How coarsely it is known when an evaluation came."""


def measure(check: TrainingRecovery, inputs: Inputs) -> CheckResult:
    """Holds what was logged after each kill against the run that was let run.

    Args:
        check: Its fields.
        inputs: Where rows of its training come from.

    Raises:
        NotRunError: No run was killed, since there is none that came to its end, or this is a draft.
    """
    runs: dict[str, list[Row]] = {}
    for row in inputs.table(check.training, COLUMNS).to_pylist():
        runs.setdefault(row["run"], []).append(row)
    whole = {
        (rows[0]["seed"], rows[0]["workers"]): rows
        for rows in runs.values()
        if rows[0]["part"] == "run" and rows[0]["status"] == "ended"
    }
    steady = _steady(runs, whole)
    telling = _telling(whole, steady or set())
    killed = [
        _killed(rows, whole, steady, telling)
        for rows in runs.values()
        if rows[0]["kill"] is not None and (rows[0]["seed"], rows[0]["workers"]) in whole
    ]
    if not killed:
        why = "a draft kills no run" if inputs.draft else f"no run of it came to its end{_first_end(runs)}"
        raise NotRunError(f"nothing of {check.training} was killed: {why}")
    estimates, missing = _estimates(check, killed, runs, whole, steady, telling)
    return CheckResult(
        estimates=_admitted(killed, _pairs(runs), estimates),
        missing=missing,
        blocks=show.blocks(killed),
        counts=Counts(attempted=len(killed), used=len(killed), errored=0),
        conditions={"kills": len(killed), "in_a_checkpoint": sum(bool(one.kill["growing"]) for one in killed)},
        notes=[*_notes(killed), *_best_interval(check, estimates.get(OVERHEAD))],
        weakens=_weakens(check, killed),
    )  # fmt: skip


ENDS: Mapping[str, str] = {"failed": "failed", "out_of_memory": "ran out of memory", "limit": "came to its limit"}
"""How a run ended before its time, as a verb."""


def _first_end(runs: Mapping[str, Sequence[Row]]) -> str:
    """How the first run that was let run ended, and what disturbed it; empty where none has a log."""
    first = next((rows[0] for rows in runs.values() if rows[0]["part"] == "run" and rows[0]["status"] in ENDS), None)
    if first is None:
        return ""
    disturbed = "" if first["spoiled"] is None else f"; {first['spoiled']}"
    return f": {first['run']} {ENDS[first['status']]}{disturbed}"


def _steady(runs: Mapping[str, Sequence[Row]], whole: Mapping[tuple[Any, Any], Sequence[Row]]) -> set[str] | None:
    """Measures that two runs of one seed log alike; None: no seed was run twice."""
    twins = [rows for rows in runs.values() if rows[0]["part"] == "twin" and rows[0]["status"] == "ended"]
    twins = [rows for rows in twins if (rows[0]["seed"], rows[0]["workers"]) in whole]
    if not twins:
        return None
    twin = twins[0]
    first, second = _numbers(whole[twin[0]["seed"], twin[0]["workers"]]), _numbers(twin)
    differ = {key[0] for key in first.keys() | second.keys() if first.get(key) != second.get(key)}
    return {key[0] for key in first} - differ


def _numbers(rows: Sequence[Row]) -> dict[tuple[str, int], str]:
    """(measure, step): its value, as text, so that NaN is like NaN."""
    return {(row["metric"], row["step"]): repr(row["value"]) for row in rows if row["step"] is not None}


CHANGES: Mapping[str, tuple[str, str]] = {
    "gone": ("{name} is not saved again", "{name} are not saved again"),
    "absent": ("no checkpoint holds {name}", "no checkpoint holds {name}"),
    "blank": ("{name} holds nothing", "{name} hold nothing"),
    "unsaved": ("{name} was in no checkpoint before", "{name} were in no checkpoint before"),
    "passed over": ("{name} is passed over for an older one", "{name} are passed over for older ones"),
    "value": ("{name} has another value", "{name} have other values"),
    "type": ("{name} is {now} and was {then}", "{name} are {now} and were {then}"),
    "size": ("{name} has the shape {now} and had {then}", "{name} have the shape {now} and had {then}"),
}
"""A change of one name, and of several."""


def _resaved(kill: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Losses of a round trip, in words, and why they are not known."""
    found = kill.get("resaved")
    if not found or not found["lost"]:
        return None, None if not found else found["unknown"]
    alike: dict[tuple[str, object, object], list[str]] = {}
    for one in found["first"]:
        alike.setdefault((one["what"], one.get("then"), one.get("now")), []).append(one["name"])
    said = [
        CHANGES[what][len(names) > 1].format(name=and_list(names), then=then, now=now)
        for (what, then, now), names in alike.items()
    ]
    unnamed = found["lost"] - len(found["first"])
    return f"saved again at once, {'; '.join(said)}{f', and {unnamed} more' if unnamed else ''}", None


def _killed(
    rows: Sequence[Row],
    whole: Mapping[tuple[Any, Any], Sequence[Row]],
    steady: set[str] | None,
    telling: set[Place],
) -> KilledTraining:
    first, kill = rows[0], json.loads(rows[0]["kill"])
    twin = whole[first["seed"], first["workers"]]
    kept, new = _steps(rows[: kill["kept"]]), _steps(rows[kill["kept"] :])
    lost, unknown = _resaved(kill)
    expected = _numbers(twin).keys() & {(name, step) for workers, name, step in telling if workers == first["workers"]}
    return KilledTraining(
        name=first["run"], seed=first["seed"], workers=first["workers"], kill=kill, status=first["status"],
        rows=tuple(rows), spoiled=first["spoiled"], fault=_fault(first, rows, max(_steps(twin)), kill),
        lost=max(0, kill["step"] - _went_on_from(kept, new, _steps(twin))),
        other=None if steady is None else _other(rows[kill["kept"] :], twin, steady), resaved=lost, unknown=unknown,
        early=unknown is not None and bool(kill["resaved"].get("early")),
        compared=any((row["metric"], row["step"]) in expected for row in rows[kill["kept"] :]),
    )  # fmt: skip


def _steps(rows: Sequence[Row]) -> list[int]:
    return [row["step"] for row in rows if row["step"] is not None]


def _went_on_from(kept: Sequence[int], new: Sequence[int], every: Sequence[int]) -> int:
    """Last step that was not made again; of a log that begins anew, the one before its first."""
    if not new:
        return max(kept, default=0)
    return max((step for step in kept or every if step < new[0]), default=0)


def _fault(first: Row, rows: Sequence[Row], last: int, kill: Mapping[str, Any]) -> str | None:
    """Why a run has not recovered."""
    newest = f" (the file of checkpoints that changed last: {kill['newest']})" if kill["newest"] else ""
    if first["status"] != "ended":
        return f"started again it {ENDS.get(first['status'], first['status'])}{newest}"
    taken: set[tuple[str, int]] = set()
    for row in rows:
        key = (row["metric"], row["step"])
        if row["step"] is not None and key in taken:
            return f"its log has {row['metric']} of step {row['step']} twice"
        taken.add(key)
    end = max(_steps(rows), default=0)
    if end < last:
        return f"started again it ended at step {end}, and not at {last}{newest}"
    return None


def _other(new: Sequence[Row], twin: Sequence[Row], steady: set[str]) -> str | None:
    """First number after a second start that another run of the seed has otherwise."""
    expected = _numbers(twin)
    for row in new:
        there = expected.get((row["metric"], row["step"]))
        if row["metric"] in steady and there is not None and there != repr(row["value"]):
            return f"{row['metric']} {row['value']!r} at step {row['step']}, and {there} without the kill"
    return None


def _estimates(
    check: TrainingRecovery,
    killed: Sequence[KilledTraining],
    runs: Mapping[str, Sequence[Row]],
    whole: Mapping[tuple[Any, Any], Sequence[Row]],
    steady: set[str] | None,
    telling: set[Place],
) -> tuple[dict[str, Estimate | Fact], dict[str, str]]:
    well = [one for one in killed if one.fault is None]
    made: dict[str, Estimate | Fact] = {RECOVERED: Proportion.of_counts(len(well), len(killed))}
    missing: dict[str, str] = {}
    worst = max(killed, key=lambda one: one.lost)
    made[STEPS] = Fact(
        float(worst.lost), n=len(killed), method="the most over all kills, by the steps that are logged",
        in_this_run=True, first=worst.name,
    )  # fmt: skip
    waits = [float(one.kill["resume_s"]) for one in killed if one.kill["resume_s"] is not None]
    if len(waits) > 1:
        made[RESUME] = t_mean(waits, SEEN_S)
    else:
        missing[RESUME] = f"{plural(len(waits), 'run')} went on after a kill, and Student's t needs two"
    state = _state(check, killed, whole, steady, telling)
    if isinstance(state, Fact):
        made[STATE] = state
    else:
        missing[STATE] = state
    pairs = _pairs(runs)
    if len(pairs) > 1:
        made[OVERHEAD] = overhead([_took(kept) for kept, _ in pairs], [_took(plain) for _, plain in pairs])
    else:
        missing[OVERHEAD] = "there are no two pairs of runs with and without checkpoints: see `without_checkpoints:`"
    return made, missing


BY_NUMBERS = "{} after the kill against the run let run"
BY_NAMES = "all that is in a checkpoint against the same, read and saved again at once"


def _state(
    check: TrainingRecovery,
    killed: Sequence[KilledTraining],
    whole: Mapping[tuple[Any, Any], Sequence[Row]],
    steady: set[str] | None,
    telling: set[Place],
) -> Fact | str:
    """Kills that have changed the state of the training, or why that is not known."""
    lost = [one for one in killed if one.changed is not None]
    trips = [one for one in killed if one.round_trip]
    by_numbers = _told_by_numbers(check, killed, whole, steady, telling)
    failed = next((one for one in killed if one.unknown is not None and not one.early), None)
    if not lost and failed is not None:
        # Numbers that are repeated do not show all that `holds` names.
        return f"{failed.name}: {failed.unknown}"
    untold = next((one for one in killed if one.unknown is not None), None)
    if not lost and not trips and untold is not None:
        return f"no round trip tells anything: {untold.name}, {untold.unknown}"
    if not lost and not trips and by_numbers is not None:
        return by_numbers
    numbers = BY_NUMBERS.format(_named({name for _, name, _ in telling} or steady or set()))
    how = [*([] if by_numbers is not None else [numbers]), *([BY_NAMES] if trips else [])] or [numbers]
    known = [one for one in killed if one.round_trip or one.changed or (by_numbers is None and one.compared)]
    return Fact(
        float(len(lost)), n=len(known), method="; ".join(how), in_this_run=True,
        first="" if not lost else f"{lost[0].name}: {lost[0].changed}",
    )  # fmt: skip


def _named(measures: Set[str]) -> str:
    names = sorted(measures)
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return and_list([*names[:NAMED], *more]) if names else "numbers"


def _telling(whole: Mapping[tuple[Any, Any], Sequence[Row]], steady: set[str]) -> set[Place]:
    """Numbers that a seed repeats and that differ between seeds, so that a kill can be seen in them."""
    values: dict[Place, set[str]] = {}
    counts = _counts(whole.values())
    # A rate of learning may be set by the workers.
    for (_, workers), rows in whole.items():
        for (name, step), value in _numbers(rows).items():
            values.setdefault((workers, name, step), set()).add(value)
    if _is_one_seed(whole):
        told = steady == {name for _, name, _ in values}
        return {place for place in values if told and place[1] not in counts}
    return {place for place, one in values.items() if place[1] in steady - counts and len(one) > 1}


def _counts(runs: Iterable[Sequence[Row]]) -> set[str]:
    """Measures that stay the same in each run, or count something: no state of a model is seen in them."""
    courses: dict[str, list[list[float]]] = {}
    for rows in runs:
        course: dict[str, list[float]] = {}
        for row in rows:
            if row["step"] is not None:
                course.setdefault(row["metric"], []).append(row["value"])
        for name, values in course.items():
            courses.setdefault(name, []).append(values)
    return {name for name, many in courses.items() if all(map(_is_count, many))}


def _is_count(values: Sequence[float]) -> bool:
    """True for whole numbers that never fall, and for what stays the same."""
    pairs = list(itertools.pairwise(values))
    return all(one == other for one, other in pairs) or (
        all(float(one).is_integer() for one in values) and all(one <= other for one, other in pairs)
    )


def _is_one_seed(whole: Mapping[tuple[Any, Any], Sequence[Row]]) -> bool:
    return len({seed for seed, _ in whole}) == 1


def _told_by_numbers(
    check: TrainingRecovery,
    killed: Sequence[KilledTraining],
    whole: Mapping[tuple[Any, Any], Sequence[Row]],
    steady: set[str] | None,
    telling: set[Place],
) -> str | None:
    """Reason why numbers that are logged say nothing of the state; None: they do."""
    if steady is None:
        return "no run repeats a seed: require `state_lost`"
    if not steady:
        return f"two runs of {check.training} with one seed log other numbers, so that a kill can't be seen in them"
    if not telling and steady <= _counts(whole.values()):
        return (
            f"of what two runs of {check.training} with one seed log, nothing is the same but {_named(steady)}, and a "
            "kill can't be seen in what stays as it is in a run, or counts something"
        )
    if not telling and _is_one_seed(whole):
        return (
            f"of what two runs of {check.training} with one seed log, only {and_list(sorted(steady))} is the same, and "
            "one seed does not show whether a kill can be seen in it: train two"
        )
    if not telling:
        return (
            f"of what two runs of {check.training} with one seed log, only {and_list(sorted(steady))} is the same, and "
            "that is the same with each seed: a kill can't be seen in it"
        )
    if not any(one.compared for one in killed):
        return (
            f"after no kill {and_list(sorted({name for _, name, _ in telling}))} was logged at a step at which the run "
            f"without a kill logs it{'' if _is_one_seed(whole) else ' and seeds differ'}, so that nothing can be "
            "compared"
        )
    return None


def _pairs(runs: Mapping[str, Sequence[Row]]) -> list[tuple[Row, Row]]:
    """Runs with and without checkpoints, made one after the other, both of which came to their end."""
    ends = {(rows[0]["part"], rows[0]["pair"]): rows[0] for rows in runs.values() if rows[0]["status"] == "ended"}
    numbers = [number for part, number in ends if part == "plain" and ("paired", number) in ends]
    return [(ends["paired", number], ends["plain", number]) for number in numbers]


def _took(run: Row) -> float:
    return float(run["end_s"]) + float(run["before_s"] or 0.0)


def _admitted(
    killed: Sequence[KilledTraining], pairs: Sequence[tuple[Row, Row]], estimates: Mapping[str, Estimate | Fact]
) -> dict[str, Estimate | Fact | Measured]:
    """Estimates, void where other work may have spoiled them."""
    reasons: dict[str, str] = {}
    spoiled = [one for one in killed if one.spoiled is not None]
    if spoiled:
        reasons[RESUME] = OnlyWorse(f"in {spoiled[0].name} {spoiled[0].spoiled}", Cause.OTHER_WORK)
        if any(one.status == "limit" for one in spoiled):
            # It may have come to its limit because it was slowed down.
            reasons[RECOVERED] = reasons[RESUME]
    beside = next((run for pair in pairs for run in pair if run["spoiled"] is not None), None)
    if beside is not None:
        # It may have taken longer with checkpoints or without.
        reasons[OVERHEAD] = BySurroundings(f"in {beside['run']} {beside['spoiled']}", Cause.OTHER_WORK)
    if not reasons:
        return dict(estimates)
    return {name: Measured(one, invalid=reasons.get(name)) for name, one in estimates.items()}


def _weakens(check: TrainingRecovery, killed: Sequence[KilledTraining]) -> list[str]:
    lines = []
    if not any(one.kill["growing"] for one in killed):
        lines.append(
            f"no kill came while a checkpoint was written: name its folder with `checkpoint:` in {check.training}"
        )
    never = [one for one in killed if one.fault is not None and one.kill["resume_s"] is None]
    if never and any(one.metric == RESUME for one in check.requirements):
        lines.append(
            f"{len(never)} of {plural(len(killed), 'run')} never went on after the kill: {RESUME} is that of the others"
        )
    unknown = [one for one in killed if one.unknown is not None]
    tried = [one for one in killed if one.kill.get("resaved") is not None]
    if unknown:
        lines.append(
            f"{len(unknown)} of {plural(len(tried), 'round trip')} of checkpoints tell nothing: {unknown[0].name}, "
            f"{unknown[0].unknown}"
        )
    return lines


def _best_interval(check: TrainingRecovery, cost: Estimate | Fact | None) -> list[str]:
    """Sentence on the interval of checkpoints that loses the least, if the spec says the present one and failures."""
    every_s, fails_s, share = check.checkpoint_every_s, check.failure_every_s, None if cost is None else cost.value
    if every_s is None or fails_s is None or share is None:
        return []
    if share <= 0.0:
        return ["Checkpoints cost no time that can be seen, so no interval is the best: write them more often."]
    write_s = share * every_s
    best_s = checkpoint_interval(write_s, fails_s)
    now, least = lost_share(write_s, fails_s, every_s), lost_share(write_s, fails_s, best_s)
    return [
        f"A checkpoint costs {write_s:.3g} s of each {duration(every_s)}. With a failure every {duration(fails_s)} "
        f"{in_percent(now, 1)} of the time goes into checkpoints and into steps that are made again; with one every "
        f"{duration(best_s)} it would be {in_percent(least, 1)}, the least."
    ]


def _notes(killed: Sequence[KilledTraining]) -> list[str]:
    notes = []
    lost = [one for one in killed if one.fault is not None]
    other = [one for one in killed if one.changed is not None]
    every = plural(len(killed), "kill")
    if lost:
        notes.append(f"{len(lost)} of {every} ended the training: {lost[0].name}, {lost[0].fault}.")
    if other:
        notes.append(f"{len(other)} of {every} changed the state: {other[0].name}, {other[0].changed}.")
    return notes
