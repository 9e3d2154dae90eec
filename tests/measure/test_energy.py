"""Energy over a window: counters with steps, readings with holes, windows that are too short."""

from __future__ import annotations

import numpy as np
import pytest

from evalspec.language.timings import Telemetry
from evalspec.measure.energy import BOUNDARIES, LEAST_PERIODS, counter_energy, energy, power_energy
from tests.meters import telemetry

S = 1_000_000_000


def ns(seconds: float) -> int:
    return round(seconds * S)


def test_a_constant_hundred_watts_is_a_hundred_joules_a_second() -> None:
    told = telemetry(100.0, 12.0)
    found = energy(told, "package", ns(1.0), ns(11.0))
    assert found.joules == pytest.approx(1000.0, rel=1e-6) and found.watts == pytest.approx(100.0, rel=1e-6)
    assert not found.from_power and "processor package" in found.source and found.reason is None
    assert found.period_s == pytest.approx(0.1)


@pytest.mark.parametrize("step_s", [0.02, 0.1, 0.3, 0.5])
@pytest.mark.parametrize("begin", [0.0, 0.123, 0.29])
def test_a_counter_that_moves_in_steps_is_read_where_it_moves(step_s: float, begin: float) -> None:
    told = telemetry(100.0, 12.0, step_s=step_s, every_s=0.05)
    found = counter_energy(told, "cpu_energy_j", ns(begin), ns(begin + 10.0))
    assert found.joules == pytest.approx(1000.0, rel=0.012)
    # Reading the last value before each end instead may be wrong by a whole step.
    assert found.period_s == pytest.approx(max(step_s, 0.05), rel=0.2)


def test_power_that_changes_is_followed() -> None:
    told = telemetry(lambda t: np.where(t < 5.0, 50.0, 150.0), 12.0, readings="gpu_power_w", counter="gpu_energy_j")
    counted = counter_energy(told, "gpu_energy_j", ns(0.0), ns(10.0))
    summed = power_energy(told, "gpu_power_w", ns(0.0), ns(10.0))
    assert counted.joules == pytest.approx(1000.0, rel=0.001)
    assert summed.joules == pytest.approx(1000.0, rel=0.01) and summed.from_power
    both = energy(told, "gpu", ns(0.0), ns(10.0))
    assert both.joules == counted.joules and both.check == pytest.approx(1.0, abs=0.01)


def test_a_window_of_few_updates_has_no_number() -> None:
    told = telemetry(100.0, 12.0, step_s=0.5)
    short = counter_energy(told, "cpu_energy_j", ns(1.0), ns(1.0 + 0.5 * (LEAST_PERIODS - 1)))
    assert short.joules is None and short.reason is not None and "needs 10" in short.reason
    assert counter_energy(told, "cpu_energy_j", ns(1.0), ns(1.0 + 0.5 * LEAST_PERIODS)).joules is not None


def test_where_the_counter_is_too_slow_power_is_taken_and_said_to_be() -> None:
    told = telemetry(100.0, 12.0, counter="gpu_energy_j", readings="gpu_power_w", step_s=2.0)
    found = energy(told, "gpu", ns(1.0), ns(9.0))
    assert found.from_power and found.joules == pytest.approx(800.0) and "readings x time" in found.source


def test_failed_readings_are_left_out_and_a_hole_is_named() -> None:
    few = telemetry(100.0, 12.0, readings="gpu_power_w", lost=[30, 31, 60])
    assert power_energy(few, "gpu_power_w", ns(0.0), ns(10.0)).joules == pytest.approx(1000.0)
    assert counter_energy(few, "cpu_energy_j", ns(0.0), ns(10.0)).joules == pytest.approx(1000.0)
    hole = telemetry(100.0, 12.0, readings="gpu_power_w", lost=np.arange(30, 60))
    found = power_energy(hole, "gpu_power_w", ns(0.0), ns(10.0))
    assert found.joules is None and found.reason == "power was not read for a while"
    # A counter remembers what nobody read.
    assert counter_energy(hole, "cpu_energy_j", ns(0.0), ns(10.0)).joules == pytest.approx(1000.0)


def test_a_window_beyond_the_readings_has_no_number() -> None:
    told = telemetry(100.0, 8.0, readings="gpu_power_w")
    assert counter_energy(told, "cpu_energy_j", ns(1.0), ns(8.1)).joules == pytest.approx(710.0)
    for found in (
        counter_energy(told, "cpu_energy_j", ns(1.0), ns(9.0)),
        counter_energy(told, "cpu_energy_j", ns(-3.0), ns(7.0)),
        power_energy(told, "gpu_power_w", ns(1.0), ns(9.0)),
    ):
        assert found.joules is None and found.reason is not None


def test_a_counter_that_runs_backwards_or_stands_still_has_no_number() -> None:
    told = telemetry(100.0, 12.0)
    values = told.series["cpu_energy_j"].copy()
    values[60:] -= values[60]
    reset = Telemetry(told.times_ns, {"cpu_energy_j": values})
    assert "backwards" in (counter_energy(reset, "cpu_energy_j", 0, ns(10.0)).reason or "")
    still = Telemetry(told.times_ns, {"cpu_energy_j": np.full(len(values), 7.0)})
    assert "did not move" in (counter_energy(still, "cpu_energy_j", 0, ns(10.0)).reason or "")


def test_nothing_there_is_a_reason_and_never_zero() -> None:
    none = energy(None, "gpu", 0, ns(10.0))
    assert none.joules is None and none.watts is None and none.reason is not None
    told = Telemetry(np.arange(5) * S, {}, missing={"gpu_energy_j": "NVML does not start"})
    found = energy(told, "gpu", 0, ns(4.0))
    assert found.joules is None and found.reason == "GPU board: NVML does not start"
    nan = Telemetry(np.arange(5) * S, {"cpu_energy_j": np.full(5, np.nan)})
    assert energy(nan, "package", 0, ns(4.0)).reason == "processor package: cpu_energy_j could not be read"


def test_meters_of_a_boundary_are_added_up_and_none_may_lack() -> None:
    cpu, memory = telemetry(40.0, 12.0), telemetry(10.0, 12.0, counter="memory_energy_j")
    both = Telemetry(cpu.times_ns, {**cpu.series, **memory.series})
    assert energy(both, "package_and_memory", ns(1.0), ns(11.0)).joules == pytest.approx(500.0)
    lacking = energy(cpu, "package_and_memory", ns(1.0), ns(11.0))
    assert lacking.joules is None and lacking.reason is not None and lacking.reason.startswith("memory")
    assert set(BOUNDARIES) == {"gpu", "package", "package_and_memory", "gpu_and_package", "platform"}


def test_counter_and_power_that_disagree_are_seen() -> None:
    counted = telemetry(100.0, 12.0, counter="gpu_energy_j")
    other = telemetry(80.0, 12.0, counter=None, readings="gpu_power_w")
    found = energy(Telemetry(counted.times_ns, {**counted.series, **other.series}), "gpu", ns(1.0), ns(11.0))
    assert found.joules == pytest.approx(1000.0) and found.check == pytest.approx(1.25)
