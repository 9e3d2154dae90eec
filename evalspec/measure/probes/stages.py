"""`stages`: the same queries stage by stage and undivided, in A B B A blocks within one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.clocks import now_ns, read_clock
from evalspec.errors import NotRunError
from evalspec.language.abilities import Stepped
from evalspec.measure.probes import Context, Found
from evalspec.measure.servable import Rotation, Servable

if TYPE_CHECKING:
    from numpy.typing import NDArray

Step = tuple[str, Callable[[Any], Any]]

BLOCKS = 4
"""Stages, whole, whole, stages: a machine that slows down meanwhile slows down both alike."""


def probe(context: Context) -> Found:
    """Time each stage, and the whole beside them.

    Options: ``queries`` in each of the two ways, ``batch``, ``warmup``, ``warmup_s``.

    Returns:
        Series ``end_to_end_ns`` and ``stage_ns:NAME``, shape (queries,), ``items``; text ``stages``.

    Raises:
        NotRunError: The model can't be served stage by stage.
        InputError: As the model raises it.
    """
    rows = context.rows
    if not isinstance(rows, Stepped):
        raise NotRunError(f"a model of kind {context.model.kind!r} can't be served stage by stage")
    steps = _unlike(rows.steps())
    queries, batch = int(context.options["queries"]), int(context.options["batch"])
    rotation = Rotation(rows.n, batch, context.seed)
    _warm_up(context, steps, rotation)
    half = max(1, queries // 2)
    staged = np.empty((2 * half, len(steps)), dtype=np.float64)
    whole = np.empty(2 * half, dtype=np.float64)
    for block, (divided, which) in enumerate(((True, 0), (False, 0), (False, 1), (True, 1))):
        context.progress(block, BLOCKS, "stages" if divided else "undivided")
        for index in range(which * half, (which + 1) * half):
            query = rows.take(rotation.rows(index))
            if divided:
                staged[index] = _divided(rows, steps, query)
            else:
                whole[index] = _undivided(rows, query)
    names = tuple(name for name, _ in steps)
    series: dict[str, NDArray[np.float64]] = {"end_to_end_ns": whole}
    series |= {f"stage_ns:{name}": staged[:, place].copy() for place, name in enumerate(names)}
    facts = {"queries": 2 * half, "batch": batch, "timer_overhead_ns": read_clock(2000).overhead_ns}
    return Found(facts=facts, series=series, texts={"stages": names})


def _unlike(steps: Sequence[Step]) -> list[Step]:
    """Stages whose names differ: the second of a name is numbered."""
    seen: dict[str, int] = {}
    named = []
    for name, call in steps:
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}_{seen[name]}", call))
    return named


def _warm_up(context: Context, steps: Sequence[Step], rotation: Rotation) -> None:
    """Both ways, so many times and so long."""
    count, least_s = int(context.options["warmup"]), float(context.options["warmup_s"])
    until = now_ns() + int(least_s * 1e9)
    done = 0
    while done < count or now_ns() < until:
        query = context.rows.take(rotation.rows(done))
        _divided(context.rows, steps, query)
        _undivided(context.rows, query)
        done += 1


def _divided(rows: Servable, steps: Sequence[Step], query: Any) -> NDArray[np.float64]:
    """Ns of each stage; the device is waited for at the end of each, so that none pays for another."""
    marks = [now_ns()]
    value = query
    for _, step in steps:
        value = step(value)
        rows.synchronize()
        marks.append(now_ns())
    return np.diff(np.array(marks, dtype=np.int64)).astype(np.float64)


def _undivided(rows: Servable, query: Any) -> float:
    began = now_ns()
    outputs = rows.serve(query)
    rows.synchronize()
    rows.answers(outputs)
    return float(now_ns() - began)
