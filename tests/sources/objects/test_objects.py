"""Datasets in object storage: the rows of a folder, of the contents that were listed, or a sentence."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.errors import EvalspecError, InputError, InvalidError
from evalspec.language.parts import Access
from evalspec.sources.csv import Csv
from evalspec.sources.images import Images
from evalspec.sources.npz import Npz
from evalspec.sources.parquet import Parquet
from evalspec.sources.reading import object_store, objects
from evalspec.sources.reading.open import open_batches, open_between
from tests.sources.objects.fake_s3 import Bucket
from tests.sources.objects.tables import DAYS, ROWS, dataset, fill, parquet, rows

HOSTS = frozenset({"s3://data"})
KEY = "t/dt=2026-11-03/n=2/part-0.parquet"


def access(folder: Path, **more: Any) -> Access:
    return Access(folder, **({"hosts": HOSTS} | more))


@pytest.mark.parametrize("columns", [None, ["x"], ["dt", "word"], ["n"], ["vector", "n", "k"]])
@pytest.mark.parametrize("path", ["t/", "t", "t/**/*.parquet", "t/dt=*/n=[1-3]/part-?.parquet"])
def test_rows_are_those_of_the_folder(bucket: Bucket, tmp_path: Path, path: str, columns: list[str] | None) -> None:
    fill(bucket, tmp_path)
    one, seen = dataset(bucket, f"s3://data/{path}"), access(tmp_path)
    here = Parquet(kind="parquet", path=path, partitions="hive")
    assert one.header(seen) == here.header(seen)
    expected = here.read(seen, columns)
    assert one.read(seen, columns).equals(expected)
    for batches in (one.batches(seen, columns, 100), here.batches(seen, columns, 100)):
        assert pa.Table.from_batches(batches).equals(expected)
    middle = pa.Table.from_batches(open_between(one, seen, columns)(700, 2100))
    assert middle.equals(expected.slice(700, 1400))
    assert one.files(seen) == ()


def test_one_object(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket, tmp_path)
    assert (
        dataset(bucket, f"s3://data/{KEY}", partitions=None)
        .read(access(tmp_path))
        .equals(Parquet(kind="parquet", path=KEY).read(access(tmp_path)))
    )


def test_what_a_job_leaves_behind_is_no_data(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket, tmp_path)
    one, seen = dataset(bucket), access(tmp_path)
    assert one.header(seen).rows == DAYS * ROWS
    assert len(one.stamps(seen)) == DAYS
    assert not [said for said in bucket.requests if "_" in said.partition("t/")[2].replace("list_", "")]


def test_the_end_of_an_object_is_read_once(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any row, however many objects there are: no more ends are kept than a few."""
    monkeypatch.setattr(objects, "MOST_TAILS", 2)
    fill(bucket, tmp_path)
    one, seen = dataset(bucket), access(tmp_path)
    one.list_objects(seen)
    bucket.requests.clear()
    one.between(seen, ["x"])
    assert len(bucket.requests) == DAYS == len(set(bucket.requests))


def test_where_looks_at_a_column_of_the_path(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket, tmp_path)
    one = dataset(bucket, where="dt == '2026-11-02'")
    assert pa.Table.from_batches(open_batches(one, access(tmp_path), ["n"]))["n"].unique().to_pylist() == [1]


def test_only_the_columns_that_are_asked_for_are_read(bucket: Bucket, tmp_path: Path) -> None:
    wide = pa.table({"x": list(range(100_000)), "wide": [f"{one:0100}" for one in range(100_000)]})
    bucket.objects["t/a.parquet"] = parquet(wide)
    one, seen = dataset(bucket, partitions=None), access(tmp_path)
    read: list[str] = []
    bucket.before = lambda method, key: read.append(key) or None  # type: ignore[func-returns-value]
    assert one.read(seen, ["x"])["x"].to_pylist() == list(range(100_000))
    assert len(read) < 800


