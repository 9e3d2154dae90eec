"""F9: whatever numbers, texts and lines a spec or a journal holds, what comes of them is a spec or a sentence."""

from __future__ import annotations

import copy
import json
import re
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalspec.errors import EvalspecError, InputError, SpecError
from evalspec.evidence.record import CheckRecord
from evalspec.language.parts import BATCH_ROWS
from evalspec.language.units import LARGEST, SMALLEST, parse_quantity
from evalspec.language.where import mask, parse_where
from evalspec.language.yaml import read_file
from evalspec.language.yaml_text import write
from evalspec.loading import LoadOptions, load
from evalspec.loading.summary import summary
from evalspec.planning import plan
from evalspec.planning.explain import explain, to_json
from evalspec.running.journal.lines import read_events
from tests.campaigns.sizes import examples

MOST_KIB = 2 * 1024 * 1024
"""Of the whole test process, so that no spec takes a GiB of it."""
ROOT = Path(__file__).parents[2]
SUITES = ("digits", "predictions", "tabular-shift", "contamination", "text", "labels")
FEW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=examples(1000), deadline=None, suppress_health_check=list(HealthCheck))

Steps = tuple[str | int, ...]
NUMBERS = st.sampled_from(
    [0, -1, 1, 2, 1e-100, 1e100, -1e-100, 1e-60, 1e60, 1e-9, 1e9, 2**63, 2**64 - 1, -(2**63), 0.5, 1e15, 99_999_999_999]
)
WRITTEN = st.sampled_from(
    ["1e-200", "1.0e-200", "1e308", "1e999", "-1e-320", "1e-324", "9" * 400, "0x" + "f" * 40, ".nan", "-.inf", "1e-101"]
)
TEXTS = st.sampled_from(
    ["", "\x1b[31m", "a" * 3000, "nan", "inf", "-", "**", "../..", "/proc/self/mem", "/dev/zero", "\u202e", "(((((",
     "a{1000}{1000}", "(a+)+$", "\\", "é", "`", "==", "<= 5", "baseline", "candidate", "test", "x < 1", "not " * 300,
     "x in [" + ",".join(map(str, range(400))) + "]", "(" * 80 + "x < 1" + ")" * 80, "hour < " + "-" * 1900 + "1"]
)  # fmt: skip
OTHERS: st.SearchStrategy[Any] = st.sampled_from([None, True, [], {}, [[]], [1, "a"], {"a": 1}, [None], {"": None}])
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?")


def leaves(tree: Any, path: Steps = ()) -> Iterator[Steps]:
    yield path
    for step, inner in tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ():
        yield from leaves(inner, (*path, step))


def at(tree: Any, path: Steps) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def put(tree: Any, path: Steps, value: Any) -> Any:
    if not path:
        return value
    tree = copy.copy(tree)
    tree[path[0]] = put(tree[path[0]], path[1:], value)
    return tree


@pytest.fixture(scope="module")
def suites(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Any]:
    """Folders with the files of a suite, and what its specs say."""
    found = {}
    for name in SUITES:
        folder = tmp_path_factory.mktemp(name)
        for path in (ROOT / "suites" / name).iterdir():
            (folder / path.name).symlink_to(path)
        for path in sorted((ROOT / "suites" / name).glob("*.yaml")):
            tree = read_file(path, path.name)[1].value
            if isinstance(tree, dict) and "evalspec" in tree:
                found[folder / f"fuzz-{path.name}"] = tree
    return found


def spec_or_sentence(path: Path, text: str) -> None:
    """Validate and plan a spec; anything but a sentence of ours is a fault."""
    path.write_text(text, encoding="utf-8", errors="replace")
    began_s = time.process_time()
    try:
        spec = load(path, options=LoadOptions(allow_outside=True))
        list(summary(spec))
        planned = plan(spec)
        list(explain(planned, None, ()))
        json.dumps(to_json(planned, None, ()), allow_nan=False)
    except EvalspecError as error:
        assert str(error)
    assert time.process_time() - began_s < 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < MOST_KIB


