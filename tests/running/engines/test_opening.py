"""A look at every node before a run, and for `doctor`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import EngineError
from evalspec.language.parts import Access, Dataset
from evalspec.running.doctor import examine_engine
from evalspec.running.engines import node, opening
from evalspec.running.engines.choice import EngineChoice
from evalspec.running.engines.opening import opened, recorded
from evalspec.sources.parquet import Parquet
from tests.running.engines.fake import FakeCluster, InProcess

DASK = EngineChoice("dask", address="127.0.0.1:8786")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    one = FakeCluster()
    monkeypatch.setattr(opening, "driver_child", lambda work: InProcess(one))
    return one


def test_what_is_said_and_recorded(cluster: FakeCluster) -> None:
    facts = opened(DASK)
    assert facts.line == "engine fake 1.0: 2 nodes, 3 CPUs of one kind" and cluster.closed
    passes = [
        {"leaves": 5, "kept": 1, "leaf_rows": 2**20, "again": 2, "lost": ["N1"]},
        {"leaves": 9, "kept": 0, "leaf_rows": 2**21, "again": 0, "lost": ["N1", "N3"]},
    ]
    told = recorded(DASK, facts, passes)
    assert told.pop("cpu_kinds") == f"3 x {node.cpu()}"
    assert told == {
        "name": "fake", "version": "1.0", "nodes": 2, "cpus": 3, "leaves": 14, "leaves_kept": 1, "leaf_rows": 2**21,
        "again": 2, "lost": "N1, N3",
    }  # fmt: skip
    assert recorded(EngineChoice(), None, passes) == {}


def test_a_node_that_is_not_fit_ends_it(cluster: FakeCluster) -> None:
    cluster.versions["n2"] = {"evalspec": "0.3.0, code 00000000", "numpy": "1.0"}
    with pytest.raises(EngineError, match=r"node N2 has evalspec 0.3.0, code 00000000 \(here: .*\) and numpy 1.0 \("):
        opened(DASK)


def test_doctor_says_all_of_it(cluster: FakeCluster, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(3)}), tmp_path / "a.parquet")
    datasets: dict[str, Dataset] = {"a": Parquet(path="a.parquet"), "b": Parquet(path="b.parquet")}
    cluster.versions["n2"] = {"numpy": "1.0"}
    told = {one.what: (one.state, one.detail) for one in examine_engine(DASK, datasets, Access(tmp_path))}
    assert told["engine fake 1.0"] == ("ok", "2 nodes, 3 CPUs of one kind")
    assert told["node N1"][0] == "ok" and told["node N1"][1].startswith(f"2 CPUs ({node.cpu()}); evalspec ")
    assert told["node N1, dataset a"] == ("ok", "its files are the same there")
    assert told["dataset b"][0] == "broken" and "no file or folder 'b.parquet'" in told["dataset b"][1]
    assert told["node N2"][0] == "broken" and "numpy 1.0 (here: " in told["node N2"][1]
    assert "node N2, dataset a" not in told
    cluster.there = {}
    assert examine_engine(DASK, {}, Access(tmp_path))[0].state == "broken"
    assert [one.state for one in examine_engine(EngineChoice(children=2), {}, Access(tmp_path))] == ["ok"]


def test_doctor_names_who_sees_another_file(cluster: FakeCluster, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": range(3)}), path)

    def survey(packed: bytes, within_s: float) -> dict[str, bytes | str]:
        path.unlink(missing_ok=True)
        return FakeCluster.survey(cluster, packed, within_s)  # type: ignore[return-value]

    cluster.survey = survey  # type: ignore[method-assign]
    told = {
        one.what: (one.state, one.detail)
        for one in examine_engine(DASK, {"a": Parquet(path="a.parquet")}, Access(tmp_path))
    }
    assert told["node N1, dataset a"][0] == "broken" and "a.parquet" in told["node N1, dataset a"][1]
