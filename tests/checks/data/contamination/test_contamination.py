from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from evalspec.checks.data.contamination.spec import Contamination
from evalspec.errors import InputError
from evalspec.evidence.blocks import Examples, Table
from evalspec.evidence.estimate import Fact, Measured
from evalspec.evidence.remedies import MOST_ROWS, RemoveRows
from evalspec.language.parts import CheckResult, NeedRows
from evalspec.tables.comparable import check_comparable
from evalspec.tables.row_names import row_names
from tests.fakes import FakeInputs

WORDS = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "lk")])


def run(tmp_path: Path, train: pa.Table | dict[str, pa.Table], test: pa.Table, **fields: object) -> CheckResult:
    sets = train if isinstance(train, dict) else {"train": train}
    inputs = FakeInputs(tmp_path, tables={**sets, "test": test}, labels={"test": "y", **dict.fromkeys(sets, "y")})
    return Contamination(train=tuple(sets), test="test", report_only=True, **fields).run(inputs)  # type: ignore[arg-type]


def value(result: CheckResult, metric: str) -> float:
    fact = result.estimates[metric]
    fact = fact.estimate if isinstance(fact, Measured) else fact
    assert isinstance(fact, Fact)
    return fact.value


def withheld(result: CheckResult, metric: str) -> str:
    found = result.estimates[metric]
    return (found.withhold or "") if isinstance(found, Measured) else ""


def digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    pixels = load_digits().data.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(pixels))
    return pixels[order[:840]], pixels[order[840:1680]].copy()


def pictures(pixels: np.ndarray) -> pa.Table:
    flat = pa.array(pixels.reshape(-1))
    return pa.table({"pixels": pa.FixedSizeListArray.from_arrays(flat, pixels.shape[1]), "y": np.zeros(len(pixels))})


def texts(n: int, seed: int, length: int = 30) -> list[str]:
    rng = np.random.default_rng(seed)
    return [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (n, length))]]


def text_table(rows: Sequence[str | None]) -> pa.Table:
    return pa.table({"text": rows, "y": np.zeros(len(rows))})


def test_clean_pictures_have_no_duplicate(tmp_path: Path) -> None:
    train, test = digits()
    result = run(tmp_path, pictures(train), pictures(test))
    assert value(result, "exact_duplicates") == 0
    assert value(result, "near_duplicates") == 0
    assert result.counts.used == 840
    assert not [block for block in result.blocks if isinstance(block, Examples)]


def test_leaked_pictures_are_counted_and_shown(tmp_path: Path) -> None:
    train, test = digits()
    test[:30] = train[100:130]
    result = run(tmp_path, pictures(train), pictures(test))
    assert value(result, "exact_duplicates") == 30
    (remedy,) = result.remedies
    assert isinstance(remedy, RemoveRows)
    assert (remedy.dataset, remedy.also_in, remedy.file) == ("test", ("train",), result.evidence[0][0])
    assert remedy.total >= 30 and len(remedy.rows) == MOST_ROWS and "exact_duplicates" in remedy.metrics
    assert value(result, "near_duplicates") == pytest.approx(30 / 840)
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert examples.pairs
    assert examples.total == 30
    assert len(examples.examples) == 16
    assert examples.examples[0].title == "test, row 0"
    assert examples.examples[1].title == "train, row 100"
    assert examples.examples[0].image == examples.examples[1].image
    image = base64.b64decode(examples.examples[0].image or "")
    assert image.startswith(b"\x89PNG")
    assert struct.unpack(">II", image[16:24])[0] >= 8
    evidence = pq.read_table(tmp_path / "duplicates-contamination.parquet")
    assert evidence.column("test_row").to_pylist() == list(range(30))
    assert evidence.column("train_row").to_pylist() == list(range(100, 130))
    assert set(evidence.column("kind").to_pylist()) == {"exact"}


