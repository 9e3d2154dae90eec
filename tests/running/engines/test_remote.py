"""Leaves that a cluster looks at: the record of one process to the byte, whatever happens to nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import EngineError, InputError, WorkerError
from evalspec.running.children import checking
from evalspec.running.children.leaf_journal import passes_of, remove_leaves
from evalspec.running.engines import leaf_job
from evalspec.running.engines.choice import EngineChoice
from tests.running.children.test_leaves import ROWS, SPEC, answer, answer_again, folder, jobs_in, rows, short_leaves
from tests.running.engines.fake import FakeCluster, use

__all__ = ["folder", "short_leaves"]

RAY = EngineChoice("ray", address="127.0.0.1:6379")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """A node's process looks for one job at a time; here all nodes are one process."""
    leaf_job._made_sure.cache_clear()
    leaf_job._looker.cache_clear()


@pytest.mark.proof
@pytest.mark.parametrize("seed", [1, 2])
def test_nodes_give_the_record_of_one_process(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    alone = [answer(job) for job in jobs_in(folder, 1)]
    cluster = use(monkeypatch, FakeCluster(seed=seed))
    assert json.dumps([answer(job) for job in jobs_in(folder, 1, RAY)]) == json.dumps(alone)
    assert cluster.closed and cluster.most == 3 and sorted(set(cluster.looked)) == [*range(6)]
    assert cluster.looked != sorted(cluster.looked)


@pytest.mark.proof
def test_nodes_that_are_lost_change_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs_in(folder, 1, RAY)[0]
    alone = answer(jobs_in(folder, 1)[0])
    for seed in range(3):
        cluster = use(
            monkeypatch, FakeCluster(seed=seed, loses=lambda leaf, times: times == 1 and leaf in (0, 3, 5)),
        )  # fmt: skip
        assert answer(job) == alone
        assert cluster.there.keys() < {"n1", "n2"}
        first, second = passes_of(folder / "run")
        # A leaf that was lost in the first dataset may be begun for the second time in the second one.
        assert (first["leaves"], first["again"], second["leaves"], second["again"]) == (6, 3, 6, 0)
        assert first["lost"] in (["N1"], ["N2"])
    log = (folder / "run" / "logs" / "leaves-shift-lost.log").read_text()
    assert "leaf 4 of test is scanned once more: node N" in log


def test_progress_says_what_was_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeCluster(loses=lambda leaf, times: times == 1 and leaf == 0))
    job, lines = jobs_in(folder, 1, RAY)[0], list[str]()
    (folder / "run" / "evidence").mkdir(parents=True, exist_ok=True)
    remove_leaves(folder / "run")
    checking.answer(job, lambda done, total, what: lines.append(what))
    first = [line for line in lines if line.startswith("test: ")]
    assert any("of 6 leaves" in line and " rows/s, " in line and " s left" in line for line in first)
    assert "(1 again: node N" in first[-1] and first[-1].endswith(" lost)")


def test_a_leaf_that_is_lost_twice_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeCluster(loses=lambda leaf, times: leaf == 3))
    with pytest.raises(WorkerError, match=r"leaf 4 of test was lost twice: node N\d died"):
        answer(jobs_in(folder, 1, RAY)[0])


def test_a_leaf_that_takes_too_long_is_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeCluster(), time_s=-1.0)
    with pytest.raises(WorkerError, match="leaf 1 of test was lost twice: no answer within -1 s"):
        answer(jobs_in(folder, 1, RAY)[0])


