"""`load` and `latency` on what the project's own loops measure, on a clock that moves only when time is taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.checks.system.latency.spec import Latency
from evalspec.checks.system.load.spec import Load
from evalspec.evidence.estimate import Measured, Parts
from evalspec.language.inputs import Samples, Schedule
from evalspec.language.parts import CheckResult
from evalspec.measure.samples import read_samples
from evalspec.measure.session import Session
from tests.checks.deciding import outcome
from tests.fakes import FakeInputs
from tests.measure.conftest import clock
from tests.measure.fakes import FakeClock, FakeServable

__all__ = ["clock"]

Making = Callable[[FakeClock], FakeServable]


class Remembering(FakeServable):
    """Answers what it has answered before in no time."""

    def serve(self, query: Any) -> Any:
        """Moves the clock where the rows are new."""
        rows = np.asarray(query).tolist()
        known = all(any(row in before for before in self.served) for row in rows)
        takes, self.takes_ms = self.takes_ms, (lambda call: 0.05) if known else self.takes_ms
        found = super().serve(query)
        self.takes_ms = takes
        return found


def measured_by_the_loops(folder: Path, clock: FakeClock, make: Making) -> Callable[[str, Schedule], list[Samples]]:
    """Every schedule in a session of its own, as a worker would."""
    # Who watches the clock for the last 200 us before a query is due reads it a hundred times, not 200,000 times.
    clock.reading_ns = 2_000

    def measure(model: str, schedule: Schedule) -> list[Samples]:
        found = []
        for process in range(schedule.processes):
            path = folder / f"{process}.samples"
            session = Session(make(clock), schedule, path)
            session.warm_up()
            session.block(0, schedule.queries, schedule.min_s)
            details = session.finish() | {"order_seed": schedule.seed}
            found.append(read_samples(path, model=model, process=process, details=details))
        return found

    return measure


def run(check: Load | Latency, folder: Path, clock: FakeClock, make: Making) -> CheckResult:
    return check.run(FakeInputs(folder, samples=measured_by_the_loops(folder, clock, make)))


def load(**fields: Any) -> Load:
    require = [Load.read_sentence(one, blocking=True) for one in fields.pop("require")]
    small = {"check": "load", "dataset": "test", "queries": 1_500, "search": False, "rates": ["200 qps"]}
    return Load.model_validate(small | fields | {"require": require})


def part(result: CheckResult, metric: str = "latency_p90") -> Measured:
    parts = result.estimates[metric]
    assert isinstance(parts, Parts)
    (found,) = parts.parts.values()
    assert isinstance(found, Measured)
    return found


def gamma_ms(clock: FakeClock, mean: float) -> Callable[[int], float]:
    """Service times; one process after the other draws from the test's own numbers, whatever other tests drew."""
    return lambda call: float(clock.rng.gamma(4.0, mean / 4.0))


@pytest.mark.proof
def test_a_system_in_time_and_one_that_is_overloaded(tmp_path: Path, clock: FakeClock) -> None:
    check = load(require=["latency_p90 <= 60 ms", "error_rate <= 5 %"], timeout="500 ms")
    fine = run(check, tmp_path, clock, lambda now: FakeServable(now, 800, gamma_ms(now, 1.5)))
    assert part(fine).invalid is None and fine.invalid is None
    assert [outcome(fine, one) for one in check.require] == ["PASS", "PASS"]
    slow = run(check, tmp_path, clock, lambda now: FakeServable(now, 800, gamma_ms(now, 8.0)))
    assert part(slow).invalid is None, "a queue at the server is not the generator's"
    assert outcome(slow, check.require[0]) == "FAIL"
    assert slow.counts.errored > 100, "what waited for 500 ms timed out, and was counted"
    assert any("over-saturated" in note for note in slow.notes)


@pytest.mark.proof
def test_batching_serves_what_one_at_a_time_does_not(tmp_path: Path, clock: FakeClock) -> None:
    fields = {"require": ["latency_p90 <= 60 ms"], "caching_audit": False, "queue_delay": "5 ms"}

    def make(now: FakeClock) -> FakeServable:
        return FakeServable(now, 800, lambda call: 8.0)

    alone, together = load(**fields), load(**fields, max_batch=8)
    assert outcome(run(alone, tmp_path, clock, make), alone.require[0]) == "FAIL"
    found = run(together, tmp_path, clock, make)
    assert part(found).invalid is None, "waiting for others on purpose is no lag"
    assert outcome(found, together.require[0]) == "PASS"


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["load", "latency"])
def test_a_model_that_remembers_is_found_although_it_was_warmed_up(tmp_path: Path, clock: FakeClock, kind: str) -> None:
    check: Load | Latency = load(require=["latency_p90 <= 60 ms"])
    if kind == "latency":
        check = Latency(dataset="test", require=(Latency.read_sentence("latency_p90 <= 60 ms", blocking=True),))
    cached = run(check, tmp_path, clock, lambda now: Remembering(now, 500, gamma_ms(now, 2.0)))
    assert cached.invalid is not None and "answers come from a cache" in cached.invalid
    assert outcome(cached, check.require[0]) == "INVALID"
    honest = run(check, tmp_path, clock, lambda now: FakeServable(now, 500, gamma_ms(now, 2.0)))
    assert honest.invalid is None and outcome(honest, check.require[0]) == "PASS"
    assert any("Audit for caching: 399 items" in note for note in honest.notes)


@pytest.mark.proof
def test_cameras_in_lockstep(tmp_path: Path, clock: FakeClock) -> None:
    sentence = Latency.read_sentence("deadline_miss_rate <= 2 %", blocking=True)
    check = Latency.model_validate(
        {"check": "latency", "dataset": "test", "scenario": "multi_stream", "streams": 4, "interval": "10 ms",
         "require": [sentence]}
    )  # fmt: skip
    fine = run(check, tmp_path, clock, lambda now: FakeServable(now, 500, gamma_ms(now, 2.0)))
    assert outcome(fine, sentence) == "PASS" and fine.conditions["batch"] == 4
    slow = run(check, tmp_path, clock, lambda now: FakeServable(now, 500, gamma_ms(now, 12.0)))
    assert outcome(slow, sentence) == "FAIL"
