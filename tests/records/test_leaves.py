"""F8: whatever single thing of a record is changed, `verify` tells it."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from pydantic import ValidationError

from evalspec.errors import EvalspecError
from evalspec.evidence.record import CheckRecord, DatasetRecord, Record
from evalspec.language.parts import Access, CheckResult
from evalspec.loading import Spec, load_kept
from evalspec.records import remade
from evalspec.records.journal_record import JournaledRecord, journaled
from evalspec.records.parts import Remade
from evalspec.records.remade import remake
from evalspec.records.verify import compare, verify
from evalspec.running.children import screening
from evalspec.running.children.checking import run_check
from evalspec.running.children.jobs import CheckJob, SpecParts
from evalspec.running.children.messages import Progress
from evalspec.running.children.reader import dataset_record
from evalspec.running.children.screening import RunEvidence, looked
from evalspec.running.journal.replay import Replay
from evalspec.screens.evidence import Look
from evalspec.verdict import decide
from tests.commands import evalspec, trains_classifiers
from tests.running.journal.test_resuming import PREDICTIONS
from tests.running.small import CHECKS, Steps, answers, go, write
from tests.shared import ROOT, predictions_run, shared_folder

pytestmark = [pytest.mark.proof, trains_classifiers]

TIMED = """
evalspec: 1
name: timed
models:
  candidate:
    {kind: onnx, path: int8.onnx, precision: int8, batch: 32, classes: classes.txt,
     preprocess: [{cast: float32}, {scale: 0.0625}], inputs: {image: pixels}, outputs: {logits: y}}
datasets:
  test: {kind: parquet, path: test.parquet, label: digit, key: id}
system:
  - {check: latency, scenario: single_stream, dataset: test, queries: 1000, require: [latency_p50 <= 50 ms]}
  - {check: memory, dataset: test, require: [peak_host_memory <= 100 GiB]}
model:
  - {check: quality, dataset: test, require: [accuracy >= 90 %]}
waivers:
  - {of: latency/latency_p50, why: A busy machine., owner: me, expires: 2999-01-01}
"""
DATA = """
evalspec: 1
name: rows
datasets:
  before: {kind: parquet, path: train.parquet, label: late, where: "distance_km < 20", origin: {site: depot}}
  after: {kind: parquet, path: current.parquet, label: late}
data:
  - {check: shift, reference: before, current: after, columns: [distance_km, zone], require: [drifted_columns <= 90 %]}
  - {check: integrity, dataset: after, require: [missing_rate <= 5 %], warn: [duplicate_rows == 0]}
policy: {inconclusive: allow}
"""


OF_A_SHAPE = 6
"""Leaves of one shape that are changed."""


class Run(NamedTuple):
    """A run, its record, and what it is held against."""

    folder: Path
    said: dict[str, Any]
    record: Record
    journal: JournaledRecord
    remade: Remade


def _made(factory: pytest.TempPathFactory, name: str, suite: str, spec: str) -> Path:
    def make(folder: Path) -> None:
        shutil.copytree(ROOT / "suites" / suite, folder / "suite")
        (folder / "suite" / "evalspec.yaml").write_text(spec)
        done = evalspec("run", "suite/evalspec.yaml", "--output", "run", "--quiet", folder=folder)
        assert done.returncode in (0, 1, 3), done.stdout + done.stderr

    return shared_folder(factory, f"leaves-{name}", make)


@pytest.fixture(scope="module", params=["predictions", "timed", "rows"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A suite and a run of it: of answers, of a model that is timed, of data."""
    if request.param == "predictions":
        return predictions_run(tmp_path_factory)
    suite, spec = ("digits", TIMED) if request.param == "timed" else ("tabular-shift", DATA)
    return _made(tmp_path_factory, request.param, suite, spec)


@pytest.fixture(scope="module")
def run(base: Path) -> Run:
    """All that is made again, made once."""
    folder = base / "run"
    said = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    journal = journaled(folder)
    again = remake(Record.model_validate(journal.record), folder, journal, Access(base / "suite"))
    return Run(folder, said, Record.model_validate(said), journal, again)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every leaf of a record, and every list and mapping that holds anything."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in items:
        yield (*place, key)
        yield from places(one, (*place, key))


