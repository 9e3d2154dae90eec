"""Order of the checks of a run, and what is loaded beside them, before anybody has to wait for it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.errors import NotRunError
from evalspec.evidence.record import CheckRecord, Record
from evalspec.language.parts import Access, NeedTiming
from evalspec.planning import PlannedCheck
from evalspec.running import runner
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.kept_rows import RowsWriter
from evalspec.running.children.process import Limits
from evalspec.running.children.sharing import Heir, SharedChild
from evalspec.running.children.tables import Tables
from evalspec.running.describe import without_evidence
from evalspec.running.subjects import Subjects
from evalspec.runtimes.sklearn import Sklearn
from evalspec.sources.parquet import Parquet
from tests.commands import reads_classifiers
from tests.running.small import go

pytestmark = reads_classifiers
SUITE = Path(__file__).parents[2] / "suites" / "breast_cancer"
SPEC = """\
evalspec: 1
name: order
models:
  candidate: {kind: sklearn, path: classifier.skops}
  baseline: {kind: sklearn, path: old.skops}
datasets:
  test: {kind: parquet, path: test.parquet, label: diagnosis, key: id}
system:
  - {check: latency, dataset: test, caching_audit: false, processes: 5, require: [latency_p50 <= 1000 ms]}
model:
  - {check: quality, dataset: test, positive: malignant, require: [accuracy >= 60 %, accuracy >= baseline - 20 pp]}
  - {check: calibration, dataset: test, require: [ece <= 0.5]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name in ("classifier.skops", "test.parquet"):
        shutil.copy(SUITE / name, tmp_path)
    shutil.copy(SUITE / "classifier.skops", tmp_path / "old.skops")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return tmp_path / "spec.yaml"


class Watching:
    """Notes the checks of a run as they end."""

    def __init__(self) -> None:
        self.checks: list[str] = []
        self.left: list[float] = []

    def step(self, text: str) -> None: ...

    def progress(self, done: float, total: float, what: str) -> None: ...

    def ended(self, end: Any) -> None:
        self.checks.append(end.record.id)
        self.left.append(end.left_s)
        assert (end.place, end.of) == (len(self.checks), 3)


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that come by every check and measure none."""

    def measure(run: Any, planned: PlannedCheck) -> tuple[CheckRecord, dict[str, Any]]:
        return without_evidence(planned, run.spec, "not_run", "nothing is measured here"), {}

    monkeypatch.setattr(runner._Run, "_measure", measure)
    monkeypatch.setattr(Subjects, "load_ahead", lambda *_: None)


@pytest.mark.proof
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("slow", [(), ("baseline",), ("candidate", "baseline")])
def test_a_check_whose_model_still_loads_lets_others_go_first(
    spec: Path, slow: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Subjects, "loading", lambda _: frozenset(slow))
    monkeypatch.setattr(SharedChild, "load_ahead", lambda *_: None)
    seen = Watching()
    record, _ = go(spec, spec.parent / "run", steps=seen)  # type: ignore[arg-type]
    assert seen.checks == (["calibration", "quality", "latency"] if slow else ["quality", "calibration", "latency"])
    assert seen.left == sorted(seen.left, reverse=True) and seen.left[-1] == 0
    assert [one.id for one in record.checks] == ["latency", "quality", "calibration"]


def loaded_ahead(
    spec: Path, monkeypatch: pytest.MonkeyPatch, load: Callable[..., None] = lambda *_: None, **options: Any
) -> tuple[Record, list[tuple[str, NeedTiming]]]:
    """What a run has loaded for its timed checks beside the others."""
    asked: list[tuple[str, NeedTiming]] = []

    def noting(self: SharedChild, job: CheckJob, need: NeedTiming) -> None:
        asked.append((job.check.name, need))
        load(self, job, need)

    monkeypatch.setattr(SharedChild, "load_ahead", noting)
    record, _ = go(spec, spec.parent / "run", **options)
    return record, asked


@pytest.mark.proof
def test_the_first_timed_check_finds_its_processes_loaded(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, ((check, need),) = loaded_ahead(spec, monkeypatch, SharedChild.load_ahead)
    assert (check, need.model, need.dataset) == ("latency", "candidate", "test")
    assert {one.id: one.reason for one in record.checks if one.status != "measured"} == {}


SYSTEM = """
system:
  - {{check: latency, dataset: test, require: [latency_p99 <= 10 s]}}
{}
  - {{check: throughput, dataset: {}, batch_sizes: [8], require: [throughput >= 1 samples/s]}}
"""
MEMORY = "  - {check: memory, dataset: test, require: [peak_host_memory <= 100000 MiB]}"


@pytest.mark.parametrize(
    ("between", "dataset", "stateless", "options", "heirs"),
    [
        ("", "test", True, {}, [("throughput", "candidate"), None]),
        ("", "other", True, {}, [None, None]),
        (MEMORY, "test", True, {}, [None, None, None]),
        ("", "test", False, {}, [None, None]),
        ("", "test", True, {"trust": True}, [None, None]),
        ("", "test", True, {"draft": True}, [None, None]),
        ("", "test", True, {"limits": Limits(time_s=60, memory_bytes=2**31)}, [None, None]),
    ],
    ids=[
        "next",
        "of other rows",
        "another check between",
        "kernels by shape",
        "code of others in its file",
        "draft",
        "little memory",
    ],
)
def test_processes_are_left_to_the_next_check_of_the_same_model(
    between: str, dataset: str, stateless: bool, options: dict[str, Any], heirs: list[Heir | None], spec: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    asked: list[Heir | None] = []

    def ask(self: SharedChild, job: CheckJob, *, heir: Heir | None = None, **_: Any) -> None:
        asked.append(heir)
        raise NotRunError("nothing is measured here")

    monkeypatch.setattr(Sklearn, "stateless", stateless)
    monkeypatch.setattr(SharedChild, "ask", ask)
    monkeypatch.setattr(SharedChild, "load_ahead", lambda *_: None)
    text = SPEC.partition("system:")[0].replace(
        "datasets:\n", "datasets:\n  other: {kind: parquet, path: test.parquet}\n"
    )
    spec.write_text(text + SYSTEM.format(between, dataset))
    go(spec, spec.parent / "run", **{"trust": False} | options)
    assert asked == heirs


@pytest.mark.proof
@pytest.mark.usefixtures("unmeasured")
def test_a_draft_loads_nothing_ahead(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(loaded_ahead(spec, monkeypatch)[1]) == 1
    shutil.rmtree(spec.parent / "run")
    assert loaded_ahead(spec, monkeypatch, draft=True)[1] == []


@pytest.mark.proof
@pytest.mark.usefixtures("unmeasured")
def test_little_memory_loads_nothing_beside_what_is_measured(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "ROOM_BYTES", 2**60)
    assert loaded_ahead(spec, monkeypatch)[1] == []


@pytest.mark.proof
@pytest.mark.usefixtures("unmeasured")
def test_code_of_the_spec_is_never_loaded_ahead(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (spec.parent / "model.py").write_text(
        "import numpy as np\n"
        "def answer(inputs):\n"
        "    return {'label': np.where(np.asarray(inputs['x']) > 700, 'malignant', 'benign')}\n"
    )
    spec.write_text(
        SPEC.replace(
            "{kind: sklearn, path: classifier.skops}",
            "{kind: python, function: model:answer, inputs: {x: mean_area}, outputs: {label: label}, "
            "classes: [benign, malignant]}",
        ).replace("  - {check: calibration, dataset: test, require: [ece <= 0.5]}\n", "")
    )
    assert loaded_ahead(spec, monkeypatch)[1] == []


def test_rows_that_were_read_meanwhile_are_those_that_the_run_began_with(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": np.arange(3)}), tmp_path / "d.parquet")
    parts = SpecParts({}, {"d": Parquet(path="d.parquet")}, {}, Access(tmp_path))
    tables = Tables(parts)
    writer = RowsWriter(tmp_path / "rows")
    writer.update(pa.RecordBatch.from_pydict({"x": pa.array([7, 8, 9])}))
    assert writer.end()
    tables.keep({"d": tmp_path / "rows"})
    assert tables.get("d").column("x").to_pylist() == [7, 8, 9] and dict(parts.kept) == {}
