"""What goes on beside a measurement: how much work of others voids it, and whose throttling is told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from evalspec.evidence.reasons import Cause
from evalspec.language.inputs import Samples
from evalspec.timing.surroundings import most_of_others, surroundings
from tests.fakes import samples
from tests.meters import telemetry, times_of, with_meter


def timed(device: str | None = "cpu", threads: int | None = 1, **series: float) -> Samples:
    """A second of queries while these were read, always the same."""
    count = len(times_of(1.0))
    told = telemetry(0.0, 1.0, counter=None, more={name: np.full(count, value) for name, value in series.items()})
    details = {"device": device, "threads": threads}
    one = replace(samples(np.full(100, 10.0)), details={k: v for k, v in details.items() if v is not None})
    return with_meter(one, told)


@pytest.mark.parametrize(
    ("processors", "threads", "others", "void"),
    [
        (16, 1, 11.0, False),
        (16, 8, 11.0, True),
        (16, 8, 6.9, False),
        (16, 8, 7.1, True),
        (16, 1, 12.1, True),
        (16, 16, 3.9, False),
        (16, 16, 4.1, True),
        (64, 64, 11.0, False),
        (2, 1, 1.4, False),
        (2, 2, 1.4, False),
        (2, 2, 1.6, True),
    ],
)
def test_a_neighbour_may_use_what_the_model_does_not_need(
    processors: int, threads: int, others: float, void: bool
) -> None:
    found = surroundings([timed(threads=threads, cpu_others_share=others / processors, processor_count=processors)])
    assert (found.invalid is not None) == void
    assert "Other processes used" in found.notes[0]


def test_the_reason_names_the_processors() -> None:
    found = surroundings([timed(threads=8, cpu_others_share=11 / 16, processor_count=16)])
    assert found.invalid is not None
    assert "11.0 of 16 processors, and the model has 8 threads: others may use 7.0 of them" in found.invalid


def test_reasons_of_one_cause_differ_in_their_words() -> None:
    much = surroundings([timed(cpu_others_share=0.95)]).invalid
    threads = surroundings([timed(threads=8, cpu_others_share=11 / 16, processor_count=16)]).invalid
    stolen = surroundings([timed(cpu_steal_share=0.5)]).invalid
    assert much is not None and threads is not None and stolen is not None
    assert much != threads and much.cause == threads.cause == Cause.OTHER_WORK
    assert stolen.cause == Cause.STOLEN_TIME


def test_never_more_than_three_quarters_and_never_less_than_a_quarter() -> None:
    for processors in range(1, 257):
        for threads in (1, processors // 2, processors):
            most = most_of_others(processors, threads)
            assert 0.25 * processors <= most <= 0.75 * processors


def test_without_a_count_of_processors_the_share_alone_decides() -> None:
    assert surroundings([timed(threads=8, cpu_others_share=0.7)]).invalid is None
    assert "more than 75 %" in (surroundings([timed(threads=8, cpu_others_share=0.8)]).invalid or "")


def test_little_work_of_others_is_not_worth_a_word() -> None:
    assert surroundings([timed(cpu_others_share=0.05, processor_count=4)]) == surroundings([])


def test_stolen_time_voids() -> None:
    assert "hypervisor" in (surroundings([timed(cpu_steal_share=0.2)]).invalid or "")
    assert surroundings([timed(cpu_steal_share=0.05)]).invalid is None


@pytest.mark.parametrize(("share", "void"), [(0.05, False), (0.3, True)])
def test_others_on_the_models_gpu(share: float, void: bool) -> None:
    found = surroundings([timed("cuda:0", gpu_others_count=1.0, gpu_others_share=share)])
    assert (found.invalid is not None) == void
    assert (
        f"Up to 1 other process had the model's GPU meanwhile, whose kernels ran in {100 * share:.0f} %"
        in found.notes[0]
    )
    # A model on the CPU does not care.
    assert surroundings([timed("cpu", gpu_others_count=1.0, gpu_others_share=share)]).notes == ()


def test_others_on_the_gpu_whose_use_is_not_known_are_told_of() -> None:
    found = surroundings([timed("cuda:0", gpu_others_count=2.0)])
    assert found.invalid is None and found.notes == ("Up to 2 other processes had the model's GPU meanwhile.",)


def test_a_gpu_throttles_only_for_a_model_that_runs_on_one() -> None:
    assert (
        "the GPU throttled (software thermal slowdown) in 100 %"
        in surroundings([timed("cuda:0", gpu_throttle_reasons=0x24)]).throttled
    )
    assert "the GPU throttled" in surroundings([timed(None, gpu_throttle_reasons=0x8)]).throttled
    assert surroundings([timed("cpu", gpu_throttle_reasons=0x8)]).throttled == ""
    assert surroundings([timed("cuda:0", gpu_throttle_reasons=0x4)]).throttled == "", "a power cap is a choice"


def test_the_clock_that_falls_is_that_of_a_device_in_use() -> None:
    count = len(times_of(1.0))
    fell = np.where(np.arange(count) < count // 2, 2000.0, 1000.0)
    told = telemetry(0.0, 1.0, counter=None, more={"gpu_sm_clock_mhz": fell})
    one = with_meter(timed("cuda:0"), told)
    assert "clock of the GPU fell from 2,000 to 1,000" in surroundings([one]).throttled
    assert surroundings([replace(one, details={"device": "cpu"})]).throttled == ""
