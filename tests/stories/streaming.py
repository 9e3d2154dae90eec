"""Streams as a server plays them, read as the client reads them, by a clock that nobody has to wait for."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from evalspec.language.inputs import Samples, Schedule
from evalspec.language.timings import ANSWERED
from evalspec.measure.samples import Sink, read_samples
from evalspec.measure.servable import item_order
from evalspec.redaction import NOTHING
from evalspec.runtimes.http_client.openai import read
from evalspec.runtimes.http_client.wire import HttpError, Reply
from tests.runtimes.llm_server import Script

MS = 1_000_000
HEADERS = {b"content-type": b"text/event-stream"}
JITTER = 0.05
SERIAL_MS = 76.0


class Player:
    """Answers of a server to queries that are due.

    Args:
        mode: Of `tests.runtimes.llm_server`; ``MODE@5``: in every fifth answer only.
        texts: What it says to each row.
        first_ms, gap_ms: Until the first token, and from one to the next.
        serial: It answers one at a time.
    """

    def __init__(self, mode: str, texts: list[str], first_ms: float, gap_ms: float, *, serial: bool = False) -> None:
        self.mode, _, every = mode.partition("@")
        self.every = int(every or 1)
        self.texts = texts
        self.first_ms, self.gap_ms = first_ms, gap_ms
        self.serial = serial

    def __call__(self, model: str, schedule: Schedule) -> list[Samples]:
        """Timings of one process."""
        draw = np.random.default_rng([schedule.seed, schedule.queries])
        rows = item_order(len(self.texts), schedule.seed)[
            np.arange(schedule.queries) // schedule.repeats % len(self.texts)
        ]
        due = schedule.arrivals_ns
        with tempfile.TemporaryDirectory() as folder:
            sink = Sink(Path(folder) / "raw", 1, schedule.queries)
            sink.plan(rows, np.arange(schedule.queries) % schedule.repeats if schedule.repeats > 1 else 0, due)
            free = 0
            for query, row in enumerate(rows.tolist()):
                at = free if due is None else int(due[query])
                began = max(at, free) if self.serial else at
                if due is None:
                    sink.rows(query, query + 1)["intended"] = at
                end = self._play(sink, query, self.texts[row], at, began - at, draw, query % schedule.repeats)
                free = end if self.serial or due is None else free
            sink.close()
            details = {"in_process": False, "order_seed": schedule.seed, "altered": schedule.repeats > 1}
            return [read_samples(Path(folder) / "raw", model=model, process=0, details=details)]

    def _play(
        self, sink: Sink, query: int, text: str, sent: int, waits: int, draw: np.random.Generator, again: int
    ) -> int:
        """One answer; when it ended."""
        server = SimpleNamespace(
            first_ms=self.first_ms, gap_ms=self.gap_ms, tokens=10, say=lambda _: text, known=set(),
            lock=threading.Lock(),
        )  # fmt: skip
        script = Script(server)
        mode = self.mode if query % self.every == 0 else "none"
        body: dict[str, Any] = {"messages": [text]}
        if mode in ("prefix", "cache") and again:
            script.first_ms(mode, body)
        data, arrivals, at_ns = b"", [], 0
        slower = float(draw.lognormal(0.0, JITTER))
        for at_ms, piece in script.events(mode, body):
            data += piece
            at_ns = sent + waits + round(at_ms * slower * MS)
            arrivals.append((len(data), at_ns))
        end, outcome, answers = at_ns + 1, ANSWERED, np.array([float(query)])
        try:
            answer = read(Reply(200, HEADERS, data, tuple(arrivals)), words, NOTHING)
        except HttpError as error:
            sink.record(query, sent_ns=sent, end_ns=end, outcome=error.outcome)
        else:
            sink.record(query, sent_ns=sent, end_ns=end, outcome=outcome, answers=answers)
            sink.stream(query, answer, 0)
        return end


words: Callable[[str], int] = lambda text: len(text.split())  # noqa: E731
"""A tokenizer."""
