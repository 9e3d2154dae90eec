from __future__ import annotations

from pathlib import Path

import pytest

from evalspec.errors import InputError
from evalspec.language.parts import Access
from evalspec.sources import jsonl as module
from evalspec.sources.jsonl import Jsonl
from evalspec.sources.reading import table as reading_table


def dataset(folder: Path, text: str) -> Jsonl:
    (folder / "d.jsonl").write_text(text)
    return Jsonl(path="d.jsonl")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n{"a": }\n', "line 2 is broken (Expecting value)"),
        ('{"a": 1}\n\n{"a": 2\n', "line 3 is broken"),
        ('{"a": 1}\n{"a": 2}\n{"a": "x"}\n', "line 3 has text in 'a' where line 1 has a number"),
        ('[{"a": 1}]', "line 1 is a list, not an object: write one object per line"),
        ('{"a": 1}\n5\n', "line 2 is a number, not an object"),
        ('{"a": 1, "a": 2}\n', "line 1 is broken (the key 'a' occurs twice)"),
        ("a,b\n1,2\n", "line 1 is broken"),
    ],
)
def test_broken_lines_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        dataset(tmp_path, text).read(Access(tmp_path))
    assert words in str(caught.value)
    assert "'d.jsonl'" in str(caught.value)


def test_a_broken_line_far_down_is_named(tmp_path: Path) -> None:
    text = '{"a": 1, "b": "some words"}\n' * 70_000 + '{"a": 1,\n' + '{"a": 1}\n' * 1000
    with pytest.raises(InputError, match="line 70,001 is broken"):
        dataset(tmp_path, text).read(Access(tmp_path))


def test_keys_that_lack_are_missing_and_lists_of_one_length_are_fixed(tmp_path: Path) -> None:
    table = dataset(tmp_path, '{"a": 1, "p": [1, 2]}\n{"p": [3, 4], "b": "x"}\n').read(Access(tmp_path))
    assert table.to_pylist() == [{"a": 1, "p": [1, 2], "b": None}, {"a": None, "p": [3, 4], "b": "x"}]
    assert str(table.schema.field("p").type) == "fixed_size_list<item: int64>[2]"


def test_a_large_file_gives_columns_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (module, reading_table):
        monkeypatch.setattr(place, "SMALL_BYTES", 30)
    header = dataset(tmp_path, '{"a": 1, "b": "x"}\n' * 100).header(Access(tmp_path))
    assert header.rows is None
    assert header.columns == {"a": "int64", "b": "string"}
    for place in (module, reading_table):
        monkeypatch.setattr(place, "SMALL_BYTES", 5)
    with pytest.raises(InputError, match="longer than"):
        dataset(tmp_path, '{"a": 1, "b": "x"}\n').header(Access(tmp_path))
