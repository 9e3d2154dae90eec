"""Options of a server while it is timed: one request a row, a prompt of its own each time, over many connections."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evalspec.language.parts import Access
from evalspec.language.timings import ANSWERED, NOT_UNDERSTOOD
from evalspec.measure.servable import rows_of_queries, streamed_by
from evalspec.pipeline.inputs import DatasetFacts
from evalspec.pipeline.serve import Served
from evalspec.runtimes.http import Http
from evalspec.runtimes.http_client.rows import RemoteRows
from tests.runtimes.http_client.test_faults import counts, open_loop
from tests.runtimes.llm_server import Playing, playing

ROWS = 12
TABLE = pa.table({"question": [f"Question {row}" for row in range(ROWS)], "choices": [["x", "y", "z"]] * ROWS})


def choose(body: dict[str, Any]) -> dict[str, float]:
    """The option of the row's number, wherever it stands."""
    lines = body["messages"][0]["content"].split("\n")
    row = int(next(one for one in lines if "Question" in one).split()[-1])
    shown = {one[0]: one[3:] for one in lines if one[1:3] == ". "}
    return {letter: 0.8 if option == "xyz"[row % 3] else 0.1 for letter, option in shown.items()}


def slowly(body: dict[str, Any]) -> dict[str, float]:
    time.sleep(0.1)
    return choose(body)


@contextlib.contextmanager
def served(server: Playing, **fields: Any) -> Iterator[Served]:
    model = Http.model_validate({
        "protocol": "openai", "url": server.url(), "prompt": {"user": "{question}\n{choices}\nAnswer:"},
        "options": {"column": "choices", "orders": 3}, **fields,
    })  # fmt: skip
    loaded = model.load(Access(Path(".")))
    try:
        yield Served(model, loaded, Access(Path(".")), DatasetFacts(name="exam"))
    finally:
        loaded.close()  # type: ignore[attr-defined]


def test_a_query_is_one_request_with_a_word_of_its_own_and_its_answer_a_place() -> None:
    with playing(choose=choose) as server, served(server) as one, served(server, prefix="as_is") as as_is:
        rows = one.rows(TABLE)
        assert isinstance(rows, RemoteRows)
        assert streamed_by(rows) is None
        queries = [rows.take(np.array([4])) for _ in range(2)]
        assert queries[0].requests != queries[1].requests
        assert rows.answers(rows.serve(queries[0])).tolist() == [1.0]
        alike = as_is.rows(TABLE)
        assert alike.take(np.array([4])).requests == alike.take(np.array([4])).requests


@pytest.mark.parametrize("order", [0, 1, 2])
def test_an_order_turns_what_is_shown_and_not_what_is_meant(order: int) -> None:
    with playing(choose=choose) as server, served(server) as one:
        turned = Served(one.model, one.loaded.otherwise(0, 0, order), Access(Path(".")), one.facts)  # type: ignore[attr-defined]
        assert turned.predict_all(TABLE).predicted.tolist() == [row % 3 for row in range(ROWS)]  # type: ignore[union-attr]
        content = server.requests[-1]["messages"][0]["content"]
        assert content.split("\n")[1] == f"A. {'xyz'[order]}"
        assert rows_served(turned) == [1.0]


def rows_served(one: Served) -> list[float]:
    rows = one.rows(TABLE)
    return list(rows.answers(rows.serve(rows.take(np.array([1])))))


@pytest.mark.proof
def test_many_are_under_way_in_an_open_loop(tmp_path: Path) -> None:
    """40 queries of 100 ms in half a second: one after the other they would take four."""
    with playing(choose=slowly) as server, served(server) as one:
        rows = one.rows(TABLE)
        assert isinstance(rows, RemoteRows)
        samples = open_loop(rows, tmp_path, 40, 80.0, connections=32)
    assert counts(samples) == {"answered": 40}
    assert float(np.median(samples.end_ns - samples.intended_ns)) < 0.6e9
    assert samples.answers is not None
    asked = rows_of_queries(samples.items, 1, ROWS, int(samples.details.get("order_seed") or 0))[:, 0]  # type: ignore[call-overload]
    np.testing.assert_array_equal(samples.answers[:, 0], asked % 3)


def test_a_letter_that_is_missing_is_no_answer() -> None:
    with playing(choose=lambda body: {"A": 0.9, "B": 0.1}) as server, served(server) as one:
        rows = one.rows(TABLE)
        assert isinstance(rows, RemoteRows)
        query = rows.take(np.array([0]))
        found = list(rows.decode_each([rows.serve(query)]))
        assert [getattr(one, "outcome", ANSWERED) for one in found] == [NOT_UNDERSTOOD]


def test_a_model_that_also_writes_streams_what_it_writes() -> None:
    writing = {"generate": {"max_tokens": 8}}
    with playing(choose=choose, first_ms=1.0, gap_ms=1.0, tokens=4) as server, served(server, **writing) as one:
        chosen = one.predict_all(TABLE)
        assert chosen.predicted is not None and chosen.texts is None
        writes = Served(one.model, one.loaded.otherwise(0, 0, 0, writes=True), Access(Path(".")), one.facts)  # type: ignore[attr-defined]
        texts = writes.predict_all(TABLE)
        assert texts.texts is not None and texts.masses is None
        assert "A. x" in server.requests[-1]["messages"][0]["content"]
        assert "logprobs" not in server.requests[-1]
        assert streamed_by(writes.rows(TABLE)) is not None
