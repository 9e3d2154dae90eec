"""Datasets in object storage that the nodes of a cluster read: what one machine says of them, to the byte."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalspec.answers.parts import ANSWER_ROWS
from evalspec.errors import EngineError, EvalspecError, InputError, InvalidError
from evalspec.language import scans as language_scans
from evalspec.language.parts import Access
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.children import checking
from evalspec.running.children.jobs import CheckJob, SpecParts, seed_of
from evalspec.running.children.leaf_journal import passes_of, remove_leaves
from evalspec.running.children.process import Limits
from evalspec.running.doctor import examine_engine
from evalspec.running.engines import leaf_job, opening
from evalspec.running.engines.choice import LOCAL, EngineChoice
from evalspec.running.files import Journal
from evalspec.running.journal.events import JournalEvents
from evalspec.running.parts import part_job
from evalspec.running.subjects import Children, Subjects
from tests.running.children.test_leaves import alive_below
from tests.running.engines.fake import FakeCluster, InProcess, use
from tests.running.small import Steps
from tests.sources.objects.fake_s3 import Bucket
from tests.sources.objects.tables import DAYS, ROWS, fill, parquet, rows

RAY = EngineChoice("ray", address="127.0.0.1:6379")
HOSTS, ENV = frozenset({"s3://data"}), frozenset({"PLACES_KEY", "PLACES_SECRET", "OF_SOMETHING_ELSE"})
KEY, SECRET = "a-key-of-ours", "hush_hush_and_long"
KEYS = "credentials: {access_key_id: {env: PLACES_KEY}, secret_access_key: {env: PLACES_SECRET}}"
LISTING = 3
"""Answers that the listing of a dataset takes."""
LEAF = 1000
LEAVES = -(-DAYS * ROWS // LEAF)
OBJECT = "second/dt=2026-11-03/n=2/part-0.parquet"
CHECKS = """
data:
  - {check: shift, reference: first, current: second, columns: [x, k, word], tolerance: 0.2,
     require: [drifted_columns <= 10 %]}
  - {check: coverage, dataset: second, conditions: [{name: day, where: "dt == '2026-11-02'"}], report_only: true}
