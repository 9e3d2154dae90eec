from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalspec.errors import SpecError
from evalspec.language.yaml import DocumentLimits, Node, Place, Value, read_file, read_text, resolve, show_path
from evalspec.language.yaml_text import write

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + level)}: &{chr(98 + level)} [{', '.join(['*' + chr(97 + level)] * 10)}]\n" for level in range(7)
)


def test_words_and_numbers_are_those_of_yaml_1_2() -> None:
    text = (
        "[no, yes, on, off, 012, 0o14, 0x1F, 1e3, .5, 1:30, 2026-05-01, true, False, null, ~, '1', \"no\", 1_000, "
        "-3, +4]"
    )
    expected = [
        *("no", "yes", "on", "off", 12, 12, 31, 1000.0, 0.5, "1:30", "2026-05-01", True, False, None, None, "1", "no"),
        *("1_000", -3, 4),
    ]
    assert read_text(text, "s.yaml").value == expected


def test_keys_are_names_as_they_stand() -> None:
    assert read_text("no: 1\n012: 2\n2026-01-01: 3\n'': 4", "s").value == {"no": 1, "012": 2, "2026-01-01": 3, "": 4}


def test_aliases_are_replaced_and_their_values_are_copies() -> None:
    value = read_text("a: &x {b: [1]}\nc: *x\n", "s").value
    assert value == {"a": {"b": [1]}, "c": {"b": [1]}}
    assert isinstance(value, dict)
    assert value["a"] is not value["c"]


def test_every_value_has_its_place() -> None:
    root = read_text("a:\n  - b: 1\n    c: [x, yy]\n", "s.yaml")
    assert root.locate(("a", 0, "c", 1))[0] == Place("s.yaml", 3, 12)
    assert root.locate(("a", 0, "c"), key=True)[0] == Place("s.yaml", 3, 5)
    assert root.locate(("a", 0, "d", 7)) == (Place("s.yaml", 2, 5), ("a", 0))
    assert show_path(("a", 0, "c", 1)) == "a[0].c[1]"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: 1\na: 2", "s.yaml:2:1: duplicate key 'a': it is already on line 1; keep one of the two"),
        ("a: {b: 1, b: 2}", "s.yaml:1:11: duplicate key 'b': it is already on line 1; keep one of the two"),
        (
            "a: !!python/object/apply:os.system [ls]",
            "s.yaml:1:4: a YAML tag (!!python/object/apply:os.system) is not allowed in a spec; remove it: values are "
            "text, numbers, true, false and null",
        ),
        (
            "a: !mine 3",
            "s.yaml:1:4: a YAML tag (!mine) is not allowed in a spec; remove it: values are text, numbers, true, "
            "false and null",
        ),
        (BOMB, "s.yaml:5:24: more than 50,000 values, counting what aliases stand for"),
        ("a: &a [1, *a]", "s.yaml:1:11: the alias *a is inside what it names"),
        ("a: &a {b: *a}", "s.yaml:1:11: the alias *a is inside what it names"),
        ("a: *b", "s.yaml:1:4: the alias *b names no anchor above it"),
        ("[" * 100_000, "s.yaml:1:41: nested deeper than 40 levels"),
        ("{a: " * 100_000, "s.yaml:1:161: nested deeper than 40 levels"),
        (
            "- &x " + "[" * 20 + "]" * 20 + "\n- " + "[" * 30 + "*x",
            "s.yaml:2:33: nested deeper than 40 levels by an alias",
        ),
        ("[" + "1, " * 50_001 + "]", "s.yaml:1:149999: more than 50,000 values, counting what aliases stand for"),
        ("", "s.yaml: the file is empty"),
        ("# nothing\n", "s.yaml: the file is empty"),
        ("a: .nan", "s.yaml:1:4: .nan is not a number that a spec can hold"),
        ("a: -.inf", "s.yaml:1:4: -.inf is not a number that a spec can hold"),
        ("a: 1e999", "s.yaml:1:4: 1e999 is too large for a number"),
        ("a: " + "9" * 5000, "s.yaml:1:4: 9999999999999999999999999999999999999999 is too large for a number"),
        ("a: 1\n---\nb: 2", "s.yaml:2:1: a second document starts here; a file holds one spec"),
        ("? [a]\n: 1", "s.yaml:1:3: a key must be a name, not a list, a mapping or an alias"),
        ("a: &k b\n*k : 3", "s.yaml:2:1: a key must be a name, not a list, a mapping or an alias"),
        ("&k a: 1", "s.yaml:1:1: an anchor (&k) on a key; remove it"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else None,
)
def test_what_a_spec_has_no_use_for_is_refused_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_text(text, "s.yaml")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    "text", ["a: [1, 2", "a: b: c", "\ta: 1", "a: 'x", "a: \x07", "a: x\x00y", "a: \ud800", "%A\n"]
)
def test_what_is_no_yaml_is_said_so(text: str) -> None:
    with pytest.raises(SpecError, match="this is not valid YAML"):
        read_text(text, "s.yaml")