@pytest.mark.parametrize("way", ["header", "read", "batches", "between"])
@pytest.mark.parametrize("then", ["replaced", "removed"])
def test_an_object_that_is_another_one_by_now_is_named(bucket: Bucket, tmp_path: Path, way: str, then: str) -> None:
    fill(bucket, tmp_path)
    one, seen = dataset(bucket), access(tmp_path)
    one.list_objects(seen)
    before = bucket.objects.pop(KEY)
    if then == "replaced":
        # As long as it was: only its ETag tells.
        bucket.objects[KEY] = bytes(reversed(before))
    ways: dict[str, Callable[[], object]] = {
        "header": lambda: one.header(seen),
        "read": lambda: one.read(seen),
        "batches": lambda: list(one.batches(seen)),
        "between": lambda: list(one.between(seen)(0, DAYS * ROWS)),
    }
    with pytest.raises(InvalidError, match=f"s3://data/{KEY}' was {then}"):
        ways[way]()


def test_midway_no_rows_of_two_contents_come_together(bucket: Bucket, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    bucket.objects["t/a.parquet"] = parquet(pa.table({"x": random.normal(size=20_000)}))
    one, seen = dataset(bucket, partitions=None), access(tmp_path)
    batches = one.batches(seen, None, 100)
    assert next(batches).num_rows == 100
    bucket.objects["t/a.parquet"] = parquet(pa.table({"x": random.normal(size=20_000)}))
    with pytest.raises(InvalidError, match=r"'s3://data/t/a.parquet' was replaced after it had been listed"):
        list(batches)


def test_a_server_that_knows_no_condition_is_not_believed(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket, tmp_path)
    one, seen = dataset(bucket), access(tmp_path)
    one.list_objects(seen)
    stamps = one.stamps(seen)
    bucket.objects[KEY] = parquet(rows(77))
    bucket.conditions = False
    with pytest.raises(InvalidError, match=f"{KEY}' was replaced"):
        one.read(seen)
    assert one.stamps(seen) == stamps


SENTENCES = [
    (403, "AccessDenied", "refuses requests without credentials for 's3://data/t/' .AccessDenied.*--cloud-credentials"),
    (403, "InvalidAccessKeyId", "refuses requests without credentials"),
    (400, "ExpiredToken", "refuses .* .ExpiredToken."),
    (400, "AuthorizationHeaderMalformed", "s3://data lies in another region than is asked; say `region:`"),
    (503, "SlowDown", "answers 503 SlowDown to requests for 's3://data/t/'"),
    (500, "InternalError", "answers 500 InternalError"),
    (404, "NoSuchBucket", "there is no bucket 'data' on http://127.0.0.1"),
]


@pytest.mark.parametrize(("status", "code", "sentence"), SENTENCES)
def test_what_the_store_answers_is_one_sentence(
    bucket: Bucket, tmp_path: Path, status: int, code: str, sentence: str
) -> None:
    fill(bucket, tmp_path)
    bucket.before = lambda method, key: (status, code)
    with pytest.raises(InputError, match=sentence) as caught:
        dataset(bucket).header(access(tmp_path))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_an_expired_key_says_so(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(bucket, tmp_path)
    one, seen = with_keys(bucket, monkeypatch), access(tmp_path, env=frozenset({"PLACES_KEY", "PLACES_SECRET"}))
    one.header(seen)
    bucket.before = lambda method, key: (400, "ExpiredToken")
    with pytest.raises(InputError, match=r"refuses the credentials that were sent .*ExpiredToken.*renew") as caught:
        list(one.batches(seen))
    assert "hush-hush" not in str(caught.value)


def test_a_busy_store_is_asked_again(bucket: Bucket, tmp_path: Path) -> None:
    fill(bucket, tmp_path)
    count = 0

    def busy(method: str, key: str) -> tuple[int, str] | None:
        nonlocal count
        count += 1
        return (503, "SlowDown") if count % 3 == 0 else None

    bucket.before = busy
    table = dataset(bucket).read(access(tmp_path))
    assert table.equals(Parquet(kind="parquet", path="t/", partitions="hive").read(access(tmp_path)))


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("s3://data/none/", "there is no such object: 's3://data/none/'; names must end in .parquet or .pq"),
        ("s3://data/none", "there is no such object: 's3://data/none'"),
        ("s3://data/t/*.csv", "there is no such object"),
        ("s3://data/**", "is not supported"),
        ("s3://data/t/a**/x.parquet", "is not supported"),
        ("s3://other/t/", "'s3://other' is outside this machine; pass --allow-host s3://other"),
    ],
)
def test_what_is_not_there(bucket: Bucket, tmp_path: Path, path: str, sentence: str) -> None:
    fill(bucket, tmp_path)
    with pytest.raises(InputError) as caught:
        dataset(bucket, path).header(access(tmp_path))
    assert sentence in str(caught.value)


