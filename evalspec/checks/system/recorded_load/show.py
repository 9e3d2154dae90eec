"""Blocks of `recorded_load`: a distribution for each time, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Histogram, Reference, Table
from evalspec.evidence.frozen import Cell

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.requirement import Requirement

CELLS = 40
QUANTILES = (0.5, 0.9, 0.95, 0.99)


def blocks(
    times: Mapping[str, NDArray[np.float64]],
    requirements: Sequence[Requirement],
    failed: Mapping[str, int],
    requests: int,
) -> list[AnyBlock]:
    """A histogram for each time that the log has, a table of percentiles, and how requests failed.

    Args:
        times: Name: ms, infinite where a request failed, shape (k,).
        requirements: They become lines.
        failed: How: requests.
        requests: All of them.
    """
    found: list[AnyBlock] = []
    rows: list[tuple[Cell, ...]] = []
    for name, series in times.items():
        answered = np.sort(series[np.isfinite(series)])
        if len(answered) < 2:
            continue
        low, high = max(float(answered[0]), 1e-6), float(answered[-1])
        edges = np.geomspace(low, high if high > low else 1.01 * low, CELLS + 1)
        counts = np.histogram(np.clip(answered, edges[0], edges[-1]), edges)[0]
        lines = [one for one in requirements if one.metric.startswith(f"{name}_") and one.model is None]
        found.append(
            Histogram(
                title=name, caption="Answered requests of the log; cells grow with time.",
                x_label=name, x_unit="ms", y_label="requests", log_x=True,
                edges=tuple(float(edge) for edge in edges),
                counts={"requests": tuple(int(count) for count in counts)},
                references=tuple(
                    Reference(label=one.sentence, value=one.threshold, axis="x", says_value=True) for one in lines
                ),
            )
        )  # fmt: skip
        rows.append((name, *(float(np.quantile(answered, p)) for p in QUANTILES), len(answered)))
    if rows:
        columns = (Column(name="time"), *(Column(name=f"p{100 * p:g}", unit="ms") for p in QUANTILES))
        found.append(
            Table(
                title="Percentiles", caption="Of answered requests alone; what failed is not in this table.",
                columns=(*columns, Column(name="requests")), rows=tuple(rows),
            )
        )  # fmt: skip
    if failed:
        caption = f"Of {requests:,}; in every percentile that is decided they are slower than any threshold."
        columns = (Column(name="how"), Column(name="requests"))
        found.append(Table(title="Failed requests", caption=caption, columns=columns, rows=tuple(failed.items())))
    return found
