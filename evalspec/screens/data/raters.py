"""Raters who agree on everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from evalspec.evidence.screens import Suspicion
from evalspec.evidence.words import and_list
from evalspec.screens.evidence import Look

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
                same = pc.equal(table.column(first), table.column(second))
                n = len(same) - same.null_count
                kinds = pc.count_distinct(table.column(first)).as_py()
                if n >= FEWEST and kinds > 1 and pc.all(same).as_py():
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