def test_noise_of_one_grey_level_is_near_but_not_exact(tmp_path: Path) -> None:
    train, test = digits()
    rng = np.random.default_rng(1)
    noisy = train[:50].astype(int) + rng.choice([-1, 1], (50, 64))
    test[:50] = noisy.clip(0, 16).astype(np.uint8)
    result = run(tmp_path, pictures(train), pictures(test))
    assert value(result, "exact_duplicates") == 0
    assert value(result, "near_duplicates") == pytest.approx(50 / 840)


def test_small_noise_in_photographs_is_near_whatever_their_type(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    train = rng.integers(0, 256, (300, 12, 12, 3)).astype(np.uint8)
    test = rng.integers(0, 256, (100, 12, 12, 3)).astype(np.uint8)
    test[:20] = np.clip(train[:20].astype(int) + rng.integers(-4, 5, train[:20].shape), 0, 255)

    def table(images: np.ndarray) -> pa.Table:
        kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(images.dtype), images.shape[1:])
        storage = pa.FixedSizeListArray.from_arrays(pa.array(images.reshape(-1)), images[0].size)
        return pa.table({"image": pa.ExtensionArray.from_storage(kind, storage)})

    result = run(tmp_path, table(train), table(test.astype(np.float32)))
    assert value(result, "exact_duplicates") == 0
    assert value(result, "near_duplicates") == pytest.approx(0.2)
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert examples.examples[0].image is not None


def test_clean_texts_have_no_duplicate(tmp_path: Path) -> None:
    result = run(tmp_path, text_table(texts(2000, 0)), text_table(texts(500, 1)))
    assert value(result, "exact_duplicates") == 0
    assert value(result, "near_duplicates") == 0


def test_texts_with_other_case_and_white_space_are_exact(tmp_path: Path) -> None:
    train, test = texts(2000, 0), texts(500, 1)
    test[:4] = [train[0].upper(), train[1].replace(" ", "\u00a0\n "), f"  {train[2]}\t", "\ufb01ne STRASSE \u200bend"]
    train[3] = "fine stra\u00dfe end"
    result = run(tmp_path, text_table(train), text_table(test))
    assert value(result, "exact_duplicates") == 4
    assert value(result, "near_duplicates") == pytest.approx(4 / 500)


def test_texts_with_a_few_words_changed_are_near(tmp_path: Path) -> None:
    train, test = texts(2000, 0), texts(500, 1)
    for row in range(100):
        changed = train[row].split()
        changed[3], changed[20] = "quite", "another"
        test[row] = " ".join(changed)
    result = run(tmp_path, text_table(train), text_table(test))
    assert value(result, "exact_duplicates") == 0
    # Two words changed in 30: 25 of 33 bigrams are shared, 0.758; found with a chance of 99.8 %.
    assert 98 / 500 <= value(result, "near_duplicates") <= 100 / 500
    fact = result.estimates["near_duplicates"]
    assert isinstance(fact, Fact)
    assert "recall" in fact.method


def test_texts_with_half_of_their_words_changed_are_not_near(tmp_path: Path) -> None:
    train, test = texts(500, 0), texts(500, 1)
    test[:100] = [" ".join(a.split()[:15] + b.split()[15:]) for a, b in zip(train[:100], test[:100], strict=True)]
    assert value(run(tmp_path, text_table(train), text_table(test)), "near_duplicates") == 0


