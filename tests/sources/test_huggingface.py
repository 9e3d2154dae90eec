from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources.huggingface import Huggingface

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
datasets = pytest.importorskip("datasets")
PIXELS = np.arange(2 * 4 * 5).reshape(2, 4, 5).astype(np.uint8)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    from PIL import Image

    features = datasets.Features(
        {
            "n": datasets.Value("int64"),
            "label": datasets.ClassLabel(names=["no", "yes"]),
            "picture": datasets.Image(),
            "grid": datasets.Array2D((2, 3), "float32"),
            "row": datasets.List(datasets.Value("int32")),
        }
    )
    rows: dict[str, Any] = {
        "n": [1, 2, 3],
        "label": [1, -1, 0],
        "picture": [Image.fromarray(PIXELS[i]) for i in (0, 1, 0)],
        "grid": [np.full((2, 3), i) for i in range(3)],
        "row": [[1, 2], [3, 4], [5, 6]],
    }
    data = datasets.Dataset.from_dict(rows, features=features)
    datasets.disable_progress_bars()
    data.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=data, test=data.select([2, 0])).save_to_disk(tmp_path / "several")
    return tmp_path


def test_a_saved_data_set(saved: Path) -> None:
    table = Huggingface(path="one").read(Access(saved))
    assert table["n"].to_pylist() == [1, 2, 3]
    assert table["label"].to_pylist() == [1, None, 0]
    assert table.schema.field("picture").type == pa.fixed_shape_tensor(pa.uint8(), [4, 5])
    assert (table["picture"].combine_chunks().to_numpy_ndarray() == PIXELS[[0, 1, 0]]).all()
    assert table.schema.field("grid").type == pa.fixed_shape_tensor(pa.float32(), [2, 3])
    assert (table["grid"].combine_chunks().to_numpy_ndarray()[2] == 2).all()
    assert table.schema.field("row").type == pa.list_(pa.int32(), 2)
    named = Huggingface(path="one", class_names=True).read(Access(saved), ["label"])
    assert named["label"].to_pylist() == ["yes", None, "no"]
    header = Huggingface(path="one").header(Access(saved))
    assert header.rows == 3
    assert header.columns["n"] == "int64"
    assert header.columns["picture"] == "image"
    assert len(Huggingface(path="one").files(Access(saved))) == 3


def test_splits(saved: Path) -> None:
    with pytest.raises(InputError, match=r"several splits \(choices: train, test\); name one in `split:`"):
        Huggingface(path="several").read(Access(saved))
    with pytest.raises(InputError, match=r"no split 'dev' \(choices: train, test\)"):
        Huggingface(path="several", split="dev").header(Access(saved))
    dataset = Huggingface(path="several", split="test")
    assert dataset.read(Access(saved), ["n"])["n"].to_pylist() == [3, 1]
    assert dataset.header(Access(saved)).rows == 2


