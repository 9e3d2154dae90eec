"""Against servers of object storage that people use, in an environment of their own: SeaweedFS, and moto."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sources.objects.fake_s3 import Bucket, served
from tests.sources.objects.fault_proxy import FAULTS, Faults, before
from tests.sources.objects.servers import KEY, SECRET, Server, client_of
from tests.sources.objects.tables import DAYS, fill

pytestmark = [pytest.mark.slow, pytest.mark.places, pytest.mark.timeout(900)]

ROWS = 1_200_000
"""More than a leaf."""
SENTENCE_S = 30
CHECKS = """
data:
  - check: shift
    reference: first
    current: second
    columns: [x, gaps, k, word]
    tolerance: 0.1
    require: [drifted_columns <= 10 %]
  - {check: integrity, dataset: second, require: [missing_rate <= 5 %]}
  - check: coverage
    dataset: second
    conditions: [{name: day, where: "dt == '2026-11-02'"}]
    require: [smallest_slice >= 10 rows]
"""


def write(folder: Path, rows: int, days: int) -> None:
    """Two tables of some days, and what a job leaves behind."""
    random = np.random.default_rng(3)
    for side in ("first", "second"):
        for day in range(days):
            count = rows // days
            gaps = np.where(random.random(count) < 0.02, np.nan, random.exponential(size=count))
            words = np.array([f"w{one}" for one in range(40)])[random.integers(0, 40, count)]
            columns = {"x": random.normal(size=count), "gaps": gaps, "k": random.integers(0, 50, count), "word": words}
            file = folder / side / f"dt=2026-11-{day + 1:02}" / "part-0.parquet"
            file.parent.mkdir(parents=True)
            pq.write_table(pa.table(columns), file, row_group_size=97_003)
        (folder / side / "_temporary").mkdir()
        (folder / side / "_temporary" / "part-1.parquet").write_bytes(b"half a file")
        (folder / side / "_SUCCESS").write_bytes(b"")


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    write(folder, ROWS, 4)
    return folder


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder, 60_000, 30)
    return folder


def spec(folder: Path, root: str, more: str = "") -> Path:
    path = folder / "evalspec.yaml"
    fields = f"kind: parquet, partitions: hive{more}"
    parts = "".join(f"  {side}: {{path: '{root}{side}/', {fields}}}\n" for side in ("first", "second"))
    path.write_text(f"evalspec: 1\nname: places\nseed: 3\ndatasets:\n{parts}{CHECKS}")
    return path


def of_bucket(folder: Path, endpoint: str, bucket: str = "data") -> Path:
    keys = "credentials: {access_key_id: {env: PLACES_KEY}, secret_access_key: {env: PLACES_SECRET}}"
    return spec(folder, f"s3://{bucket}/", f", endpoint: '{endpoint}', {keys}")


def evalspec(home: Path, path: Path, *options: str, secret: str = SECRET) -> subprocess.CompletedProcess[str]:
    """`evalspec run` from the command line."""
    line = [
        sys.executable, "-m", "evalspec", "run", str(path), "--output", str(path.parent / "out"), "--quiet",
        "--allow-outside", "--allow-host", "s3://data", "--allow-host", "s3://none", "--env", "PLACES_KEY",
        "--env", "PLACES_SECRET", *options,
    ]  # fmt: skip
    variables = client_of(home) | {"PLACES_KEY": KEY, "PLACES_SECRET": secret}
    return subprocess.run(line, capture_output=True, text=True, env=variables, timeout=600, check=False)


def record(folder: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((folder / "out" / "record.json").read_text())
    return found


def measured(folder: Path) -> str:
    """What the record says of the checks, but for how long they took."""
    return json.dumps([{name: one[name] for name in one if name != "duration_s"} for one in record(folder)["checks"]])


def reasons(folder: Path) -> list[str]:
    return [f"{one['status']}: {one['reason']}" for one in record(folder)["checks"]]


def folder_of(where: Path, name: str) -> Path:
    folder = where / name
    folder.mkdir()
    return folder


def test_a_bucket_of_seaweedfs_gives_the_record_of_the_folder(weed: Server, large: Path, tmp_path: Path) -> None:
    weed.put(large)
    here = folder_of(tmp_path, "here")
    done = evalspec(weed.home, spec(here, f"{large}/"))
    assert done.returncode == 0, done.stdout + done.stderr
    for engine in ("local", "local:2"):
        there = folder_of(tmp_path, engine.replace(":", ""))
        done = evalspec(weed.home, of_bucket(there, weed.endpoint), "--engine", engine)
        assert done.returncode == 0, done.stdout + done.stderr
        assert measured(there) == measured(here)
        assert [one["digest"] for one in record(there)["datasets"]] == [
            one["digest"] for one in record(here)["datasets"]
        ]
        written = [file.read_bytes() for file in (there / "out").rglob("*") if file.is_file()]
        assert not [one for one in written if SECRET.encode() in one or KEY.encode() in one]
    stamps = record(tmp_path / "local")["datasets"][0]["objects"]
    assert [one["key"] for one in stamps] == [f"first/dt=2026-11-0{day}/part-0.parquet" for day in range(1, 5)]
    assert all(one["etag"] and one["size"] > 100_000 for one in stamps)


def test_an_object_that_is_replaced_midway(weed: Server, large: Path, tmp_path: Path) -> None:
    weed.put(large)
    key, new = "second/dt=2026-11-03/part-0.parquet", tmp_path / "new"
    (new / key).parent.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1.0], "gaps": [1.0], "k": [1], "word": ["w"]}), new / key)
    faults, count = Faults(), 0

    def replace(method: str, path: str) -> None:
        nonlocal count
        count += path.endswith(key.replace("=", "%3D")) or path.endswith(key)
        if count == 3:
            count += 1
            weed.put(new)

    faults.before = replace
    with before(weed.port, faults) as endpoint:
        done = evalspec(weed.home, of_bucket(tmp_path, endpoint), "--engine", "local:2")
    assert done.returncode in (3, 4), done.stdout
    assert count > 3
    found = reasons(tmp_path)
    assert all(key in one and "was replaced after it had been listed" in one for one in found), found
    values = [test.get("value") for one in record(tmp_path)["checks"] for test in one["tests"]]
    assert set(values) == {None}
    assert "Traceback" not in done.stdout + done.stderr


def test_one_request_in_twenty_goes_wrong(moto: Server, small: Path, tmp_path: Path) -> None:
    moto.put(small)
    here, there = folder_of(tmp_path, "here"), folder_of(tmp_path, "there")
    assert evalspec(moto.home, spec(here, f"{small}/")).returncode == 0
    faults = Faults(0.05, seed=5)
    with before(moto.port, faults) as endpoint:
        done = evalspec(moto.home, of_bucket(there, endpoint), "--engine", "local:2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(faults.seen[one] for one in FAULTS), faults.seen
    assert measured(there) == measured(here)


def refused(home: Path, path: Path, *sentences: str, secret: str = SECRET) -> None:
    """Every check says so in one sentence, soon."""
    begun = time.monotonic()
    done = evalspec(home, path, secret=secret)
    took_s = time.monotonic() - begun
    # Reading two datasets is tried once each.
    assert took_s < 2 * SENTENCE_S, took_s
    assert done.returncode == 4, done.stdout + done.stderr
    for one in reasons(path.parent):
        assert all(sentence in one for sentence in sentences), one
        assert "\n" not in one and len(one) < 300
    assert "Traceback" not in done.stdout + done.stderr
    assert SECRET not in json.dumps(record(path.parent))


def test_a_wrong_secret(weed: Server, tmp_path: Path) -> None:
    refused(weed.home, of_bucket(tmp_path, weed.endpoint), "refuses the credentials that were sent", secret="wrong-one")


def test_a_bucket_that_is_not_there(weed: Server, tmp_path: Path) -> None:
    refused(weed.home, of_bucket(tmp_path, weed.endpoint, "none"), "there is no bucket 'none'")


def test_a_bucket_that_moto_does_not_have(moto: Server, tmp_path: Path) -> None:
    refused(moto.home, of_bucket(tmp_path, moto.endpoint, "none"), "there is no bucket 'none' on http://127.0.0.1:")


def test_a_prefix_without_objects(weed: Server, tmp_path: Path) -> None:
    path = of_bucket(tmp_path, weed.endpoint)
    path.write_text(path.read_text().replace("s3://data/", "s3://data/nothing/"))
    refused(weed.home, path, "there is no such object: 's3://data/nothing/")


def test_an_endpoint_where_nobody_answers(home: Path, tmp_path: Path) -> None:
    refused(home, of_bucket(tmp_path, "http://127.0.0.1:9"), "http://127.0.0.1:9 gives no answer", "check `endpoint:`")


def test_a_key_that_expires_midway(moto: Server, small: Path, tmp_path: Path) -> None:
    moto.put(small)
    faults, count = Faults(), 0

    def expired(method: str, path: str) -> tuple[int, str] | None:
        nonlocal count
        count += 1
        return (400, "ExpiredToken") if count > 20 else None

    faults.before = expired
    with before(moto.port, faults) as endpoint:
        refused(moto.home, of_bucket(tmp_path, endpoint), "refuses the credentials", "ExpiredToken", "renew")


def test_a_listing_that_is_stale(moto: Server, small: Path, tmp_path: Path) -> None:
    """The bucket lists an object that is not there any more."""
    moto.put(small)
    gone, faults = "dt=2026-11-07/part-0.parquet", Faults()

    def stale(method: str, path: str) -> tuple[int, str] | None:
        return (404, "NoSuchKey") if path.replace("%3D", "=").endswith(gone) else None

    faults.before = stale
    with before(moto.port, faults) as endpoint:
        done = evalspec(moto.home, of_bucket(tmp_path, endpoint))
    assert done.returncode == 3, done.stdout
    assert all(f"{gone}' was removed after it had been listed" in one for one in reasons(tmp_path))


READ = """
import sys
from pathlib import Path
from evalspec.errors import EvalspecError
from evalspec.language.parts import Access
from evalspec.sources.parquet import Parquet
scheme, endpoint, folder = sys.argv[1:]
fields = {"kind": "parquet", "partitions": "hive"}
access = Access(Path(folder), hosts=frozenset({f"{scheme}://data"}))
stored = fields | {"path": f"{scheme}://data/t/", "endpoint": endpoint}
stored |= {"account": "mine"} if scheme == "az" else {}
one, here = Parquet.model_validate(stored), Parquet.model_validate(fields | {"path": "t/"})
assert one.read(access).equals(here.read(access))
print(len(one.stamps(access)), all(stamp.etag.count('"') == 2 for stamp in one.stamps(access)))
one.keep_stamps(access, [stamp.model_copy(update={"etag": '"another"'}) for stamp in one.stamps(access)])
try:
    one.read(access)
except EvalspecError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("scheme", ["s3", "gs", "az"])
def test_the_protocols_of_google_and_azure(home: Path, tmp_path: Path, scheme: str) -> None:
    bucket = Bucket()
    fill(bucket, tmp_path)
    with served(bucket):
        line = [sys.executable, "-c", READ, scheme, bucket.endpoint, str(tmp_path)]
        done = subprocess.run(line, capture_output=True, text=True, env=client_of(home), timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"{DAYS} True"
    assert second.startswith(f"InvalidError '{scheme}://data/t/dt=2026-11-01/n=0/part-0.parquet' was replaced after")
