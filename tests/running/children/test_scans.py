"""One pass over a dataset serves all checks that look at it, and each finds what it would have found by itself."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.checks.data.coverage.spec import Coverage
from evalspec.checks.data.integrity import measure as integrity
from evalspec.checks.data.shift import classifier
from evalspec.errors import InputError, WorkerError
from evalspec.language.parts import Access, Check
from evalspec.language.scans import Scan
from evalspec.loading import load
from evalspec.planning import plan
from evalspec.running.children import scans as run_scans
from evalspec.running.children import sharing
from evalspec.running.children.jobs import CheckJob, SpecParts, seed_of
from evalspec.running.children.process import Limits
from evalspec.running.children.scans import Passes, Scans
from evalspec.running.children.sharing import SharedChild
from evalspec.sources.parquet import Parquet

SPEC = """
evalspec: 1
name: shared
datasets:
  test: {kind: parquet, path: test.parquet, label: y}
  monday: {kind: parquet, path: monday.parquet, where: x < 3}
  sunday: {kind: parquet, path: sunday.parquet}
data:
  - {check: shift, id: first, reference: test, current: monday, require: [drifted_columns <= 10 %]}
  - {check: shift, id: second, reference: test, current: sunday, columns: [x], distance: wasserstein, report_only: true}
  - {check: shift, id: third, reference: monday, current: sunday, report_only: true}
  - check: integrity
    dataset: test
    table_schema: {x: {min: -2, nullable: false}, site: {values: [a, b]}}
    require: [schema_violations == 0]
  - {check: coverage, dataset: test, by: [site], population: monday, report_only: true}
"""


def rows(n: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "x": pa.array(rng.normal(0, 1, n), mask=rng.random(n) < 0.01),
            "site": pa.array(rng.choice(["a", "b", "c"], n)).dictionary_encode(),
            "note": [f"note {int(i)} of {seed}" for i in rng.integers(0, 30_000, n)],
            "y": rng.choice(["yes", "no"], n),
        }
    )


@dataclass(frozen=True)
class Ready:
    """Jobs of all checks, what each finds by itself, and the datasets that were gone through for that."""

    jobs: list[CheckJob]
    alone: list[Any]
    begun: list[str]


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    """Without the classifier, which takes most of the time and sees no more than the sample."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classifier, "why_not", lambda smaller: "no classifier here")
        jobs = made(tmp_path_factory.mktemp("shared"), SPEC)
        with passes() as begun:
            alone = answers(jobs, shared=False)
        yield Ready(jobs, alone, begun)


def made(folder: Path, text: str, n: int = 70_000) -> list[CheckJob]:
    for seed, name in enumerate(("test", "monday", "sunday")):
        pq.write_table(rows(n + seed, seed), folder / f"{name}.parquet", row_group_size=30_000)
    (folder / "evalspec.yaml").write_text(text)
    spec = load(folder / "evalspec.yaml")
    parts = SpecParts(models={}, datasets=dict(spec.datasets), slices={}, access=Access(folder))
    return [
        CheckJob(
            parts=parts, check=one.check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01,
            seed=seed_of(7, one.check.name), draft=False, evidence=folder, limits=Limits(), threads=1, environment={},
        )
        for one in plan(spec).checks
    ]  # fmt: skip


def ahead_of(jobs: Sequence[CheckJob], index: int) -> tuple[tuple[Check, int], ...]:
    return tuple((job.check, job.seed) for job in jobs[index + 1 :])


def answers(jobs: Sequence[CheckJob], *, shared: bool) -> list[Any]:
    """What a child says to each; one child and with all checks that come where it is shared."""
    found: list[Any] = []
    handle = sharing.start(None)
    for index, job in enumerate(jobs):
        handle = handle if shared else sharing.start(None)
        packed = base64.b64encode(pickle.dumps((job, ahead_of(jobs, index) if shared else (), None))).decode("ascii")
        try:
            found.append(handle({"do": "run", "job": packed}, lambda *_: None))
        except InputError as error:
            found.append(str(error))
    return found


@contextmanager
def passes() -> Iterator[list[str]]:
    """Names of the datasets that are gone through."""
    begun: list[str] = []
    batches = Parquet.batches

    def counting(self: Parquet, *how: Any, **more: Any) -> Any:
        begun.append(Path(self.path).stem)
        return batches(self, *how, **more)

    with pytest.MonkeyPatch.context() as context:
        context.setattr(Parquet, "batches", counting)
        yield begun


@pytest.mark.proof
def test_one_pass_serves_all_and_each_finds_what_it_finds_alone(ready: Ready) -> None:
    assert sorted(ready.begun) == ["monday"] * 3 + ["sunday"] * 2 + ["test"] * 4
    with passes() as begun:
        together = answers(ready.jobs, shared=True)
    # The second one is the first that has to see all of Sunday, and it does so with the third.
    assert sorted(begun) == ["monday", "sunday", "test"]
    assert [one["record"] for one in together] == [one["record"] for one in ready.alone]
    # What is kept is let go when the last has asked for it.
    assert [one["keeps"] for one in together] == [True, True, True, True, False]


