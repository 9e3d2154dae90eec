"""Answers in parts, held against the digests in their list: all of them, or a sample."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evalspec.answers.parts import fault_of, parts_of
from evalspec.errors import RecordError
from evalspec.evidence.words import plural


@dataclass(frozen=True, slots=True)
class PartSample:
    """A sample of the parts of each set of answers.

    Args:
        share: Of the parts, at least one of each; up to 1.
        seed: Of the draw.
    """

    share: float
    seed: int

    def of(self, name: str, parts: int) -> list[int]:
        """Numbers of the parts that are drawn.

        Args:
            name: Of the answers.
            parts: How many they have.
        """
        drawn = random.Random(f"{self.seed} {name}")  # whoever has the seed shall draw the same
        return sorted(drawn.sample(range(parts), min(parts, max(1, math.ceil(self.share * parts)))))


@dataclass(frozen=True, slots=True)
class PartsRead:
    """Outcome of looking at the parts of some answers.

    Args:
        same: Sentence on what is as it was; empty: nothing is.
        differs: Sentences on what is not.
        left: Sentence on what was not looked at; empty: all was.
    """

    same: str = ""
    differs: Sequence[str] = ()
    left: str = ""


def read_parts(path: Path, sample: PartSample | None) -> PartsRead:
    """Hold the parts of answers against their list.

    Args:
        path: The list, or a single file of answers, of which there is nothing to look at.
        sample: Which are looked at; None: all.
    """
    try:
        parts = parts_of(path)
    except RecordError as error:
        return PartsRead(differs=[str(error)])
    if not parts:
        return PartsRead()
    numbers = list(range(len(parts))) if sample is None else sample.of(path.name, len(parts))
    faults = {number: fault_of(path, number, parts[number]) for number in numbers}
    differs = [f"{path.parent.name}/{fault}" for fault in faults.values() if fault is not None]
    whole = [number for number, fault in faults.items() if fault is None]
    which = "all" if len(whole) == len(parts) else f"{', '.join(map(str, whole))} of"
    same = f"bytes of {which} {plural(len(parts), 'part')} of {path.parent.name}/{path.name}" if whole else ""
    left = ""
    if sample is not None and len(numbers) < len(parts):
        rows = sum(one.rows for number, one in enumerate(parts) if number not in faults)
        left = (
            f"{path.parent.name}/{path.name}: {len(parts) - len(numbers):,} of {plural(len(parts), 'part')}, with "
            f"{rows:,} rows, were not checked; --sample {100 * sample.share:g} % --seed {sample.seed} "
            f"chose {'part' if len(numbers) == 1 else 'parts'} {', '.join(map(str, numbers))}"
        )
    return PartsRead(same, differs, left)
