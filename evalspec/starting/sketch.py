"""A model and its rows as ``init`` saw them, handed from the child that looks to the parent that writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalspec.language.parts import Access
from evalspec.starting.rows import Field, RowsSketch

ROLES = ("test", "train", "traffic")


@dataclass(frozen=True, slots=True)
class SketchJob:
    """Job for the child that opens models and rows.

    Args:
        access: Where it may look; its folder is the spec's.
        model: Path from the spec's folder, or a URL.
        baseline: Likewise; None: there is none.
        test: Path of the test set from the spec's folder.
        train: Of the training set; None: none was named.
        label: Column with the truth; None: it is looked for.
        factory: What makes the module of a state dict; None: none was named.
    """

    access: Access
    model: str
    test: str
    train: str | None = None
    baseline: str | None = None
    label: str | None = None
    factory: str | None = None


@dataclass(frozen=True, slots=True)
class ModelSketch:
    """A model as it was seen.

    Args:
        fields: Of its entry in a spec, in the order in which they are written.
        what: What it is, in words.
        task: Task of its answers; empty: it was not asked.
        scores: It gives probabilities.
        classes: In its order; empty: it has none, or none are known.
        class_names: Labels are to be read as the names that the data give them.
        answers: The first of its answers, in words.
        notes: Sentences on what was guessed.
        row_s: Seconds that a row took; 0: not measured.
        query_s: Seconds within which 99 of 100 single rows were answered; 0: not measured.
        unopened: Why it was not opened, in words; empty: it was.
    """

    fields: Mapping[str, Any]
    what: str
    task: str = ""
    scores: bool = False
    classes: tuple[str, ...] = ()
    class_names: bool = False
    answers: str = ""
    notes: tuple[str, ...] = ()
    row_s: float = 0.0
    query_s: float = 0.0
    unopened: str = ""


@dataclass(frozen=True, slots=True)
class Sketch:
    """Everything that was seen.

    Args:
        model: That is to ship.
        baseline: To compare with; None: there is none.
        datasets: By role.
    """

    model: ModelSketch
    baseline: ModelSketch | None
    datasets: Mapping[str, RowsSketch]

    @property
    def test(self) -> RowsSketch:
        """The test set."""
        return self.datasets["test"]

    def dataset_fields(self, role: str) -> dict[str, Field]:
        """Fields of a dataset's entry, in the order in which they are written."""
        rows = self.datasets[role]
        fields: dict[str, Field] = dict(rows.fields)
        label = self.test.label
        if label and (label in rows.columns or role == "test"):
            fields["label"] = label
        if self.model.class_names and rows.fields["kind"] == "huggingface":
            fields["class_names"] = True
        if role == "test" and rows.roles.key:
            fields["key"] = rows.roles.key
        if role == "test" and rows.roles.cluster:
            fields["cluster"] = rows.roles.cluster
        return fields


def relative(path: Path, folder: Path) -> str:
    """A path as a spec in this folder names it."""
    import os

    return Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix()
