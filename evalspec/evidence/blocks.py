"""The closed set of things that a check can show. The report draws these; no check knows HTML."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from evalspec.evidence.frozen import Cell, Frozen


class Block(Frozen):
    """Base of all blocks."""

    title: str
    caption: str = Field("", description="One sentence: what to see here.")


class Reference(Frozen):
    """A line to compare with: a threshold, the diagonal of a reliability diagram."""

    label: str
    value: float | None = None
    axis: Literal["x", "y", "diagonal"] = "y"
    says_value: bool = Field(False, description="Its label says the value, so that it needs not be said again.")


class Column(Frozen):
    """A column of a table."""

    name: str
    unit: str = ""


class Table(Block):
    """Rows and columns; cells are raw values, formatted by the report from the column's unit."""

    block: Literal["table"] = "table"
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


class Series(Frozen):
    """One line or cloud of points, with an optional band."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    lower: tuple[float, ...] | None = None
    upper: tuple[float, ...] | None = None
    size: tuple[float, ...] | None = Field(None, description="Weight of each point, such as rows in a bin.")
    breaks: tuple[int, ...] = Field((), description="Places at which another line of this name begins: many runs.")


class Axes(Block):
    """A block with two axes."""

    x_label: str
    y_label: str
    x_unit: str = ""
    y_unit: str = ""
    log_x: bool = False
    log_y: bool = False
    references: tuple[Reference, ...] = ()


class Curve(Axes):
    """Lines, with bands and reference lines."""

    block: Literal["curve"] = "curve"
    series: tuple[Series, ...]


class Points(Axes):
    """A scatter of named points."""

    block: Literal["points"] = "points"
    series: tuple[Series, ...]


class Bar(Frozen):
    """One bar."""

    label: str
    value: float
    group: str = ""


class Bars(Block):
    """Bars, one per label, with optional groups."""

    block: Literal["bars"] = "bars"
    unit: str = ""
    stacked: bool = Field(False, description="Each bar begins where the one before it ends.")
    bars: tuple[Bar, ...]
    references: tuple[Reference, ...] = ()


class Interval(Frozen):
    """One row of a forest plot."""

    label: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    n: int | None = None
    note: str = ""


class Intervals(Block):
    """A forest plot: one interval per row, with a reference line."""

    block: Literal["intervals"] = "intervals"
    unit: str = ""
    rows: tuple[Interval, ...]
    references: tuple[Reference, ...] = ()


class Histogram(Axes):
    """Counts between edges; several series share the edges."""

    block: Literal["histogram"] = "histogram"
    edges: tuple[float, ...]
    counts: dict[str, tuple[int, ...]]


class SmallHistogram(Frozen):
    """One column, as shares of the rows of each dataset in the same cells."""

    label: str
    note: str = ""
    first: str = Field(description="Under the first cell: its lower end, or its category.")
    last: str = Field("", description="Under the last one; empty: each cell is a category.")
    shares: dict[str, tuple[float, ...]] = Field(description="Dataset: percent of its rows in each cell.")


class SmallHistograms(Block):
    """Many columns, a small histogram each, all on a page at once."""

    block: Literal["small_histograms"] = "small_histograms"
    items: tuple[SmallHistogram, ...]


class Matrix(Block):
    """A matrix with named rows and columns, such as a confusion matrix."""

    block: Literal["matrix"] = "matrix"
    row_label: str
    column_label: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    unit: str = "count"


class Example(Frozen):
    """One row to show. ``image`` is a grey or RGB picture as a PNG in base64."""

    title: str
    fields: dict[str, Cell] = Field(default_factory=dict)
    text: str | None = None
    image: str | None = None


class Examples(Block):
    """Rows to show; the check limits their number."""

    block: Literal["examples"] = "examples"
    examples: tuple[Example, ...]
    total: int = Field(description="How many there are; the list is capped.")
    pairs: bool = Field(False, description="Examples come two by two, to be shown side by side.")


class Text(Block):
    """A paragraph."""

    block: Literal["text"] = "text"
    text: str


AnyBlock = Annotated[
    Table | Curve | Points | Bars | Intervals | Histogram | SmallHistograms | Matrix | Examples | Text,
    Field(discriminator="block"),
]