@pytest.mark.proof
def test_what_is_left_out_or_comes_first_changes_nothing(ready: Ready) -> None:
    order = [4, 2, 3]
    together = answers([ready.jobs[index] for index in order], shared=True)
    assert [one["record"] for one in together] == [ready.alone[index]["record"] for index in order]


@pytest.mark.proof
def test_what_another_check_can_not_look_at_is_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "why_not", lambda smaller: "no classifier here")
    jobs = made(tmp_path, SPEC, 500)
    # A file that was written anew after the spec was read.
    night = {
        "check": "coverage",
        "id": "wrong",
        "dataset": "test",
        "conditions": [{"name": "dark", "where": "site < 3"}],
    }
    jobs.append(replace(jobs[4], check=Coverage.model_validate(night | {"report_only": True})))
    alone, together = answers(jobs, shared=False), answers(jobs, shared=True)
    assert "column 'site' holds string" in together[-1]
    assert together[-1] == alone[-1]
    assert [one["record"] for one in together[:-1]] == [one["record"] for one in alone[:-1]]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # What grows with the rows (integrity, for once) is given up; by itself it goes on.
        (0.6, ["monday", "sunday", "test", "test"]),
        # All others are, but beside the check that grows itself.
        (3.0, ["monday"] * 3 + ["sunday"] * 2 + ["test"] * 3),
    ],
)
def test_where_memory_gets_full_the_others_look_later(
    ready: Ready, step: float, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = iter(range(0, 2**60, int(step * run_scans.MOST_BYTES)))
    monkeypatch.setattr(run_scans, "_resident_bytes", lambda: next(sizes))
    monkeypatch.setattr(integrity, "Scan", partial(Scan, grows=True))
    with passes() as begun:
        together = answers(ready.jobs, shared=True)
    assert sorted(begun) == expected
    assert [one["record"] for one in together] == [one["record"] for one in ready.alone]


class _Children:
    """A child that dies of what it looks at for other checks."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.started = 0

    @contextmanager
    def start(self, role: str, job: object, name: str) -> Iterator[Any]:
        self.started += 1
        yield self

    alive, pid = True, 2**22

    def ask(self, question: Any, **how: Any) -> Any:
        ahead = pickle.loads(base64.b64decode(question["job"]))[1]
        self.asked.append(len(ahead))
        if ahead:
            raise WorkerError("checks was killed by SIGKILL without an answer")
        return {"keeps": False}


def test_a_check_that_dies_of_what_others_look_at_runs_again_by_itself(ready: Ready) -> None:
    jobs = ready.jobs
    children: Any = _Children()
    child = SharedChild(children)
    progress: Callable[..., None] = lambda *_: None  # noqa: E731
    assert child.ask(jobs[0], progress=progress, time_s=1.0, ahead=ahead_of(jobs, 0)) == {"keeps": False}
    assert child.ask(jobs[1], progress=progress, time_s=1.0, ahead=ahead_of(jobs, 1)) == {"keeps": False}
    # Once is enough: no pass is shared from then on.
    assert (children.asked, children.started) == ([4, 0, 0], 2)


def test_what_nobody_wants_any_more_is_let_go() -> None:
    class Nothing:
        def update(self, batch: pa.RecordBatch, first_row: int) -> None: ...

    def scan(key: str) -> Scan:
        return Scan("test", key, None, Nothing)

    def batches(dataset: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return iter(pa.table({"x": [1]}).to_batches())

    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

    ahead: Any = ((Named("b"), 1), (Named("c"), 2))
    kept = Scans()
    kept.expect("a", ahead)
    kept.give("a", [scan("own")], Passes(batches), lambda: {"b": [scan("common")], "c": [scan("common"), scan("late")]})
    assert kept.kept == 2
    # b failed before it asked.
    kept.expect("c", ())
    assert kept.kept == 2
    kept.expect("d", ())
    assert kept.kept == 0


def test_an_error_of_arrow_in_what_another_check_looks_at_is_that_ones() -> None:
    class Counting:
        rows = 0

        def update(self, batch: pa.RecordBatch, first_row: int) -> None:
            self.rows += batch.num_rows

    class Wrong(Counting):
        def update(self, batch: pa.RecordBatch, first_row: int) -> None:
            raise pa.ArrowNotImplementedError("no kernel for this type")

    def batches(dataset: str, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        return iter(pa.table({"x": [1, 2]}).to_batches())

    own, wrong = Scan("test", "own", None, Counting), Scan("test", "wrong", None, Wrong)
    shared = Scans()
    shared.ahead = cast(Any, (("b", 1),))
    assert [one.rows for one in shared.give("a", [own], Passes(batches), lambda: {"b": [wrong]})] == [2]
    with pytest.raises(pa.ArrowNotImplementedError):
        shared.give("b", [wrong], Passes(batches), lambda: {})


class Pictures(Parquet):
    rows_fit = False


def test_pictures_are_looked_at_apart(ready: Ready) -> None:
    """No more of them than fit into memory are read at a time, so that sums would differ in the last digit."""
    datasets = {name: Pictures.model_validate(one.model_dump()) for name, one in ready.jobs[0].parts.datasets.items()}
    apart = [replace(job, parts=replace(job.parts, datasets=datasets)) for job in ready.jobs[3:]]
    assert [one["keeps"] for one in answers(apart, shared=True)] == [False, False]
