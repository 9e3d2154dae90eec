from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.language.registry import discover
from evalspec.starting.rows import LabelHints, recognize_rows, sketch_rows
from tests.starting.files import COLUMNS, frame, write_regressor

OWN = discover(plugins=False)


def test_rows_are_known_by_their_content(tmp_path: Path) -> None:
    frame(8).to_csv(tmp_path / "a.txt", index=False, sep=";")
    assert recognize_rows(tmp_path / "a.txt", "a.txt") == {"kind": "csv", "delimiter": ";"}
    frame(8).to_json(tmp_path / "b", orient="records", lines=True)
    assert recognize_rows(tmp_path / "b", "b") == {"kind": "jsonl"}
    frame(8).to_parquet(tmp_path / "c.csv")
    assert recognize_rows(tmp_path / "c.csv", "c.csv") == {"kind": "parquet"}
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 2)))
    assert recognize_rows(tmp_path / "d.npz", "d.npz") == {"kind": "npz"}
    for split in ("train", "test"):
        (tmp_path / "hf" / split).mkdir(parents=True)
    (tmp_path / "hf" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert recognize_rows(tmp_path / "hf", "hf") == {"kind": "huggingface", "split": "test"}
    (tmp_path / "pics" / "cat").mkdir(parents=True)
    (tmp_path / "pics" / "cat" / "1.png").write_bytes(b"")
    assert recognize_rows(tmp_path / "pics", "pics") == {"kind": "images"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[1, 2]", "one JSON list; write it as jsonl"),
        (b"\0\1\2", "not a dataset in a known format"),
        (b"PK\5\6" + bytes(18), "zip"),
    ],
)
def test_what_is_no_dataset_says_so(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError, match=said):
        recognize_rows(tmp_path / "x", "x")


def test_the_label_is_told_by_its_name_the_model_or_its_place(tmp_path: Path) -> None:
    write_regressor(tmp_path)
    fields = {"kind": "parquet", "path": "price.parquet"}
    access = Access(tmp_path)
    regressor = LabelHints(takes=tuple(COLUMNS), numbers=True)
    rows, _ = sketch_rows(fields, OWN, access, None, regressor)
    assert (rows.label, rows.guess, rows.roles.key, rows.roles.cluster) == ("euros", True, "id", "user_id")
    assert rows.roles.groups == ("site",)
    assert rows.features() == ("age", "amount", "hour", "site")
    rows, _ = sketch_rows(fields, OWN, access, None, LabelHints(classes=("field", "lab")))
    assert (rows.label, rows.values, rows.counts) == ("site", ("field", "lab"), {"lab": 200, "field": 200})
    rows, _ = sketch_rows(fields, OWN, access, "age")
    assert (rows.label, rows.guess) == ("age", False)
    with pytest.raises(InputError, match=r"price.parquet has no column 'agee'"):
        sketch_rows(fields, OWN, access, "agee")


def test_all_rows_tell_the_classes_of_a_sorted_file(tmp_path: Path) -> None:
    table = frame(6000).sort_values("outcome")
    table.to_csv(tmp_path / "t.csv", index=False)
    rows, _ = sketch_rows({"kind": "csv", "path": "t.csv"}, OWN, Access(tmp_path), None)
    assert rows.values == ("fraud", "paid")
