"""Metrics for what a model gives, and how each is scored.

A new task, or more metrics of one: a `Family` in a file of its own, its metrics in the catalogue, one entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evalspec.language.predictions import GIVES
from evalspec.scoring.classification import CLASSES
from evalspec.scoring.detection.family import BOXES
from evalspec.scoring.family import Family
from evalspec.scoring.multilabel import MULTILABEL
from evalspec.scoring.ranking.family import RANKING
from evalspec.scoring.regression import VALUES
from evalspec.scoring.scored_rows import Scored, Undefined
from evalspec.scoring.segmentation.family import MASKS
from evalspec.scoring.text.family import TEXT
from evalspec.scoring.text.samples import TEXT_SAMPLES

if TYPE_CHECKING:
    from evalspec.language.predictions import Task
    from evalspec.scoring.scores import Score

FAMILIES: Mapping[Task, tuple[Family, ...]] = {
    "classes": (CLASSES, RANKING),
    "values": (VALUES, RANKING),
    "labels": (MULTILABEL,),
    "text": (TEXT, TEXT_SAMPLES),
    "boxes": (BOXES,),
    "mask": (MASKS,),
}


def families(rows: Scored) -> tuple[Family, ...]:
    """Families of metrics for a model's task, those of lists where the rows have some.

    Args:
        rows: Its rows.
    """
    members = FAMILIES.get(rows.task, ())
    return members if rows.queries is not None else tuple(one for one in members if not one.of_lists)


def score(metric: str, part: str | None, rows: Scored) -> Score:
    """Score that computes a metric.

    Args:
        metric: Its name.
        part: A class's name, k, or another of its parts; None for class metrics: the positive class.
        rows: The candidate's rows, for the classes they have.

    Raises:
        Undefined: It is a metric of other tasks, the model gives nothing that it could be made from, or there is no
            such class.
    """
    return family_of(metric, rows).score(metric, part, rows)


def family_of(metric: str, rows: Scored) -> Family:
    """The family that a metric is scored by on these rows.

    Raises:
        Undefined: It is a metric of other tasks.
    """
    for family in FAMILIES.get(rows.task, ()):
        if metric in family.names:
            return family
    others = [GIVES[task] for task, members in FAMILIES.items() if any(metric in family.names for family in members)]
    raise Undefined(f"model {rows.model!r} gives {GIVES[rows.task]}, and this metric needs {' or '.join(others)}")