def test_data_files(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name, numbers in (("train-0.parquet", [1, 2]), ("train-1.parquet", [3]), ("test.parquet", [4])):
        pq.write_table(pa.table({"n": numbers}), tmp_path / "data" / name)
    access = Access(tmp_path)
    assert Huggingface(path="data", split="train").read(access)["n"].to_pylist() == [1, 2, 3]
    assert Huggingface(path="data", split="test").header(access).rows == 1
    assert Huggingface(path="data/test.parquet").read(access)["n"].to_pylist() == [4]
    assert Huggingface(path="data").header(access).rows == 4
    with pytest.raises(InputError, match="no data file of 'data' names the split 'dev'"):
        Huggingface(path="data", split="dev").read(access)
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    (tmp_path / "rows.csv").write_text("a\n1\n2\n")
    for name in ("rows.jsonl", "rows.csv"):
        assert Huggingface(path=name).read(access)["a"].to_pylist() == [1, 2]
    with pytest.raises(InputError, match="give files of one kind"):
        Huggingface(path=".").read(access)


def test_bad_folders(saved: Path) -> None:
    access = Access(saved)
    (saved / "void").mkdir()
    cases = [("nothing", "there is no file or folder 'nothing'"), ("void", "there is no huggingface file in 'void'")]
    for path, words in cases:
        for act in (Huggingface(path=path).read, Huggingface(path=path).header):
            with pytest.raises(InputError, match=words):
                act(access)
    with pytest.raises(InputError, match="no column 'm'"):
        Huggingface(path="one").read(access, ["m"])


def test_damaged_folders(saved: Path) -> None:
    access = Access(saved)
    state = saved / "one" / "state.json"
    kept = state.read_text()
    data = next((saved / "one").glob("*.arrow"))
    for broken in ("", "{", "[]", json.dumps({**json.loads(kept), "_data_files": [{"filename": "../x.arrow"}]})):
        state.write_text(broken)
        for act in (Huggingface(path="one").read, Huggingface(path="one").header):
            with pytest.raises(InputError):
                act(access)
    state.write_text(kept)
    data.write_bytes(data.read_bytes()[:300])
    for act in (Huggingface(path="one").read, Huggingface(path="one").header):
        with pytest.raises(InputError, match="can't be read as"):
            act(access)
    data.unlink()
    with pytest.raises(InputError, match="is incomplete"):
        Huggingface(path="one").read(access)


def test_an_image_path_may_not_leave_the_folder(saved: Path) -> None:
    (saved / "inner").mkdir()
    (saved / "secret.png").write_bytes(b"x")
    features = datasets.Features({"picture": datasets.Image()})
    table = pa.table({"picture": [{"bytes": None, "path": str(saved / "secret.png")}]})
    pq.write_table(table.cast(features.arrow_schema), saved / "inner" / "d.parquet")
    with pytest.raises(InputError, match="outside"):
        Huggingface(path="d.parquet").read(Access(saved / "inner"))


def test_the_hub_is_asked_only_where_it_may_be(tmp_path: Path) -> None:
    dataset = Huggingface(name="owner/set", revision="abc", split="test")
    for act in (dataset.read, dataset.header):
        with pytest.raises(InputError, match=r"'owner/set' is a name on the hub.*pass --hub"):
            act(Access(tmp_path))
    assert dataset.files(Access(tmp_path)) == ()
    with pytest.raises(InputError, match="'owner/set' can't be read as huggingface"):
        dataset.read(Access(tmp_path, hub=True))


ON_HUB = {"name": "owner/set", "revision": "1", "split": "test"}


def test_the_benchmark_is_that_which_is_read() -> None:
    hub = {"id": "owner/set", "task": "t", "metric": "accuracy"}
    for benchmark in (hub, hub | {"revision": "1"}):
        read = Huggingface.model_validate(ON_HUB | {"hub": benchmark})
        assert read.hub is not None and read.hub.id == "owner/set"


def test_fields() -> None:
    for fields in (
        {},
        {"path": "a", "name": "b"},
        {"name": "b", "split": "test"},
        {"name": "b", "revision": "1"},
        {"path": "a", "revision": "1"},
        ON_HUB | {"hub": {"id": "owner/other", "task": "t", "metric": "accuracy"}},
        ON_HUB | {"hub": {"id": "owner/set", "task": "t", "metric": "accuracy", "revision": "2"}},
    ):
        with pytest.raises(ValidationError):
            Huggingface(**fields)  # type: ignore[arg-type]


@pytest.mark.proof
def test_local_data_look_nothing_up(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "d.parquet")
    code = """
        import socket, sys
        from pathlib import Path
        def refuse(*args, **kwargs):
            sys.exit("looked something up")
        socket.getaddrinfo = socket.socket.connect = refuse
        from evalspec.language.parts import Access
        from evalspec.sources.huggingface import Huggingface
        access = Access(Path(sys.argv[1]))
        Huggingface(path="d.parquet").header(access)
        assert "datasets" not in sys.modules
        assert Huggingface(path="d.parquet").read(access).num_rows == 1
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment["HF_HOME"] = str(tmp_path / "home")
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
