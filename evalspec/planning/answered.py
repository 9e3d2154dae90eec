"""Answers to large datasets, which come in parts, and which checks hold in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evalspec.answers.parts import by_rows, rows_of_a_part
from evalspec.evidence.words import plural
from evalspec.language.parts import Dataset, Model
from evalspec.planning.plan import Plan

NUMBER_BYTES = 8


@dataclass(frozen=True, slots=True)
class PlannedAnswers:
    """Answers of a model to a large dataset.

    Args:
        model: Name of the model.
        dataset: Name of the dataset.
        rows: How many.
        part_rows: Rows of each part but the last, unless the model's file has a batch of its own.
        bytes: That a check holds of them, at least.
        why_one: Why one process answers all parts; empty: the engine does.
    """

    model: str
    dataset: str
    rows: int
    part_rows: int
    bytes: int
    why_one: str

    def line(self, engine: str) -> str:
        """For people.

        Args:
            engine: Its words; empty: there is none.
        """
        because = f" ({self.why_one})" if engine and self.why_one else ""
        who = engine if engine and not self.why_one else f"one process{because}"
        return (
            f"answers of {self.model} on {self.dataset}: {plural(-(-self.rows // self.part_rows), 'part')} of "
            f"{self.part_rows:,} rows, from {who}; a check holds all of them, {self.bytes / 2**20:,.0f} MiB or more"
        )


def answered(plan: Plan, *, elsewhere: bool = False) -> Sequence[PlannedAnswers]:
    """Answers that come in parts, of datasets whose headers tell how many rows they have, in the order of the plan.

    Args:
        plan: The plan.
        elsewhere: The engine is a cluster.
    """
    found = []
    for dataset, name in dict.fromkeys(pair for one in plan.checks for pair in one.predictions):
        header, model = plan.spec.headers.get(dataset), plan.spec.models[name]
        rows = 0 if header is None or plan.spec.datasets[dataset].where is not None else header.rows or 0
        size = rows_of_a_part(rows, model.batch)
        if rows > size and by_rows(model):
            classes = len(model.classes) if isinstance(model.classes, tuple) else 0
            why = _why_one(model, plan.spec.datasets[dataset], elsewhere)
            found.append(PlannedAnswers(name, dataset, rows, size, rows * (classes + 1) * NUMBER_BYTES, why))
    return found


def _why_one(model: Model, dataset: Dataset, elsewhere: bool) -> str:
    if not elsewhere:
        return "" if model.device == "cpu" else f"the model is on {model.device}"
    return "" if dataset.by_number else f"rows of kind {dataset.kind} can't be read by their numbers"