def test_hostile_input_is_refused_at_once() -> None:
    start = time.perf_counter()
    for text in (BOMB, "[" * 900_000, "a: &a [*a]", "- " * 400_000):
        with pytest.raises(SpecError):
            read_text(text, "s.yaml")
    assert time.perf_counter() - start < 2


def test_a_file_that_can_t_be_read_is_named(tmp_path: Path) -> None:
    binary, huge, empty = tmp_path / "b.yaml", tmp_path / "h.yaml", tmp_path / "e.yaml"
    binary.write_bytes(b"a: 1\nb: \xff\xfe")
    huge.write_bytes(b"a: " + b"x" * 1_000_000)
    empty.write_bytes(b"")
    sentences = {
        binary: "shown:2:4: the file is not UTF-8; save it as UTF-8",
        huge: "shown: the file is larger than 1,000,000 bytes, which is not a spec",
        empty: "shown: the file is empty",
        tmp_path: "shown: this is a folder, not a file; name the spec file in it",
        tmp_path / "none": "shown: there is no such file",
    }
    for path, sentence in sentences.items():
        with pytest.raises(SpecError) as caught:
            read_file(path, "shown")
        assert str(caught.value) == sentence


def test_a_byte_order_mark_is_no_content(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_file(tmp_path / "s.yaml", "s")[1].value == {"a": 1}


def test_a_value_is_put_where_it_is_told() -> None:
    root = read_text("a: {b: [1, 2]}\nc: 3", "s")
    new = Node(Place("--set"), 9)
    assert root.put(("a", "b", 1), new).value == {"a": {"b": [1, 9]}, "c": 3}
    assert root.put(("a", "d", "e"), new).value == {"a": {"b": [1, 2], "d": {"e": 9}}, "c": 3}
    assert root.value == {"a": {"b": [1, 2]}, "c": 3}


NUMBERS = st.just(0.0) | st.floats(1e-100, 1e100) | st.floats(-1e100, -1e-100)
SCALARS = st.none() | st.booleans() | st.integers(-(2**64) + 1, 2**64 - 1) | NUMBERS
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
VALUES: st.SearchStrategy[Value] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES.filter(lambda value: value is not None))
def test_what_is_written_reads_back(value: Value) -> None:
    assert read_text(write(value), "s").value == value


@given(st.text() | st.text(st.sampled_from("ab:-[]{}&*!|>'\"#%@,? \n\t0.~\\"), max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        read_text(text, "s", DocumentLimits(depth=5, nodes=30))
    except SpecError as error:
        assert len(error.problems) == 1
        assert error.problems[0].file == "s"


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        text = data.decode("utf-8", errors="surrogateescape")
        read_text(text, "s")
    except SpecError as error:
        assert "Traceback" not in str(error)


@given(st.text(st.sampled_from("0123456789+-.eExobnaif~truEFAL"), max_size=12))
def test_a_plain_scalar_is_a_number_or_itself(text: str) -> None:
    value = resolve(text)
    assert value is None or isinstance(value, bool | int | float) or value == text
