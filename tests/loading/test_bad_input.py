"""Every mistake is said in a sentence with its place, the bad value, the choices and the remedy; all at once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.loading.conftest import Refused
from tests.loading.doubles import SPEC

TABLE = Path(__file__).with_name("bad_input.txt")


def cases() -> list[tuple[str, str, list[str]]]:
    """Rows of the table: what is written in the spec, what stands there instead, what is said."""
    found = []
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            written, instead = (line[2:].replace("\\n", "\n") for line in lines[:2])
            found.append((written, instead, [line[2:] for line in lines[2:]]))
    return found


CASES = cases()


@pytest.mark.parametrize(("written", "instead", "said"), CASES, ids=[case[1].strip()[:60] for case in CASES])
def test_a_mistake_is_said_with_its_place(
    written: str, instead: str, said: list[str], refused: Refused, folder: Path
) -> None:
    text = SPEC.replace(written, instead, 1)
    assert text != SPEC
    found = [sentence.replace(str(folder), "FOLDER") for sentence in refused(text)]
    assert len(found) == len(said), found
    for sentence, expected in zip(found, said, strict=True):
        start, dots, end = expected.partition("...")
        assert sentence == expected if not dots else sentence.startswith(start) and sentence.endswith(end)


def test_everything_that_is_wrong_is_said_at_once_in_the_order_of_the_file(refused: Refused) -> None:
    text = SPEC
    for written, instead in (
        ("name: demo", "name: demo\nnmae: x"),
        ("path: old.bin", "path: older.bin"),
        ("label: y", "label: yy"),
        ("where: lux < 100", "where: lux <"),
        ("duration: 10 s", "duration: 10"),
        ("latency_p99 <= 5 ms", "latency_p98 <= 5 ms"),
        ("check: overlap", "check: overlaps"),
    ):
        text = text.replace(written, instead, 1)
    places = [sentence.split(": ")[0] for sentence in refused(text)]
    lines = ["3:1", "6:32", "8:52", "11:25", "15:15", "16:15", "24:12"]
    assert places == [f"s.yaml:{line}" for line in lines]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml: the file is empty"),
        ("- a\n- b", "s.yaml:1:1: a spec is a mapping of keys; start one with `evalspec init`"),
        ("just words", "s.yaml:1:1: a spec is a mapping of keys; start one with `evalspec init`"),
        ("a: &a [*a]", "s.yaml:1:8: the alias *a is inside what it names"),
        ("[" * 50_000, "s.yaml:1:41: nested deeper than 40 levels"),
    ],
)
def test_what_is_no_spec_is_said_so(text: str, said: str, refused: Refused) -> None:
    assert refused(text) == [said]


def test_a_spec_in_which_nothing_can_fail_is_refused(refused: Refused) -> None:
    assert refused("evalspec: 1\nname: x") == [
        "s.yaml:1:1: there is no check in this spec; add a check with `require:` under `system`, `model` or `data`"
    ]
    warned = SPEC.replace("require:", "warn:")
    assert refused(warned) == [
        "s.yaml:1:1: nothing in this spec can fail; add a check with `require:` under `system`, `model` or `data`"
    ]


def test_a_mistake_in_a_sentence_is_not_also_a_missing_requirement(refused: Refused) -> None:
    found = refused(SPEC.replace("duplicates == 0", "duplicates == O"))
    assert len(found) == 1
    assert found[0].startswith("s.yaml:26:15: data[0].require[0]: 'O' is neither a number with a unit nor a model")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "s.yaml:7:31: datasets.test.path: 'test.parquet' is empty"),
        (b"lux,site,y\n1,lab,0\n", "s.yaml:7:31: datasets.test.path: 'test.parquet'"),
        (b"PAR1" + bytes(50), "s.yaml:7:31: datasets.test.path: 'test.parquet'"),
    ],
    ids=["empty", "of another type", "truncated"],
)
def test_a_file_that_can_t_be_read_is_said_at_its_path(
    content: bytes, said: str, refused: Refused, folder: Path
) -> None:
    (folder / "test.parquet").write_bytes(content)
    found = refused()
    assert len(found) == 1
    assert found[0].startswith(said)


def test_a_truncated_parquet_file_is_said_so(refused: Refused, folder: Path) -> None:
    path = folder / "train.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    (said,) = refused()
    assert said.startswith("s.yaml:8:32: datasets.train.path: 'train.parquet'")


def test_a_column_that_is_a_key_of_a_mapping_is_said_where_it_stands(refused: Refused) -> None:
    (said,) = refused(
        SPEC.replace("    test: test\n    require: [dup", "    test: test\n    limits: {lxu: 3}\n    require: [dup")
    )
    assert said.startswith("s.yaml:26:14: data[0].limits.lxu: ")
    assert said.endswith("did you mean 'lux'?")


def test_a_column_of_another_dataset_is_not_enough(refused: Refused, folder: Path) -> None:
    pq.write_table(pa.table({"site": ["lab"], "y": [0]}), folder / "test.parquet")
    assert refused() == ["s.yaml:4:56: models.candidate.inputs.x: test has no column 'lux' (choices: site, y)"]
