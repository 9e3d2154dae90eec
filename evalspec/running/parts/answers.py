"""Answers of a model to a dataset, part by part, wherever: each part once, kept as soon as it is whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from evalspec.answers.again import ROWS, UNLIKE
from evalspec.errors import EvalspecError, InputError, WorkerError
from evalspec.evidence.frozen import Cell
from evalspec.evidence.words import plural
from evalspec.running.children.messages import Progress
from evalspec.running.engines.engine import PieceOutcome, RowEngine
from evalspec.running.engines.pieces import Cut, Pieces
from evalspec.running.parts.kept import KeptParts

ALIKE = ("framework", "provider", "precision", "device", "threads")
"""What was observed of a model that must be the same wherever it answers."""
SAME = ("version", "classes", "mask_shape", "extracted_as")
"""What is said beside the answers of a part that must be the same for all."""
SUMS = ("padded_rows", ROWS, UNLIKE)


class PartAnswers(Pieces):
    """Has the parts of a dataset answered that are not kept.

    Args:
        what: Model and dataset, for sentences.
        cut: Of the dataset.
        kept: Parts that are on disk.
        engine: Answers parts.
        observed: What was observed of the model in a process of this machine.
        progress: Told how far they have come.
    """

    kind = "parts"

    def __init__(
        self,
        what: str,
        cut: Cut,
        kept: KeptParts,
        engine: RowEngine,
        observed: Mapping[str, Any],
        progress: Progress,
    ) -> None:
        super().__init__(cut, [one for one in range(cut.pieces) if one not in kept.parts], engine, progress)
        self.of = f"the {what}"
        self._what, self._on_disk, self._observed = what, kept, observed

    def error_of(self, one: PieceOutcome) -> EvalspecError | None:
        rows = self.cut.words(one.number)
        if one.lost:
            return WorkerError(f"no {self._what} for {rows}: they were lost twice: {one.lost}")
        if one.error is not None:
            return type(one.error)(f"no {self._what} for {rows}: {one.error}")
        if one.rows != self.cut.rows_of(one.number):
            return WorkerError(f"{one.rows:,} answers to {rows} of the {self._what}; the files changed meanwhile")
        other = self._otherwise(one.told)
        return None if other is None else InputError(f"no {self._what} for {rows}: {other}")

    def keep(self, one: PieceOutcome) -> None:
        self._on_disk.put(one.number, one.told, one.blocks[0])

    def _otherwise(self, told: Mapping[str, Any]) -> str | None:
        """Difference to this machine's process, or to other parts, in words; None: there is none."""
        for name in ALIKE:
            mine, theirs = self._observed.get(name), told["observed"].get(name)
            if mine != theirs:
                return f"the model ran with {name} {theirs}, and here with {mine}; install the same on every node"
        for one in self._on_disk.parts.values():
            differing = next((name for name in SAME if told["told"].get(name) != one["told"].get(name)), None)
            return None if differing is None else f"their {differing} are not those of other rows"
        return None


def listed(cut: Cut, kept: Mapping[int, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All parts as their list has them.

    Args:
        cut: Of the dataset.
        kept: Number: what was said beside it.
    """
    ranges = [cut.range_of(number) for number in range(cut.pieces)]
    return [
        {"first_row": first, "rows": stop - first, "sha256": kept[number]["sha256"], "cpu": kept[number]["cpu"]}
        for number, (first, stop) in enumerate(ranges)
    ]


def facts_of(parts: Sequence[Mapping[str, Any]]) -> dict[str, Cell]:
    """Facts about all answers, as a process that answers them alone tells them.

    Args:
        parts: What was said beside each.
    """
    facts = [one["facts"] for one in parts]
    sums = {name: sum(one[name] for one in facts if name in one) for name in SUMS if any(name in one for one in facts)}
    return {"batch": facts[0]["batch"], **sums}


def observed_in(parts: Sequence[Mapping[str, Any]]) -> dict[str, Cell]:
    """Observed facts of the model, with facts about its answers.

    Args:
        parts: What was said beside each.
    """
    kinds = Counter(str(one["cpu"]) for one in parts)
    on = ", ".join(f"{kind} ({plural(count, 'part')})" for kind, count in sorted(kinds.items()))
    mixed = {"answered_on_several": f"{len(kinds)} kinds of CPU, whose last bits may differ"} if len(kinds) > 1 else {}
    return {**parts[0]["observed"], **facts_of(parts), "parts": len(parts), "answered_on": on, **mixed}
