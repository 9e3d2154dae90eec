"""How a story is told: tables, answers and timings are planted in a folder, and the command line does the rest.

A group of stories is one spec that is run twice, red and green. Nothing is timed where timings are planted: raw samples
lie in the files in which a run keeps them, and all that comes after the clock is the product.
"""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result

from evalspec.errors import EvalspecError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.policy import Policy
from evalspec.evidence.record import Dimension, ModelRecord, Record
from evalspec.language.inputs import Probe, Samples, Schedule
from evalspec.loading import LoadOptions, load
from evalspec.pipeline.digest import artifact_digest
from evalspec.planning import plan
from evalspec.running import options
from evalspec.running.children.jobs import probes_file, samples_file, seed_of
from evalspec.running.probes import write_probes
from evalspec.running.samples import write_samples
from tests.commands import invoked
from tests.fakes import FakeInputs, PairMaker, ProbeMaker, SamplesMaker
from tests.shared import shared_folder

Colour = Literal["red", "green"]
COLOURS: tuple[Colour, ...] = ("red", "green")
Tell = Callable[[Path, bool], "Tale"]
"""From an empty folder, and whether the defects are there, to what is told."""

ECHO = '''
"""Models whose answers stand in the rows: what is asked for comes back."""


def echo(arrays):
    return dict(arrays)
'''


