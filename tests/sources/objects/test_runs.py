"""Runs whose rows lie in object storage: the same checks as of a folder, and what is not the same any more is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evalspec.cli import app
from evalspec.errors import SpecError
from evalspec.evidence.record import ObjectStamp, Record
from evalspec.loading import LoadOptions, load
from evalspec.planning import plan
from evalspec.running.options import Options, default_limits
from evalspec.running.preflight import Start, refuse
from evalspec.running.runner import run
from evalspec.running.subjects import another_object
from tests.commands import trains_classifiers
from tests.running.small import Steps
from tests.sources.objects.fake_s3 import Bucket
from tests.sources.objects.tables import fill, parquet, rows

HOSTS = frozenset({"s3://data"})
KEYS = "credentials: {access_key_id: {env: PLACES_KEY}, secret_access_key: {env: PLACES_SECRET}}"
ENV = frozenset({"PLACES_KEY", "PLACES_SECRET"})
LISTING = 3
"""Answers that the listing of a dataset takes."""
SHIFT = """
  - {check: shift, reference: first, current: second, columns: [x, k, word], tolerance: 0.2,
     require: [drifted_columns <= 10 %]}"""
CHECKS = f"""
data:{SHIFT}
  - {{check: integrity, dataset: second, require: [missing_rate <= 1 %]}}
  - {{check: coverage, dataset: second, conditions: [{{name: day, where: "dt == '2026-11-02'"}}],
     require: [smallest_slice >= 10 rows]}}
