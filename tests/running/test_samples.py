from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalspec.errors import NotRunError, RecordError
from evalspec.language.inputs import Probe, Samples, Schedule
from evalspec.language.timings import Telemetry
from evalspec.running.journal.replay import Replay
from evalspec.running.probes import read_probes, write_probes
from evalspec.running.samples import read_samples, write_samples


def some(model: str, process: int, queries: int, batch: int, *, answers: bool = True) -> Samples:
    rng = np.random.default_rng(process)
    sent = np.cumsum(rng.integers(1000, 2000, queries))
    return Samples(
        model=model,
        process=process,
        block=np.arange(queries, dtype=np.int64) % 4,
        intended_ns=sent,
        sent_ns=sent,
        end_ns=sent + 500,
        items=rng.integers(0, 50, queries),
        batch=batch,
        ok=rng.random(queries) > 0.1,
        warmup=7,
        details={"threads": 1, "complete": True},
        answers=rng.normal(size=(queries, batch)) if answers else None,
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    made = [some("a", 0, 10, 1), some("b", 0, 13, 4), some("a", 1, 5, 1, answers=False)]
    write_samples(made, tmp_path / "s.parquet")
    read = read_samples(tmp_path / "s.parquet")
    assert [(one.model, one.process, one.batch, one.warmup) for one in read] == [
        ("a", 0, 1, 7),
        ("b", 0, 4, 7),
        ("a", 1, 1, 7),
    ]
    for before, now in zip(made, read, strict=True):
        for name in ("block", "intended_ns", "sent_ns", "end_ns", "items", "ok"):
            np.testing.assert_array_equal(getattr(before, name), getattr(now, name))
        assert now.details == before.details
        if before.answers is None:
            assert now.answers is None
        else:
            assert now.answers is not None
            np.testing.assert_array_equal(before.answers, now.answers)


def test_replay_gives_them_in_order_and_refuses_others(tmp_path: Path) -> None:
    write_samples([some("a", 0, 4, 1), some("a", 1, 4, 1), some("b", 0, 4, 1)], tmp_path / "samples-c.parquet")
    schedule = Schedule(kind="single_stream", queries=4, processes=2)
    replay = Replay(tmp_path, "c")
    assert [one.process for one in replay.measure(schedule, "test", "a", lambda *_: None)] == [0, 1]
    with pytest.raises(NotRunError, match="do not have 2 processes of b"):
        replay.measure(schedule, "test", "b", lambda *_: None)


def test_replay_tells_an_audit_and_another_way_of_measuring_by_what_they_say_of_themselves(tmp_path: Path) -> None:
    def told(kind: str, repeats: int) -> Samples:
        return replace(some("a", 0, 4, 1), details={"kind": kind, "repeats": repeats})

    def asked(samples: list[Samples], **fields: Any) -> list[Samples]:
        write_samples(samples, tmp_path / "samples-c.parquet")
        schedule = Schedule(**({"kind": "single_stream", "queries": 4, "processes": 1} | fields))
        return Replay(tmp_path, "c").measure(schedule, "test", "a", lambda *_: None)

    audit, plain = told("single_stream", 2), told("single_stream", 1)
    assert len(asked([audit], repeats=2)) == len(asked([plain])) == 1
    for samples, fields, message in (
        ([plain], {"repeats": 2}, "no item was sent twice"),
        ([audit], {}, "a different number of repeats here from 1"),
        ([told("open_loop", 1)], {}, "have open_loop here, where single_stream"),
        ([plain], {"batch": 2}, "batches of 1 here, where 2 is needed"),
    ):
        with pytest.raises(NotRunError, match=message):
            asked(samples, **fields)
    # Older samples say neither; their blocks show an audit.
    old = replace(some("a", 0, 4, 1), details={}, block=np.array([0, 1, 0, 1]))
    assert len(asked([old], repeats=2)) == 1


def test_a_torn_file_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    write_samples([some("a", 0, 400, 1)], path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(RecordError, match="can't be read"):
        read_samples(path)


TOLD = Telemetry(
    times_ns=np.array([0, 10, 20]),
    series={"gpu_power_w": np.array([1.0, np.nan, 3.0])},
    sources={"gpu_power_w": "a meter"},
    missing={"cpu_energy_j": "no meter"},
)


def test_what_only_some_ways_of_measuring_have_is_kept(tmp_path: Path) -> None:
    plain = some("a", 0, 6, 1)
    rich = replace(
        some("a", 1, 5, 1), first_ns=np.arange(5), outcome=np.arange(5) % 3, together=np.ones(5, np.int64),
        telemetry=TOLD,
    )  # fmt: skip
    write_samples([plain, rich], tmp_path / "s.parquet")
    one, other = read_samples(tmp_path / "s.parquet")
    assert (one.first_ns, one.outcome, one.together, one.telemetry) == (None, None, None, None)
    np.testing.assert_array_equal(other.outcome, rich.outcome)
    np.testing.assert_array_equal(other.first_ns, rich.first_ns)
    assert other.telemetry is not None
    np.testing.assert_array_equal(other.telemetry.series["gpu_power_w"], [1.0, np.nan, 3.0])
    assert (other.telemetry.sources, other.telemetry.missing) == (TOLD.sources, TOLD.missing)


def test_what_probes_found_is_read_and_replayed(tmp_path: Path) -> None:
    probe = Probe(
        "memory", "a", 0, {"load_s": 0.5, "device": None}, {"resident_mib": np.array([1.0, np.nan])},
        {"stages": ("cast", "model")}, TOLD,
    )  # fmt: skip
    write_probes([probe, replace(probe, process=1)], tmp_path / "probes-c.json")
    first = read_probes(tmp_path / "probes-c.json")[0]
    assert (first.facts, first.texts) == (probe.facts, probe.texts)
    np.testing.assert_array_equal(first.series["resident_mib"], [1.0, np.nan])
    replay = Replay(tmp_path, "c")
    assert [p.process for p in replay.probe("memory", "d", "a", 2, {}, None, lambda *_: None)] == [0, 1]
    with pytest.raises(NotRunError, match="no 1 probes memory of a"):
        replay.probe("memory", "d", "a", 1, {}, None, lambda *_: None)


def test_a_model_that_told_nothing_takes_nothing_from_the_next_one(tmp_path: Path) -> None:
    write_probes([Probe("precision", "baseline", 0, {}, {}, {})], tmp_path / "probes-c.json")
    replay = Replay(tmp_path, "c")
    with pytest.raises(NotRunError, match="no 1 probes precision of candidate"):
        replay.probe("precision", "d", "candidate", 1, {}, None, lambda *_: None)
    (found,) = replay.probe("precision", "d", "baseline", 1, {}, None, lambda *_: None)
    assert found.model == "baseline"


def test_torn_probes_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text('[{"probe": "memory"')
    with pytest.raises(RecordError, match="can't be read"):
        read_probes(tmp_path / "p.json")


def test_sizes_are_kept_and_replayed(tmp_path: Path) -> None:
    sized = replace(some("a", 0, 3, 2), sizes=np.array([1, 2, 9]))
    write_samples([sized, some("a", 1, 4, 2)], tmp_path / "samples-c.parquet")
    schedule = Schedule(kind="open_loop", queries=3, processes=2, batch=2, sizes=np.array([1, 2, 9]))
    one, other = Replay(tmp_path, "c").measure(schedule, "test", "a", lambda *_: None)
    assert one.sizes is not None and one.sizes.tolist() == [1, 2, 9]
    assert other.sizes is None