"""


@dataclass
class OtherProcesses(FakeCluster):
    """Nodes that share no memory, and have an environment each.

    Args:
        variables: Of a node, where they are others than here; None: it has none of this name.
    """

    variables: dict[str, dict[str, str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs: set[bytes] = set()

    def submit(self, leaf: int, packed: bytes, start: int, stop: int) -> None:
        self.jobs.add(packed)
        super().submit(leaf, packed, start, stop)

    def _on(self, place: str, function: Callable[[], bytes]) -> bytes:
        forget()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables.get(place, {}).items():
                if value is None:
                    patch.delenv(name, raising=False)
                else:
                    patch.setenv(name, value)
            return super()._on(place, function)


def forget() -> None:
    for one in (leaf_job._job, leaf_job._made_sure, leaf_job._looker, part_job._workers):
        one.cache_clear()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(language_scans, "LEAF_ROWS", LEAF)
    monkeypatch.setenv("PLACES_KEY", KEY)
    monkeypatch.setenv("PLACES_SECRET", SECRET)
    monkeypatch.setenv("OF_SOMETHING_ELSE", "its-own-value")
    forget()
    yield
    forget()
    assert not alive_below()


def spec(folder: Path, root: str, more: str = "", checks: str = CHECKS) -> Path:
    path = folder / f"{'bucket' if more else 'folder'}.yaml"
    fields = f"kind: parquet, partitions: hive{more}"
    path.write_text(
        f"evalspec: 1\nname: places\nseed: 3\ndatasets:\n"
        f"  first: {{path: '{root}first/', {fields}}}\n  second: {{path: '{root}second/', {fields}}}\n{checks}"
    )
    return path


def in_bucket(bucket: Bucket, folder: Path, more: str = KEYS) -> Path:
    fill(bucket, folder, "first")
    fill(bucket, folder, "second")
    bucket.objects["second/dt=2026-11-01/n=0/part-0.parquet"] = parquet(rows(8))
    (folder / "second/dt=2026-11-01/n=0/part-0.parquet").write_bytes(parquet(rows(8)))
    return spec(folder, "s3://data/", f", endpoint: '{bucket.endpoint}', {more}")


def jobs_in(path: Path, engine: EngineChoice = LOCAL, **access: Any) -> list[CheckJob]:
    one = load(path, options=LoadOptions(hosts=HOSTS))
    seen = Access(path.parent, **({"hosts": HOSTS, "env": ENV} | access))
    parts = SpecParts(models={}, datasets=dict(one.datasets), slices={}, access=seen)
    return [
        CheckJob(
            parts=parts, check=planned.check, predictions={}, model_facts={}, confidence=0.95, alpha_fail=0.01,
            seed=seed_of(7, planned.check.name), draft=False, evidence=path.parent / path.stem / "evidence",
            limits=Limits(), threads=1, environment={}, engine=engine,
        )
        for planned in plan(one).checks
    ]  # fmt: skip


def answer(job: CheckJob, *, anew: bool = True) -> Any:
    if anew:
        remove_leaves(job.evidence.parent)
    job.evidence.mkdir(parents=True, exist_ok=True)
    return checking.answer(job, lambda *_: None)["record"]


def listings(bucket: Bucket) -> int:
    return sum("list-type" in one for one in bucket.requests)


@pytest.mark.proof
def test_nodes_give_the_record_of_one_machine_and_of_the_folder(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = in_bucket(bucket, tmp_path)
    here = [answer(job) for job in jobs_in(spec(tmp_path, ""))]
    there = [answer(job) for job in jobs_in(path)]
    cluster = use(monkeypatch, OtherProcesses(seed=2))
    bucket.requests.clear()
    on_nodes = [answer(job) for job in jobs_in(path, RAY)]
    assert {one["status"] for one in here} == {"measured"}
    assert json.dumps(on_nodes) == json.dumps(there) == json.dumps(here)
    assert sorted(set(cluster.looked)) == [*range(LEAVES)]
    # Each dataset is listed by whoever plans, and by no node.
    assert listings(bucket) == 2 * LISTING


def test_names_of_secrets_travel_and_no_value(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_bucket(bucket, tmp_path)
    cluster = use(monkeypatch, OtherProcesses())
    answer(jobs_in(path, RAY)[0])
    assert len(cluster.jobs) == 2
    for one in cluster.jobs:
        assert b"PLACES_SECRET" in one and b"s3://data" in one
        assert not [value for value in (KEY, SECRET, "its-own-value") if value.encode() in one]
        # What this dataset does not need stays here: names too, and objects of the other one.
        assert b"OF_SOMETHING_ELSE" not in one
        assert (b"first/dt=2026-11-01" in one) != (b"second/dt=2026-11-01" in one)


NO_SECRET: Mapping[str, str | None] = {"PLACES_SECRET": None}
UNSET = (
    "node N2: the variable PLACES_SECRET, `credentials.secret_access_key`, is not set; set it where evalspec is "
    "started; each node of a cluster needs it in its own environment"
)


def test_a_node_without_the_variable_is_named(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_bucket(bucket, tmp_path)
    use(monkeypatch, OtherProcesses(there={"n2": 1}, variables={"n2": dict(NO_SECRET)}))
    with pytest.raises(InputError) as told:
        answer(jobs_in(path, RAY)[0])
    assert str(told.value) == UNSET


def test_each_node_signs_with_its_own_key(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_bucket(bucket, tmp_path)
    use(monkeypatch, OtherProcesses(variables={"n1": {"PLACES_KEY": "the-key-of-n1"}}))
    answer(jobs_in(path, RAY)[0])
    found = {said.partition("Credential=")[2].partition("/")[0] for said in bucket.signed}
    assert found == {KEY, "the-key-of-n1"}


def test_each_node_has_its_own_chain(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = in_bucket(bucket, tmp_path, "region: us-east-1")
    own: dict[str, str | None] = {"AWS_ACCESS_KEY_ID": "the-role-of-n1", "AWS_SECRET_ACCESS_KEY": "s"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "also-mine")
    use(monkeypatch, OtherProcesses(there={"n1": 1}, variables={"n1": own}))
    record = answer(jobs_in(path, RAY, cloud_credentials=True)[0])
    assert record == answer(jobs_in(path, cloud_credentials=True)[0])
    nothing: dict[str, str | None] = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}
    use(monkeypatch, OtherProcesses(there={"n3": 1}, variables={"n3": nothing}))
    with pytest.raises(InputError, match=r"node N3: --cloud-credentials found none for s3://data in variables or"):
        answer(jobs_in(path, RAY, cloud_credentials=True)[0])


def refusing(bucket: Bucket, cluster: FakeCluster, after: int, said: tuple[int, str]) -> None:
    """Refuse all that nodes ask for, once they have looked at so many leaves."""
    bucket.before = lambda method, key: said if key and cluster.begun and len(cluster.looked) >= after else None


@pytest.mark.parametrize("after", [0, 2])
def test_a_node_whose_credentials_are_refused_is_named(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Before its first leaf, and also when they have expired since."""
    path = in_bucket(bucket, tmp_path)
    # Of smaller ones nothing is read after their ends.
    large = parquet(pa.concat_tables([rows(seed) for seed in range(20, 40)]))
    bucket.objects["first/dt=2026-11-05/n=4/part-0.parquet"] = large
    cluster = use(monkeypatch, FakeCluster(there={"n7": 1}))
    refusing(bucket, cluster, after, (400, "ExpiredToken"))
    with pytest.raises(InputError) as told:
        answer(jobs_in(path, RAY)[0])
    said = str(told.value)
    assert said.startswith(f"node N7: {bucket.endpoint} refuses the credentials that were sent for 's3://data/first/")
    assert said.endswith("(ExpiredToken); renew the credentials") and "\n" not in said