"""


def spec(folder: Path, root: str, more: str = "") -> Path:
    path = folder / f"{'bucket' if more else 'folder'}.yaml"
    fields = f"kind: parquet, partitions: hive{more}"
    path.write_text(
        f"evalspec: 1\nname: places\nseed: 3\ndatasets:\n"
        f"  first: {{path: '{root}first/', {fields}}}\n  second: {{path: '{root}second/', {fields}}}\n{CHECKS}"
    )
    return path


def in_bucket(bucket: Bucket, folder: Path) -> Path:
    fill(bucket, folder, "first")
    fill(bucket, folder, "second")
    return spec(folder, "s3://data/", f", endpoint: '{bucket.endpoint}', {KEYS}")


def go(path: Path, steps: Steps | None = None, **options: Any) -> Record:
    loaded = load(path, options=LoadOptions(hosts=HOSTS))
    access = loaded.access(hosts=HOSTS, env=ENV)
    how: dict[str, Any] = {"limits": default_limits(120.0), "output": path.parent / path.stem, "root": path.parent}
    record, _ = run(plan(loaded), Options(access=access, **how | options), steps or Steps())
    return record


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACES_KEY", "a-key-of-ours")
    monkeypatch.setenv("PLACES_SECRET", "hush-hush-and-long")


def measured(record: Record) -> list[dict[str, Any]]:
    return [json.loads(one.model_copy(update={"duration_s": 0.0}).model_dump_json()) for one in record.checks]


@pytest.mark.proof
@trains_classifiers
def test_a_bucket_gives_the_record_of_the_folder(bucket: Bucket, keys: None, tmp_path: Path) -> None:
    path = in_bucket(bucket, tmp_path)
    there, here = go(path), go(spec(tmp_path, ""))
    assert [one.status for one in here.checks] == ["measured"] * 3
    assert measured(there) == measured(here)
    assert [one.digest for one in there.datasets] == [one.digest for one in here.datasets]
    stamp = there.datasets[0].objects[0]
    content = bucket.objects[stamp.key]
    assert (stamp.key, stamp.size) == ("first/dt=2026-11-01/n=0/part-0.parquet", len(content))
    assert stamp.etag and not here.datasets[0].objects
    kept = [file.read_bytes() for file in (tmp_path / "bucket").rglob("*") if file.is_file()]
    assert not [one for one in kept if b"hush-hush" in one or b"a-key-of-ours" in one]
    found = CliRunner().invoke(app, ["verify", str(tmp_path / "bucket")])
    assert found.exit_code == 3
    assert "not recomputed: shift: dataset first lies in s3://data, which `verify` does not open" in found.output
    assert "differs" not in found.output


@pytest.mark.proof
def test_an_object_that_is_replaced_while_rows_are_read(bucket: Bucket, keys: None, tmp_path: Path) -> None:
    path = in_bucket(bucket, tmp_path)
    key, seen = "second/dt=2026-11-02/n=1/part-0.parquet", 0

    def replaced(method: str, asked: str) -> None:
        nonlocal seen
        seen += asked == key
        if asked == key and seen == 1:
            bucket.objects[key] = parquet(rows(33))

    bucket.before = replaced
    path.write_text(path.read_text().replace(SHIFT, ""))
    record = go(path)
    assert [one.status for one in record.checks] == ["invalid"] * 2
    assert all(f"'s3://data/{key}' was replaced after it had been listed" in str(one.reason) for one in record.checks)
    assert not [test for one in record.checks for test in one.tests if test.value is not None]


@pytest.mark.proof
@pytest.mark.parametrize("change", ["replaced", "forbidden"])
def test_objects_are_held_against_their_stamps_at_the_end(
    bucket: Bucket, keys: None, tmp_path: Path, change: str
) -> None:
    path = in_bucket(bucket, tmp_path)
    path.write_text(path.read_text().replace(SHIFT, ""))
    key, count = "second/dt=2026-11-02/n=1/part-0.parquet", 0

    def at_the_end(method: str, asked: str) -> tuple[int, str] | None:
        nonlocal count
        count += not asked
        if count <= LISTING:
            return None
        bucket.objects[key] = parquet(rows(33))
        return (403, "AccessDenied") if change == "forbidden" else None

    bucket.before = at_the_end
    record = go(path)
    reason = f"s3://data/{key}, of dataset second, changed during the run"
    if change == "forbidden":
        reason = "dataset second, which could not be listed again, may have changed during the run"
    assert [(one.status, one.reason) for one in record.checks] == [("invalid", reason)] * 2


@pytest.mark.parametrize(
    ("now", "key"),
    [
        ({"a": "1", "b": "2"}, None),
        ({"a": "1"}, "b"),
        ({"a": "1", "b": "2", "c": "3"}, "c"),
        ({"a": "9", "b": "9"}, "a"),
        ({}, "a"),
    ],
)
def test_the_first_object_that_is_not_what_it_was(now: dict[str, str], key: str | None) -> None:
    def stamps(etags: dict[str, str]) -> list[ObjectStamp]:
        return [ObjectStamp(key=key, size=1, etag=etag) for key, etag in etags.items()]

    assert another_object(stamps({"a": "1", "b": "2"}), stamps(now)) == key


def test_nothing_is_asked_without_permission(bucket: Bucket, keys: None, tmp_path: Path) -> None:
    path = in_bucket(bucket, tmp_path)
    with pytest.raises(SpecError) as caught:
        load(path)
    assert [one.path for one in caught.value.problems] == ["datasets.first.path", "datasets.second.path"]
    assert all("pass --allow-host s3://data" in str(one) for one in caught.value.problems)
    loaded = load(path, options=LoadOptions(hosts=HOSTS))
    assert loaded.headers == {}
    assert any("s3://data is asked when the run starts" in one for one in loaded.unverified)
    with pytest.raises(SpecError) as refused:
        refuse([Start(plan(loaded), loaded.access(hosts=HOSTS))])
    assert sum("--env PLACES_SECRET" in str(one) for one in refused.value.problems) == 2
    assert not bucket.requests


RAY = ["plan", "--engine", "ray:127.0.0.1:6379"]


@pytest.mark.parametrize("command", [["validate"], ["plan"], ["plan", "--engine", "local:2"], RAY])
def test_commands_that_only_look(bucket: Bucket, keys: None, tmp_path: Path, command: list[str]) -> None:
    path = in_bucket(bucket, tmp_path)
    done = CliRunner().invoke(app, [*command, str(path), "--allow-host", "s3://data"])
    assert done.exit_code == 0, done.output
    assert "s3://data is asked when the run starts" in done.output
    assert "--env PLACES_SECRET" in done.output
    assert ("ray at 127.0.0.1:6379 scans first, unless it is one leaf: a run" in done.output) == (command == RAY)
    assert not bucket.requests


@pytest.mark.proof
def test_validate_load_reads_the_first_rows(bucket: Bucket, keys: None, tmp_path: Path) -> None:
    path = in_bucket(bucket, tmp_path)
    options = ["validate", "--load", str(path), "--allow-host", "s3://data"]
    done = CliRunner().invoke(app, [*options, "--env", "PLACES_KEY", "--env", "PLACES_SECRET"])
    assert done.exit_code == 0, done.output
    assert bucket.requests
    bucket.before = lambda method, key: (403, "AccessDenied")
    done = CliRunner().invoke(app, [*options, "--env", "PLACES_KEY", "--env", "PLACES_SECRET"])
    assert done.exit_code == 2
    assert "datasets.first" in done.output and "refuses the credentials" in done.output
    done = CliRunner().invoke(app, options)
    assert done.exit_code == 2
    assert done.output.count("PLACES_KEY") == done.output.count("--env PLACES_KEY") * 2


def test_the_same_place_on_both_sides(bucket: Bucket, keys: None, tmp_path: Path) -> None:
    path = in_bucket(bucket, tmp_path)
    path.write_text(path.read_text().replace("s3://data/second/", "s3://data/first/"))
    with pytest.raises(SpecError, match="are the same rows of the same files"):
        load(path, options=LoadOptions(hosts=HOSTS))


def test_init_says_that_it_reads_files_here() -> None:
    done = CliRunner().invoke(app, ["init", "model.onnx", "s3://data/t/"])
    assert done.exit_code == 2
    assert "'s3://data/t/' lies in object storage, and init reads rows on this machine; name a file" in done.output