def others(value: Any) -> list[Any]:
    """What a leaf may be changed to."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1]
    if isinstance(value, str):
        return [value + "x", None]
    return ["x", 0.5, 1, True] if value is None else []


def changed(said: dict[str, Any], place: tuple[Any, ...]) -> Iterator[dict[str, Any]]:
    """The record with one leaf changed to what it may be as well, or one item of a list or mapping taken out.

    It is changed back when the next one is asked for.
    """
    inner: Any = said
    for key in place[:-1]:
        inner = inner[key]
    key, value = place[-1], inner[place[-1]]
    for other in others(value):
        inner[key] = other
        yield said
    inner[key] = value
    if isinstance(inner, list):
        del inner[key]
        yield said
        inner.insert(key, value)
    elif len(place) > 1 and value is not None:
        order = list(inner)
        del inner[key]
        yield said
        inner[key] = value
        for name in order:
            inner[name] = inner.pop(name)


def untold(run: Run, place: tuple[Any, ...]) -> list[str]:
    """Changes at a place of a record that nothing tells: neither reading it nor holding it against anything."""
    found = []
    for said in changed(run.said, place):
        try:
            record = Record.model_validate(said)
        except ValidationError:
            continue
        if record != run.record and not compare(said, record, run.journal, run.remade).differs:
            found.append(".".join(map(str, place)))
    return found


@pytest.mark.proof
def test_an_untouched_run_is_the_same(run: Run) -> None:
    found = verify(run.folder)
    assert (found.differs, found.otherwise, found.skipped) == ((), (), ())
    assert len(list(places(run.said))) > 300


def of_each_shape(said: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Every leaf of its shape; of hundreds alike, such as the points of a curve, so many spread evenly."""
    alike: dict[str, list[tuple[Any, ...]]] = {}
    for place in places(said):
        alike.setdefault(shape(place), []).append(place)
    return [place for group in alike.values() for place in group[:: -(-len(group) // OF_A_SHAPE)]]


@pytest.mark.proof
def test_every_leaf_that_is_changed_is_told(run: Run) -> None:
    assert [name for place in of_each_shape(run.said) for name in untold(run, place)] == []


@pytest.mark.proof
def test_through_the_whole_of_verify(base: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was compared above is what `verify` compares: some leaves by way of files."""
    # The journal stays as it is, and so does what is made again from what it says.
    monkeypatch.setattr("evalspec.records.verify.remake", remade_once)
    copied = shutil.copytree(base, tmp_path / "copy") / "run"
    every = list(places(run.said))
    for place in every[:: len(every) // 12]:
        for said in changed(run.said, place):
            (copied / "record.json").write_text(json.dumps(said))
            try:
                Record.model_validate(said)
            except ValidationError:
                continue
            assert verify(copied).differs, place


def shape(place: tuple[Any, ...]) -> str:
    """A place whichever item of a list, package or column it is: ``checks.*.seed``."""
    free = place[:2] == ("environment", "packages") or place[:2] == ("environment", "facts")
    return ".".join("*" if isinstance(key, int) or (free and depth == 2) else key for depth, key in enumerate(place))


def only_in_the_journal() -> list[str]:
    """What `SECURITY.md` lists as told by the journal alone."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = text.partition("## What only the journal tells")[2].partition("\n## ")[0]
    return [name for line in table.splitlines() if line.startswith("| `") for name in re.findall("`([^`]+)`", line)]


def run_once_a_job(job: CheckJob, progress: Progress, timing: Replay) -> CheckResult:
    """A check made again from the evidence of the one run; of the same job the result is the same."""
    asked = replace(job, evidence=Path()), timing._evidence, timing._check
    return once(lambda: run_check(job, progress, timing), "check", *asked)


class ScreenEvidence(RunEvidence):
    """Evidence that notices a screen which reads what checks wrote, and so depends on more than rows and answers."""

    reads_records: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.beside_records = pickle.dumps(replace(self.of, job=replace(self.of.job, evidence=Path()), records=()))

    @property
    def records(self) -> Mapping[str, CheckRecord]:
        self.reads_records = True
        return super().records


def look_once_a_job(evidence: RunEvidence, name: str) -> Look:
    """So is what a screen suspects that does not read what checks wrote."""
    assert isinstance(evidence, ScreenEvidence)
    # Names of what it suggests are those that no screen before it took.
    key = evidence.beside_records, name, frozenset(evidence._ids)
    if key in LOOKS:
        look, taken = LOOKS[key]
        evidence._ids = set(taken)
        return look
    evidence.reads_records = False
    look = looked(evidence, name)
    if not evidence.reads_records:
        LOOKS[key] = look, frozenset(evidence._ids)
    return look


def dataset_once_a_name(name: str, parts: SpecParts) -> DatasetRecord:
    """So is the record of a dataset, whose files stay as they are."""
    return once(lambda: dataset_record(name, parts), "dataset", name, parts)


def spec_once_a_folder(folder: Path) -> Spec:
    """So is the spec that the run kept."""
    return once(lambda: load_kept(folder), "spec", folder)


def remade_once(*asked: Any) -> Remade:
    """So is all that is made again of one run."""
    return once(lambda: remake(*asked), "remade", *asked)


def once(make: Callable[[], T], *asked: object) -> T:
    """What was made when the same was asked before; an error is made each time."""
    key = pickle.dumps(asked)
    if key not in RESULTS:
        RESULTS[key] = make()
    made: T = RESULTS[key]
    return made


T = TypeVar("T")
RESULTS: dict[bytes, Any] = {}
LOOKS: dict[tuple[bytes, str, frozenset[str]], tuple[Look, frozenset[str]]] = {}


@pytest.fixture
def once_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made again of one run, for leaf after leaf, is made once where the same is asked."""
    monkeypatch.setattr(remade, "run_check", run_once_a_job)
    monkeypatch.setattr(screening, "RunEvidence", ScreenEvidence)
    monkeypatch.setattr(screening, "looked", look_once_a_job)
    monkeypatch.setattr(remade, "dataset_record", dataset_once_a_name)
    monkeypatch.setattr(remade, "load_kept", spec_once_a_folder)


def hidden_by_a_journal(run: Run, suite: Path, tried: Collection[str] = ()) -> set[str]:
    """Places of leaves that nothing tells once the journal says the same; ``tried`` are shapes of others' leaves."""
    hidden, tried = set(), set(tried)
    for place in list(places(run.said)):
        if place[0] in ("verdict", "version") or shape(place) in tried:
            continue
        tried.add(shape(place))
        for said in changed(run.said, place):
            try:
                record = Record.model_validate(said)
                kept = replace(run.journal, record={**said, "verdict": None})
                again = remake(record, run.folder, kept, Access(suite))
            except (ValidationError, EvalspecError):
                continue
            decided = record.model_copy(update={"verdict": decide(record)})
            if record != run.record and not compare(said, decided, kept, again).differs:
                hidden.add(shape(place))
    return hidden


def unlisted(hidden: set[str]) -> list[str]:
    """Those that `SECURITY.md` does not list."""
    listed = only_in_the_journal()
    return sorted(one for one in hidden if not any(f"{one}.".startswith(f"{name}.") for name in listed))


@pytest.mark.proof
@pytest.mark.usefixtures("once_a_job")
def test_what_a_forged_journal_hides_is_listed(base: Path, run: Run) -> None:
    """Whoever changes a leaf and the journal with it is told, but for what can't be made again."""
    if len(run.record.checks) > 2:
        pytest.skip("queries of thousands are counted again for every leaf; the two other runs show it")
    missing = unlisted(hidden_by_a_journal(run, base / "suite"))
    assert not missing, "\n".join(missing)


@pytest.mark.proof
@pytest.mark.usefixtures("once_a_job")
def test_so_is_what_it_hides_of_a_draft_that_was_gone_on_with(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Under leave that the caller gave, and of so few rows that a draft takes all: leaves that no other run has."""
    spec, out = write(tmp_path, PREDICTIONS, CHECKS.replace("key: id", 'key: id, where: "id < 40"')), tmp_path / "out"
    answers(tmp_path / "said.parquet", right=True, rows=40)
    how: dict[str, Any] = {"allowed": ("allow-outside",), "draft": True}
    go(spec, out, steps=Steps("model: two"), **how)
    (out / "evidence" / "predictions-candidate-test.parquet").write_bytes(b"")
    go(spec, out, resume=True, **how)
    said, journal = json.loads((out / "record.json").read_text(encoding="utf-8")), journaled(out)
    record = Record.model_validate(said)
    assert record.allowed and record.resumption is not None and record.resumption.again
    run = Run(out, said, record, journal, remake(record, out, journal, Access(tmp_path)))
    whole = json.loads((predictions_run(tmp_path_factory) / "run" / "record.json").read_text(encoding="utf-8"))
    same = {shape(place) for place in places(whole) if len(place) > 1}
    hidden = hidden_by_a_journal(run, tmp_path, same)
    assert {"draft", "allowed.*"} <= hidden
    assert unlisted(hidden) == []
