"""`stages` of a server that says what it does: its parts take the place of the wait for it, where they can be true."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from evalspec.checks.system.stages.server_time import stage_names
from evalspec.checks.system.stages.spec import Stages
from evalspec.evidence.blocks import Bars, Table
from evalspec.evidence.estimate import Measured, Parts
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult
from evalspec.language.requirement import Requirement
from tests.checks.deciding import outcome
from tests.checks.system.probed import Maker, stages
from tests.fakes import FakeInputs

CLIENT = {"serialize": 1.0, "server": 8.0, "parse": 1.0}
TELLS = {"queue": 2.0, "infer": 4.0}
MOSTLY_INFERENCE = Requirement("stage_share(inference) >= 30 %", "stage_share", "inference", ">=", 30.0, "%")
ANSWERS, COUNTERS = "answers", "counters"
Change = Callable[[Probe, dict[str, NDArray[np.float64]]], None]


def served(
    told_ms: Mapping[str, float],
    *,
    by: str = ANSWERS,
    total_ms: float | None = None,
    change: Change = lambda one, series: None,
    client: Mapping[str, float] = CLIENT,
    unread: tuple[str, ...] = (),
) -> Maker:
    """Processes that asked a server which says that its parts took so long.

    Args:
        told_ms: Name: of each query; with ``counters`` a mean over each tenth of them.
        by: How it tells.
        total_ms: What it calls its total.
        change: Of the series of each process, before they are handed over.
        client: Our own stages.
        unread: What could not be read.
    """
    make_own = stages(client)

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        made = []
        for one in make_own(probe, model, options):
            waited = one.series["stage_ns:server"]
            if by == COUNTERS:
                waited = np.array([part.mean() for part in np.array_split(waited, 10)])
            # A part is so much of the wait as it is in the mean, so that its share is known.
            series = {f"told_ns:{name}": ms / client["server"] * waited for name, ms in told_ms.items()}
            nothing = np.full(len(waited), np.nan)
            series["told_total_ns"] = nothing if total_ms is None else total_ms / client["server"] * waited
            series["told_wait_ns"] = waited
            sent = np.full(len(waited), 1.0 if by == ANSWERS else 10.0)
            series |= {"told_requests_sent": sent, "told_requests_counted": sent.copy()}
            change(one, series)
            texts = {**one.texts, "waits": ("server",), "told": tuple(told_ms), "told_unread": unread}
            made.append(replace(one, facts={**one.facts, "told_by": by}, series={**one.series, **series}, texts=texts))
        return made

    return make


def silent(unread: tuple[str, ...] = ()) -> Maker:
    """Processes that asked a server which says nothing."""
    make_own = stages(CLIENT)

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        texts = {"waits": ("server",), "told_unread": unread}
        return [replace(one, texts={**one.texts, **texts}) for one in make_own(probe, model, options)]

    return make


def run(folder: Path, maker: Maker) -> CheckResult:
    check = Stages.model_validate({"check": "stages", "dataset": "test"})
    return check.run(FakeInputs(folder, probes=maker))


def shares(result: CheckResult) -> dict[str, float]:
    found = result.estimates["stage_share"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Parts)
    return {name: one.value for name, one in found.estimate.parts.items() if one.value is not None}


def in_hundredths(result: CheckResult) -> dict[str, int]:
    """Rounded to 2 %, which processes vary by."""
    return {name: round(50 * share) * 2 for name, share in shares(result).items()}


def note(result: CheckResult, words: str) -> str:
    (found,) = [one for one in result.notes if words in one]
    return found


@pytest.mark.parametrize("by", [ANSWERS, COUNTERS])
def test_the_wait_is_split_into_what_the_server_says_and_the_rest(by: str, tmp_path: Path) -> None:
    result = run(tmp_path, served(TELLS, by=by))
    assert list(shares(result)) == ["serialize", "queue", "inference", "transfer", "parse"]
    assert in_hundredths(result) == {"serialize": 10, "queue": 20, "inference": 40, "transfer": 20, "parse": 10}
    assert result.conditions["server_stages"] == "queue, inference, transfer"
    assert "The server reports queue, inference by its" in note(result, "The server reports")
    assert not any("`server`" in one for one in result.notes)
    assert outcome(result, MOSTLY_INFERENCE) == "PASS"


def test_a_model_that_takes_little_of_the_query_is_found(tmp_path: Path) -> None:
    result = run(tmp_path, served({"queue": 6.0, "infer": 1.0}))
    assert outcome(result, MOSTLY_INFERENCE) == "FAIL"
    said = note(result, "beside inference")
    assert "inference 10 %" in said and "queue alone takes" in said


def test_a_server_that_says_nothing_is_one_stage_and_the_notes_say_how_it_could_tell(tmp_path: Path) -> None:
    result = run(tmp_path, silent())
    assert in_hundredths(result) == {"serialize": 10, "server": 80, "parse": 10}
    said = note(result, "the network included")
    assert "Server-Timing (queue;dur=1.2, infer;dur=4.5, in ms)" in said and "statistics" in said
    assert "server_stages" not in result.conditions


def test_what_can_not_be_read_is_said(tmp_path: Path) -> None:
    told = note(run(tmp_path, silent(("'a b;dur=1' (its name is not a name)",))), "can't be read")
    assert told.endswith("is left out: 'a b;dur=1' (its name is not a name).")
    many = note(run(tmp_path, served(TELLS, unread=("one", "two", "three", "four"))), "can't be read")
    assert many.endswith("one, two, three, and more.")


def test_what_is_left_of_its_own_total_is_a_stage(tmp_path: Path) -> None:
    result = run(tmp_path, served(TELLS, total_ms=7.0))
    assert in_hundredths(result) == {
        "serialize": 10, "queue": 20, "inference": 40, "server_other": 10, "transfer": 10, "parse": 10,
    }  # fmt: skip


def test_a_total_alone_parts_the_server_from_the_way_there(tmp_path: Path) -> None:
    assert in_hundredths(run(tmp_path, served({}, total_ms=6.0))) == {
        "serialize": 10, "server_other": 60, "transfer": 20, "parse": 10,
    }  # fmt: skip


def test_a_total_below_its_parts_is_left_out_and_said(tmp_path: Path) -> None:
    result = run(tmp_path, served(TELLS, total_ms=5.0))
    assert "server_other" not in shares(result) and in_hundredths(result)["transfer"] == 20
    assert "less than its parts add up to" in note(result, "its total")


def one_silent(one: Probe, series: dict[str, NDArray[np.float64]]) -> None:
    if one.process == 2:
        series["told_ns:queue"][3] = series["told_ns:infer"][3] = np.nan


def others(one: Probe, series: dict[str, NDArray[np.float64]]) -> None:
    series["told_requests_counted"][0] += 3.0 if one.process == 4 else 0.0


def fewer(one: Probe, series: dict[str, NDArray[np.float64]]) -> None:
    series["told_requests_counted"][:] = 0.0


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (served({"queue": 5.0, "infer": 4.0}), "its times add up to "),
        (served(TELLS, total_ms=9.0), "its times add up to "),
        (served(TELLS, change=one_silent), "1 of 500 answers held no times"),
        (served(TELLS, by=COUNTERS, change=others), "it counted 503 requests while 500 were sent"),
        (served(TELLS, by=COUNTERS, change=fewer), "it counted 0 of the 500 requests that were sent"),
        (served({"queue": 0.0, "infer": 0.0}), "all of its times are 0"),
    ],
)  # fmt: skip
def test_times_that_can_not_be_true_of_our_queries_are_not_used_and_the_reason_is_said(
    maker: Maker, words: str, tmp_path: Path
) -> None:
    result = run(tmp_path, maker)
    assert in_hundredths(result) == {"serialize": 10, "server": 80, "parse": 10}
    said = note(result, "is not used, since")
    assert words in said
    if "add up" in said:
        added, waited = (float(number) for number in re.findall(r"([\d.]+) ms", said))
        assert added / waited == pytest.approx(9 / 8, rel=0.01)
    mostly_server = Requirement("stage_share(server) >= 50 %", "stage_share", "server", ">=", 50.0, "%")
    assert outcome(result, mostly_server) == "PASS"
    assert outcome(result, MOSTLY_INFERENCE) == "MISSING"


def test_processes_of_which_some_were_told_nothing_have_one_stage(tmp_path: Path) -> None:
    one, other = served(TELLS), silent()

    def make(probe: str, model: str, options: Mapping[str, Cell]) -> list[Probe]:
        return one(probe, model, options)[:3] + other(probe, model, options)[3:]

    result = run(tmp_path, make)
    assert "server" in shares(result)
    assert "in some processes only" in note(result, "is not used")


def test_rounded_times_over_the_wait_count_as_they_are_and_are_said(tmp_path: Path) -> None:
    def rounded(one: Probe, series: dict[str, NDArray[np.float64]]) -> None:
        # A twentieth of the queries: 12 ms said of a wait of 8.
        series["told_ns:infer"][::20] = 1.25 * series["told_wait_ns"][::20]

    result = run(tmp_path, served(TELLS, change=rounded))
    assert in_hundredths(result)["transfer"] == 20
    assert "In 25 of 500 answers the server's times add up to more" in note(result, "add up to more")


def test_a_part_without_time_is_no_stage(tmp_path: Path) -> None:
    """Nothing would be gained, and a share that never varies has no bound."""
    assert "cache_hit" not in shares(run(tmp_path, served({**TELLS, "cache_hit": 0.0}, by=COUNTERS)))


def test_percentiles_of_means_are_not_shown(tmp_path: Path) -> None:
    for by, known in ((ANSWERS, True), (COUNTERS, False)):
        result = run(tmp_path, served(TELLS, by=by))
        (table,) = [block for block in result.blocks if isinstance(block, Table)]
        shown = {str(row[0]): row[2:4] for row in table.rows}
        assert shown["serialize"][1] is not None
        assert all((shown[name][0] is not None) == known for name in ("queue", "inference", "transfer"))
        (bars,) = [block for block in result.blocks if isinstance(block, Bars)]
        assert [bar.label for bar in bars.bars] == ["serialize", "queue", "inference", "transfer", "parse"]


@pytest.mark.parametrize(
    ("told", "names"),
    [
        (("queue", "compute_input", "compute_infer", "compute_output"),
         ["queue", "compute_input", "inference", "compute_output"]),
        (("infer", "compute_infer", "inference"), ["inference", "inference_2", "inference_3"]),
        (("parse", "infer", "serialize", "transfer", "server"),
         ["server_parse", "inference", "server_serialize", "server_transfer", "server_server"]),
        (("resize", "server_resize", "resize_2"), ["server_resize", "server_resize_2", "resize_2"]),
        (("a|b", "a&b", "x.y-z"), ["a_b", "a_b_2", "x.y-z"]),
    ],
)  # fmt: skip
def test_what_parts_are_called(told: tuple[str, ...], names: list[str]) -> None:
    taken = ("resize", "serialize", "server", "parse", "transfer", "server_other")
    assert stage_names(told, taken) == names


def test_text_that_takes_longer_than_the_model_is_named(tmp_path: Path) -> None:
    slow = {"serialize": 6.0, "server": 4.0, "parse": 3.0}
    told = note(run(tmp_path, served({"parse": 1.0, "infer": 2.0}, client=slow)), "waits for text")
    assert "(serialize, parse, server_parse) takes 7" in told and "inference 1" in told
    assert not any("waits for text" in one for one in run(tmp_path, served(TELLS)).notes)


def test_stages_of_a_server_that_add_up_to_more_are_no_overlap(tmp_path: Path) -> None:
    def slower(one: Probe, series: dict[str, NDArray[np.float64]]) -> None:
        one.series["end_to_end_ns"][:] *= 0.8

    result = run(tmp_path, served(TELLS, change=slower))
    assert "none of them can overlap: the machine was not steady" in note(result, "longer one after the other")


def test_the_clock_of_the_server_is_not_ours(tmp_path: Path) -> None:
    """A part that is shorter than ten readings of our clock was not read by it."""
    result = run(tmp_path, served({"queue": 1e-4, "infer": 4.0}))
    assert not any("Reading the clock" in one for one in result.notes)