def numbers(n: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {f"x{i}": rng.normal(size=n) * 10.0**i for i in range(6)}
    return {**columns, "site": rng.choice(["a", "b", "c"], n), "y": rng.integers(0, 2, n)}


def test_tables_clean_exact_and_near(tmp_path: Path) -> None:
    train, test = numbers(3000, 0), numbers(600, 1)
    assert value(run(tmp_path, pa.table(train), pa.table(test)), "near_duplicates") == 0
    for name in train:
        test[name][:10] = train[name][:10]
        test[name][10:30] = train[name][10:30]
    for i in range(6):
        test[f"x{i}"][10:30] *= 1.001
    result = run(tmp_path, pa.table(train), pa.table(test))
    assert value(result, "exact_duplicates") == 10
    assert value(result, "near_duplicates") == pytest.approx(30 / 600)


def test_another_category_is_no_duplicate(tmp_path: Path) -> None:
    train, test = numbers(300, 0), numbers(100, 1)
    for name in train:
        test[name][:10] = train[name][:10]
    test["site"][:5] = "elsewhere"
    assert value(run(tmp_path, pa.table(train), pa.table(test)), "near_duplicates") == pytest.approx(5 / 100)


def test_missing_numbers_agree_with_missing_ones_only(tmp_path: Path) -> None:
    train = pa.table({"a": [1.0, None, 3.0], "b": [1.0, 2.0, 3.0]})
    test = pa.table({"a": [1.0, None, None, 0.0], "b": [1.0, 2.0, 3.0, 2.0]})
    assert value(run(tmp_path, train, test), "near_duplicates") == pytest.approx(2 / 4)


def test_the_label_is_not_compared(tmp_path: Path) -> None:
    train = pa.table({"x": [1.0, 2.0], "y": [0, 0]})
    test = pa.table({"x": [1.0, 9.0], "y": [1, 0]})
    assert value(run(tmp_path, train, test), "exact_duplicates") == 1


def test_a_row_in_two_training_sets_counts_once(tmp_path: Path) -> None:
    test = pa.table({"x": [1.0, 2.0, 3.0, 4.0, 50.0]})
    sets = {"train": pa.table({"x": [1.0, 2.0, 1.0]}), "extra": pa.table({"x": [1.0, 3.0]})}
    result = run(tmp_path, sets, test)
    assert value(result, "exact_duplicates") == 3
    table = next(block for block in result.blocks if isinstance(block, Table))
    assert [row[:3] for row in table.rows] == [("train", 3, 2), ("extra", 2, 2), ("any of them", 5, 3)]


def test_rows_without_content_are_left_out_and_counted(tmp_path: Path) -> None:
    result = run(tmp_path, text_table(["", "seen before"]), text_table(["", "  ", "seen before", "not seen"]))
    assert value(result, "exact_duplicates") == 1
    assert (result.counts.attempted, result.counts.used, result.counts.dropped) == (4, 2, 2)
    assert withheld(result, "exact_duplicates").startswith("2 rows of test without anything in text")
    assert "without anything" in withheld(result, "near_duplicates")


def test_blank_training_texts_hide_nothing_and_missing_ones_may(tmp_path: Path) -> None:
    train, test = ["", " \u200b\n", "other"], text_table(["not seen", "new"])
    result = run(tmp_path, text_table(train), test)
    assert isinstance(result.estimates["exact_duplicates"], Fact)
    assert "2 rows of train with nothing but blank text in text: nothing of the test set is in them." in result.notes
    gone = run(tmp_path, text_table([*train, None]), test)
    assert withheld(gone, "exact_duplicates").startswith("1 row of train without anything in text")
    assert any(note.startswith("2 rows of train with nothing but blank text") for note in gone.notes)


def test_columns_that_a_training_set_lacks_are_named(tmp_path: Path) -> None:
    result = run(tmp_path, pa.table({"a": [1.0]}), pa.table({"a": [1.0], "b": [2.0]}))
    assert value(result, "exact_duplicates") == 1
    assert any("lacks them: b" in note for note in result.notes)


def test_a_key_names_the_rows(tmp_path: Path) -> None:
    table = pa.table({"id": ["k1", "k2"], "a": [1.0, 2.0]})
    result = run(tmp_path, table, table, key="id", column="a")
    examples = next(block for block in result.blocks if isinstance(block, Examples))
    assert examples.examples[0].title == "test, k1"


@pytest.mark.parametrize("key", ["a", ["a", "b"]])
def test_a_key_may_name_all_that_is_compared(tmp_path: Path, key: object) -> None:
    train = pa.table({"a": ["x", "y"], "b": ["p", "q"]})
    result = run(tmp_path, train, pa.table({"a": ["x", "z"], "b": ["p", "q"]}), key=key, column="a")
    assert value(result, "exact_duplicates") == 1


def for_ever(rows: int) -> dict[str, pa.Array]:
    """Times with "for ever" as the last one."""
    times = [1_700_000_000_000_000 + 10**6 * row for row in range(rows)]
    return {"t": pa.array([*times, 253_402_300_799_000_000], pa.timestamp("us"))}


def test_a_time_far_away_hides_no_copy(tmp_path: Path) -> None:
    train = pa.table(for_ever(300) | {"y": np.zeros(301)})
    result = run(tmp_path, train, train.slice(0, 100), column="t", key="t")
    assert value(result, "exact_duplicates") == 100
    assert value(result, "shared_keys") == 100


def test_repeats_inside_the_test_set_are_noted(tmp_path: Path) -> None:
    result = run(tmp_path, pa.table({"a": [9]}), pa.table({"a": [1, 1, 1, 2]}))
    assert value(result, "exact_duplicates") == 0
    assert any("2 rows repeat" in note for note in result.notes)


@pytest.mark.parametrize(
    ("train", "test", "fields", "words"),
    [
        ({"a": ["1"]}, {"a": [1]}, {}, "column 'a' is string in train and int64 in the test set"),
        ({"b": [1]}, {"a": [1]}, {}, "share none of the columns"),
        ({"a": [1]}, {"a": [1]}, {"column": "c"}, "has no column 'c'"),
        ({"a": [1]}, {"a": [1]}, {"key": "id"}, "has no column 'id'"),
        ({"a": ["x"]}, {"a": ["", None]}, {}, "every row of test is missing or empty"),
        ({"a": [None, " \u200b"]}, {"a": ["x"]}, {}, "every row of train is missing or empty"),
    ],
)
def test_what_cant_be_compared(
    tmp_path: Path, train: dict[str, list[object]], test: dict[str, list[object]], fields: dict[str, str], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        run(tmp_path, pa.table(train), pa.table(test), **fields)


def test_pictures_of_different_sizes_cant_be_compared(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can never be equal"):
        run(tmp_path, pictures(np.zeros((2, 16), np.uint8)), pictures(np.zeros((2, 64), np.uint8)))


def test_fields() -> None:
    with pytest.raises(ValidationError, match="among its own training sets"):
        Contamination(train=("test",), test="test")
    with pytest.raises(ValidationError, match="named twice"):
        Contamination(train=("a", "a"), test="test")
    check = Contamination(train=("a", "b"), test="test", column="text", key="id")
    assert check.needs() == tuple(NeedRows(name, columns=("text", "id")) for name in ("a", "b", "test"))
    assert not check.uses_model


def test_columns_of_several_types_must_all_be_near(tmp_path: Path) -> None:
    train_pixels, test_pixels = digits()
    train_texts, test_texts = texts(840, 0), texts(840, 1)
    rng = np.random.default_rng(3)

    def table(pixels: np.ndarray, text: list[str], site: list[str], number: np.ndarray) -> pa.Table:
        return pictures(pixels).append_column("text", [text]).append_column("site", [site]).append_column("x", [number])

    numbers_train, numbers_test = rng.normal(size=840), rng.normal(size=840)
    near_pixels = np.clip(train_pixels[:50].astype(int) + rng.choice([-1, 1], (50, 64)), 0, 16)
    test_pixels[:50], numbers_test[:50] = near_pixels, numbers_train[:50] + 1e-4
    test_texts[:50] = [text.replace(text.split()[5], "changed", 1) for text in train_texts[:50]]
    sites = ["here"] * 840
    train = table(train_pixels, train_texts, sites, numbers_train)
    assert (
        value(run(tmp_path, train, table(test_pixels, test_texts, sites, numbers_test)), "near_duplicates") == 50 / 840
    )
    # Each ten of them differ in one of the four columns.
    test_pixels[:10] = 16 - near_pixels[:10]
    test_texts[10:20] = texts(10, 9)
    numbers_test[30:40] += 1
    sites = ["here"] * 20 + ["there"] * 10 + ["here"] * 810
    result = run(tmp_path, train, table(test_pixels, test_texts, sites, numbers_test))
    assert value(result, "near_duplicates") == 10 / 840
    assert value(result, "exact_duplicates") == 0
    example = next(block for block in result.blocks if isinstance(block, Examples)).examples[0]
    assert example.image is not None
    assert example.text is not None
    assert example.fields["site"] == "here"


def test_a_category_of_a_few_words_must_be_equal(tmp_path: Path) -> None:
    train = pa.table({"site": ["north gate one", "south gate two"], "x": [1.0, 2.0]})
    test = pa.table({"site": ["north gate two", "South  Gate two"], "x": [1.0, 2.0]})
    assert value(run(tmp_path, train, test), "exact_duplicates") == 1
    assert value(run(tmp_path, train, test), "near_duplicates") == 0.5


def test_a_column_without_any_value_matches_nothing(tmp_path: Path) -> None:
    test = pa.table({"text": ["some words here now", None], "x": [1.0, 2.0]})
    for kind in (pa.null(), pa.string()):
        train = pa.table({"text": pa.array([None, None], kind), "x": [1.0, 2.0]})
        result = run(tmp_path, train, test)
        assert (value(result, "exact_duplicates"), value(result, "near_duplicates")) == (1, 0.5)
        assert withheld(result, "exact_duplicates") == "'text' is missing in every row of train"


def test_lists_of_several_lengths_are_compared_as_they_are(tmp_path: Path) -> None:
    train = pa.table({"tokens": pa.array([[1, 2, 3], [4, 5, 6]], pa.list_(pa.int64(), 3))})
    test = pa.table({"tokens": [[1, 2, 3], [4], [4, 5, 7]]})
    assert value(run(tmp_path, train, test), "exact_duplicates") == 1
    assert value(run(tmp_path, train, test), "near_duplicates") == pytest.approx(1 / 3)


def test_a_tolerance_of_zero_finds_equal_rows_only(tmp_path: Path) -> None:
    train, test = digits()
    test[:50] = np.clip(train[:50].astype(int) + 1, 0, 16)
    test[50:55] = train[50:55]
    assert value(run(tmp_path, pictures(train), pictures(test), tolerance=0), "near_duplicates") == 5 / 840


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    train, test = texts(500, 0), texts(200, 1)
    test[:100] = [text.replace(text.split()[5], "changed", 1).replace(text.split()[9], "it") for text in train[:100]]
    found = {value(run(tmp_path, text_table(train), text_table(test)), "near_duplicates") for _ in range(3)}
    assert len(found) == 1


def test_two_checks_keep_their_evidence_apart(tmp_path: Path) -> None:
    test = pa.table({"x": [1.0, 2.0, 50.0]})
    for name, rows in (("first", [1.0, 2.0]), ("second", [50.0])):
        run(tmp_path, pa.table({"x": rows}), test, id=name)
    found = [pq.read_table(tmp_path / f"duplicates-{name}.parquet").num_rows for name in ("first", "second")]
    assert found == [2, 1]


def named_rows(first: int, rows: int) -> pa.Table:
    """The same ten heights in each, under other names."""
    return pa.table({"id": np.arange(first, first + rows), "height": np.arange(rows) % 10 + 0.5, "y": np.zeros(rows)})


def test_a_column_that_names_rows_hides_no_copy(tmp_path: Path) -> None:
    result = run(tmp_path, named_rows(0, 80), named_rows(1000, 60))
    assert value(result, "exact_duplicates") == 60
    assert result.conditions["columns"] == "height"
    assert any(
        note.startswith("'id' has another value in each row of test: taken for a name of the row and not compared")
        for note in result.notes
    )


def test_a_column_that_names_rows_is_compared_where_the_spec_says_so(tmp_path: Path) -> None:
    train, test = named_rows(0, 80), named_rows(1000, 60)
    result = run(tmp_path, train, test, column=("id", "height"))
    assert value(result, "exact_duplicates") == 0
    inputs = FakeInputs(tmp_path, tables={"train": train, "test": test}, features={"test": ("id", "height")})
    check = Contamination(train=("train",), test="test", report_only=True)
    assert value(check.run(inputs), "exact_duplicates") == 0


@pytest.mark.parametrize(
    ("names", "taken"),
    [
        (pa.array([f"case-{i:05}" for i in range(60)]), True),
        (pa.array([f"case-{i:05}" for i in range(60)]).dictionary_encode(), True),
        (pa.array([f"https://example.org/{'a' * 60}/{i}" for i in range(60)]), False),
        (pa.array([f"case {i}" for i in range(60)]), False),
        (pa.array([f"第{i}句话很短" for i in range(60)]), False),
        (pa.array([float(i) for i in range(60)]), False),
        (pa.array([None, *range(59)]), False),
        (pa.array([0, *range(59)]), False),
        (pa.array(["", *(str(i) for i in range(59))]), False),
    ],
)
def test_what_is_taken_for_a_name_of_the_row(names: pa.Array, taken: bool) -> None:
    table = pa.table({"id": names, "x": np.zeros(60)})
    assert row_names([table], ["id", "x"], []) == (("id",) if taken else ())
    assert row_names([table], ["id"], []) == ()
    assert row_names([table], ["id", "x"], ["id"]) == ()
    assert row_names([table.slice(0, 49)], ["id", "x"], []) == ()


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (pa.date32(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.float64(), pa.decimal128(12, 2)),
        (pa.decimal128(12, 1), pa.decimal128(12, 2)),
        (pa.float32(), pa.float64()),
    ],
)
def test_values_that_are_written_otherwise_are_refused_and_not_taken_for_others(
    train: pa.DataType, test: pa.DataType
) -> None:
    tables = [pa.table({"opened": pa.array([None], kind)}) for kind in (train, test)]
    with pytest.raises(InputError, match=r"column 'opened' is .* such rows can never be equal"):
        check_comparable(*tables, ["opened"], "train")


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (pa.timestamp("ns"), pa.timestamp("s")),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin")),
        (pa.date32(), pa.date64()),
        (pa.int8(), pa.float64()),
        (pa.decimal128(12, 2), pa.decimal128(9, 2)),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
    ],
)
def test_values_that_are_known_as_equal_are_compared(train: pa.DataType, test: pa.DataType) -> None:
    tables = [pa.table({"opened": pa.array([None], kind)}) for kind in (train, test)]
    check_comparable(*tables, ["opened"], "train")


def test_a_step_takes_out_the_rows_that_its_requirements_count_and_no_others(tmp_path: Path) -> None:
    train, test = digits()
    rng = np.random.default_rng(1)
    test[:5] = train[:5]
    test[5:50] = (train[5:50].astype(int) + rng.choice([-1, 1], (45, 64))).clip(0, 16).astype(np.uint8)
    inputs = FakeInputs(
        tmp_path, tables={"train": pictures(train), "test": pictures(test)}, labels={"train": "y", "test": "y"}
    )

    def counted(*require: str) -> dict[tuple[str, ...], int]:
        check = Contamination.model_validate(
            {"check": "contamination", "train": ["train"], "test": "test", "require": list(require)}
        )
        return {one.metrics: one.total for one in check.run(inputs).remedies if isinstance(one, RemoveRows)}

    exact, near = "exact_duplicates == 0", "near_duplicates <= 0 %"
    assert counted(exact) == {("exact_duplicates",): 5}
    both = counted(exact, near)
    assert both[("exact_duplicates",)] == 5
    assert both[("near_duplicates",)] == both[("exact_duplicates", "near_duplicates")] > 5
