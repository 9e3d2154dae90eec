"""`recovery`: what is said of kills whose course is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from evalspec.checks.system.recovery.spec import Recovery
from evalspec.errors import InputError, NotRunError
from evalspec.evidence.blocks import Curve, Table
from evalspec.evidence.estimate import Estimate, Fact, Measured
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Probe
from evalspec.language.parts import CheckResult
from evalspec.language.timings import OUTCOMES
from tests.checks.deciding import outcome, the
from tests.fakes import FakeInputs

BROKE, REFUSED = OUTCOMES.index("connection broke"), OUTCOMES.index("not connected")
FACTS: Mapping[str, Mapping[str, Cell]] = {"candidate": {"server_pid": 4242}}


def kills(away_s: Sequence[float], *, rate: float = 50.0, lag_ms: float | None = 0.1, after: int = 0) -> list[Probe]:
    """Queries every 1/rate s from 2 s before each kill to 1 s after it is back; those while it is away fail.

    Args:
        away_s: How long it is away after each kill; NaN: for ever.
        rate: In qps.
        lag_ms: Of the client; None: not known.
        after: Queries that fail although it is back.
    """
    due, end, code, repeat = [], [], [], []
    for index, away in enumerate(away_s):
        times = np.arange(-2.0, (10.0 if np.isnan(away) else away) + 1.0, 1 / rate)
        lost = (times >= 0) & ~(times >= away)
        lost[-after:] |= after > 0
        due.append(times)
        end.append(times + 0.002)
        code.append(np.where(lost, REFUSED, 0))
        repeat.append(np.full(len(times), index))
    series = {
        "healthy_s": np.array(away_s, dtype=np.float64),
        "repeat": np.concatenate(repeat or [np.empty(0)]).astype(np.float64),
        "due_s": np.concatenate(due or [np.empty(0)]),
        "end_s": np.concatenate(end or [np.empty(0)]),
        "outcome": np.concatenate(code or [np.empty(0)]).astype(np.float64),
    }
    return [Probe("recovery", "candidate", 0, {"repeats": len(away_s), "lag_p99_ms": lag_ms}, series)]


def run(folder: Path, found: list[Probe], **fields: object) -> tuple[CheckResult, Recovery]:
    check = Recovery.model_validate(
        {
            "check": "recovery",
            "dataset": "test",
            "require": ["time_to_healthy <= 5 s", "lost_requests <= 100"],
            **fields,
        }
    )
    return check.run(FakeInputs(evidence=folder, probes={"recovery": found}, facts=FACTS)), check


def value(result: CheckResult, metric: str) -> float | None:
    found = result.estimates[metric]
    assert isinstance(found, Measured)
    assert not isinstance(found.estimate, dict)
    return found.estimate.value  # type: ignore[union-attr]


def test_time_and_losses_are_those_of_the_kills(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([1.0, 1.2, 0.8, 1.1, 0.9]))
    assert value(result, "time_to_healthy") == pytest.approx(1.0)
    # 1.2 s at 50 queries a second, in the longest.
    assert value(result, "lost_requests") == pytest.approx(60, abs=1)
    assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "PASS"
    assert outcome(result, the(check, "lost_requests <= 100")) == "PASS"


def test_its_interval_is_students_t_over_kills(tmp_path: Path) -> None:
    """From below; from above the times are taken as skewed too, which is wider."""
    from scipy import stats

    away = np.array([1.0, 1.2, 0.8, 1.1, 0.9])
    result, _ = run(tmp_path, kills(away.tolist()))
    found = result.estimates["time_to_healthy"]
    assert isinstance(found, Measured)
    reach = stats.t.ppf(0.95, 4) * away.std(ddof=1) / np.sqrt(5)
    assert isinstance(found.estimate, Estimate)
    assert found.estimate.bound(0.95, "lower") == pytest.approx(away.mean() - reach)
    upper = found.estimate.bound(0.95, "upper")
    assert upper is not None and reach <= upper - away.mean() < 1.5 * reach


def test_a_slow_start_fails(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([9.0, 8.5, 9.5, 9.2, 8.8]))
    assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "FAIL"
    assert outcome(result, the(check, "lost_requests <= 100")) == "FAIL"


def test_a_server_that_stays_away_once_fails_as_a_fact(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([1.0, 1.1, float("nan")]))
    assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "FAIL"
    found = result.estimates["time_to_healthy"]
    assert isinstance(found, Measured) and isinstance(found.estimate, Fact)
    assert found.estimate.value == check.within_s
    assert found.invalid is None
    assert any("no further kill" in note for note in result.notes)


def test_a_wait_that_is_too_short_for_its_requirement_is_refused() -> None:
    check = Recovery.model_validate(
        {"check": "recovery", "dataset": "test", "within": "4 s", "require": ["time_to_healthy <= 5 s"]}
    )
    assert "make `within:` longer" in str(check.check_requirement(check.require[0], {}))


def test_failures_before_a_kill_and_after_it_is_back_are_told_apart(tmp_path: Path) -> None:
    probes = kills([1.0, 1.0, 1.1], after=3)
    code = probes[0].series["outcome"]
    code[:5] = BROKE
    result, _ = run(tmp_path, probes)
    assert any(note.startswith("5 queries failed before any kill") for note in result.notes)
    assert any(note.startswith("9 queries failed although") for note in result.notes)
    assert value(result, "lost_requests") == pytest.approx(55 + 3, abs=1)


def test_a_late_client_voids_it(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([1.0, 1.1, 0.9, 1.0, 1.0], lag_ms=80.0))
    assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "INVALID"


def test_a_late_client_does_not_excuse_a_server_that_stays_away(tmp_path: Path) -> None:
    for lag_ms in (80.0, None):
        result, check = run(tmp_path, kills([1.0, float("nan")], lag_ms=lag_ms))
        assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "FAIL"
        assert outcome(result, the(check, "lost_requests <= 100")) == "INVALID"


def test_a_lag_that_nobody_knows_voids_it(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([1.0, 1.1, 0.9, 1.0, 1.0], lag_ms=None))
    assert outcome(result, the(check, "time_to_healthy <= 5 s")) == "INVALID"
    assert outcome(result, the(check, "lost_requests <= 100")) == "INVALID"


def test_fewer_kills_than_planned_void_it(tmp_path: Path) -> None:
    result, check = run(tmp_path, kills([1.0, 1.1, 0.9]))
    assert outcome(result, the(check, "lost_requests <= 100")) == "INVALID"


def test_it_shows_every_kill(tmp_path: Path) -> None:
    result, _ = run(tmp_path, kills([1.0, 1.2, 0.8, 1.1, 0.9]))
    table, curve = result.blocks
    assert isinstance(table, Table) and len(table.rows) == 5
    assert isinstance(curve, Curve)
    lost = dict(zip(curve.series[0].x, curve.series[0].y, strict=True))
    assert lost[-0.875] == 0.0
    assert lost[0.375] == 100.0
    assert result.counts.attempted == result.counts.used + result.counts.errored


def test_a_server_that_the_spec_does_not_start_is_not_killed(tmp_path: Path) -> None:
    check = Recovery.model_validate({"check": "recovery", "dataset": "test", "report_only": True})
    with pytest.raises(NotRunError, match="add `start:`"):
        check.run(FakeInputs(evidence=tmp_path, probes={"recovery": kills([1.0])}))


def test_no_kill_is_no_number(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="never killed"):
        run(tmp_path, kills([]))
