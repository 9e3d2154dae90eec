"""`stages`: the same queries stage by stage and undivided, in A B B A blocks within one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from evalspec.clocks import now_ns, read_clock
from evalspec.errors import NotRunError
from evalspec.language.abilities import ReportsTiming, Serializes, Stepped
from evalspec.measure.listening import Listener, listen
from evalspec.measure.patience import Patience
from evalspec.measure.probes import Context, ProbeResult
from evalspec.measure.servable import Rotation, Servable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from evalspec.evidence.frozen import Cell

Step = tuple[str, Callable[[Any], Any]]

BLOCKS = 4
"""Stages, whole, whole, stages: a machine that slows down meanwhile slows down both alike."""
STRETCHES = 5
"""Of a block: a server's counters are read between them, so that one slow query spoils a tenth of what they tell."""


def probe(context: Context) -> ProbeResult:
    """Time each stage, and the whole beside them.

    Options: ``queries`` in each of the two ways, ``batch``, ``warmup``, ``warmup_s``.

    Returns:
        Series ``end_to_end_ns`` and ``stage_ns:NAME``, shape (queries,), ``items``; text ``stages``. Of a server that
        says what it does, also what `evalspec.measure.listening.Listener.found` gives; text ``waits``: the stage
        in which it is waited for.

    Raises:
        NotRunError: The model can't be served stage by stage.
        InputError: As the model raises it.
    """
    rows = context.rows
    if not isinstance(rows, Stepped):
        raise NotRunError(f"a model of kind {context.model.kind!r} can't be served stage by stage")
    ways = _Ways(rows, _unlike(rows.steps()))
    queries, batch = int(context.options["queries"]), int(context.options["batch"])
    rotation = Rotation(rows.n, batch, context.seed)
    patience = Patience(rows)
    listener = _warm_up(context, ways, rotation, patience)
    in_warm_up, patience.failed = patience.failed, 0
    half = max(1, queries // 2)
    staged = np.empty((2 * half, len(ways.names)), dtype=np.float64)
    whole = np.empty(2 * half, dtype=np.float64)
    for block, (divided, which) in enumerate(((True, 0), (False, 0), (False, 1), (True, 1))):
        context.progress(block, BLOCKS, "stages" if divided else "undivided")
        part = range(which * half, (which + 1) * half)
        if divided:
            _divided(ways, rotation, part, staged, listener, patience)
        else:
            for index in part:
                query = ways.take(rotation.rows(index))
                whole[index] = patience.answer(lambda query=query: ways.undivided(query))  # type: ignore[misc]
    series: dict[str, NDArray[np.float64]] = {"end_to_end_ns": whole}
    series |= {f"stage_ns:{name}": staged[:, place].copy() for place, name in enumerate(ways.names)}
    facts: dict[str, Cell] = {
        "queries": 2 * half, "batch": batch, "timer_overhead_ns": read_clock(2000).overhead_ns,
        **({"queries_failed": patience.failed, "warmup_failed": in_warm_up} if patience.failed + in_warm_up else {}),
    }  # fmt: skip
    texts = {"stages": ways.names} | ({"waits": (rows.waits,)} if isinstance(rows, ReportsTiming) else {})
    told = listener.found()
    return ProbeResult(facts={**facts, **told.facts}, series={**series, **told.series}, texts={**texts, **told.texts})


class _Ways:
    """The two ways to serve a query: by stages and undivided, both from the same on.

    Args:
        rows: What serves.
        steps: Its stages, by unlike names.
    """

    def __init__(self, rows: Servable, steps: Sequence[Step]) -> None:
        self._rows = rows
        self._calls = [call for _, call in steps]
        self.names = tuple(name for name, _ in steps)
        self.waits = self.names.index(rows.waits) if isinstance(rows, ReportsTiming) else -1
        # A server is asked by requests that are made before; here making them is timed as well.
        self.take = rows.raw if isinstance(rows, Serializes) else rows.take
        self._write = rows.written if isinstance(rows, Serializes) else None

    def divided(self, query: Any) -> tuple[NDArray[np.float64], list[Any]]:
        """Ns of each stage, shape (s,), and what it gave.

        The device is waited for at the end of each, so that none pays for another.
        """
        marks, values = [now_ns()], [query]
        for call in self._calls:
            values.append(call(values[-1]))
            self._rows.synchronize()
            marks.append(now_ns())
        return np.diff(np.array(marks, dtype=np.int64)).astype(np.float64), values[1:]

    def undivided(self, query: Any) -> float:
        """Ns of the whole."""
        rows, write = self._rows, self._write
        began = now_ns()
        outputs = rows.serve(query if write is None else write(query))
        rows.synchronize()
        rows.answers(outputs)
        return float(now_ns() - began)


def _unlike(steps: Sequence[Step]) -> list[Step]:
    """Stages whose names differ: the second of a name is numbered."""
    seen: dict[str, int] = {}
    named = []
    for name, call in steps:
        seen[name] = seen.get(name, 0) + 1
        named.append((name if seen[name] == 1 else f"{name}_{seen[name]}", call))
    return named


def _warm_up(context: Context, ways: _Ways, rotation: Rotation, patience: Patience) -> Listener:
    """Both ways, so many times and so long; the last query shows whether there is somebody to listen to."""
    count, least_s = int(context.options["warmup"]), float(context.options["warmup_s"])
    until = now_ns() + int(least_s * 1e9)
    done = 0
    values: list[Any] = []
    while done < count or now_ns() < until:
        query = ways.take(rotation.rows(done))
        _, values = patience.answer(lambda query=query: ways.divided(query))  # type: ignore[misc]
        patience.answer(lambda query=query: ways.undivided(query))  # type: ignore[misc]
        done += 1
    return listen(context.rows, values[ways.waits])


def _divided(
    ways: _Ways,
    rotation: Rotation,
    part: Sequence[int],
    staged: NDArray[np.float64],
    listener: Listener,
    patience: Patience,
) -> None:
    """A block of queries by stages.

    Args:
        ways: How they are served.
        rotation: Their rows.
        part: Their numbers.
        staged: shape (queries, s): takes the ns of each.
        listener: Is told of each.
        patience: Asks a server again that errs, so that each has its stages.
    """
    listener.begin()
    for stretch in np.array_split(np.asarray(part), STRETCHES):
        for index in stretch.tolist():
            query = ways.take(rotation.rows(index))
            staged[index], values = patience.answer(lambda query=query: ways.divided(query))  # type: ignore[misc]
            listener.heard(values[ways.waits], float(staged[index, ways.waits]))
        listener.stretch()