def check_numbers(suites: dict[Path, Any], data: st.DataObject) -> None:
    """Another number where one stands, in the same unit."""
    path = data.draw(st.sampled_from(sorted(suites)))
    places = [one for one in leaves(suites[path]) if isinstance(at(suites[path], one), int | float | str)]
    numbers = [one for one in places if _NUMBER.search(str(at(suites[path], one)))]
    place = data.draw(st.sampled_from(numbers))
    before, number = at(suites[path], place), data.draw(NUMBERS)
    after = _NUMBER.sub(lambda _: f"{number}", before, count=1) if isinstance(before, str) else number
    spec_or_sentence(path, write(put(suites[path], place, after)))


def check_values(suites: dict[Path, Any], data: st.DataObject) -> None:
    """Anything where anything stands."""
    path = data.draw(st.sampled_from(sorted(suites)))
    place = data.draw(st.sampled_from([one for one in leaves(suites[path]) if one]))
    spec_or_sentence(path, write(put(suites[path], place, data.draw(NUMBERS | TEXTS | OTHERS))))


def check_written(suites: dict[Path, Any], data: st.DataObject) -> None:
    """Numbers as no writer of ours writes them."""
    path = data.draw(st.sampled_from(sorted(suites)))
    text = write(suites[path])
    found = list(_NUMBER.finditer(text))
    one = data.draw(st.sampled_from(found))
    spec_or_sentence(path, text[: one.start()] + data.draw(WRITTEN) + text[one.end() :])


@FEW
@given(data=st.data())
@pytest.mark.parametrize("check", [check_numbers, check_values, check_written])
def test_f9_a_spec_is_right_or_what_is_wrong_is_said(check: Any, suites: dict[Path, Any], data: st.DataObject) -> None:
    check(suites, data)


@pytest.mark.proof
@MANY
@given(data=st.data())
@pytest.mark.parametrize("check", [check_numbers, check_values, check_written])
def test_f9_so_it_is_of_many(check: Any, suites: dict[Path, Any], data: st.DataObject) -> None:
    check(suites, data)


@pytest.mark.parametrize("tolerance", ["1.0e-200", "1e-101", "1e-90", "1e-9", "1e101", "1e308", "1e-400"])
def test_f9_a_tolerance_that_nothing_can_be_computed_with(tolerance: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [float(len(name)), 2.0]}), tmp_path / f"{name}.parquet")
    (tmp_path / "s.yaml").write_text(
        "evalspec: 1\nname: s\ndatasets: {a: {kind: parquet, path: a.parquet}, b: {kind: parquet, path: b.parquet}}\n"
        f"data: [{{check: shift, reference: a, current: b, tolerance: {tolerance}, require: [drifted_columns <= 9 %]}}]"
    )
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "s.yaml")
    assert str(caught.value).count("s.yaml:4:") == 1
    small = f"{tolerance} is too small for a number; write 0, or 1e-100 or more"
    assert small in str(caught.value) or tolerance in ("1e-90", "1e-9", "1e101", "1e308")


@given(st.floats(allow_nan=False), st.sampled_from(["ms", "%", "MiB", "qps", "h"]))
def test_f9_a_quantity_can_be_computed_with(number: float, unit: str) -> None:
    kinds = {"ms": "ms", "%": "fraction", "MiB": "MiB", "qps": "qps", "h": "s"}
    try:
        value = parse_quantity(f"{number!r} {unit}", kinds[unit])
    except SpecError:
        assert number != 0 and not SMALLEST <= abs(number) <= LARGEST
        return
    assert value * value < float("inf") and (value == 0) == (number == 0)


WORDS = st.sampled_from(
    ["a", "b", "`c d`", "<", "<=", "==", "!=", "in", "is", "not", "and", "or", "None", "True", "(", ")", "[", "]", ",",
     "-", "+", "1", "1e400", "-1", "2.5", "'x'", '"', "9" * 30, "lambda", ":", ".", "f''", "*", "\\", "\n", "é", "~",
     "await", "1j", "b'x'", "...", "0x1f", "1_000", "if", "else", "- " * 60, "(" * 30, "not " * 40, "[" * 30, ":="]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=30).map(" ".join) | st.text(max_size=60))
def test_f9_a_where_is_understood_or_refused(text: str) -> None:
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "y"], "c d": [True, False, None]})
    try:
        mask(table, parse_where(text))
    except (SpecError, InputError) as error:
        assert str(error)


