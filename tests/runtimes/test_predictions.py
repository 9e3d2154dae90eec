"""Predictions in files: joined by key, never by row order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from evalspec.errors import InputError, NotRunError
from evalspec.language.parts import Access
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.predictions import PredictionFiles

FACTS = DatasetFacts("test", label="label", key="key")
CLASSES = ("cat", "dog", "owl")
FIELDS: dict[str, Any] = {
    "files": {"test": "p.parquet"},
    "outputs": {"probabilities": "p", "label": "said"},
    "classes": CLASSES,
}


def served(access: Access, facts: DatasetFacts = FACTS, **fields: Any) -> Served:
    model = PredictionFiles(**(FIELDS | fields))
    return Served(model, model.load(access), access, facts)


@pytest.fixture
def said(rows: pa.Table) -> pa.Table:
    """Predictions for `rows`, in another order."""
    rng = np.random.default_rng(8)
    p = rng.dirichlet(np.ones(3), size=10)
    table = pa.table(
        {
            "key": rows.column("key"),
            "p": pa.array(list(p)),
            "said": [CLASSES[i] for i in p.argmax(axis=1)],
            "p_cat": p[:, 0],
            "p_dog": p[:, 1],
            "p_owl": p[:, 2],
            "minutes": np.arange(10.0),
        }
    )
    return table.take(pa.array(rng.permutation(10)))


def by_key(table: pa.Table, column: str, keys: pa.ChunkedArray) -> list[Any]:
    found = dict(zip(table.column("key").to_pylist(), table.column(column).to_pylist(), strict=True))
    return [found[key] for key in keys.to_pylist()]


def write_npz(table: pa.Table, path: Path) -> None:
    arrays: dict[str, Any] = {name: np.array(table.column(name).to_pylist()) for name in table.column_names}
    np.savez(path, **arrays)


def write_jsonl(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    "p.parquet": pq.write_table,
    "p.csv": pyarrow.csv.write_csv,
    "p.jsonl": write_jsonl,
    "p.arrow": pyarrow.feather.write_feather,
    "p.npz": write_npz,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_joined_by_key(
    tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table, name: str
) -> None:
    table = said.drop_columns(["p"]) if name == "p.csv" else said
    WRITERS[name](table, tmp_path / name)
    probabilities = "p_*" if name == "p.csv" else "p"
    outputs = {"probabilities": probabilities, "label": "said"}
    answers = served(access, files={"test": name}, outputs=outputs).predict_all(rows, batch=3)
    assert answers.probabilities is not None and answers.predicted is not None
    np.testing.assert_allclose(answers.probabilities[:, 0], by_key(said, "p_cat", rows.column("key")), rtol=1e-9)
    assert [CLASSES[i] for i in answers.predicted] == by_key(said, "said", rows.column("key"))


def test_columns_named_after_classes_bring_them(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    pq.write_table(said, tmp_path / "p.parquet")
    answers = served(access, outputs={"probabilities": "p_*"}, classes=None).predict_all(rows)
    assert answers.classes == CLASSES
    with pytest.raises(
        InputError, match=r"lists the model's own labels in a different order \(choices: cat, dog, owl\)"
    ):
        served(access, outputs={"probabilities": "p_*"}, classes=("owl", "dog", "cat")).predict_all(rows)


def test_values(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    pq.write_table(said, tmp_path / "p.parquet")
    answers = served(access, outputs={"value": "minutes"}, classes=None).predict_all(rows)
    assert answers.values is not None
    assert answers.values.tolist() == by_key(said, "minutes", rows.column("key"))


def test_whole_numbers_and_text_are_one_key(tmp_path: Path, access: Access) -> None:
    table = pa.table({"key": [3, 1, 2], "label": ["cat", "dog", "owl"]})
    pq.write_table(pa.table({"key": ["1", "2", "3"], "said": ["dog", "owl", "cat"]}), tmp_path / "p.parquet")
    answers = served(access, outputs={"label": "said"}).predict_all(table)
    assert answers.predicted is not None and answers.predicted.tolist() == [0, 1, 2]


def test_keys_that_do_not_fit(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    pq.write_table(said.slice(0, 8), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"'p.parquet' lack 2 of 10 keys of the dataset 'test': row-\d, row-\d"):
        served(access).predict_all(rows)
    pq.write_table(pa.concat_tables([said, said.slice(0, 1)]), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"the key 'row-9' occurs in rows 1 and 11 of the predictions 'p.parquet'; "):
        served(access).predict_all(rows)
    pq.write_table(said, tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"the key 'row-0' occurs in rows 1 and 11 of the dataset 'test'; "):
        served(access).predict_all(pa.concat_tables([rows, rows.slice(0, 1)]))
    twice = pa.concat_tables([rows, rows.slice(5, 1), rows.slice(1, 1), rows.slice(5, 1)])
    with pytest.raises(
        InputError, match=r"'row-5' occurs in rows 6 and 11 and 1 more of the dataset 'test'; 1 more key occurs more"
    ):
        served(access).predict_all(twice)
    with pytest.raises(
        InputError, match=r"have 4 keys that are not in the dataset 'test'.*a different version of the dataset"
    ):
        served(access).predict_all(rows.slice(0, 6))
    missing = said.drop_columns(["key"]).append_column("key", pa.array([None, *[f"row-{i}" for i in range(1, 10)]]))
    pq.write_table(missing, tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"keys are missing in 1 of 10 rows"):
        served(access).predict_all(rows)


def test_predictions_may_cover_more_than_the_rows_in_use(
    tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table
) -> None:
    pq.write_table(said, tmp_path / "p.parquet")
    part = DatasetFacts("test", label="label", key="key", subset=True)
    assert served(access, part).predict_all(rows.slice(0, 6)).n == 6


def test_what_is_needed_is_said(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    pq.write_table(said.drop_columns(["key"]), tmp_path / "p.parquet")
    with pytest.raises(InputError, match=r"joined by key and the dataset 'test' has none; add `key:`"):
        served(access, DatasetFacts("test")).predict_all(rows)
    with pytest.raises(InputError, match=r"no predictions for the dataset 'field' \(choices: test\)"):
        served(access, DatasetFacts("field", key="key")).predict_all(rows)
    with pytest.raises(InputError, match=r"'p.parquet' have no key column 'key' \(choices: p, said"):
        served(access).predict_all(rows)


def test_there_is_nothing_to_time(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    pq.write_table(said, tmp_path / "p.parquet")
    with pytest.raises(NotRunError, match=r"can't be timed: there is no model to run"):
        served(access).rows(rows)


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("content", [b"", b"\x00\x01 neither this nor that \xff\xfe"])
def test_files_that_hold_nothing(tmp_path: Path, access: Access, rows: pa.Table, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"'{name}' (is empty|can't be read as|has no rows|have no key column)"):
        served(access, files={"test": name}).predict_all(rows)


def test_truncated_files(tmp_path: Path, access: Access, rows: pa.Table, said: pa.Table) -> None:
    for name in ("p.parquet", "p.arrow", "p.npz"):
        WRITERS[name](said, tmp_path / name)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-40])
        with pytest.raises(InputError, match=rf"'{name}' can't be read as"):
            served(access, files={"test": name}).predict_all(rows)


def test_objects_in_an_npz_are_not_unpickled(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    np.savez(tmp_path / "p.npz", key=np.array([{"a": 1}], dtype=object))
    with pytest.raises(InputError, match=r"can't be read as npz: .*allow_pickle=False"):
        served(access, files={"test": "p.npz"}).predict_all(rows)


def test_another_ending_is_refused(tmp_path: Path, access: Access, rows: pa.Table) -> None:
    (tmp_path / "p.xlsx").write_bytes(b"x")
    with pytest.raises(InputError, match=r"'p.xlsx' is not a file of predictions \(choices: .parquet"):
        served(access, files={"test": "p.xlsx"}).predict_all(rows)


def test_the_field_keeps_its_name_in_the_spec() -> None:
    model = PredictionFiles.model_validate({"kind": "predictions", "files": {"test": "p.parquet"}})
    assert model.model_dump(exclude_defaults=True)["files"] == {"test": "p.parquet"}
    assert "files" in PredictionFiles.model_json_schema()["properties"]
