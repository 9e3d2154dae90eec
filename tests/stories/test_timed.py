"""Stories of clocks, meters and devices: raw timings are planted, as they would have been read.

They are planted for what a test can't have: a GPU, a meter, half a minute of heat. All that comes after is the product:
the check, what is decided, and what is shown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stories.devices import (
    aliased,
    better_but,
    copied,
    fallen_back,
    hot,
    leaderboard,
    pruned,
    starved,
    tensor_floats,
    thirsty,
    two_windows,
)
from tests.stories.queries import (
    beside_others,
    best_of_new,
    collecting,
    fast_kernel,
    flash,
    neighbours,
    other_each_time,
    remembered,
    too_late,
    wide_beam,
    wrong_target,
)
from tests.stories.telling import COLOURS, Colour, Story, Tale, Told, ends, told

pytestmark = pytest.mark.proof


def tell(folder: Path, bad: bool) -> Tale:
    """All of them in one spec."""
    tale = Tale(folder, "timed")
    tale.rows("asked", {"x": np.arange(1000.0)})
    tale.echo("candidate", {"x": "x"})
    for one in (
        wide_beam, collecting, flash, hot, two_windows, best_of_new, tensor_floats, remembered, fallen_back,
        starved, better_but, too_late, thirsty, neighbours, copied, wrong_target, other_each_time,
        fast_kernel, aliased, beside_others,
    ):  # fmt: skip
        one(tale, bad)
    leaderboard(tale, bad, pruned(tale, bad))
    return tale


STORIES = (
    Story(
        "F1: a wide beam wins the leaderboard and takes four times as long",
        red={"f1_latency/latency_p99": "FAIL", "f1_latency/latency_p50 vs f1_narrow": "FAIL"},
        page=("A trade against f1_narrow: better in bleu",),
    ),
    Story("F6: garbage is collected", red={"f6_latency/latency_p99_9": "FAIL"},
          shows={"f6_latency": ("Slow queries come every", "garbage collection")}),
    Story(
        "F10: a spike of four times as many queries, and flashes that Poisson arrivals do not have",
        red={"f10_load/spike_factor": "FAIL", "f10_trace/latency_p99(trace)": "FAIL"},
        shows={"f10_load": ("Latency over time at 200 qps", "Rates", "Queries under way over time at 200 qps",
                            "the spike begins", "SLO violated"),
               "f10_trace": ("Bursts beside Poisson", "Queries under way over time at trace")},
    ),
    Story(
        "F11: fast for a quarter of a minute",
        red={"f11_sustained/sustained_ratio": "FAIL", "f11_sustained/throttled": "FAIL"},
        says={"f11_sustained/sustained_ratio": ("sustained_ratio 0.44",)},
        shows={"f11_sustained": ("Throughput over time", "The processor throttled", "clock_min_mhz")},
    ),
    Story("F12: work of a peak, watts of rest", red={"f12_energy/throughput_per_watt": "NOT_RUN"},
          says={"f12_energy/throughput_per_watt": ("not read over the whole window",)}),
    Story("F13: the best of the new by the average of the old", red={"f13_latency/latency_p50 vs f13_old": "FAIL"},
          says={"f13_latency/latency_p50 vs f13_old": ("0.961x",)},
          page=("stages model against cast, model",)),
    Story("F15: TF32 under FP32", red={"f15_precision/precision_coverage": "FAIL"},
          shows={"f15_precision": ("TF32 is on",)}),
    Story(
        "F17: answers from a cache, weights that are never read",
        red={"f17_latency/latency_p99": "INVALID", "f17_bandwidth/roof_fraction": "INCONCLUSIVE"},
        says={"f17_latency/latency_p99": ("answers come from a cache",),
              "f17_bandwidth/roof_fraction": ("the measured ceiling is none for this model",)},
    ),
    Story("F18: one operator falls back", red={"f18_precision/operator_coverage": "FAIL"},
          shows={"f18_precision": ("NonMaxSuppression",)}),
    Story("F19: ten times smaller, and as slow as before", red={"f19_pruning/speedup": "FAIL"},
          shows={"f19_pruning": ("f19_pruned has 10,000 bytes, f19_whole 100,000.",)}),
    Story(
        "F22: the model is blamed for what augmentation takes",
        red={"f22_stages/stage_share(augment)": "FAIL", "f22_stages/amdahl_ceiling(inference)": "FAIL"},
        shows={"f22_stages": ("augment alone takes 68 %",)},
        page=("preprocessing is slow",),
    ),
    Story("F29: 12 to 8 ms, and no longer calibrated", red={"f29_compression/ece_increase": "FAIL"}),
    Story(
        "F30: better on the benchmark only",
        red={"f30_outside/ood_gap(f30_field)": "FAIL", "f30_energy/energy_per_inference vs f30_old": "FAIL"},
        page=("A trade against f30_old: better in accuracy",),
    ),
    Story("F31: 94 % right, and too late", red={"f31_latency/latency_p99": "FAIL"},
          page=("their quality is met: f31_latency/latency_p99 is FAIL, f31_quality/accuracy is PASS. The pattern "
                "points to the system.",)),
    Story("F32: faster, and worse by the watt",
          red={"f32_energy/throughput_per_watt vs f32_old": "FAIL", "f32_energy/active_power": "FAIL"},
          says={"f32_energy/throughput_per_watt vs f32_old": ("0.51",)}),
    Story("F33: half of it beside neighbours",
          red={"f33_contention/contention_ratio(p50)": "FAIL", "f33_load/max_rate": "FAIL",
               "f33_load/latency_p99": "FAIL"},
          shows={"f33_load": ("over-saturated",), "f33_contention": ("How many times as slow",)}),
    Story(
        "F35: 2 ms on the accelerator",
        red={"f35_stages/stage_share(inference)": "FAIL", "f35_stages/stage_share(copy_to_device)": "FAIL",
             "f35_latency/latency_p50": "FAIL"},
        shows={"f35_stages": ("copy_to_device alone takes 40 %", "copy_to_host")},
        page=("The accelerator alone, without input and output.",
              "copies between host and device, or the network, take the time : 7"),
    ),
    Story("F37: a sure answer to another question", red={"f37_latency/latency_p99": "FAIL"},
          page=("latency_mean <= 15 ms",)),
    Story("F43: another answer each time", red={"f43_latency/latency_p50": "INVALID"},
          says={"f43_latency/latency_p50": ("rows differently from where quality is computed",)}),
    Story("F46: a fast kernel in a slow query",
          red={"f46_stages/stage_share(inference)": "FAIL", "f46_latency/latency_p50 vs f46_old": "FAIL"},
          shows={"f46_stages": ("a faster model makes the query at most 1.01 times as fast",)}),
    Story("F47: a meter that moves too seldom", red={"f47_energy/energy_per_inference": "NOT_RUN"},
          says={"f47_energy/energy_per_inference": ("updates of its counter",)}),
    Story(
        "F48: something else ran",
        red={"f48_once/latency_p50": "INCONCLUSIVE", "f48_once/latency_p99": "INCONCLUSIVE",
             "f48_busy/latency_p50": "INVALID"},
        says={"f48_busy/latency_p50": ("other processes used 90 %",),
              "f48_once/latency_p50": ("the run is unstable",)},
        shows={"f48_once": ("Noisy: block medians vary", "Latency over time")},
    ),
)  # fmt: skip


def table(told_in: Told, check: str, title: str) -> list[list[Any]]:
    """Rows of a table that a check shows."""
    found: list[list[Any]] = next(one["rows"] for one in told_in.check(check)["blocks"] if one["title"] == title)
    return found


@pytest.fixture
def run(colour: Colour, tmp_path_factory: pytest.TempPathFactory) -> Told:
    return told(tmp_path_factory, "timed", colour, tell)


@pytest.mark.parametrize("colour", COLOURS)
def test_the_verdict(colour: Colour, run: Told) -> None:
    ends(run, colour)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
@pytest.mark.parametrize("colour", COLOURS)
def test_a_story(story: Story, colour: Colour, run: Told) -> None:
    story.holds(run, colour)


@pytest.mark.parametrize("colour", COLOURS)
def test_f10_the_spike_is_where_queries_pile_up(run: Told, colour: Colour) -> None:
    """Seconds over the limit and queries under way, stretch by stretch; of the trace beside Poisson arrivals."""
    stretch = {row[1]: row for row in table(run, "f10_load", "Queue and seconds over the limit")}
    most, violated = ({name: row[at] for name, row in stretch.items()} for at in (4, 6))
    assert violated["steady"] <= 1 and most["steady"] <= 25
    assert (violated["spike"] >= 20, most["spike"] >= 300) == ((True, True) if colour == "red" else (False, False))
    (beside,) = table(run, "f10_trace", "Bursts beside Poisson")
    assert (beside[6] > 10.0) == (colour == "red")