def test_of_several_errors_the_first_leafs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one process tells it, in the same words."""
    table = rows(ROWS, 3)
    missing = np.isin(np.arange(ROWS), [2_567, 2_569, 4_000])
    table = table.set_column(5, "y", pa.array(table["y"].to_pylist(), mask=missing))
    (tmp_path / "test").mkdir()
    pq.write_table(table, tmp_path / "test" / "a.parquet", row_group_size=1_000)
    pq.write_table(table, tmp_path / "traffic.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC)
    said = set()
    with pytest.raises(InputError) as alone:
        answer(jobs_in(tmp_path, 1)[0])
    for seed in range(5):
        use(monkeypatch, FakeCluster(seed=seed))
        with pytest.raises(InputError) as told:
            answer(jobs_in(tmp_path, 1, RAY)[0])
        said.add(str(told.value))
    assert said == {str(alone.value)} and "row 2,567" in str(alone.value)


@pytest.mark.parametrize(("package", "theirs"), [("numpy", "1.26.4"), ("evalspec", "0.2.0"), ("python", "3.10.1")])
def test_another_version_is_refused_before_the_first_leaf(
    folder: Path, monkeypatch: pytest.MonkeyPatch, package: str, theirs: str
) -> None:
    cluster = use(monkeypatch, FakeCluster(versions={"n2": {package: theirs}}))
    with pytest.raises(EngineError, match=rf"node N2 has {package} {theirs} \(here: .*\); install the same versions"):
        answer(jobs_in(folder, 1, RAY)[0])
    assert not cluster.begun


@pytest.mark.proof
def test_a_node_that_joins_later_is_held_to_it_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Growing(FakeCluster):
        def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
            super().submit(leaf, packed, start, stop)
            self.there = {"n3": 1}

    use(monkeypatch, Growing())
    assert answer(jobs_in(folder, 1, RAY)[0]) == answer(jobs_in(folder, 1)[0])
    use(monkeypatch, Growing(versions={"n3": {"pyarrow": "14.0"}}))
    with pytest.raises(EngineError, match=r"node N3 has pyarrow 14.0 \(here: "):
        answer(jobs_in(folder, 1, RAY)[0])


def stale(path: Path, patch: pytest.MonkeyPatch) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))


def gone(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.unlink()


def refused(path: Path, patch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def opening(self: Path, *how: Any, **more: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *how, **more)

    patch.setattr(Path, "open", opening)


@pytest.mark.parametrize(
    ("change", "first", "said"),
    [
        (stale, 0, "is a different file: it was changed at"),
        (stale, 2, "is a different file: it was changed at"),
        (gone, 0, "there is no"),
        (gone, 2, "there is no"),
        (refused, 0, "can't be read: Permission"),
    ],
)
def test_a_node_that_sees_other_files_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[..., None], first: int, said: str
) -> None:
    """What it can't open is never an empty state."""

    class Stale(FakeCluster):
        def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
            super().submit(leaf, packed, start, stop)
            if leaf == first:
                change(tmp_path / "traffic.parquet", monkeypatch)

    pq.write_table(rows(ROWS, 1), tmp_path / "traffic.parquet")
    pq.write_table(rows(ROWS, 1).slice(0, 900), tmp_path / "test.parquet")
    (tmp_path / "evalspec.yaml").write_text(SPEC.replace("path: test,", "path: test.parquet,"))
    use(monkeypatch, Stale(there={"n7": 1}))
    with pytest.raises(InputError, match=rf"node N7: .*traffic\.parquet.* {said}|node N7: {said}") as told:
        answer(jobs_in(tmp_path, 1, RAY)[0])
    assert "traffic.parquet" in str(told.value)


def test_fewer_rows_than_planned_are_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Short(FakeCluster):
        def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
            super().submit(leaf, packed, start, stop - (leaf == 1))

    use(monkeypatch, Short())
    with pytest.raises(WorkerError, match="leaf 2 of test gave 999 rows in place of 1,000"):
        answer(jobs_in(folder, 1, RAY)[0])


@pytest.mark.proof
def test_a_cluster_that_ends_leaves_its_leaves(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on with the run looks only at those that are not kept; another engine may."""
    job, alone = jobs_in(folder, 1, RAY)[0], answer(jobs_in(folder, 1)[0])
    use(monkeypatch, FakeCluster(breaks=8))
    with pytest.raises(EngineError, match="fake is gone; 2 of 6 leaves of traffic are kept: start the cluster again"):
        answer(job)
    cluster = use(monkeypatch, FakeCluster(seed=4))
    assert answer_again(job) == alone
    assert len(cluster.looked) == 4
    assert [(one["leaves"], one["kept"]) for one in passes_of(folder / "run")] == [(6, 0), (2, 0), (0, 6), (4, 2)]
    cluster = use(monkeypatch, FakeCluster())
    assert answer_again(replace(job, engine=EngineChoice(children=2))) == alone


def test_without_a_node_nothing_begins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FakeCluster(there={}))
    with pytest.raises(EngineError, match="fake has no node with a processor"):
        answer(jobs_in(folder, 1, RAY)[0])
