"""Session of one worker for one schedule, of whatever kind: warm-up, blocks, and facts of the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from evalspec.clocks import fine_timer, now_ns, read_clock
from evalspec.errors import InputError
from evalspec.evidence.frozen import Cell
from evalspec.language.inputs import Schedule
from evalspec.measure.flooding import warm_connections
from evalspec.measure.interference import Watch
from evalspec.measure.loop import offline, single_stream
from evalspec.measure.open_loop import generator_lag_ns, lockstep, open_loop, rows_asked
from evalspec.measure.samples import Sink
from evalspec.measure.servable import Alters, Concurrent, FixedBatch, NewFirst, Remote, Rotation, Servable
from evalspec.measure.warmup import WarmUp, warm_up

SPARE = 1.25
"""Of the queries that are asked for: so many have room in the file from the start."""


class Session:
    """All that one worker measures of one schedule: warm-up, then blocks, in one file of samples.

    For A B B A the caller asks two sessions in two processes in turn; the one that is not asked waits for its next
    message, asleep.

    Args:
        servable: Rows and model.
        schedule: Batch, order, warm-up and limits.
        path: File for the samples.
        origin_ns: Where times count from; default: now. Two processes given the same can be set side by side.
    """

    def __init__(self, servable: Servable, schedule: Schedule, path: Path, origin_ns: int | None = None) -> None:
        self.schedule = schedule
        self.sink = Sink(path, schedule.batch, int(SPARE * schedule.queries) + 1)
        self._servable = servable
        self._rotation = Rotation(servable.n, schedule.batch, schedule.seed)
        self._watch = Watch()
        self._clock = read_clock()
        self._origin_ns = now_ns() if origin_ns is None else origin_ns
        self._complete = True
        self._warm: WarmUp | None = None
        self._timed_servable: Servable = servable
        self._altered = False
        if schedule.repeats > 1 and isinstance(servable, Alters):
            # Another run may have had the same seed, and the server may have lived through it.
            rng = np.random.default_rng([schedule.seed, abs(self._origin_ns)])
            self._altered = servable.altered(np.arange(1), rng) is not None
            self._timed_servable = NewFirst(servable, rng) if self._altered else servable

    @property
    def count(self) -> int:
        """Queries measured so far."""
        return self.sink.count

    def warm_up(self) -> dict[str, Cell]:
        """Warm up; the queries are not kept.

        Returns:
            How it ended.

        Raises:
            InputError: As the model raises it.
        """
        self._check_sizes()
        self._warm = warm_up(self._servable, self.schedule, self._rotation)
        if isinstance(self._servable, Remote) and self.schedule.kind == "open_loop":
            asked = {rows.tobytes(): rows for rows in rows_asked(self.schedule, self._rotation, 0)}
            for rows in asked.values():
                self._servable.take(rows)
        more = 0
        if self.schedule.kind == "offline" and self.schedule.connections > 1 and isinstance(self._servable, Concurrent):
            more = warm_connections(self._servable, self.schedule, self._rotation)
        self.sink.note(warmup=self._warm.queries + more)
        return self._warm.details()

    def _check_sizes(self) -> None:
        """Stop where a query has more rows than the model takes at once: it would be several calls, not one batch."""
        sizes, servable = self.schedule.sizes, self._servable
        fixed = servable.fixed_batch if isinstance(servable, FixedBatch) else None
        if sizes is None or fixed is None or int(sizes.max()) <= fixed:
            return
        takes = f"{fixed} row{'' if fixed == 1 else 's'} at once and no other number"
        raise InputError(
            f"the model takes {takes}, and a query of the trace has {int(sizes.max()):,}",
            remedy="export it with a dynamic batch, or leave `size:` out",
        )

    def block(self, block: int, queries: int, min_s: float, start_ns: int | None = None) -> None:
        """Measure one block of at least so many queries and so long.

        Args:
            block: Its index.
            queries: Of an open loop: the first so many of the schedule.
            min_s: Not of an open loop.
            start_ns: When a schedule of times starts, on the clock, so that several clients start together; default:
                shortly.

        Raises:
            InputError: The first queries all failed.
        """
        asked = replace(self.schedule, queries=queries, min_s=min_s)
        sides = (self._timed_servable, asked, self.sink, self._rotation)
        with self._watch:
            if self._timed:
                way = open_loop if asked.kind == "open_loop" else lockstep
                with fine_timer():
                    done = way(*sides, block=block, origin_ns=self._origin_ns, start_ns=start_ns)
            else:
                measure = offline if asked.kind == "offline" else single_stream
                done = measure(*sides, block=block, origin_ns=self._origin_ns)
        self._complete = self._complete and done

    def finish(self) -> dict[str, Cell]:
        """Close the file.

        Returns:
            Facts of the run: what was asked for, the clock, the warm-up, what else went on, how late the generator
            was, whether all was measured.
        """
        if self._altered:
            # Answers to altered rows are not those of the rows.
            rows = self.sink.rows(0)
            rows["answers"][rows["block"] % self.schedule.repeats == 0] = np.nan
        self.sink.close()
        return {
            "kind": self.schedule.kind,
            "repeats": self.schedule.repeats,
            "in_process": not isinstance(self._servable, Remote),
            "altered": self._altered,
            "complete": self._complete,
            "origin_ns": self._origin_ns,
            "timer_overhead_ns": self._clock.overhead_ns,
            "timer_worst_ns": self._clock.worst_ns,
            "timer_resolution_ns": self._clock.resolution_ns,
            **(self._warm.details() if self._warm is not None else {}),
            **self._watch.details(),
            **self._slow(),
            **(self._lag() if self._timed else {}),
            **(self._servable.facts() if isinstance(self._servable, Remote) else {}),
        }

    @property
    def _timed(self) -> bool:
        """Queries come at times of a schedule."""
        return self.schedule.kind == "open_loop" or (
            self.schedule.kind == "multi_stream" and self.schedule.interval_ns is not None
        )

    def _slow(self) -> dict[str, float | None]:
        rows = self.sink.rows(0)
        rows = rows[rows["end"] > 0]
        share = self._watch.share_of_slow(rows["intended"] + self._origin_ns, rows["end"] + self._origin_ns)
        return {"gc_share_of_slow": share}

    def _lag(self) -> dict[str, float]:
        rows = self.sink.rows(0)
        rows = rows[rows["end"] > 0]
        lag_ns = generator_lag_ns(
            rows["intended"], rows["sent"], rows["end"],
            max_batch=self.schedule.max_batch, queue_delay_ns=int(self.schedule.queue_delay_s * 1e9),
            in_process=not isinstance(self._servable, Remote),
        )  # fmt: skip
        if not len(lag_ns):
            return {}
        p50, p99 = np.quantile(lag_ns, [0.5, 0.99], method="inverted_cdf") / 1e6
        return {
            "generator_lag_p50_ms": float(p50),
            "generator_lag_p99_ms": float(p99),
            "generator_lag_max_ms": float(lag_ns.max()) / 1e6,
        }
