"""A sketch as JSON, for the way from the child to its parent."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from evalspec.loading.column_roles import ColumnRoles
from evalspec.running.children.messages import Message
from evalspec.starting.rows import RowsSketch
from evalspec.starting.sketch import ModelSketch, Sketch


def from_sketch(sketch: Sketch) -> Message:
    """The message."""
    return {
        "model": asdict(sketch.model),
        "baseline": None if sketch.baseline is None else asdict(sketch.baseline),
        "datasets": {role: asdict(rows) for role, rows in sketch.datasets.items()},
    }


def to_sketch(message: Message) -> Sketch:
    """The sketch of a message."""
    baseline = message["baseline"]
    return Sketch(
        model=_model(message["model"]),
        baseline=None if baseline is None else _model(baseline),
        datasets={role: _rows(rows) for role, rows in message["datasets"].items()},
    )


def _model(values: dict[str, Any]) -> ModelSketch:
    return ModelSketch(**values | {name: tuple(values[name]) for name in ("classes", "notes")})


def _rows(values: dict[str, Any]) -> RowsSketch:
    roles = values["roles"]
    roles |= {name: tuple(roles[name]) for name in ("groups", "classes")}
    return RowsSketch(
        **values | {name: tuple(values[name]) for name in ("names", "values")} | {"roles": ColumnRoles(**roles)}
    )
