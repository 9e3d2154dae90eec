"""Rows to look at: a table of records, and what differs within a pair."""

from __future__ import annotations

import base64

from evalspec.evidence.blocks import Example, Examples
from evalspec.report.charts.examples import ExamplesView, examples_view


def view(*examples: Example, pairs: bool = False) -> ExamplesView:
    return examples_view(Examples(title="Rows", examples=examples, total=len(examples), pairs=pairs))


def record(title: str, **fields: object) -> Example:
    return Example.model_validate({"title": title, "fields": fields})


def test_cells_that_differ_within_a_pair_are_marked_in_both() -> None:
    made = view(record("row 1", age=3, city="Bonn"), record("row 9", age=4, city="Bonn"), pairs=True)
    assert made.columns == ("age", "city")
    assert [[(one.name, one.marked) for one in example.fields] for example in made.groups[0]] == [
        [("age", True), ("city", False)]
    ] * 2


def test_rows_by_themselves_have_no_mark_and_stand_in_a_table() -> None:
    made = view(record("row 1", age=3, city="Bonn"), record("row 2", age=4, city="Ulm"))
    assert made.columns == ("age", "city") and len(made.groups) == 2
    assert not any(one.marked for group in made.groups for example in group for one in example.fields)


def test_a_table_needs_rows_that_are_alike() -> None:
    assert view(record("a", x=1, y=2)).columns == ()
    assert view(record("a", x=1, y=2), record("b", x=1, z=2)).columns == ()
    assert view(record("a", x=1), record("b", x=2)).columns == ()
    text = Example(title="c", fields={"x": 1, "y": 2}, text="words")
    assert view(record("a", x=1, y=2), text).columns == ()
    picture = Example(title="c", fields={"x": 1, "y": 2}, image=base64.b64encode(b"no picture").decode())
    assert view(record("a", x=1, y=2), picture).columns == ()


def test_words_that_differ_are_marked_and_the_text_is_whole() -> None:
    first, second = "the quick brown fox jumps", "the quick red fox  jumps high"
    made = view(Example(title="a", text=first), Example(title="b", text=second), pairs=True)
    ours, theirs = made.groups[0]
    assert "".join(piece.text for piece in ours.text) == first
    assert "".join(piece.text for piece in theirs.text) == second
    assert next(piece.text for piece in ours.text if piece.marked) == "brown"
    assert {word for piece in theirs.text if piece.marked for word in piece.text.split()} == {"red", "high"}


def test_where_most_words_differ_those_that_both_have_are_marked() -> None:
    span = "after the election the council voted"
    first, second = (
        f"one two three four five six seven eight {span}.",
        f"{span}. nine ten eleven twelve thirteen and more",
    )
    made = view(Example(title="a", text=first), Example(title="b", text=second), pairs=True)
    for example, text in zip(made.groups[0], (first, second), strict=True):
        assert example.shared and "".join(piece.text for piece in example.text) == text
        assert [piece.text for piece in example.text if piece.marked] == [f"{span}."]
    only_spaces = view(Example(title="a", text="so it is"), Example(title="b", text="so  it is"), pairs=True)
    assert not any(piece.marked for example in only_spaces.groups[0] for piece in example.text)


def test_texts_without_anything_alike_or_too_long_are_not_marked() -> None:
    for other in ("nothing,here,is,alike", "word " * 700):
        made = view(Example(title="a", text="some text"), Example(title="b", text=other), pairs=True)
        assert not any(piece.marked for example in made.groups[0] for piece in example.text)


def test_an_odd_example_stands_alone() -> None:
    made = view(record("a", x=1, y=1), record("b", x=2, y=1), record("c", x=3, y=1), pairs=True)
    assert [len(group) for group in made.groups] == [2, 1]