def test_nobody_answers(client: None, tmp_path: Path) -> None:
    bucket = Bucket()
    bucket.endpoint = "http://127.0.0.1:9"
    with pytest.raises(InputError, match=r"http://127.0.0.1:9 gives no answer for 's3://data/t/'.*check `endpoint:`"):
        dataset(bucket).header(access(tmp_path))


@pytest.mark.parametrize(("content", "sentence"), [(b"", "is empty"), (b"a,b\n1,2\n" * 9, "truncated, damaged or in")])
def test_an_object_that_holds_no_rows(bucket: Bucket, tmp_path: Path, content: bytes, sentence: str) -> None:
    bucket.objects["t/a.parquet"] = content
    with pytest.raises(InputError, match=f"'s3://data/t/a.parquet'.*{sentence}"):
        dataset(bucket, partitions=None).header(access(tmp_path))


def with_keys(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Parquet:
    monkeypatch.setenv("PLACES_KEY", "a-key-of-ours")
    monkeypatch.setenv("PLACES_SECRET", "hush-hush-and-long")
    keys = {"access_key_id": {"env": "PLACES_KEY"}, "secret_access_key": {"env": "PLACES_SECRET"}}
    return dataset(bucket, credentials=keys)


def signers(bucket: Bucket) -> set[str]:
    """Keys that requests were signed with."""
    found = {said.partition("Credential=")[2].partition("/")[0] for said in bucket.signed}
    bucket.signed.clear()
    return found


def test_keys_are_sent_only_where_somebody_allowed_it(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bucket, tmp_path)
    one = with_keys(bucket, monkeypatch)
    with pytest.raises(InputError, match=r"`credentials.access_key_id` is the secret PLACES_KEY.*--env PLACES_KEY"):
        one.header(access(tmp_path))
    assert not bucket.requests
    both = frozenset({"PLACES_KEY", "PLACES_SECRET"})
    one.header(access(tmp_path, env=both))
    assert signers(bucket) == {"a-key-of-ours"}
    monkeypatch.setenv("PLACES_SECRET", " ")
    with pytest.raises(InputError, match=r"the variable PLACES_SECRET, `credentials.secret_access_key`, is not set"):
        one.header(access(tmp_path, env=both))


def test_what_the_environment_holds_is_not_sent_by_itself(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(bucket, tmp_path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    dataset(bucket).header(access(tmp_path))
    assert signers(bucket) == {""}
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == "its-secret"


def test_threads_that_open_stores_at_once_see_their_keys(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Variables of the provider's names are hidden for a moment: from the library, not from others that need them."""
    fill(bucket, tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "its-secret")
    keys = {name: {"env": "AWS_SECRET_ACCESS_KEY"} for name in ("access_key_id", "secret_access_key")}
    one, seen = dataset(bucket, credentials=keys), access(tmp_path, env=frozenset({"AWS_SECRET_ACCESS_KEY"}))
    one.list_objects(seen)
    config = object_store._config

    def slowly(place: object_store.Bucket) -> dict[str, Any]:
        time.sleep(0.002)
        return config(place)

    monkeypatch.setattr(object_store, "_config", slowly)
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: one.data_files(seen), range(64)))) == 64


def test_the_chain_of_the_provider(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(bucket, tmp_path)
    with pytest.raises(InputError, match=r"--cloud-credentials found none for s3://data .*169.254.169.254"):
        dataset(bucket).header(access(tmp_path, cloud_credentials=True))
    file = tmp_path / "credentials"
    file.write_text("[default]\naws_access_key_id = of-the-file\naws_secret_access_key = s\n[sso]\nsso_session = x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    dataset(bucket).header(access(tmp_path, cloud_credentials=True))
    assert signers(bucket) == {"of-the-file"}
    monkeypatch.setenv("AWS_PROFILE", "sso")
    with pytest.raises(InputError, match="profile 'sso' has no keys"):
        dataset(bucket).header(access(tmp_path, cloud_credentials=True))


def test_secrets_of_the_chain_are_kept_out_of_what_is_written() -> None:
    assert "AWS_SECRET_ACCESS_KEY" in Access(Path("."), cloud_credentials=True).secrets
    assert Access(Path("."), env=frozenset({"A"})).secrets == {"A"}


def test_another_server_must_be_allowed_too(client: None, tmp_path: Path) -> None:
    one = Parquet.model_validate({"kind": "parquet", "path": "s3://data/t/", "endpoint": "https://storage.example"})
    with pytest.raises(
        InputError, match=r"'storage.example' is a different machine; pass --allow-host storage.example"
    ):
        one.header(access(tmp_path))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"path": "s3a://data/t/"}, "s3a:// is not a place that is read"),
        ({"path": "hdfs://host/t/"}, "hdfs:// is not a place that is read"),
        ({"path": "s3://d*/t/"}, "names no bucket"),
        ({"path": "s3://user:word@data/t/"}, "names no bucket"),
        ({"path": "s3://data/a//b"}, "has a part that is empty"),
        ({"path": "s3://data/../b"}, "has a part that is empty, a dot"),
        ({"path": "s3://data/t/", "endpoint": "ftp://x"}, "is not a usable address"),
        ({"path": "s3://data/t/", "endpoint": "http://u:p@x"}, "holds a user or a password"),
        ({"path": "s3://data/t/", "endpoint": "http://x:99999"}, "is not a usable address"),
        ({"path": "t/", "region": "eu-central-1"}, "`region` is for object storage"),
        ({"path": "s3://data/t/", "account": "mine"}, "`account` is for az://"),
        ({"path": "az://data/t/"}, "az:// needs `account`"),
        ({"path": "gs://data/t/", "credentials": {"account_key": {"env": "A"}}}, "can't be used for gs://"),
        ({"path": "s3://data/t/", "credentials": {"access_key_id": {"env": "A"}}}, "and secret_access_key"),
    ],
)
def test_fields_that_do_not_go_together(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Parquet.model_validate({"kind": "parquet"} | fields)


def test_only_listed_places_are_read(bucket: Bucket, tmp_path: Path) -> None:
    """What was listed first holds for whoever reads later, in any process that is handed the stamps."""
    fill(bucket, tmp_path)
    one, first = dataset(bucket), access(tmp_path)
    one.header(first)
    later = access(tmp_path)
    one.keep_stamps(later, one.stamps(first))
    bucket.objects["t/dt=2026-11-09/n=9/part-0.parquet"] = parquet(rows(9))
    assert one.header(later).rows == DAYS * ROWS
    assert one.header(access(tmp_path)).rows == (DAYS + 1) * ROWS


def test_every_error_is_one_of_ours(bucket: Bucket, tmp_path: Path) -> None:
    """Whichever request goes wrong, of all that a reading needs."""
    fill(bucket, tmp_path)
    one = dataset(bucket)
    total = 0
    for bad in range(100):
        seen = access(tmp_path)
        count = 0

        def once(method: str, key: str, bad: int = bad) -> tuple[int, str] | None:
            nonlocal count
            count += 1
            return (403, "AccessDenied") if count == bad + 1 else None

        bucket.before = once
        try:
            list(one.batches(seen, ["x", "vector"]))
        except EvalspecError as error:
            assert "AccessDenied" in str(error)
            total += 1
        else:
            break
    assert total > DAYS


def test_kinds_that_read_files_here_say_so(tmp_path: Path) -> None:
    for one in (Npz(kind="npz", path="s3://data/t.npz"), Images(kind="images", path="s3://data/t/")):
        with pytest.raises(InputError, match="is a URL, and a file on this machine is needed here; copy it here"):
            one.header(access(tmp_path))


def test_the_head_of_an_object_is_all_that_tells_its_format(bucket: Bucket, tmp_path: Path) -> None:
    bucket.objects["t.csv"] = b"PAR1" + bytes(30_000_000)
    one = Csv.model_validate({"kind": "csv", "path": "s3://data/t.csv", "endpoint": bucket.endpoint})
    with pytest.raises(InputError, match=r"'s3://data/t.csv' is not a csv file: it is a parquet file"):
        one.header(access(tmp_path))
    assert len(bucket.requests) == 2
