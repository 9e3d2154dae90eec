"""Raters who agree on everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from evalspec.errors import InputError
from evalspec.evidence.screens import Suspicion
from evalspec.evidence.words import and_list
from evalspec.screens.evidence import Look
from evalspec.sources.reading.open import missing_values
from evalspec.sources.reading.rows import row_digests

if TYPE_CHECKING:
    from evalspec.screens.evidence import Evidence

FEWEST = 100
"""Rows that two raters have both rated."""


def look(evidence: Evidence) -> Look:
    """Raters whom `agreement` names; all of it are facts."""
    found: list[Suspicion] = []
    for check in evidence.checks:
        raters, dataset = getattr(check, "raters", ()), getattr(check, "dataset", "")
        if check.check != "agreement" or dataset not in evidence.datasets:
            continue
        table = evidence.rows(dataset)
        for place, first in enumerate(raters):
            for second in raters[place + 1 :]:
                n = _agreed(table.column(first), table.column(second))
                if n >= FEWEST:
                    sentence = (
                        f"{and_list([first, second])} agree on all {n:,} rows of {dataset} that both have rated, as "
                        "raters who copy do and raters who judge by themselves hardly ever"
                    )
                    if len(raters) == 2:
                        sentence += "; two can't show who copied: have the rows rated by a third"
                    others = [name for name in raters if name not in (first, second)]
                    fields: dict[str, object] = {"dataset": dataset, "raters": [first, *others]}
                    suggestion = evidence.requirement("data", "agreement", "alpha >= 0.8", fields) if others else ""
                    found.append(evidence.suspicion(f"{first} and {second}", sentence, suggestion))
    return Look(tuple(found))


def _agreed(first: pa.ChunkedArray, second: pa.ChunkedArray) -> int:
    """Rows that both have rated, where they agree on all of these; 0: they differ, or have seen one kind only."""
    try:
        same = pc.equal(first, second)
        kinds, n = len(first.unique().drop_null()), len(same) - same.null_count
        agreed = bool(pc.all(same).as_py())
    except pa.ArrowException:
        # Types that Arrow compares with none, or not with each other.
        return _digested_alike(first, second)
    return n if agreed and kinds > 1 else 0


def _digested_alike(first: pa.ChunkedArray, second: pa.ChunkedArray) -> int:
    """As `_agreed`, by digests of the cells."""
    try:
        ours, theirs = (row_digests(pa.table({"rating": one})) for one in (first, second))
    except InputError:
        # Maps and the like.
        return 0
    both = ~(missing_values(first) | missing_values(second))
    if not np.array_equal(ours[both], theirs[both]) or len(np.unique(ours[~missing_values(first)], axis=0)) < 2:
        return 0
    return int(both.sum())
