"""The sampler: what it reads, how often, and what it says of what it could not read."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from evalspec.clocks import now_ns
from evalspec.language.timings import Telemetry
from evalspec.measure.telemetry import THROTTLED, Sampler, TelemetrySources, of_client, open_sources, readings, reasons
from tests.meters import telemetry


class Counting:
    """A source that counts its readings; some of them fail."""

    def __init__(self, fails: int | None = None, slow_s: float = 0.0) -> None:
        self.sources = {"count": "a test", "half": "a test"}
        self.closed = 0
        self.threads: set[int] = set()
        self._count = 0
        self._fails = fails
        self._slow_s = slow_s

    def read(self) -> Mapping[str, float]:
        self.threads.add(threading.get_ident())
        time.sleep(self._slow_s)
        self._count += 1
        if self._count == self._fails:
            return {"half": math.nan}
        return {"count": float(self._count), "half": self._count / 2}

    def close(self) -> None:
        self.closed += 1


def wait_for(readings: int, source: Counting) -> None:
    while source._count < readings:
        time.sleep(0.001)


def test_it_reads_from_start_to_stop_and_closes_its_sources() -> None:
    source = Counting()
    sampler = Sampler(None, 0.002, now_ns(), opened=TelemetrySources((source,), {"absent": "a reason"}))
    sampler.start()
    wait_for(5, source)
    told = sampler.stop()
    assert source.closed == 1
    assert told.series["count"].tolist() == list(range(1, len(told.times_ns) + 1))
    assert (np.diff(told.times_ns) > 0).all() and told.times_ns[0] >= 0
    assert told.sources["half"] == "a test" and told.missing == {"absent": "a reason"}
    assert (told.series["reading_ms"] >= 0).all()
    assert len(source.threads) == 2, "the first and the last reading come from the caller, the others from a thread"


def test_times_count_from_the_origin() -> None:
    origin = now_ns() - 5_000_000_000
    sampler = Sampler(None, 10.0, origin, opened=TelemetrySources((Counting(),), {}))
    sampler.start()
    told = sampler.stop()
    assert len(told.times_ns) == 2, "one at the start and one at the end, however long it waits in between"
    assert 5.0e9 <= told.times_ns[0] <= now_ns() - origin


def test_a_reading_that_fails_is_not_a_number() -> None:
    source = Counting(fails=2)
    sampler = Sampler(None, 0.001, now_ns(), opened=TelemetrySources((source,), {}))
    sampler.start()
    wait_for(3, source)
    told = sampler.stop()
    assert math.isnan(told.series["count"][1]) and math.isnan(told.series["half"][1])
    assert np.isfinite(told.series["count"][[0, 2]]).all()


def test_a_late_reading_is_not_made_up_for() -> None:
    source = Counting(slow_s=0.02)
    sampler = Sampler(None, 0.001, now_ns(), opened=TelemetrySources((source,), {}))
    sampler.start()
    wait_for(4, source)
    told = sampler.stop()
    assert (np.diff(told.times_ns) >= 19_000_000).all()


def test_a_sampler_that_never_started_gives_nothing() -> None:
    source = Counting()
    told = Sampler(None, 0.1, now_ns(), opened=TelemetrySources((source,), {})).stop()
    assert len(told.times_ns) == 0 and len(told.series["count"]) == 0 and source.closed == 1


def test_reasons_in_words() -> None:
    assert tuple(reasons(0x4 | 0x20)) == ("software power cap", "software thermal slowdown")
    assert reasons(0) == {} and reasons(math.nan) == {} and reasons([]) == {}
    assert reasons([0x1, 0x9, math.nan, 0x0]) == pytest.approx({"idle": 2 / 3, "hardware slowdown": 1 / 3})
    slowing = {"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "hardware power brake"}
    assert set(reasons(THROTTLED)) == slowing


def test_readings_of_a_window() -> None:
    told = telemetry(100.0, 3.0, lost=[15])
    # Readings at 0.0, 0.1, ..., 1.0 s; the one at 0.5 s failed.
    times, joules = readings(told, "cpu_energy_j", -1_000_000, 1_001_000_000)
    assert len(times) == len(joules) == 10 and 500_000_000 not in times
    assert joules[-1] - joules[0] == pytest.approx(100.0, rel=1e-6)
    assert len(readings(told, "cpu_energy_j")[0]) == 40
    assert len(readings(told, "cpu_energy_j", start_ns=2_999_000_000)[0]) == 1
    for nothing in (readings(told, "no_such_series"), readings(None, "cpu_energy_j", 0, 1)):
        assert not len(nothing[0]) and not len(nothing[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux")
def test_of_a_model_on_another_machine_only_the_asking_one_is_known() -> None:
    read = {name: np.ones(3) for name in ("cpu_energy_j", "gpu_power_w", "cpu_throttle_count", "cpu_others_share")}
    whole = Telemetry(
        np.arange(3), series=read, sources=dict.fromkeys(read, "a meter"), missing={"gpu_energy_j": "no GPU"}
    )
    left = of_client(whole)
    assert set(left.series) == set(left.sources) == {"cpu_others_share"}
    assert set(left.missing) == {"cpu_energy_j", "gpu_power_w", "cpu_throttle_count", "gpu_energy_j"}
    assert {"on another machine" in why for why in left.missing.values()} == {True}


@pytest.fixture
def alone() -> Iterator[int]:
    """A process without children: memory is that of a process and its children, its peak that of it alone."""
    with subprocess.Popen([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_what_this_machine_offers_can_be_read_and_the_rest_has_reasons(alone: int) -> None:
    opened = open_sources(alone)
    assert {"cpu_others_share", "cpu_steal_share", "load_average", "resident_mib"} <= set(opened.series)
    assert not set(opened.series) & set(opened.missing)
    assert all(len(reason) > 10 for reason in opened.missing.values())
    wanted = {"gpu_energy_j", "gpu_power_w", "gpu_throttle_reasons", "cpu_energy_j", "cpu_clock_mhz",
              "cpu_temperature_c", "gpu_memory_mib"}  # fmt: skip
    assert wanted <= set(opened.series) | set(opened.missing)
    sampler = Sampler(alone, 0.01, now_ns(), opened=opened)
    sampler.start()
    time.sleep(0.05)
    told = sampler.stop()
    assert np.nanmin(told.series["resident_mib"]) > 1
    assert np.nanmin(told.series["resident_peak_mib"]) >= 0.9 * np.nanmin(told.series["resident_mib"])
    shares = told.series["cpu_others_share"]
    assert ((shares[np.isfinite(shares)] >= 0) & (shares[np.isfinite(shares)] <= 1)).all()


def test_without_a_gpu_asked_for_none_is_looked_at() -> None:
    opened = open_sources(None, gpu=None)
    assert not any(name.startswith("gpu_") for name in (*opened.series, *opened.missing))
    for source in opened.sources:
        source.close()


@pytest.mark.gpu
def test_the_energy_counter_of_a_gpu_agrees_with_its_power_over_30_s() -> None:
    torch = pytest.importorskip("torch")
    from evalspec.measure.energy import energy

    a = torch.randn(4096, 4096, device="cuda")
    for _ in range(50):
        a = torch.nn.functional.normalize(a @ a)
    torch.cuda.synchronize()
    origin = now_ns()
    sampler = Sampler(os.getpid(), 0.1, origin)
    sampler.start()
    time.sleep(0.5)
    begin = now_ns()
    while now_ns() - begin < 30_000_000_000:
        a = torch.nn.functional.normalize(a @ a)
        torch.cuda.synchronize()
    end = now_ns()
    time.sleep(0.3)
    told = sampler.stop()
    found = energy(told, "gpu", begin - origin, end - origin)
    assert found.joules is not None and not found.from_power
    assert found.check is not None and abs(found.check - 1.0) <= 0.05
    assert np.nanmedian(told.series["gpu_utilization_share"]) > 0.5
    assert np.nanmax(told.series["gpu_board_memory_mib"]) > 100