@dataclass(frozen=True)
class Planted:
    """What one check is to find where it would time.

    Args:
        samples: (model, schedule) -> timings.
        pairs: (schedule, baseline) -> timings of both.
        probes: (probe, model, options) -> what processes found.
        facts: Of its model, beside its device.
        beside: What else the check asks for before it times: fields of `FakeInputs`.
    """

    samples: SamplesMaker | None = None
    pairs: PairMaker | None = None
    probes: ProbeMaker | None = None
    facts: Mapping[str, Cell] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Tale:
    """A spec while it is put together, with the files that it needs.

    Args:
        folder: Takes them all.
        name: Of the spec.
    """

    folder: Path
    name: str
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    datasets: dict[str, dict[str, Any]] = field(default_factory=dict)
    slices: list[dict[str, str]] = field(default_factory=list)
    checks: dict[Dimension, list[dict[str, Any]]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    planted: dict[str, Planted] = field(default_factory=dict)

    def rows(self, name: str, columns: Mapping[str, Any], **fields: Any) -> Self:
        """A dataset: its rows, in a file, and fields of it."""
        table = pa.table(dict(columns))
        table = table.add_column(0, "id", _ids(name, len(table)))
        pq.write_table(table, self.folder / f"{name}.parquet")
        self.datasets[name] = {"kind": "parquet", "path": f"{name}.parquet", "key": "id", **fields}
        return self

    def answers(self, model: str, dataset: str, probabilities: np.ndarray, classes: Sequence[str]) -> Self:
        """What a model that is not here said of each row, shape (n, C), in a file."""
        said = {"id": _ids(dataset, len(probabilities))} | {
            f"p_{name}": probabilities[:, index] for index, name in enumerate(classes)
        }
        path = f"{model}-{dataset}.parquet"
        pq.write_table(pa.table(said), self.folder / path)
        default = {"kind": "predictions", "files": {}, "outputs": {"probabilities": "p_*"}, "artifact": stated(model)}
        self.models.setdefault(model, default | {"classes": list(classes)})["files"][dataset] = path
        return self

    def echo(self, model: str, inputs: Mapping[str, str], **fields: Any) -> Self:
        """A model that answers each row with what stands in its columns."""
        # A file of its own for each, since the subject of a model that is read here is what is read.
        (self.folder / f"stories_{model}.py").write_text(f'"""The model {model}."""\n{ECHO}')
        default = {"kind": "python", "function": f"stories_{model}:echo", "inputs": dict(inputs)}
        self.models[model] = default | fields
        return self

    def ask(
        self, dimension: Dimension, check: str, name: str, *require: str, planted: Planted | None = None, **fields: Any
    ) -> Self:
        """A check with this id, and what must hold."""
        asked = {"check": check, "id": name, **({"require": list(require)} if require else {}), **fields}
        self.checks.setdefault(dimension, []).append(asked)
        if planted is not None:
            self.planted[name] = planted
        return self

    def write(self) -> Path:
        """The spec as a file. JSON is YAML."""
        whole = {"evalspec": 1, "name": self.name, "seed": 7, "models": self.models, "datasets": self.datasets}
        whole |= {"slices": self.slices} if self.slices else {}
        path = self.folder / "evalspec.yaml"
        path.write_text(json.dumps(whole | self.checks | self.more, indent=1))
        return path

    def run(self, output: str | None = "run") -> Result:
        """Write the spec and what is planted, and run it through the command line.

        Args:
            output: Folder of the run; None: in ``reports``.
        """
        spec = self.write()
        arguments = ["run", str(spec), "--quiet", "--trust"]
        arguments += [] if output is None else ["--output", str(self.folder / output)]
        return command(*arguments, timings=_plant(self, spec) if self.planted else None)


def _ids(dataset: str, rows: int) -> pa.Array:
    """Names of rows, others in each dataset: rows that are equal by chance are no data of another story."""
    return pa.array(np.arange(rows) + 100_000 * (zlib.crc32(dataset.encode()) % 100_000))


def stated(model: str) -> str:
    """The digest that stands for a model."""
    return f"sha256:{hashlib.sha256(model.encode()).hexdigest()}"


def command(*arguments: str, timings: Path | None = None) -> Result:
    """A command in this process; where timings are planted, ``run`` takes those and times nothing."""
    with pytest.MonkeyPatch.context() as patch:
        if timings is not None:
            patch.setattr(options, "Options", functools.partial(options.Options, timings_from=timings))
        return invoked(*arguments)


class _Recorder(FakeInputs):
    """Keeps what it hands out, in the order in which a run writes it down."""

    def keep(self) -> Self:
        self.made: list[Samples] = []
        self.found: list[Probe] = []
        return self

    def measure(self, schedule: Schedule, dataset: str, model: str | None = None) -> list[Samples]:
        made = super().measure(schedule, dataset, model)
        self.made += made
        return made

    def measure_paired(self, schedule: Schedule, dataset: str, baseline: str) -> tuple[list[Samples], list[Samples]]:
        ours, theirs = super().measure_paired(schedule, dataset, baseline)
        self.made += [*ours, *theirs]
        return ours, theirs

    def probe(self, probe: str, dataset: str, model: str | None = None, **asked: Any) -> list[Probe]:
        found = super().probe(probe, dataset, model, **asked)
        self.found += found
        return found


def _plant(tale: Tale, spec: Path) -> Path:
    """Ask each check for its schedules, and put what it is to find where a run keeps raw timings."""
    folder = tale.folder / "timings"
    loaded = load(spec, options=LoadOptions(trust=True))
    planned = plan(loaded)
    tables = {name: pq.read_table(tale.folder / f"{name}.parquet") for name in tale.datasets}
    for check in loaded.checks:
        told = tale.planted.get(check.name)
        if told is None:
            continue
        about = check.model
        device = tale.models[about].get("device", "cpu")
        inputs = _Recorder(
            folder / "scratch", tables=tables, model=about, samples=told.samples, pairs=told.pairs,
            probes=told.probes or {}, facts={about: {"device": device, **told.facts}}, alpha_fail=planned.alpha_fail,
            seed=seed_of(loaded.seed, check.name), **told.beside,
        ).keep()  # fmt: skip
        inputs.evidence.mkdir(parents=True, exist_ok=True)
        # A check that can't use what it finds says so in the run.
        with suppress(EvalspecError):
            check.run(inputs)
        if inputs.made:
            write_samples(inputs.made, folder / "evidence" / samples_file(check.name))
        if inputs.found:
            (folder / "evidence").mkdir(exist_ok=True)
            write_probes(inputs.found, folder / "evidence" / probes_file(check.name))
    record = Record(
        evalspec="0", spec=loaded.name, spec_digest=loaded.digest, spec_file="evalspec.yaml", seed=loaded.seed,
        started="2026-11-20T10:00:00Z", finished="2026-11-20T10:01:00Z", policy=Policy(),
        models=tuple(
            ModelRecord(name=name, kind=one["kind"], digest=_digest(tale.folder, one))
            for name, one in tale.models.items()
        ),
    )  # fmt: skip
    (folder / "record.json").write_text(record.model_dump_json())
    return folder


def _digest(folder: Path, model: Mapping[str, Any]) -> str:
    """That of its code and weights, or as it is stated."""
    if "artifact" in model:
        return str(model["artifact"]).removeprefix("sha256:")
    files = [f"{model['function'].partition(':')[0]}.py", *model.get("weights", ())]
    return artifact_digest([folder / file for file in files])


@dataclass(frozen=True)
class Told:
    """What came of it.

    Args:
        folder: Of the run.
        code: Exit code.
        said: What was printed.
        record: ``record.json``.
    """

    folder: Path
    code: int
    said: str
    record: Mapping[str, Any]

    def statuses(self, story: str) -> dict[str, str]:
        """Blocking requirement of a story: its status."""
        return {
            one["name"]: one["status"]
            for one in self.record["verdict"]["decisions"]
            if one["name"].startswith(f"{story}_") and one["blocking"]
        }

    def decision(self, name: str) -> Mapping[str, Any]:
        """What the verdict says of a requirement."""
        found: Mapping[str, Any] = next(one for one in self.record["verdict"]["decisions"] if one["name"] == name)
        return found

    def sentence(self, name: str) -> str:
        """A requirement's sentence, with why it is as it is."""
        found = self.decision(name)
        return " ".join([found["sentence"], found["reason"] or "", *found["notes"]])

    def test(self, name: str) -> Mapping[str, Any]:
        """Value, bounds and n of a requirement."""
        tests = (test for check in self.record["checks"] for test in check["tests"])
        found: Mapping[str, Any] = next(one for one in tests if one["name"] == name)
        return found

    def check(self, name: str) -> Mapping[str, Any]:
        """All that the record has of a check."""
        found: Mapping[str, Any] = next(one for one in self.record["checks"] if one["id"] == name)
        return found

    def shown(self, name: str) -> str:
        """What a check shows: its blocks, notes and conditions, as text."""
        check = self.check(name)
        return json.dumps([check[one] for one in ("blocks", "notes", "weakens", "conditions")], ensure_ascii=False)

    @functools.cached_property
    def page(self) -> str:
        """What people read on the page."""
        text = (self.folder / "report.html").read_text(encoding="utf-8")
        text = re.sub(r"<(style|script)\b.*?</\1>", " ", text.replace("<wbr>", ""), flags=re.DOTALL)
        return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text)))


