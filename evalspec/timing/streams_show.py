"""Blocks about streamed answers: the percentiles of their times, and the tail of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalspec.evidence.blocks import AnyBlock, Column, Curve, Series, Table
from evalspec.evidence.frozen import Cell
from evalspec.timing import streams, token_times
from evalspec.timing.budget import PERCENTILES, TOKEN_TIMES
from evalspec.timing.samples import quantile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.language.inputs import Samples

POINTS = 200


def blocks(parts: Mapping[str, Sequence[Samples]], keep: Mapping[str, Sequence[NDArray[np.bool_]]]) -> list[AnyBlock]:
    """A table and a chart for all parts; none where nothing streams.

    Args:
        parts: Name of a part, such as a rate: samples, one for each process; empty where there is one only.
        keep: Of the same, the requests that count.
    """
    times = {part: _times(samples, keep[part]) for part, samples in parts.items()}
    times = {part: found for part, found in times.items() if found}
    if not times:
        return []
    rows = [
        row for part, found in times.items() for row in (*_rows(part, found), *_gaps(part, parts[part], keep[part]))
    ]
    named = any(times)
    columns = (
        *((Column(name="rate"),) if named else ()), Column(name="time"), Column(name="requests", unit="count"),
        Column(name="without", unit="count"),
        *(Column(name=name.removeprefix("latency_"), unit="ms") for name in PERCENTILES),
    )  # fmt: skip
    caption = (
        "One number a request: to its first piece with text, reasoning or a tool call (ttft), to the first that is "
        "not reasoning (ttfa), by token after the first piece (tpot), and the longest wait for a next piece; beside "
        "them all such waits of all requests (gap). Failed requests are slower than any; those without such a time "
        "(one piece, one token) are counted apart."
    )
    table = Table(
        title="Streamed answers", caption=caption, columns=columns,
        rows=tuple(row if named else row[1:] for row in rows),
    )  # fmt: skip
    return [table, *(_tail(part, found) for part, found in list(times.items())[:1])]


def _times(samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]]) -> dict[str, NDArray[np.float64]]:
    if any(one.streams is None for one in samples):
        return {}
    each = [{name: spent[mask] for name, spent in streams.times_ms(one).items()}
            for one, mask in zip(samples, keep, strict=True)]  # fmt: skip
    return {name: np.concatenate([one[name] for one in each]) for name in TOKEN_TIMES}


def _rows(part: str, times: Mapping[str, NDArray[np.float64]]) -> list[tuple[Cell, ...]]:
    rows: list[tuple[Cell, ...]] = []
    for name, spent in times.items():
        known = spent[~np.isnan(spent)]
        if name == "ttfa" and np.array_equal(known, times["ttft"][~np.isnan(times["ttft"])]):
            continue
        values = [quantile(known, p) if len(known) else None for p in PERCENTILES.values()]
        shown = [value if value is not None and np.isfinite(value) else None for value in values]
        rows.append((part, name, len(known), len(spent) - len(known), *shown))
    return rows


def _gaps(part: str, samples: Sequence[Samples], keep: Sequence[NDArray[np.bool_]]) -> list[tuple[Cell, ...]]:
    """Gaps of all requests together; none where there are none."""
    found = token_times.pooled(samples, keep)
    if found is None:
        return []
    requests = sum(int(mask.sum()) for mask in keep)
    every = np.concatenate(found.processes)
    values = (quantile(every, p) for p in PERCENTILES.values())
    shown = (value if np.isfinite(value) else None for value in values)
    return [(part, "gap, of all pieces", found.n, requests - found.n, *shown)]


def _tail(part: str, times: Mapping[str, NDArray[np.float64]]) -> Curve:
    series = []
    for name, spent in times.items():
        known = np.sort(spent[np.isfinite(spent)])
        if len(known) < 2 or (name == "ttfa" and np.array_equal(spent, times["ttft"])):
            continue
        at = np.unique(np.linspace(0, len(known) - 1, POINTS).astype(np.int64))
        share = (at + 1) / max(1, int((~np.isnan(spent)).sum()))
        series.append(Series(name=name, x=tuple(known[at].tolist()), y=tuple(share.tolist())))
    where = f" at {part}" if part else ""
    return Curve(
        title=f"Times of streamed answers{where}",
        caption="Share of requests whose time is at most so long; what failed is never reached.",
        x_label="time", x_unit="ms", y_label="share of requests", log_x=True, series=tuple(series),
    )  # fmt: skip