def test_a_node_says_no_secret(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even one of its own that a server echoes."""
    path = in_bucket(bucket, tmp_path)
    own: dict[str, str | None] = {"PLACES_SECRET": "another_secret_of_n7"}
    cluster = use(monkeypatch, OtherProcesses(there={"n7": 1}, variables={"n7": own}))
    refusing(bucket, cluster, 0, (400, "another_secret_of_n7"))
    with pytest.raises(InputError, match=r"node N7: .* answers 400 \[PLACES_SECRET\] to requests") as told:
        answer(jobs_in(path, RAY)[0])
    assert "another_secret_of_n7" not in str(told.value)


@pytest.mark.parametrize("when", [1, 3])
@pytest.mark.parametrize("then", ["replaced", "removed"])
def test_an_object_that_is_replaced_midway_is_told_as_on_one_machine(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: int, then: str
) -> None:
    """Also the one that a node tries first; no node is at fault."""
    path = in_bucket(bucket, tmp_path)
    key = OBJECT.replace("3", "1").replace("n=2", "n=0") if when == 1 else OBJECT
    cluster = use(monkeypatch, OtherProcesses())

    def change(method: str, asked: str) -> None:
        # The other dataset is done.
        if len(cluster.looked) == LEAVES + when - 1 and asked == key:
            bucket.objects.pop(key, None)
            if then == "replaced":
                bucket.objects[key] = parquet(rows(33))

    bucket.before = change
    with pytest.raises(InvalidError) as told:
        answer(jobs_in(path, RAY)[0])
    why = ", so no number is given of its rows" if then == "replaced" else ""
    assert str(told.value) == f"'s3://data/{key}' was {then} after it had been listed{why}"


@pytest.mark.proof
def test_leaves_that_are_kept_are_read_once(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless the objects are other ones by then."""
    path = in_bucket(bucket, tmp_path)
    alone = answer(jobs_in(path)[0])
    use(monkeypatch, OtherProcesses(breaks=LEAVES + 2))
    with pytest.raises(EngineError, match=f"2 of {LEAVES} leaves of second are kept: start the cluster again"):
        answer(jobs_in(path, RAY)[0])
    cluster = use(monkeypatch, OtherProcesses(seed=3))
    assert answer(jobs_in(path, RAY)[0], anew=False) == alone
    assert len(cluster.looked) == LEAVES - 2
    bucket.objects[OBJECT] = parquet(rows(44))
    cluster = use(monkeypatch, OtherProcesses(seed=4))
    other = answer(jobs_in(path, RAY)[0], anew=False)
    assert other != alone and sorted(set(cluster.looked)) == [*range(LEAVES)] and len(cluster.looked) == LEAVES
    assert [(one["leaves"], one["kept"]) for one in passes_of(tmp_path / "bucket")][-2:] == [(0, LEAVES), (LEAVES, 0)]
    assert other == answer(jobs_in(path)[0])


@pytest.mark.proof
def test_doctor_says_which_node_can_read_which_dataset(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = in_bucket(bucket, tmp_path)
    path.write_text(path.read_text().replace("s3://data/second/", "s3://data/none/"))
    cluster = OtherProcesses(variables={"n2": dict(NO_SECRET)})
    monkeypatch.setattr(opening, "driver_child", lambda work: InProcess(cluster))
    one = load(path, options=LoadOptions(hosts=HOSTS))
    access = one.access(hosts=HOSTS, env=ENV)
    told = {fact.what: (fact.state, fact.detail) for fact in examine_engine(RAY, one.datasets, access)}
    assert told["node N1, dataset first"] == ("ok", "its objects can be read there")
    assert told["node N2, dataset first"] == ("broken", UNSET.removeprefix("node N2: "))
    assert told["dataset second"][0] == "broken"
    assert "there is no such object: 's3://data/none/'" in told["dataset second"][1]
    assert "node N1, dataset second" not in told
    assert listings(bucket) == LISTING + 1
    refused = {fact.what: fact.detail for fact in examine_engine(RAY, one.datasets, one.access(hosts=HOSTS))}
    assert "pass --env PLACES_KEY if s3://data may use it" in refused["dataset first"]


ANSWERED = 2 * ANSWER_ROWS + 10_000
MODEL = """
models:
  candidate: {kind: python, function: "behaviour:plain", batch: 3000, inputs: {x: x}, classes: [a, b]}
model:
  - {check: quality, dataset: test, require: [accuracy >= 50 %]}
"""
CODE = """
import numpy as np

def plain(inputs):
    p = 1 / (1 + np.exp(-inputs["x"]))
    return {"probabilities": np.stack([1 - p, p], axis=1)}
"""


@pytest.fixture
def asked(bucket: Bucket, tmp_path: Path) -> Mapping[str, str]:
    """Datasets of rows that a model answers: in a folder, and in the bucket."""
    random = np.random.default_rng(1)
    x = random.normal(0, 1, ANSWERED)
    stream = io.BytesIO()
    pq.write_table(pa.table({"x": x, "y": np.where(x > 0, "b", "a")}), stream, row_group_size=50_000)
    bucket.objects["test/a.parquet"] = stream.getvalue()
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.parquet").write_bytes(stream.getvalue())
    (tmp_path / "behaviour.py").write_text(CODE)
    return {
        "folder": "{kind: parquet, label: y, path: test/}",
        "bucket": f"{{kind: parquet, label: y, path: 's3://data/test/', endpoint: '{bucket.endpoint}', {KEYS}}}",
    }


def answered(folder: Path, name: str, dataset: str, engine: EngineChoice = LOCAL) -> dict[str, bytes]:
    """The list of the parts of all answers, and the parts."""
    path = folder / f"{name}.yaml"
    path.write_text(f"evalspec: 1\nname: parts\ndatasets: {{test: {dataset}}}\n{MODEL}")
    one = load(path, options=LoadOptions(hosts=HOSTS, trust=True))
    access = Access(folder, trust=True, hosts=HOSTS, env=ENV)
    run = folder / name
    run.mkdir(exist_ok=True)
    parts = SpecParts(models=dict(one.models), datasets=dict(one.datasets), slices={}, access=access)
    children = Children(access, Limits(time_s=120), 1, run, engine)
    subjects = Subjects(parts, children, Journal(run / "journal.jsonl"), Steps(), JournalEvents())
    try:
        subjects.describe("model", ["candidate"])
        subjects.describe("dataset", ["test"])
        written = subjects.predict("test", "candidate")
    finally:
        subjects.close()
    return {file.name: file.read_bytes() for file in (written, *written.with_suffix("").iterdir())}


@pytest.mark.proof
def test_nodes_give_the_answers_of_one_machine(
    bucket: Bucket, asked: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = answered(tmp_path, "alone", asked["folder"])
    assert len(alone) == 4
    cluster = use(monkeypatch, FakeCluster(loses=lambda number, times: times == 1 and number == 1))
    bucket.requests.clear()
    assert answered(tmp_path, "nodes", asked["bucket"], RAY) == alone
    (told,) = passes_of(tmp_path / "nodes")
    assert (told["parts"], told["again"]) == (3, 1) and len(cluster.looked) == 3
    assert listings(bucket) == 1


@pytest.mark.proof
def test_a_node_without_the_variable_answers_nothing(
    bucket: Bucket, asked: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, OtherProcesses(there={"n2": 1}, variables={"n2": dict(NO_SECRET)}))
    with pytest.raises(EvalspecError) as told:
        answered(tmp_path, "nodes", asked["bucket"], RAY)
    assert str(told.value) == f"no answers of candidate on test for rows 0 to 65,999: {UNSET}"