@dataclass(frozen=True)
class Story:
    """One of a group.

    Args:
        name: Its number, and what happens.
        red: Requirement: what becomes of it with the defect; all others of the story pass, and in the twin all do.
        says: Requirement: words of its sentence with the defect.
        shows: Check: what its evidence holds with the defect.
        page: What people read with the defect.
    """

    name: str
    red: Mapping[str, str]
    says: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shows: Mapping[str, Sequence[str]] = field(default_factory=dict)
    page: Sequence[str] = ()

    def holds(self, told_in: Told, colour: Colour) -> None:
        """It is red for its reason, or green."""
        found = told_in.statuses(self.name.partition(":")[0].lower())
        assert found, f"nothing is asked for {self.name}"
        red = self.red if colour == "red" else {}
        assert set(self.red) <= set(found)
        sentences = "\n".join(told_in.sentence(name) for name in found)
        assert found == dict.fromkeys(found, "PASS") | dict(red), sentences
        if colour == "green":
            return
        for name in self.red:
            # Backticks of a sentence are code on the page.
            assert told_in.decision(name)["sentence"].replace("`", "") in told_in.page
        for name, words in self.says.items():
            for word in words:
                assert word in told_in.sentence(name)
        for name, words in self.shows.items():
            for word in words:
                assert word in told_in.shown(name)
        for word in self.page:
            assert word in told_in.page


UNDECIDED = 3
"""Exit code."""
REPEATS = 2
"""Of a clean twin that a busy machine left undecided; one that was accused stays so."""


def told(factory: pytest.TempPathFactory, name: str, colour: Colour, tell: Tell) -> Told:
    """A group of stories in one colour, run once a session."""

    def make(folder: Path) -> None:
        story = tell(folder, colour == "red")
        done = story.run()
        for _ in range(REPEATS if colour == "green" else 0):
            if done.exit_code != UNDECIDED:
                break
            shutil.rmtree(folder / "run")
            done = story.run()
        (folder / "said.json").write_text(json.dumps([done.exit_code, done.output]))

    folder = shared_folder(factory, f"{name}-{colour}", make)
    code, said = json.loads((folder / "said.json").read_text())
    assert (folder / "run" / "record.json").exists(), said
    return Told(folder / "run", code, said, json.loads((folder / "run" / "record.json").read_text(encoding="utf-8")))


def ends(told_in: Told, colour: Colour) -> None:
    """NOT READY with the defects, READY without."""
    code = 1 if colour == "red" else 0
    decided = (f"{one['status']} {one['sentence']}" for one in told_in.record["verdict"]["decisions"])
    assert told_in.code == code, "\n".join([f"exit code {told_in.code}, not {code}", *decided, told_in.said])