@pytest.mark.parametrize(
    "text",
    ["hour < " + "-" * 1900 + "1", "hour < " + "- + " * 450 + "1", "(" * 190 + "a < 1" + ")" * 190, "not " * 400 + "a",
     "a < " + "[" * 190 + "]" * 190, "a" + ".a" * 900, "a" + "[0]" * 600, "a < 1" + " and a < 1" * 190,
     "a in [" + "1," * 900 + "]", "a < " + "1" + " < a" * 400, "a < '" + "x" * 1900 + "'", "a < " + "9" * 1900,
     "~" * 1900 + "a", "a" + "+a" * 900, "lambda: " * 200 + "a", "a if a else " * 150 + "a"],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_f9_no_where_is_too_deep(text: str) -> None:
    table = pa.table({"a": [1, 2], "hour": [1, 2]})
    try:
        mask(table, parse_where(text))
    except (SpecError, InputError) as error:
        assert len(str(error)) < 600


# -- journals ------

ANY: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
RECORD = json.loads(CheckRecord(id="c", check="quality", dimension="model", status="measured").model_dump_json())
CELLS = {"precision": "fp32", "device": "cpu", "threads": 1}
EVENTS: list[dict[str, Any]] = [
    {"event": "start", "spec": "d", "time": "t", "draft": False, "remeasures": "x"},
    {"event": "predictions", "key": "k", "digest": "d", "rows": 3, "observed": CELLS},
    {"event": "check", "key": "k", "id": "c", "record": RECORD, "observed": {"m": CELLS}},
    {"event": "end", "verdict": "READY"},
]


def test_whole_events_are_read(tmp_path: Path) -> None:
    (tmp_path / "j").write_text("".join(json.dumps(one) + "\n" for one in EVENTS))
    assert list(read_events(tmp_path / "j")) == EVENTS


def take(event: dict[str, Any]) -> None:
    """What those who go on with a run do with an event."""
    if event["event"] == "start":
        Path(event.get("remeasures", ""))
    elif event["event"] in ("check", "predictions"):
        assert {event["key"]: event}
        records = [event["observed"]] if event["event"] == "predictions" else list(event.get("observed", {}).values())
        for found in records:
            assert all(value is None or value.partition(":") for value in (found.get("precision"), found.get("device")))
        if event["event"] == "check":
            assert CheckRecord.model_validate(event["record"]).id == event["id"]
        else:
            assert event["rows"] + 1 and event["digest"] + ""


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_f9_a_journal_holds_whole_events_or_none(data: st.DataObject, tmp_path: Path) -> None:
    event = copy.deepcopy(data.draw(st.sampled_from(EVENTS)))
    place = data.draw(st.sampled_from(list(leaves(event))))
    if data.draw(st.booleans()) and place:
        parent = at(event, place[:-1])
        del parent[place[-1]]
    else:
        event = put(event, place, data.draw(ANY))
    line = json.dumps(event).encode()
    if data.draw(st.booleans()):
        cut = data.draw(st.integers(0, len(line)))
        line = line[:cut] + data.draw(st.binary(max_size=4)) + line[cut + data.draw(st.integers(0, 3)) :]
    (tmp_path / "j").write_bytes(line + b"\n" + json.dumps(EVENTS[0]).encode() + b"\n")
    found = list(read_events(tmp_path / "j"))
    assert EVENTS[0] in found or b"\n" in line or not found[1:]
    for one in found:
        take(one)


def test_f9_lines_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalspec.running.journal.lines.MOST_BYTES", BATCH_ROWS)
    last = json.dumps(EVENTS[0]).encode()
    long = b'{"event": "start", "spec": "' + b"x" * (3 * BATCH_ROWS) + b'"}'
    lines = [b"", b"{", b"[" * 50_000, b"\xff\xfe", b"null", b'{"event": [1]}', b'{"event": {}}', b"9" * 5000, long,
             b'{"event":"check"}', b'{"event":"predictions"}', b'{"event":"predictions","key":[1]}', last]  # fmt: skip
    (tmp_path / "j").write_bytes(b"\n".join(lines) + b"\n")
    assert list(read_events(tmp_path / "j")) == [EVENTS[0]]
