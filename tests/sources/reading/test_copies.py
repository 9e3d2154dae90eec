"""F16: one row a thousand times is one row; equal rows of a few categories are many draws from few possible ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from evalspec.sources.reading import copies
from evalspec.sources.reading.copies import Copies, find_copies, finest_first, joined_groups
from evalspec.stats.shares.proportion import proportion

N = 1000


def of(**columns: Any) -> Copies | None:
    table = pa.table(columns)
    return find_copies(table.column, table.column_names)


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def drawn(rows: NDArray[Any], n: int = N) -> dict[str, NDArray[Any]]:
    """So many draws from a few rows, column by column."""
    taken = rows[rng().integers(0, len(rows), n)]
    return {f"x{at}": taken[:, at] for at in range(rows.shape[1])}


COPIED: dict[str, Callable[[], dict[str, Any]]] = {
    "one row": lambda: {"x": [0.5] * N, "y": ["a"] * N},
    "one row of categories": lambda: {"x": ["l"] * N, "y": ["a"] * N},
    "ten rows of numbers": lambda: drawn(rng().normal(size=(10, 3))),
    "ten rows of whole numbers": lambda: drawn(rng().integers(0, 50_000, (10, 2))),
    "a small table ten times": lambda: drawn(np.round(rng().normal(5, 1, (150, 4)), 1), 1500),
    "texts": lambda: {"x": [f"a text of some length, the {at % 50}th" for at in range(N)]},
    "pictures": lambda: {"x": [list(range(at % 20, at % 20 + 64)) for at in range(N)]},
}
NATURAL: dict[str, Callable[[], dict[str, Any]]] = {
    "four categories": lambda: {f"x{at}": rng().integers(0, 5, (4, N))[at] for at in range(4)},
    "one category": lambda: {"x": rng().integers(0, 5, N)},
    "words": lambda: {"x": [f"word {at}" for at in rng().integers(0, 9, N)], "y": rng().integers(0, 2, N)},
    "coarse numbers": lambda: {f"x{at}": rng().integers(0, 5, (3, N))[at] / 10 + 0.05 for at in range(3)},
    "codes that go together": lambda: {
        "city": 1000 + 37 * rng().integers(0, 200, N), "country": 1000 + 37 * rng().integers(0, 200, N) // 10,
        "y": np.arange(N) % 2},
    "numbers to one digit": lambda: {f"x{at}": np.round(rng().normal(5, 1, (4, N))[at], 1) for at in range(4)},
    "all different": lambda: {"x": rng().normal(size=N)},
    "a few copies": lambda: {"x": np.concatenate([rng().normal(size=N - 8), [0.5] * 8])},
}  # fmt: skip


@pytest.mark.parametrize("case", COPIED)
def test_f16_copies_beyond_chance_are_one(case: str) -> None:
    found = of(**COPIED[case]())
    assert found is not None and found.different == len(np.unique(found.groups)) <= 150


@pytest.mark.parametrize("case", NATURAL)
def test_f16_equal_rows_by_chance_are_left_alone(case: str) -> None:
    assert of(**NATURAL[case]()) is None


def test_f16_what_chance_gives_and_what_was_copied_is_told_apart_by_simulation() -> None:
    """Of 40 tables each: never of categories drawn alike, always of numbers copied five times or more."""
    said = []
    for seed in range(40):
        generator = np.random.default_rng(seed)
        levels = generator.integers(2, 8, 4)
        chance = {f"x{at}": generator.choice(levels[at], N, p=generator.dirichlet(np.ones(levels[at])))
                  for at in range(4)}  # fmt: skip
        rows = generator.normal(size=(int(generator.integers(2, 200)), 3)).round(int(generator.integers(2, 6)))
        said.append((of(**chance) is None, of(**drawn(rows)) is not None))
    assert all(alone and told for alone, told in said)


def test_f16_a_bound_from_copies_is_that_of_the_different_rows() -> None:
    rows = rng().normal(size=(100, 2))
    taken = np.repeat(np.arange(100), 10)
    found = of(x=rows[taken, 0], z=rows[taken, 1])
    assert found is not None
    right = taken >= 5
    copied, plain = proportion(right, found.groups), proportion(right[::10])
    assert copied.bound(0.95, "lower") == pytest.approx(plain.bound(0.95, "lower"), abs=0.01)
    alone = of(x=[0.5] * N)
    assert alone is not None and proportion(np.ones(N, bool), alone.groups).p_value(0.5, "lower") is None


def test_groups_that_share_a_row_are_one() -> None:
    joined = joined_groups(np.array([0, 0, 1, 2, 3]), np.array([0, 1, 1, 2, 3]))
    assert joined[0] == joined[1] == joined[2] and len({*joined.tolist()}) == 3


def test_columns_that_tell_rows_apart_come_first() -> None:
    kinds = {"a": "int64", "b": "fixed_size_list<element: uint8>[64]", "c": "double", "d": "string"}
    assert finest_first(kinds, list(kinds)) == ["c", "d", "a", "b"]


def test_rows_that_lost_most_of_their_cells_are_no_copies() -> None:
    rng = np.random.default_rng(0)
    gone = rng.random(1000) < 0.4
    table = pa.table({name: pa.array(rng.normal(size=1000), mask=gone) for name in ("x", "y", "z")}).append_column(
        "label", pa.array(rng.integers(0, 3, 1000))
    )
    assert find_copies(table.column, table.column_names) is None
    # With a few cells missing, copies are told as ever.
    few = pa.concat_tables([table.filter(pa.array(~gone)), table.filter(pa.array(~gone))])
    few = few.set_column(2, "z", pa.nulls(few.num_rows, pa.float64()))
    found = find_copies(few.column, few.column_names)
    assert found is not None
    assert found.different == few.num_rows // 2


def test_long_texts_that_begin_alike_are_read_to_their_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = "one and the same beginning of a text of which there are many, " * 6
    ends = rng().integers(0, 400, N)
    texts = [f"{begin}{end:04}" if end < 300 else f"{at:04}{begin}" for at, end in enumerate(ends)] + [None, None]
    found = of(x=texts)
    monkeypatch.setattr(copies, "_begin_alike", lambda values: None)
    whole = of(x=texts)
    assert found is not None and whole is not None
    assert found.different == whole.different < N and np.array_equal(found.groups, whole.groups)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_long_texts_of_which_none_begins_as_another_are_no_copies(kind: pa.DataType) -> None:
    assert of(x=pa.array([f"{at} " + "word " * 100 for at in range(N)], kind)) is None
