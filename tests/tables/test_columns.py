from __future__ import annotations

import pyarrow as pa

from evalspec.tables.columns import LENGTH, compare_columns


def test_texts_are_compared_by_their_lengths_and_never_made_as_wide_as_the_longest() -> None:
    texts = [f"text {at}" for at in range(2_000)]
    # As an array of characters this would be 80 GB.
    first, second = (pa.table({"x": [*texts, "a" * size]}) for size in (10_000_000, 10))
    ((pair,), skipped) = compare_columns(first, second, ["x"])
    assert pair.name == f"x{LENGTH}" and not skipped
    assert pair.reference.values.max() == 10_000_000 and len(pair.current.values) == 2_001


def test_a_column_without_a_type_takes_the_kind_of_the_other_side() -> None:
    ((pair,), _) = compare_columns(pa.table({"x": ["a", None, "b"]}), pa.table({"x": pa.nulls(2)}), ["x"])
    assert pair.kind == "category" and pair.reference.values.tolist() == ["a", "b"]
    assert len(pair.current.values) == 0 and pair.current.missing.tolist() == [True, True]
